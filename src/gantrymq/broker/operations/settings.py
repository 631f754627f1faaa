"""Settings that an operator changes while the broker runs.

All parts of a broker hold one BrokerConfig and read it when they need it, so a change of it reaches them at once. Only
what is listed here may change; everything else was used for something that cannot be made again. Source: Configuration.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final

from gantrymq.broker.config import FIELDS, BrokerConfig, convert, key_of
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.errors import ConfigError
from gantrymq.protocol.bodies.topics import DataVersion
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Disk, read_whole, write_durably

log = logging.getLogger("gantrymq.broker")

CHANGEABLE: Final = frozenset(
    {
        "auto_create_subscription_group",
        "auto_create_topic_enable",
        "broker_permission",
        "channel_expired_timeout",
        "clean_file_forcibly_enable",
        "decisive_check_grace",
        "delete_when",
        "disk_max_used_space_ratio",
        "disk_space_clean_forcibly_ratio",
        "file_reserved_time",
        "long_polling_enable",
        "max_message_size",
        "max_transfer_bytes_on_message_in_memory",
        "max_transfer_count_on_message_in_memory",
        "notify_consumer_ids_changed_enable",
        "register_broker_timeout_mills",
        "register_name_server_period",
        "reject_transaction_message",
        "short_polling_time_mills",
        "transaction_check_interval",
        "transaction_check_max",
        "transaction_time_out",
        "use_server_side_reset_offset",
    }
)
"""Fields that may change."""


class LiveConfig:
    """The configuration of a running broker.

    ``config`` must belong to this broker alone: it is written to, though it is frozen for everybody else. ``file``: the
    broker.conf it was read from, which keeps the changes; empty: they end with the process. ``changed`` is called after
    every change.
    """

    def __init__(self, config: BrokerConfig, file: str, disk: Disk, clock: Clock, changed: Callable[[], None]) -> None:
        self._config = config
        self._file = file
        self._disk = disk
        self._clock = clock
        self._changed = changed
        self.version = DataVersion(state_version=0, timestamp=clock.wall_ms())

    def text(self) -> str:
        """All settings in the form of a broker.conf, sorted."""
        return to_properties(self._config)

    def update(self, wanted: Mapping[str, str]) -> None:
        """Change settings, by their keys: all, or none when one of them cannot be changed.

        Raises Refused saying why: INVALID_PARAMETER for keys and values that cannot be, NO_PERMISSION for
        what needs a restart; StoreError when the file cannot be written.
        """
        new = self._checked(wanted)
        if not new:
            return
        if self._file:
            text = read_whole(self._disk, self._file).decode() if self._disk.exists(self._file) else ""
            changes = {key_of(name): _word(value) for name, value in new.items()}
            write_durably(self._disk, self._file, with_properties(text, changes).encode())
        for name, value in new.items():
            log.info("%s is %s now (it was %s)", key_of(name), value, getattr(self._config, name))
            object.__setattr__(self._config, name, value)
        self.version = self.version.next(self._clock.wall_ms())
        self._changed()

    def _checked(self, wanted: Mapping[str, str]) -> dict[str, Any]:
        """The fields that become different. A key that keeps its value is not complained about, since tools send back
        what they were shown."""
        new: dict[str, Any] = {}
        for key, text in wanted.items():
            field = FIELDS.get(key)
            if field is None:
                raise Refused(Refusal.PARAMETER_INVALID, f"{key} is no setting of this broker; see docs/settings.md")
            try:
                value = convert(key, text, str(field.type))
                self._try({**new, field.name: value})
            except ConfigError as error:
                raise Refused(Refusal.PARAMETER_INVALID, str(error)) from error
            if value == getattr(self._config, field.name):
                continue
            if field.name not in CHANGEABLE:
                raise Refused(
                    Refusal.NOT_PERMITTED,
                    f"{key} cannot be changed while the broker runs; change it in broker.conf and restart",
                )
            new[field.name] = value
        return new

    def _try(self, new: Mapping[str, Any]) -> None:
        """Raises ConfigError when the values do not go together."""
        values = {field.name: getattr(self._config, field.name) for field in fields(BrokerConfig)}
        BrokerConfig(**{**values, **new})


def to_properties(config: BrokerConfig) -> str:
    """``key=value`` on every line, sorted by key."""
    return "".join(f"{key}={_word(getattr(config, field.name))}\n" for key, field in sorted(FIELDS.items()))


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
