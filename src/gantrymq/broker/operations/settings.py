"""Settings that an operator can change while the broker runs.

Only fields that are marked as live may change; everything else was used for something that cannot be made again.
Source: Configuration.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from gantrymq.access.settings import HIDDEN, SECRET_KEYS
from gantrymq.broker.config import CHANGEABLE, FIELDS, BrokerConfig, convert, key_of
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.errors import ConfigError
from gantrymq.protocol.files.topics import DataVersion
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Disk, read_whole, write_durably

log = logging.getLogger("gantrymq.broker")


class SettingsAdministration:
    """Shows and changes the configuration of a running broker.

    ``file``: the broker.conf it was read from, which keeps the changes; empty: they end with the process.
    """

    def __init__(self, config: LiveConfig, file: str, disk: Disk, clock: Clock) -> None:
        self._config = config
        self._file = file
        self._disk = disk
        self._clock = clock
        self.version = DataVersion(state_version=0, timestamp=clock.wall_ms())

    def text(self) -> str:
        """All settings in the form of a broker.conf, sorted."""
        return to_properties(self._config.current)

    def update(self, wanted: Mapping[str, str]) -> None:
        """Change settings, by their keys: all, or none when one of them cannot be changed.

        Raises Refused saying why: PARAMETER_INVALID for keys and values that cannot be, NOT_PERMITTED for what needs a
        restart; StoreError when the file cannot be written.
        """
        new = self._checked(wanted)
        if not new:
            return
        if self._file:
            text = read_whole(self._disk, self._file).decode() if self._disk.exists(self._file) else ""
            changes = {key_of(name): _word(value) for name, value in new.items()}
            private = self._config.access.has_secrets
            write_durably(self._disk, self._file, with_properties(text, changes).encode(), private=private)
        before = self._config.current
        for name, value in new.items():
            log.info("%s is %s now (it was %s)", key_of(name), value, before.value(name))
        self.version = self.version.next(self._clock.wall_ms())
        self._config.replace(before.replaced(**new))

    def _checked(self, wanted: Mapping[str, str]) -> dict[str, Any]:
        """The fields that become different. A key that keeps its value is not complained about, since tools send back
        what they were shown."""
        now, new = self._config.current, dict[str, Any]()
        for key, text in wanted.items():
            field = FIELDS.get(key)
            if field is None:
                raise Refused(
                    Refusal.PARAMETER_INVALID, f"{key} is not a setting of this broker; docs/settings.md lists them"
                )
            if key in SECRET_KEYS and text == HIDDEN:
                continue
            try:
                value = convert(key, text, str(field.type))
            except ConfigError as error:
                raise Refused(Refusal.PARAMETER_INVALID, str(error)) from error
            if value == now.value(field.name):
                continue
            if field.name not in CHANGEABLE:
                raise Refused(
                    Refusal.NOT_PERMITTED,
                    f"{key} cannot be changed while the broker runs; change it in broker.conf and restart",
                )
            new[field.name] = value
        try:
            now.replaced(**new)  # do they go together?
        except ConfigError as error:
            raise Refused(Refusal.PARAMETER_INVALID, str(error)) from error
        return new


def to_properties(config: BrokerConfig) -> str:
    """``key=value`` on every line, sorted by key; secrets are hidden."""
    return "".join(f"{key}={_shown(key, config.value(field.name))}\n" for key, field in sorted(FIELDS.items()))


def _shown(key: str, value: object) -> str:
    return HIDDEN if value and key in SECRET_KEYS else _word(value)


def with_properties(text: str, changes: Mapping[str, str]) -> str:
    """A broker.conf with other values: lines of these keys are replaced, missing ones added, all else stays."""
    left = dict(changes)
    lines: list[str] = []
    for line in text.splitlines():
        key = line.split("=", 1)[0].split(":", 1)[0].strip()
        if key not in changes or line.lstrip().startswith(("#", "!")):
            lines.append(line)
        elif key in left:
            lines.append(f"{key}={left.pop(key)}")
    lines += [f"{key}={value}" for key, value in left.items()]
    return "\n".join(lines) + "\n"


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
