"""The bodies of answers about the progress of groups, put together from pieces: a group may have many thousands of
queues, and whoever encodes them at once serves nobody else meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import msgspec

from gantrymq.broker.operations.progress import GroupTopicProgress
from gantrymq.protocol.bodies.progress import key_of


@dataclass(frozen=True, slots=True)
class Encoded:
    """A piece of progress, encoded."""

    group: str
    topic: str
    table: str
    """Entries of an offset table, joined by commas."""
    tps: float
    behind: int
    """Messages that are not consumed yet."""
    pulled: int
    """Messages that are pulled and not consumed yet."""


def encoded_piece(piece: GroupTopicProgress) -> Encoded:
    """One of the steps in which an answer is made."""
    queues = piece.queues
    entries = [
        f"{key_of(queue)}:{msgspec.json.encode(progress, order='sorted').decode()}"
        for queue, progress in queues.items()
    ]
    return Encoded(
        piece.group,
        piece.topic,
        ",".join(entries),
        piece.tps,
        sum(queue.broker_offset - queue.consumer_offset for queue in queues.values()),
        sum((queue.pull_offset or 0) - queue.consumer_offset for queue in queues.values()),
    )


def of_group_body(pieces: Sequence[Encoded]) -> bytes:
    """A ConsumeStats body of one group."""
    return _stats(pieces).encode()


def of_all_groups_body(address: str, pieces: Sequence[Encoded]) -> bytes:
    """A ConsumeStatsList body."""
    groups: list[str] = []
    for group, of_group in groupby(pieces, key=lambda piece: piece.group):
        found = [list(of_topic) for topic, of_topic in groupby(of_group, key=lambda piece: piece.topic) if topic]
        groups.append(f"{{{_json(group)}:[{','.join(map(_stats, found))}]}}")
    behind, pulled = sum(piece.behind for piece in pieces), sum(piece.pulled for piece in pieces)
    return (
        f'{{"brokerAddr":{_json(address)},"consumeStatsList":[{",".join(groups)}],"totalDiff":{behind},'
        f'"totalInflightDiff":{pulled}}}'
    ).encode()


def _stats(pieces: Sequence[Encoded]) -> str:
    table = ",".join([piece.table for piece in pieces if piece.table])
    return f'{{"consumeTps":{_json(float(sum(piece.tps for piece in pieces)))},"offsetTable":{{{table}}}}}'


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
