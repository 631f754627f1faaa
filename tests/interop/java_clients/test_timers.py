"""Messages that come after any time, or are taken back before. RocketMQ 4 does not have them."""

from __future__ import annotations

import pytest

from tests.interop.apache import JavaClient
from tests.interop.java_clients.conftest import Played
from tests.interop.process import Process

SCENARIO = "TimersFive"


@pytest.fixture
def played(java_client: JavaClient, stage: Process) -> Played:
    if java_client.version.startswith("4"):
        pytest.skip("not in RocketMQ 4")
    return Played(stage, SCENARIO).finished()


@pytest.mark.feature("send: timer")
def test_messages_come_at_their_time(played: Played) -> None:
    got = {entry["keys"]: entry for entry in played.steps("got")}
    assert got.keys() == {"seconds", "milliseconds", "instant"}
    for key, least in (("seconds", 1000), ("milliseconds", 2000), ("instant", 2500)):  # times are cut to whole seconds
        assert got[key]["delayed"] >= least
        assert got[key]["properties"]["REAL_TOPIC"] == got[key]["topic"]


@pytest.mark.feature("send: timer")
def test_what_is_too_far_away_is_refused(played: Played) -> None:
    assert played.one("refused", what="too far away")["code"] == 13


@pytest.mark.feature("send: recall")
def test_a_recalled_message_never_comes(played: Played) -> None:
    assert played.one("outcome", what="recall")["value"] == played.sent()["recalled"]["msgId"]
    assert not played.steps("got", keys="recalled")
    assert played.one("refused", what="bad handle")["code"] == -1, "by the client itself"
