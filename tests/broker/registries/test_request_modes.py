"""How groups read topics."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.broker.registries.request_modes import RequestModes
from gantrymq.errors import ConfigError
from gantrymq.message.pop import RequestMode
from gantrymq.protocol.files.request_modes import GroupRequestMode
from gantrymq.runtime.disk import OsDisk

POP = GroupRequestMode(topic="T", consumer_group="G", mode=RequestMode.POP, pop_share_queue_num=2)


def modes(path: Path, default: RequestMode = RequestMode.PULL) -> RequestModes:
    return RequestModes(OsDisk(), str(path / "messageRequestMode.json"), default, -1)


def test_what_was_set_is_kept(tmp_path: Path) -> None:
    modes(tmp_path).set(POP)
    modes(tmp_path).set(GroupRequestMode(topic="T", consumer_group="H"))
    again = modes(tmp_path)
    assert again.get("T", "G") == POP
    assert set(again.table().message_request_mode_map["T"]) == {"G", "H"}


def test_what_was_not_set(tmp_path: Path) -> None:
    assert modes(tmp_path).get("T", "G").mode is RequestMode.PULL
    popped = modes(tmp_path, RequestMode.POP)
    assert (popped.get("T", "G").mode, popped.get("T", "G").pop_share_queue_num) == (RequestMode.POP, -1)
    assert popped.get("%RETRY%G", "G").mode is RequestMode.PULL


def test_apaches_file(tmp_path: Path) -> None:
    (tmp_path / "messageRequestMode.json").write_text(
        '{"messageRequestModeMap":{"T":{"G":{"consumerGroup":"G","mode":"POP","popShareQueueNum":2,"topic":"T"}}}}'
    )
    assert modes(tmp_path).get("T", "G") == POP
    (tmp_path / "messageRequestMode.json").write_text('{"messageRequestModeMap":{"T":{"G":{"mode":"PUSH"}}}}')
    with pytest.raises(ConfigError, match="messageRequestMode"):
        modes(tmp_path)
