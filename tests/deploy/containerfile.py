"""Reads a Containerfile, as far as ours go: no here-documents, no ADD, no shell form of what is started."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

FILE = Path(__file__).parents[2] / "deploy" / "image" / "Containerfile"
KNOWN = frozenset(
    {"FROM", "ARG", "RUN", "COPY", "ENV", "WORKDIR", "VOLUME", "USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK",
     "ENTRYPOINT", "CMD"}
)  # fmt: skip


@dataclass
class Stage:
    """What follows a FROM."""

    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)
    """Instruction and the rest of its line."""

    def last(self, instruction: str) -> str:
        found = [rest for name, rest in self.steps if name == instruction]
        assert found, f"the stage {self.name or self.base} has no {instruction}"
        return found[-1]

    def words(self, instruction: str) -> list[str]:
        """Of an instruction in the form that needs no shell: a list of JSON."""
        text = self.last(instruction)
        found: list[str] = json.loads(text[text.index("[") :])
        return found

    @property
    def environment(self) -> dict[str, str]:
        pairs = [word for name, rest in self.steps if name == "ENV" for word in rest.split()]
        return dict(pair.split("=", 1) for pair in pairs)


def stages(path: Path = FILE) -> list[Stage]:
    """Raises AssertionError for an instruction that we do not use."""
    found: list[Stage] = []
    lines = [line for line in path.read_text("utf-8").splitlines() if line.strip() and not line.startswith("#")]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        instruction, _, rest = line.partition(" ")
        assert instruction in KNOWN, f"{instruction} is not an instruction that this file may have"
        if instruction == "FROM":
            base, _, name = rest.partition(" AS ")
            found.append(Stage(base, name))
        else:
            assert found, "the first instruction is FROM"
            found[-1].steps.append((instruction, rest.strip()))
    return found
