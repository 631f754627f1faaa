"""``python -m tools.settings_types``: writes the keyword arguments of clients, as type checkers and ``help`` see them.

A setting is declared once, as a field of a frozen class. What ``**settings`` may hold is a TypedDict with the same
names, and Python has no way to derive the one from the other that type checkers understand. So the TypedDicts are
written from the fields, and a test compares them; see docs/internals/decisions.md.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Final, get_type_hints

from gantrymq.client import config
from gantrymq.sql.transaction.settings import TransactionsConfig

SOURCE: Final = Path(__file__).resolve().parent.parent / "src" / "gantrymq"
ALONE: Final = frozenset({"group"})
"""Arguments that are never in ``**settings``."""
MODULES: Final[Mapping[str, Sequence[type[Any]]]] = {
    "client/keywords.py": (
        config.ClientConfig, config.ProducerConfig, config.TransactionProducerConfig, config.PullConfig,
        config.GroupConsumerConfig, config.PushConfig, config.LitePullConfig,
        config.SimpleConfig,
    ),
    "sql/transaction/keywords.py": (TransactionsConfig,),
}  # fmt: skip
HEAD: Final = "Keyword arguments for type checkers. Written by ``python -m tools.settings_types`` from the settings."
BASES: Final = {TransactionsConfig: ("TransactionProducerSettings", "gantrymq.client.keywords")}
"""Whose keyword arguments have those of another module, too."""


def keywords_of(kind: type[Any]) -> str:
    """The name of its TypedDict."""
    return kind.__name__.removesuffix("Config") + "Settings"


def text_of(module: str) -> str:
    """The text of a module of ``MODULES``."""
    kinds = MODULES[module]
    written = "\n\n\n".join(_written(kind) for kind in kinds)
    names = [name for name in ("Required", "TypedDict") if f"{name}[" in written or f"({name}" in written]
    lines = [
        f'"""{HEAD}"""', "",
        "from __future__ import annotations", "",
        *(["from collections.abc import Iterable"] if "Iterable[" in written else []),
        *([f"from typing import {', '.join(names)}"] if names else []),
        *(f"\nfrom {BASES[kind][1]} import {BASES[kind][0]}" for kind in kinds if kind in BASES),
    ]  # fmt: skip
    return "\n".join(lines) + "\n\n\n" + written + "\n"


def _written(kind: type[Any]) -> str:
    above = kind.__bases__[0]
    base = BASES[kind][0] if kind in BASES else "TypedDict" if above is object else keywords_of(above)
    inherited = set() if above is object else {field.name for field in fields(above)}
    hints, lines = get_type_hints(kind), [f"class {keywords_of(kind)}({base}, total=False):"]
    lines += [f'    """The fields of {kind.__name__} as keyword arguments."""', ""]
    for field in fields(kind):
        own = field.name in kind.__annotations__ or field.name not in inherited
        required = field.default is MISSING and field.default_factory is MISSING
        if not own or field.name in ALONE or (required and kind not in BASES) or field.name in inherited:
            continue  # clients name the one that is required by itself
        taken = _taken(hints[field.name])
        lines.append(f"    {field.name}: {f'Required[{taken}]' if required else taken}")
    return "\n".join(lines)


def _taken(hint: Any) -> str:
    """The type of an argument. A tuple of texts is read from a text, too."""
    if hint == tuple[str, ...] or "Iterable" in str(hint):
        return "str | Iterable[str]"
    return hint.__name__ if isinstance(hint, type) else str(hint)


def main() -> int:
    for module in MODULES:
        (SOURCE / module).write_text(text_of(module))
    return 0


if __name__ == "__main__":
    sys.exit(main())
