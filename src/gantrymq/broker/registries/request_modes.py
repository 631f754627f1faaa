"""How groups read topics, by PULL or POP, stored in ``config/messageRequestMode.json``.

Source: MessageRequestModeManager.
"""

from __future__ import annotations

import msgspec

from gantrymq.broker.registries.json_file import read_json, write_json
from gantrymq.errors import ConfigError
from gantrymq.message.pop import RequestMode
from gantrymq.message.system_topics import RETRY_PREFIX
from gantrymq.protocol.files.request_modes import GroupRequestMode, RequestModeTable
from gantrymq.runtime.disk import Disk


class RequestModes:
    """Topic and group to mode; every change is on the disk before the call returns."""

    def __init__(self, disk: Disk, path: str, default: RequestMode, default_share: int) -> None:
        """Raises ConfigError when the file is there and cannot be read."""
        self._disk = disk
        self._path = path
        self._default = default
        self._default_share = default_share
        try:
            self._table = msgspec.convert(read_json(disk, path) or {}, RequestModeTable, strict=False)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{path} is not a table of request modes: {error}; repair or remove it") from error

    def get(self, topic: str, group: str) -> GroupRequestMode:
        """What was set, else the default; retry topics of groups are always pulled."""
        found = self._table.message_request_mode_map.get(topic, {}).get(group)
        if found is not None:
            return found
        mode = RequestMode.PULL if topic.startswith(RETRY_PREFIX) else self._default
        share = self._default_share if mode is RequestMode.POP else 0
        return GroupRequestMode(topic=topic, consumer_group=group, mode=mode, pop_share_queue_num=share)

    def set(self, mode: GroupRequestMode) -> None:
        """Raises StoreError, and nothing is changed."""
        table = {topic: dict(groups) for topic, groups in self._table.message_request_mode_map.items()}
        table.setdefault(mode.topic, {})[mode.consumer_group] = mode
        content = RequestModeTable(message_request_mode_map=table)
        write_json(self._disk, self._path, msgspec.to_builtins(content))
        self._table = content

    def table(self) -> RequestModeTable:
        return self._table
