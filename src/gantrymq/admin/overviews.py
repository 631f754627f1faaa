"""All topics, groups and clients of a cluster, with one question to each broker.

Apache's brokers, and older ones, do not know this question; nor may everybody ask it. ``Overview.unasked`` names them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gantrymq.admin.asking import Asking
from gantrymq.errors import GantryError, RemoteProtocolError, RequestRejected, Unreachable
from gantrymq.message.summaries import ClientRow, GroupSummary, Summaries, TopicGroupLag, TopicSummary
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.tools import Summarize

TIMEOUT_MS = 15_000
"""A broker with many thousands of topics serves others while it counts."""


class Unasked(msgspec.Struct, frozen=True, kw_only=True):
    """A broker whose rows are missing."""

    broker: str
    why: str
    denied: bool = False
    """It answered that this may not be seen."""
    gone: bool = False
    """It did not answer, or it answered with an error. Otherwise it does not know the question."""


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic over all brokers that were asked."""

    topic: str
    brokers: list[str]
    queues: int
    messages: int
    put_tps: float
    got_tps: float
    groups: int
    """The most that one broker knows."""
    lag: int | None
    furthest: str
    message_type: str
    perm: int
    system: bool
    """Whether it belongs to the system: see ``TopicSummary``."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer group over all brokers that were asked."""

    group: str
    lag: int
    behind_ms: int
    """Age of the oldest message that it has not consumed; 0 when there is none."""
    tps: float
    members: int
    model: str
    conflicts: list[str]
    topics: dict[str, TopicGroupLag]
    """What it has read, and how far it is there."""


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """What the brokers said."""

    topics: dict[str, Topic] = {}
    groups: dict[str, Group] = {}
    clients: list[tuple[str, ClientRow]] = []
    """Broker name and row."""
    unasked: list[Unasked] = []

    @property
    def is_whole(self) -> bool:
        """Whether every broker that can be reached answered: then what is not here is nowhere."""
        return all(one.gone and not one.denied for one in self.unasked)


class Overviews:
    """Every method raises Unreachable, TimedOut or RequestRejected only when no name server tells the brokers."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def topics(self) -> Overview:
        """All topics by name, those of the system included."""
        found, unasked = await self._each("topics")
        return Overview(topics=merged_topics(found), unasked=unasked)

    async def groups(self) -> Overview:
        """All consumer groups by name, those of servers and tools included. Raises Unreachable when no broker answers:
        an empty list would say that there are none."""
        found, unasked = await self._each("groups")
        check_answered(found, unasked)
        return Overview(groups=merged_groups(found), unasked=unasked)

    async def clients(self) -> Overview:
        """All clients of all groups. Raises Unreachable as ``groups`` does."""
        found, unasked = await self._each("clients")
        check_answered(found, unasked)
        rows = [(broker, row) for broker, summary in found.items() for row in summary.clients]
        return Overview(clients=rows, unasked=unasked)

    async def _each(self, what: str) -> tuple[dict[str, Summaries], list[Unasked]]:
        masters = await self._asking.masters()
        answers = await asyncio.gather(*(self._of(name, address, what) for name, address in masters.items()))
        found = {
            name: answer for name, answer in zip(masters, answers, strict=True) if isinstance(answer, Summaries)
        }  # fmt: skip
        return found, [answer for answer in answers if isinstance(answer, Unasked)]

    async def _of(self, name: str, address: str, what: str) -> Summaries | Unasked:
        if self._asking.endpoint.speaks_java(address):
            return Unasked(broker=name, why=f"{name} is an Apache broker, which has no such summary")
        try:
            answer = await self._asking.ask(
                address, RequestCode.SUMMARIZE, Summarize(what=what), what=f"summary of {what}", timeout_ms=TIMEOUT_MS
            )
            return msgspec.json.decode(answer.body, type=Summaries)
        except RequestRejected as error:
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return Unasked(broker=name, why=f"{name} has no such summary: it is Apache's, or an older one")
            return Unasked(broker=name, why=str(error), denied=error.code == ResponseCode.NO_PERMISSION, gone=True)
        except msgspec.MsgspecError as error:
            return Unasked(broker=name, why=str(RemoteProtocolError(f"malformed summary: {error}")), gone=True)
        except GantryError as error:
            return Unasked(broker=name, why=str(error), gone=True)


def check_answered(found: Mapping[str, Summaries], unasked: Sequence[Unasked]) -> None:
    """Raises Unreachable when no broker answered."""
    if not found and all(one.gone and not one.denied for one in unasked):
        places = ", ".join(one.broker for one in unasked)
        raise Unreachable(places, f"no broker answers: {'; '.join(one.why for one in unasked)}")


def merged_topics(found: Mapping[str, Summaries]) -> dict[str, Topic]:
    """By name, over all brokers."""
    parts: dict[str, list[tuple[str, TopicSummary]]] = {}
    for broker, summary in found.items():
        for row in summary.topics:
            parts.setdefault(row.topic, []).append((broker, row))
    return {name: _topic(name, parts[name]) for name in sorted(parts)}


def _topic(name: str, parts: list[tuple[str, TopicSummary]]) -> Topic:
    rows = [row for _, row in parts]
    lags = [row.lag for row in rows if row.lag is not None]
    return Topic(
        topic=name, brokers=[broker for broker, _ in parts], queues=sum(row.queues for row in rows),
        messages=sum(row.messages for row in rows), put_tps=sum(row.put_tps for row in rows),
        got_tps=sum(row.got_tps for row in rows), groups=max(row.groups for row in rows),
        lag=sum(lags) if lags else None, furthest=max(rows, key=lambda row: row.lag or 0).furthest,
        message_type=rows[0].message_type, perm=rows[0].perm,
        system=any(row.system for row in rows),
    )  # fmt: skip


def merged_groups(found: Mapping[str, Summaries]) -> dict[str, Group]:
    """By name, over all brokers."""
    parts: dict[str, list[GroupSummary]] = {}
    for summary in found.values():
        for row in summary.groups:
            parts.setdefault(row.group, []).append(row)
    return {name: _group(name, parts[name]) for name in sorted(parts)}


def _group(name: str, rows: Iterable[GroupSummary]) -> Group:
    rows = list(rows)
    parts: dict[str, list[TopicGroupLag]] = {}
    for row in rows:
        for one in row.topics:
            parts.setdefault(one.topic, []).append(one)
    topics = {topic: _together(topic, parts[topic]) for topic in sorted(parts)}
    return Group(
        group=name, lag=sum(one.lag for one in topics.values()),
        behind_ms=max((one.behind_ms for one in topics.values()), default=0),
        tps=sum(one.tps for one in topics.values()), members=len({client for row in rows for client in row.members}),
        model=next((row.model for row in rows if row.model), ""),
        conflicts=sorted({topic for row in rows for topic in row.conflicts}), topics=topics,
    )  # fmt: skip


def _together(topic: str, parts: list[TopicGroupLag]) -> TopicGroupLag:
    """Over all brokers."""
    return TopicGroupLag(
        topic=topic, lag=sum(one.lag for one in parts), behind_ms=max(one.behind_ms for one in parts),
        tps=sum(one.tps for one in parts),
    )  # fmt: skip
