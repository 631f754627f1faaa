"""What transactions need of their neighbours, in the least words: the store below, registries and sessions beside."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from gantrymq.message.message import StoredMessage
from gantrymq.store.log.safety import LogSafety
from gantrymq.store.values import EncodePair, GetResult, Known, NewRecord, Placement, Prepared


class Entry(Protocol):
    """An entry of a consume queue."""

    @property
    def log_offset(self) -> int: ...


class HalfStore(Protocol):
    """The part of MessageStore that transactions use."""

    @property
    def min_log_offset(self) -> int: ...

    @property
    def max_log_offset(self) -> int: ...

    @property
    def safety(self) -> LogSafety: ...

    def append(self, records: Sequence[NewRecord]) -> Sequence[Placement]: ...

    def append_plain(
        self, topic: str, queue_id: int, body: bytes, text: str, born_timestamp: int, born_host: bytes, flag: int,
        sys_flag: int, reconsume_times: int, key: str, tags_code: int,
    ) -> Placement: ...  # fmt: skip

    def append_pair(
        self, first: Prepared, second: Prepared, encode: EncodePair, known: Known
    ) -> tuple[int, int, int]: ...

    def read(self, log_offset: int) -> StoredMessage | None: ...

    def scan(
        self, from_offset: int, to_offset: int | None = None, *, only: int | None = None
    ) -> Iterator[StoredMessage]: ...

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        tag_codes: frozenset[int] | None = None,
    ) -> GetResult: ...

    def entry(self, topic: str, queue_id: int, queue_offset: int) -> Entry | None: ...

    def queue_range(self, topic: str, queue_id: int) -> tuple[int, int]: ...

    def path(self, name: str) -> str: ...


class ProducerSession(Protocol):
    """A connection of a producer."""

    @property
    def id(self) -> int: ...

    @property
    def peer(self) -> str: ...

    @property
    def alive(self) -> bool: ...

    @property
    def writable(self) -> bool: ...

    def send(self, frame: bytes) -> None: ...

    def next_opaque(self) -> int: ...


class ProducerGroups(Protocol):
    """Who is connected for which producer group, by heartbeat."""

    def pick(self, group: str) -> ProducerSession | None:
        """A live session of the group that reads what it is sent, round robin; None when there is none."""

    def members(self, group: str) -> Sequence[object]:
        """Everybody who is online for the group."""

    def is_member(self, group: str, session: ProducerSession) -> bool: ...

    def client_ids(self, session: ProducerSession) -> Collection[str]:
        """What the heartbeats of a connection said who it is; also while it is being closed."""

    def connection_of(self, client_id: str) -> ProducerSession | None:
        """An open connection of that client; None when there is none."""


class TopicQueues(Protocol):
    """How many queues a topic has."""

    @property
    def read_queue_nums(self) -> int: ...


class TopicLookup(Protocol):
    """The topics of this broker."""

    def get(self, topic: str) -> TopicQueues | None:
        """Its configuration; None when there is no such topic."""

    def ensure(self, topic: str, queues: int) -> object:
        """The topic; made when absent. Raises StoreError when that cannot be kept."""


class OffsetBook(Protocol):
    """Durable consumer offsets; ours are those of CID_RMQ_SYS_TRANS."""

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None: ...
