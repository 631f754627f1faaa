"""Every way to send, and what arrives."""

from __future__ import annotations

import pytest

from tests.interop.java_clients.conftest import Played, Server

SCENARIO = "Sends"

TOO_BIG = "the message is illegal, maybe msg body or properties length not matched."


@pytest.mark.feature("send: sync, async, one-way")
def test_answers_say_where_a_message_is(played: Played) -> None:
    sent = played.sent()
    assert {entry["status"] for entry in sent.values()} == {"SEND_OK"}
    assert sent.keys() >= {"sync", "no tags", "async 0", "async 1", "explicit queue 2", "near the limit"}
    assert sent["explicit queue 2"]["queueId"] == 2
    assert sent["batch to a queue"]["queueId"] == 3
    for entry in sent.values():
        assert entry["region"] == "DefaultRegion" and entry["traceOn"] is True
        for message_id in entry["offsetMsgId"].split(","):
            assert len(message_id) == 32 and message_id.startswith("7F000001")
    assert played.one("queues")["count"] == 4


@pytest.mark.feature("send: sync, async, one-way")
def test_everything_arrives_as_it_was_sent(played: Played) -> None:
    got = played.got()
    assert all(len(entries) == 1 for entries in got.values()), "nothing comes twice"
    plain = got["plain"][0]
    assert (plain["flag"], plain["tags"], plain["keys"], plain["times"]) == (7, "TagA", "key1 key2", 0)
    properties = plain["properties"]
    assert (properties["color"], properties["stadt"]) == ("blue", "Zürich 中文 🚀")
    assert properties["UNIQ_KEY"] == played.sent()["sync"]["msgId"] == plain["msgId"]
    assert properties["CLUSTER"] == "DefaultCluster"
    assert {properties["MIN_OFFSET"], properties["MAX_OFFSET"]} >= {"0"}
    foreign = got["ü中文🚀"][0]
    assert (foreign["tags"], foreign["keys"]) == ("标签", "键")
    assert got["no tags"][0]["tags"] is None
    assert got["to a queue"][0]["queueId"] == 2 and got["one-way to a queue"][0]["queueId"] == 1
    assert got.keys() >= {"one-way", "async 0", "async 1"}


@pytest.mark.feature("send: compressed")
def test_compressed_bodies_are_kept_compressed_and_handed_out_whole(played: Played) -> None:
    big = played.got()["10000 bytes"][0]
    assert big["sysFlag"] & 0x300 == 0x300, "by zlib; client 5.x clears the bit that says so when it unpacks"


@pytest.mark.feature("send: batch")
def test_a_batch_arrives_as_single_messages(played: Played) -> None:
    sent, got = played.sent()["batch"], played.got()
    items = [got[f"batch item {i}"][0] for i in range(3)]
    assert [item["queueOffset"] for item in items] == [sent["queueOffset"] + i for i in range(3)]
    assert {item["queueId"] for item in items} == {sent["queueId"]}
    assert [(item["tags"], item["keys"], item["flag"], item["properties"]["no"]) for item in items] == [
        ("TagA", "batch0", 0, "0"), ("TagB", "batch1", 1, "1"), ("TagA", "batch2", 2, "2"),
    ]  # fmt: skip
    assert ",".join(item["msgId"] for item in items) == sent["msgId"]
    assert len(sent["offsetMsgId"].split(",")) == 3


@pytest.mark.feature("send: too big is refused")
def test_what_is_too_big_is_refused_with_apaches_code_and_words(played: Played) -> None:
    near = played.got()["4190208 bytes"]
    assert len(near) == 1
    for what in ("body too big", "properties too long"):
        refused = played.one("refused", what=what)
        assert refused["code"] == 13 and TOO_BIG in refused["text"]


def test_wrong_destinations_are_refused(played: Played, server: Server) -> None:
    invalid = 1 if server.version == "4.9.7" else 29
    nowhere = played.one("refused", what="queue that is not there")
    assert nowhere["code"] == invalid and "request queueId[77] is illegal" in nowhere["text"]
    for what in ("half topic", "schedule topic"):
        refused = played.one("refused", what=what)
        assert "is forbidden" in refused["text"]
