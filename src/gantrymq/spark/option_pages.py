"""Writes the tables of options in docs/spark.md and docs/spark-sink.md from their declarations.

    python -m gantrymq.spark.option_pages docs/spark.md docs/spark-sink.md

A test compares the pages with the declarations.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gantrymq.errors import ConfigError
from gantrymq.spark.options import table as option_table
from gantrymq.spark.options.option import Option, Query
from gantrymq.spark.sink import options as sink_options

_QUERIES: Final = {Query.BOTH: "", Query.BATCH: "batch: ", Query.STREAM: "stream: "}


@dataclass(frozen=True, slots=True)
class Side:
    """One side of the connector, and the one of Spark's Kafka connector beside it."""

    home: str
    """The file of the declarations, which the marks in a page name."""
    kafka: str
    declared: Sequence[Option]
    without_counterpart: Mapping[str, str]

    @property
    def begin(self) -> str:
        return f"<!-- made from {self.home}: begin -->"

    @property
    def end(self) -> str:
        return f"<!-- made from {self.home}: end -->"


SIDES: Final = (
    Side("src/gantrymq/spark/options/table.py", "source", option_table.DECLARED, option_table.WITHOUT_COUNTERPART),
    Side("src/gantrymq/spark/sink/options.py", "sink", sink_options.DECLARED, sink_options.WITHOUT_COUNTERPART),
)


def tables(side: Side) -> str:
    """The table of the options, and the table of the Kafka connector's options that have no counterpart."""
    return "\n".join(
        [
            f"| Option | Meaning | Default | Spark's Kafka {side.kafka} | Also accepted |",
            "|---|---|---|---|---|",
            *(_row(option) for option in side.declared),
            "",
            f"These options and features of Spark's Kafka {side.kafka} have no counterpart:",
            "",
            f"| Kafka {side.kafka} | Reason, or what to do instead |",
            "|---|---|",
            *(f"| {_name(name)} | {reason} |" for name, reason in side.without_counterpart.items()),
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
    """The page with the tables between its two marks. Raises ConfigError for a page without marks."""
    for side in SIDES:
        if side.begin in page:
            before, _, rest = page.partition(side.begin)
            _, _, after = rest.partition(side.end)
            return f"{before}{side.begin}\n\n{tables(side)}\n\n{side.end}{after}"
    raise ConfigError(f"the page has no place for a table of options; write the mark {SIDES[0].begin}")


def main(arguments: Sequence[str]) -> int:
    for argument in arguments:
        path = Path(argument)
        path.write_text(replaced(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
