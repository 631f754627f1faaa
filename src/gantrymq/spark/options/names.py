"""Finds the options that a user means: by their names, by other names, and by those of Spark's Kafka connector."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from gantrymq.errors import ConfigError
from gantrymq.spark.options.option import Option

_OF_KAFKA: Final = ("kafka.", "spark.kafka.", "kafkaconsumer.")
"""How options of Kafka's clients begin, in lower case."""


class OptionNames:
    """The names of one side of the connector. ``what`` names it in errors."""

    def __init__(self, what: str, declared: Sequence[Option], without_counterpart: Mapping[str, str]) -> None:
        """``without_counterpart``: options of the Kafka connector to the reason why there is none; several are
        separated by a comma, and ``*`` stands for any text."""
        self._what = what
        self._by_name = {option.name: option for option in declared}
        self._known = {
            written.lower(): option.name for option in declared for written in (option.name, *option.aliases)
        }
        self._of_kafka = {name.lower(): option.name for option in declared for name in option.kafka}
        self._reasons = {
            pattern.lower(): reason for names, reason in without_counterpart.items() for pattern in names.split(", ")
        }

    def canonical(self, given: Mapping[str, str], ignored: Callable[[str], bool]) -> dict[str, str]:
        """The options under their main names, without those whose name in lower case is ``ignored``. Raises ConfigError
        for unknown options, and when one option is given under two names."""
        options: dict[str, str] = {}
        for key, value in given.items():
            if ignored(key.lower()):
                continue
            name = self._known.get(key.lower())
            if name is None:
                raise ConfigError(f"{self._what} has no option {key!r}; {self._advice(key.lower())}")
            if name in options and options[name] != value:
                both = "" if self._by_name[name].secret else f", as {options[name]!r} and as {value!r}"
                raise ConfigError(f"option {name} is given twice{both}")
            options[name] = value
        return options

    def _advice(self, lower: str) -> str:
        """What to write instead of an unknown option."""
        ours = self._of_kafka.get(lower)
        if ours is not None:
            return f"Kafka's option is {ours} here"
        for pattern, reason in self._reasons.items():
            if fnmatchcase(lower, pattern):
                return f"leave it out: {reason.replace('`', '')}"
        if lower.startswith(_OF_KAFKA):
            return "leave it out: it is a setting of Kafka's client, and there are " + ", ".join(self._by_name)
        close = difflib.get_close_matches(lower, self._known, 1)
        return f"did you mean {self._known[close[0]]}?" if close else f"there are {', '.join(self._by_name)}"
