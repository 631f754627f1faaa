"""Messages that are consumed later, or never."""

from __future__ import annotations

import pytest

from tests.interop.java_clients.conftest import Played

SCENARIO = "Retries"


@pytest.mark.feature("push: concurrent")
def test_what_is_fine_comes_once(played: Played) -> None:
    assert [entry["times"] for entry in played.got()["fine"]] == [0]


@pytest.mark.feature("push: retry and dead letter")
def test_a_message_comes_again_as_it_was(played: Played) -> None:
    first, again = played.got()["again after the default delay"]
    assert (first["times"], again["times"]) == (0, 1)
    assert again["topic"] == first["topic"], "the client shows the topic it was sent to"
    assert (again["flag"], again["tags"], again["keys"]) == (3, "TagA", "later")
    properties = again["properties"]
    assert properties["color"] == "red" and properties["UNIQ_KEY"] == first["msgId"] == again["msgId"]
    assert properties["ORIGIN_MESSAGE_ID"] == played.sent()["later"]["offsetMsgId"]
    assert properties["REAL_TOPIC"].startswith("%RETRY%")
    assert again["delayed"] >= 9_000, "level 3 is 10 s"


@pytest.mark.feature("push: retry and dead letter", "send: compressed")
def test_a_compressed_message_comes_again(played: Played) -> None:
    first, again = played.got()["10000 bytes"]
    assert first["hash"] == again["hash"] and again["times"] == 1


@pytest.mark.feature("push: retry and dead letter")
def test_the_consumers_limit_counts(played: Played) -> None:
    assert [entry["times"] for entry in played.got()["never"]] == [0, 1, 2], "maxReconsumeTimes is 2"


@pytest.mark.feature("push: retry and dead letter")
def test_dead_letters_are_kept(played: Played) -> None:
    dead = {entry["keys"]: entry for entry in played.steps("got", who="dead")}
    assert dead.keys() == {"poison", "straight"}
    assert (dead["poison"]["times"], dead["straight"]["times"]) == (3, 1)
    for key, letter in dead.items():
        assert letter["queueId"] == 0 and letter["topic"].startswith("%DLQ%")
        properties = letter["properties"]
        assert properties["RETRY_TOPIC"] == played.steps("got")[0]["topic"]
        assert properties["ORIGIN_MESSAGE_ID"] == played.sent()[key]["offsetMsgId"]
        assert properties["DELAY"] == "0"
