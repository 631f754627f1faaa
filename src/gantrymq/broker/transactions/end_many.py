"""The operation that ends many half messages of one request. Each keeps rules and outcome of its own (``end.py``); only
the commits that nothing stands in the way of are written together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from gantrymq.broker.client import Client
from gantrymq.broker.refusal import Refused
from gantrymq.broker.transactions.end import EndOperation, EndRequest, refusal_of
from gantrymq.broker.transactions.endings import TransactionEndings
from gantrymq.broker.transactions.ports import TopicLookup
from gantrymq.errors import StoreError, StoreUnavailable
from gantrymq.message.transaction import HalfEnd, Resolution
from gantrymq.transactions.ports import HalfStore
from gantrymq.transactions.records.half_copies import HalfReading
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.open_halves import OpenHalf, TransactionTable

Results = Sequence[Refused | None]
"""What became of each end of a request, in its order; None: it is done."""

_OPEN: Final = State.OPEN
"""Looking up a member of an enum costs ten times a global before Python 3.12."""


@dataclass(frozen=True, slots=True)
class ManyEnds:
    """A request to end several half messages of one group."""

    group: str
    ends: Sequence[HalfEnd]
    resolution: Resolution
    answers_check: bool = False


class _Pending:
    """The results of one request, until all of them are known."""

    __slots__ = ("_answered", "_left", "_results")

    def __init__(self, count: int, answered: Callable[[Results], None]) -> None:
        self._results: list[Refused | None] = [None] * count
        self._left = count
        self._answered = answered

    def one(self, index: int, refused: Refused | None) -> None:
        self.several(index, 1, refused)

    def several(self, first: int, count: int, refused: Refused | None) -> None:
        if refused is not None:
            self._results[first : first + count] = [refused] * count
        self._left -= count
        if not self._left:
            self._answered(self._results)


class EndManyOperation:
    """Ends half messages for clients. ``ends``: the operation for one. ``is_member``: as of ``EndOperation``."""

    def __init__(
        self, store: HalfStore, table: TransactionTable, endings: TransactionEndings, topics: TopicLookup,
        is_member: Callable[[str, Client], bool], ends: EndOperation,
    ) -> None:  # fmt: skip
        self._store = store
        self._table = table
        self._endings = endings
        self._topics = topics
        self._is_member = is_member
        self._ends = ends

    def end(self, client: Client, request: ManyEnds, answered: Callable[[Results], None]) -> None:
        """End the half messages in their order. ``answered``: called once, perhaps before this returns."""
        pending, reading = _Pending(len(request.ends), answered), HalfReading(self._store)
        plain = (
            request.resolution is Resolution.COMMIT
            and not request.answers_check
            and self._is_member(request.group, client)
        )
        run: list[OpenHalf] = []
        """Halves that follow each other in the request and go to one queue."""
        group, get = request.group, self._table.get
        real_topic, real_queue_id = "", 0
        for index, end in enumerate(request.ends):
            half = get(end[0]) if plain else None
            if half is not None and _is_plain(half, end, group):
                if run and (half.real_queue_id != real_queue_id or half.real_topic != real_topic):
                    self._commit(client, request, run, index - len(run), pending, reading)
                    run = []
                if not run:
                    real_topic, real_queue_id = half.real_topic, half.real_queue_id
                run.append(half)
                continue
            self._commit(client, request, run, index - len(run), pending, reading)
            run = []
            self._end_one(client, request, index, pending, reading)
        self._commit(client, request, run, len(request.ends) - len(run), pending, reading)

    def _commit(
        self,
        client: Client,
        request: ManyEnds,
        run: list[OpenHalf],
        first: int,
        pending: _Pending,
        reading: HalfReading,
    ) -> None:
        """Commit a run, whose first half has the index ``first`` in the request."""
        count = len(run)
        if not count:
            return
        topic = self._topics.get(run[0].real_topic)
        records = None if topic is None else reading.records(run)
        try:
            written = (
                topic is not None
                and records is not None
                and self._endings.commit_run(
                    run, records, topic.read_queue_nums, client.host, partial(_tell, pending, first, count)
                )
            )
        except StoreUnavailable:
            written = False  # each of them is refused, and counted, with the reason
        if not written:
            for index in range(first, first + count):
                self._end_one(client, request, index, pending, reading)

    def _end_one(self, client: Client, request: ManyEnds, index: int, pending: _Pending, reading: HalfReading) -> None:
        """``EndOperation.end``; a half message that is no longer in memory is read with its neighbours."""
        end = request.ends[index]
        half = self._table.get(end.queue_offset)
        is_read = half is not None and half.record is None and request.resolution is Resolution.COMMIT
        if half is not None and is_read:
            half.record = reading.record(end.queue_offset) or None
        one = EndRequest(
            request.group, end.queue_offset, end.log_offset, end.unique_key, end.unique_key, request.resolution,
            request.answers_check,
        )  # fmt: skip
        try:
            self._ends.end(client, one, partial(pending.one, index))
        except Refused as refused:
            pending.one(index, refused)
        finally:
            if half is not None and is_read:
                half.record = None  # the table counts the memory of those it keeps


def _is_plain(half: OpenHalf, end: HalfEnd, group: str) -> bool:
    """Whether nothing but the commit itself is to be done for this half."""
    _, log_offset, unique_key = end
    return (
        half.state is _OPEN
        and half.log_offset == log_offset
        and half.unique_key == unique_key != ""
        and half.group == group
        and not half.copies
        and not half.has_turn
    )


def _tell(pending: _Pending, first: int, count: int, error: StoreError | None) -> None:
    pending.several(first, count, refusal_of(error))
