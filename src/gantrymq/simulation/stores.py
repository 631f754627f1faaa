"""Rules of every store, whatever happened: the queues lead to the messages of the log, to each of them in its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gantrymq.simulation.flipping import FLIPPED
from gantrymq.simulation.world.cluster import Cluster
from gantrymq.store.message_store import MessageStore


def places_of(store: MessageStore) -> dict[tuple[str, int, int], int]:
    """Each record of the log that may be seen: its topic, queue and queue offset, to its log offset."""
    return {
        (record.topic, record.queue_id, record.queue_offset): record.log_offset
        for record in store.scan(store.min_log_offset)
    }


def queue_problems(store: MessageStore, places: Mapping[tuple[str, int, int], int]) -> Iterator[str]:
    """What is wrong in the queues of a store. ``places``: what its log holds."""
    known = set()
    for topic, queue in store.queues():
        first, end = store.queue_range(topic, queue)
        for offset in range(first, end):
            entry = store.entry(topic, queue, offset)
            log_offset = places.get((topic, queue, offset), -1)
            if entry is None or entry.log_offset != log_offset:
                place = "nothing" if entry is None else f"log offset {entry.log_offset}"
                yield f"entry {offset} of {topic}:{queue} names {place}, the record lies at {log_offset}"
            known.add((topic, queue, offset))
        if first < end and store.get(topic, queue, first, 1000, 1 << 20).count != end - first:
            yield f"not all of {topic}:{queue} can be read"
    for topic, queue, offset in places.keys() - known:
        yield f"{topic}:{queue} does not lead to its record {offset}"


def store_problems(cluster: Cluster) -> list[str]:
    """What is wrong in the stores of brokers that run. Empty when a bit was flipped: what no checksum fits any more is
    no record, and its place in a queue stays."""
    if any(name.startswith(FLIPPED) for name in cluster.injected):
        return []
    stores = [(host.name, host.broker.store) for host in cluster.brokers if host.broker is not None]
    return [f"{name}: {problem}" for name, store in stores for problem in queue_problems(store, places_of(store))]


def at_rest(cluster: Cluster) -> None:
    """Everything is mended and time has passed: what has not arrived by now is lost, and the stores are looked at."""
    cluster.history.add("quiet")
    cluster.errors += store_problems(cluster)
