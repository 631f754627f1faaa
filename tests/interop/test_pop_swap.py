"""Popped messages when a store moves between our broker and Apache's, which are both killed: acknowledged messages stay
consumed, all others are delivered again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.apache import ApacheCluster
from tests.interop.ours import GantryCluster
from tests.interop.pops import LONG_MS, PopBroker
from tests.interop.process import poll
from tests.interop.swap import offset_table

CONF = {"flushConsumerOffsetInterval": "300", "mappedFileSizeTimerLog": "52000"}
TOPIC, GROUP = "PopSwap", "GPopSwap"
COUNT, ACKED = 6, 2
INVISIBLE_MS = 20_000
"""Long enough that nothing comes back before the kill: Apache's broker keeps a check point in memory for 10 s."""
QUIET_MS = 3000
"""How long nothing more may come."""


def _write(broker: PopBroker, store: Path, chapter: str, before: int) -> None:
    """Six messages popped, two acknowledged, one renewed; everything written down."""
    for number in range(COUNT):
        broker.send(TOPIC, f"{chapter}{number}")
    _, found = broker.pop(TOPIC, GROUP, invisible_time=INVISIBLE_MS)
    assert [body for body, _, _ in found] == [f"{chapter}{number}" for number in range(COUNT)]
    broker.batch_ack(TOPIC, GROUP, [handle for _, _, handle in found[:ACKED]])
    broker.change(TOPIC, GROUP, found[ACKED][2], INVISIBLE_MS)
    poll(lambda: _saved(store, TOPIC) == before + COUNT, "offset in its file")


def _saved(store: Path, topic: str) -> int:
    queues = offset_table(store, "consumerOffset.json").get(f"{topic}@{GROUP}", {})
    return int(queues.get("0", queues.get(0, 0)))


def _come_back(broker: PopBroker, store: Path, chapter: str, before: int) -> None:
    """Exactly the four that were not acknowledged, once."""
    wanted = [f"{chapter}{number}" for number in range(ACKED, COUNT)]
    got: list[tuple[str, int]] = []

    def all_back() -> bool:
        for body, times, handle in broker.pop(TOPIC, GROUP, poll_time=1000, invisible_time=LONG_MS)[1]:
            got.append((body, times))
            broker.ack(TOPIC, GROUP, handle)
        return len(got) >= len(wanted)

    poll(all_back, f"{wanted}, but {got}")
    assert sorted(got) == [(body, 1) for body in wanted]
    assert broker.pop(TOPIC, GROUP, poll_time=QUIET_MS)[1] == []
    poll(lambda: _saved(store, f"%RETRY%{GROUP}_{TOPIC}") == before + COUNT - ACKED, "offset of the retry topic")


@pytest.mark.usefixtures("jdk")
@pytest.mark.feature("popped messages", column="ours to Apache 5.5.0")
@pytest.mark.feature("popped messages", column="Apache 5.5.0 to ours")
def test_popped_messages_change_hands(tmp_path: Path) -> None:
    ours = GantryCluster(tmp_path / "ours")
    apache = ApacheCluster("5.5.0", tmp_path / "apache")
    store = tmp_path / "store"
    try:
        ours.start_name_server()
        apache.name_servers = ours.name_servers
        process = ours.start_broker(store, **CONF)
        broker = PopBroker(ours)
        broker.prepare(TOPIC, GROUP)
        _write(broker, store, "a", 0)
        process.kill()
        process = apache.start_broker(store, **CONF)
        broker = PopBroker(ours)
        _come_back(broker, store, "a", 0)
        _write(broker, store, "b", COUNT)
        process.kill()
        ours.start_broker(store, **CONF)
        _come_back(PopBroker(ours), store, "b", COUNT - ACKED)
    finally:
        apache.close()
        ours.close()
