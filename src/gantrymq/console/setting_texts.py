"""What the settings of GantryMQ's brokers mean, for the page of a broker. ``python -m tools.setting_texts`` writes the
file from docs/settings.md and from the settings themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

from gantrymq.errors import ConfigError

FILE: Final = "broker_settings.json"
VALUE_MAX: Final = 4_096
"""Characters of a value."""
EPOCHS: Final = ("timestamp", "Timestamp", "TimeStamp")
"""How the names of figures end that are times in ms since 1970."""
EARLIEST_MS: Final = 946_684_800_000
"""The year 2000: a smaller number is no time."""


class SettingText(msgspec.Struct, frozen=True, kw_only=True):
    """One setting."""

    key: str
    kind: str
    """``int``, ``bool`` or ``str``."""
    default: str
    live: bool
    """Whether it may change while the broker runs."""
    meaning: str
    difference: str = ""
    """From Apache's."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of one broker."""

    key: str
    value: str
    text: SettingText | None
    """None: a key that only other brokers have."""

    @property
    def changed(self) -> bool:
        """Whether the value is not the default."""
        return self.text is not None and self.value != self.text.default


@cache
def texts() -> Mapping[str, SettingText]:
    """By key, in the order of the documentation."""
    data = (files("gantrymq.console") / FILE).read_bytes()
    return {one.key: one for one in msgspec.json.decode(data, type=list[SettingText])}


def settings_of(values: Mapping[str, str], *, ours: bool) -> list[Setting]:
    """All settings of a broker. ``ours``: it is GantryMQ's; of others the meaning is shown, but no default."""
    known = texts()
    found = []
    for key, value in values.items():
        text = known.get(key)
        if text is not None and not ours:
            text = msgspec.structs.replace(text, default=value, live=True)
        found.append(Setting(key, value, text))
    return found


def choices(settings: Iterable[Setting]) -> list[Setting]:
    """Those that can be changed while the broker runs; of a key that is not known here nobody can tell."""
    return [one for one in settings if one.text is None or one.text.live]


def check_value(setting: Setting, value: str) -> None:
    """Raises ConfigError for a value that cannot be one: before the broker is asked."""
    if len(value) > VALUE_MAX:
        raise ConfigError(f"a value of {len(value)} characters is too long; at most {VALUE_MAX} are allowed")
    if "\n" in value or "\r" in value:
        raise ConfigError("a value is one line")
    if setting.text is None:
        return
    kind, key = setting.text.kind, setting.key
    if kind == "bool" and value not in ("true", "false"):
        raise ConfigError(f"{value!r} is not a valid value of {key}; write true or false")
    if kind == "int":
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
            raise ConfigError(f"{value!r} is not a valid value of {key}; write a whole number")
    if not setting.text.live:
        raise ConfigError(f"{key} cannot be changed while the broker runs; change it in broker.conf and restart")


def moment(key: str, value: str) -> int | None:
    """The time (ms since 1970) of a figure whose value is one; None for any other."""
    if not key.endswith(EPOCHS) or not value.isdecimal() or len(value) > 15 or int(value) < EARLIEST_MS:
        return None
    try:
        datetime.fromtimestamp(int(value) / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return int(value)
