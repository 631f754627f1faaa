"""Undecided messages are shown to those who decide about them, and to nobody else: on every page, by every search."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlencode

import pytest

from gantrymq.console import pages
from gantrymq.console.app import PAGES
from gantrymq.message import properties
from gantrymq.message.system_topics import HALF, PARKED, TRANSACTION_TOPICS
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.stored_message import to_view
from gantrymq.store.values import NewRecord
from tests.console.site import Site, on_site
from tests.support.brokers import until

BODY = b"only for who decides"
VALUES = {"group": ["PG"], "name": ["broker-a"], "id": ["K1", "K2"], "user": ["ann"]}
"""What stands for the parts of a path."""
FINDING = ("/messages", "/messages/at", "/parts/messages", "/traces", "/transactions")
"""Pages that find messages by what stands in their query."""


def paths(topic: str, message_id: str) -> list[str]:
    """Every page that shows something, with every parameter by which a page finds messages."""
    asked = [
        {"topic": topic}, {"topic": topic, "id": "K1"}, {"topic": topic, "id": message_id}, {"id": message_id},
        {"topic": topic, "key": "kk"}, {"topic": topic, "time": "0"}, {"topic": topic, "word": "kk"}, {"id": "K1"},
        {"topic": topic, "broker": "broker-a", "queue": "0", "offset": "0"}, {"word": "kk"}, {},
        {"topic": topic, "body": BODY.decode()}, {"topic": topic, "body": "decides", "most": "100000"},
    ]  # fmt: skip
    found = []
    for method, path, right, _ in PAGES:
        if method != "GET" or right is None or path.startswith("/live"):
            continue  # an event stream has the figures of pages that are asked here
        name = path.partition("{")[2].partition("}")[0].partition(":")[0]
        for value in {**VALUES, "topic": [topic]}.get(name, [""]):
            plain = path.partition("{")[0] + value + path.partition("}")[2]
            found += [f"{plain}?{urlencode(query)}" for query in (asked if path in FINDING else [{}] * (topic == HALF))]
    return found


@pytest.mark.parametrize("who", ["vera", "otto"])
def test_undecided_messages_are_shown_to_those_who_decide(who: str, tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await there.half("K1", body=BODY)
        broker = there.running.broker
        text = properties.encode({
            "TRAN_MSG": "true", "PGROUP": "PG", "UNIQ_KEY": "K2", "KEYS": "kk", "REAL_TOPIC": "Orders", "REAL_QID": "0",
        })  # fmt: skip
        broker.topics.ensure(PARKED, 1)
        place = broker.store.append((NewRecord(PARKED, 0, BODY, text, 1, pack_host("10.0.0.9:1")),))[0]
        await until(lambda: broker.store.entry(PARKED, 0, 0) is not None)
        record = broker.store.read(place.log_offset)
        assert record is not None
        await there.browser.log_in(who)
        shown = set()
        for topic in sorted(TRANSACTION_TOPICS):
            for path in paths(topic, to_view(record, "broker-a").offset_message_id):
                answer = await there.browser.http.get(path)
                assert answer.status_code in (200, 303, 400, 403, 404), (path, answer.text)
                if BODY in answer.content:
                    shown.add(path.partition("?")[0])
        if who == "otto":
            assert {"/messages", "/messages/at", "/parts/messages", "/transactions/K1"} <= shown
        else:
            assert not shown

    on_site(work, tmp_path, transaction_time_out=3_600_000)


def test_pages_read_messages_in_one_place_only() -> None:
    reads = re.compile(r"\badmin\.(browsing|traces|body_search|messages\.(at|by|query))")
    for module in Path(pages.__file__).parent.glob("*.py"):
        text = re.sub(r"(?m)^from gantrymq.admin.*$", "", module.read_text())
        assert not reads.search(text), module.name


def test_the_refusal_says_who_may_see_it(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await there.half("K1", body=BODY)
        await there.browser.log_in("vera")
        text = await there.browser.get("/messages?topic=RMQ_SYS_TRANS_HALF_TOPIC", 403)
        assert "the role operator" in text and "undecided" in text

    on_site(work, tmp_path)
