"""The steps of ``python -m tools.release``: what is looked at, built, installed and tried."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from . import commands, texts
from .steps import Failed, Step

FIRST_MESSAGE: Final = Path(__file__).with_name("first_message.py")
TREE, VERSION, PYTHONS, BUILD, TEXTS = "clean tree", "version", "Pythons", "build", "texts"
KINDS: Final = ("wheel", "sdist")


@dataclass
class Trial:
    """One run: the commit of ``root``, tried below ``scratch``, whose files go to ``target`` when all passed."""

    root: Path
    scratch: Path
    target: Path | None
    rehearsal: bool = False
    extras: bool = False
    project: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    """The wheel and the sdist, once they are built."""

    def steps(self) -> list[Step]:
        before = (TREE, VERSION, PYTHONS)
        steps = [
            Step(TREE, self.tree_is_clean),
            Step(VERSION, self.version_is_told, (TREE,)),
            Step(PYTHONS, self.pythons_agree, (TREE,)),
            Step(BUILD, self.build, before),
            Step(TEXTS, self.check_texts, (BUILD,)),
        ]
        for kind in KINDS:
            steps.append(Step(f"install {kind}", partial(self.install, kind), (BUILD,)))
            steps.append(Step(f"first message, {kind}", partial(self.first_message, kind), (f"install {kind}",)))
        if self.extras:
            steps += [
                Step(f"extra {name}", partial(self.resolve, name), ("install wheel",)) for name in self.extra_names()
            ]
        if self.target is not None:
            steps.append(Step("keep", self.keep, tuple(step.name for step in steps)))
        return steps

    def tree_is_clean(self) -> str:
        changed = self._git("status", "--porcelain", "--untracked-files=all").decode().splitlines()
        if changed:
            more = f"\n... and {len(changed) - 10} more" if len(changed) > 10 else ""
            raise Failed(
                "the tree has changes that no commit has: commit them, or put them away with git stash -u\n"
                + "\n".join(changed[:10])
                + more
            )
        if self.target is not None and self.target.exists():
            old = texts.left_over([path.name for path in self.target.iterdir()])
            if old:
                raise Failed(
                    f"{self.target} has files of an earlier build ({', '.join(old)}): remove them, or use --out"
                )
        missing = [name for name in ("build", "twine") if importlib.util.find_spec(name) is None]
        if missing:
            raise Failed(f"missing here: {' and '.join(missing)}. Run: python -m pip install {' '.join(missing)}")
        return "commit " + self._git("rev-parse", "--short", "HEAD").decode().strip()

    def version_is_told(self) -> str:
        self.project = texts.project_of(self._read("pyproject.toml"))
        version = texts.version_of(self.project, self._read("src/gantrymq/__init__.py"))
        said = texts.changelog_date(self._read("CHANGELOG.md"), version, self.rehearsal)
        return f"{version}, {said}"

    def pythons_agree(self) -> str:
        return ", ".join(texts.pythons_of(texts.project_of(self._read("pyproject.toml"))))

    def build(self) -> str:
        """From the files of the commit alone: what lies beside them, or is ignored, gets into no distribution."""
        sources, out = self.scratch / "sources", self.scratch / "built"
        packed = self.scratch / "sources.tar"
        packed.write_bytes(self._git("archive", "--format=tar", "HEAD"))
        # By tar: Debian's Python 3.11.2 has no filters.
        sources.mkdir()
        commands.run(["tar", "-xf", packed, "-C", sources], self.scratch)
        commands.run([sys.executable, "-m", "build", "--outdir", out, sources], self.scratch)
        names = texts.artifacts_of([path.name for path in out.iterdir()], self._version)
        self.files = {kind: out / name for kind, name in zip(KINDS, names, strict=True)}
        return ", ".join(f"{path.name} {path.stat().st_size // 1024} KiB" for path in self.files.values())

    def check_texts(self) -> str:
        printed = commands.run([sys.executable, "-m", "twine", "check", "--strict", *self.files.values()], self.scratch)
        return f"twine: {printed.count('PASSED')} of {len(self.files)} passed"

    def install(self, kind: str) -> str:
        """Into an environment of its own, with nothing in it but pip."""
        home = self._home(kind)
        commands.run([sys.executable, "-m", "venv", home / "venv"], self.scratch)
        python = home / "venv" / "bin" / "python"
        commands.run([python, "-m", "pip", "install", "--disable-pip-version-check", self.files[kind]], home)
        commands.run([python, "-m", "pip", "check"], home)
        listed = commands.run([python, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"], home)
        return f"{len(listed.splitlines())} packages"

    def first_message(self, kind: str) -> str:
        home = self._home(kind)
        gantry = home / "venv" / "bin" / "gantry"
        shown = commands.run([gantry, "--version"], home).strip()
        if self._version not in shown:
            raise Failed(f"gantry --version prints '{shown}', and not the version {self._version}")
        with commands.server(gantry, home) as address:
            python = home / "venv" / "bin" / "python"
            # Isolated: neither the directory of the program nor the variables of the caller lead to modules.
            commands.run([python, "-I", FIRST_MESSAGE, address, self._version], home)
        return shown

    def resolve(self, extra: str) -> str:
        """Whether pip finds versions for all that an extra asks for; nothing is installed."""
        python = self._home("wheel") / "venv" / "bin" / "python"
        wanted = f"gantrymq[{extra}] @ {self.files['wheel'].as_uri()}"
        options = ("--dry-run", "--disable-pip-version-check", "--progress-bar", "off")
        printed = commands.run([python, "-m", "pip", "install", *options, wanted], self.scratch)
        return (printed.splitlines() or [""])[-1]

    def extra_names(self) -> list[str]:
        """Without ``all``, which is the others together."""
        extras = texts.project_of(self._read("pyproject.toml"))["project"]["optional-dependencies"]
        return [name for name in extras if name != "all"]

    def keep(self) -> str:
        assert self.target is not None
        self.target.mkdir(parents=True, exist_ok=True)
        for path in self.files.values():
            shutil.copy2(path, self.target / path.name)
        return str(self.target)

    @property
    def _version(self) -> str:
        return str(self.project["project"]["version"])

    def _home(self, kind: str) -> Path:
        home = self.scratch / kind
        home.mkdir(exist_ok=True)
        return home

    def _read(self, name: str) -> str:
        return (self.root / name).read_text("utf-8")

    def _git(self, *words: str) -> bytes:
        done = subprocess.run(["git", *words], cwd=self.root, capture_output=True)
        if done.returncode != 0:
            raise Failed(f"git {words[0]} failed in {self.root}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout
