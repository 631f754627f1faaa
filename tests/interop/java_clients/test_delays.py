"""Messages that arrive later."""

from __future__ import annotations

import pytest

from tests.interop.java_clients.conftest import Played

SCENARIO = "Delays"


@pytest.mark.feature("send: delay level")
def test_messages_come_when_their_level_says(played: Played) -> None:
    messages = {entry["body"]: entry for entry in played.steps("got")}
    assert messages.keys() == {"level 0", "level 1", "level 2"}
    assert messages["level 0"]["delayed"] < messages["level 1"]["delayed"] < messages["level 2"]["delayed"]
    assert messages["level 1"]["delayed"] >= 1000 and messages["level 2"]["delayed"] >= 5000


@pytest.mark.feature("send: delay level")
def test_a_delayed_message_is_whole(played: Played) -> None:
    for level in (1, 2):
        message = played.one("got", body=f"level {level}")
        properties = message["properties"]
        assert properties["DELAY"] == str(level) and properties["color"] == "blue"
        assert properties["REAL_TOPIC"] == message["topic"]
        assert properties["REAL_QID"] == str(message["queueId"])
        assert played.sent()[f"level {level}"]["msgId"] == message["msgId"]
