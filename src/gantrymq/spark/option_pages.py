"""Writes the tables of options in docs/spark.md from their declarations.

    python -m gantrymq.spark.option_pages docs/spark.md

A test compares the page with the declarations.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gantrymq.spark.option_table import DECLARED, WITHOUT_COUNTERPART, Option, Query

BEGIN: Final = "<!-- made from src/gantrymq/spark/option_table.py: begin -->"
END: Final = "<!-- made from src/gantrymq/spark/option_table.py: end -->"
_QUERIES: Final = {Query.BOTH: "", Query.BATCH: "batch: ", Query.STREAM: "stream: "}


def tables() -> str:
    """The table of the options, and the table of the Kafka source's options that have no counterpart."""
    return "\n".join(
        [
            "| Option | Meaning | Default | Spark's Kafka source | Also accepted |",
            "|---|---|---|---|---|",
            *(_row(option) for option in DECLARED),
            "",
            "These options and features of Spark's Kafka source have no counterpart:",
            "",
            "| Kafka source | Reason, or what to do instead |",
            "|---|---|",
            *(f"| {_name(name)} | {reason} |" for name, reason in WITHOUT_COUNTERPART.items()),
        ]
    )


def _row(option: Option) -> str:
    meaning = _QUERIES[option.query] + option.meaning.replace("|", "\\|")
    if option.secret:
        meaning += "; it is in no error, plan or progress"
    kafka = ", ".join(f"`{name}`" for name in option.kafka)
    aliases = ", ".join(f"`{name}`" for name in option.aliases)
    return f"| `{option.name}` | {meaning} | {option.default} | {kafka} | {aliases} |"


def _name(name: str) -> str:
    return name.strip("()") if name.startswith("(") else ", ".join(f"`{one}`" for one in name.split(", "))


def replaced(page: str) -> str:
    """The page with the tables between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


def main(arguments: Sequence[str]) -> int:
    path = Path(arguments[0])
    path.write_text(replaced(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
