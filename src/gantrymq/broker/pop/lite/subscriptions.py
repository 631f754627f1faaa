"""Which readers read which lite topics. Pure. Source: LiteSubscriptionRegistryImpl of 5.5.0."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from gantrymq.broker.refusal import Refusal, Refused

SUBSCRIPTIONS_MAX: Final = 100_000
"""Of all readers together. Source: BrokerConfig.maxLiteSubscriptionCount."""


class LiteReader(NamedTuple):
    """A member of a consumer group that reads lite topics."""

    client: str
    """Names it also on its next connection."""
    group: str


class LiteSubscriptions:
    """Reader to the queues of its lite topics, and back."""

    def __init__(self) -> None:
        self._queues: dict[LiteReader, dict[str, None]] = {}
        self._readers: dict[str, dict[LiteReader, None]] = {}
        self._count = 0
        self.changed = False
        """Set with every change; cleared by the code that writes the file."""

    def __len__(self) -> int:
        """How many subscriptions there are."""
        return self._count

    def of(self, reader: LiteReader) -> Collection[str]:
        """The queues that a reader reads, in the order in which it subscribed."""
        return self._queues.get(reader, {})

    def readers(self, queue: str) -> list[LiteReader]:
        """Who reads a queue."""
        return list(self._readers.get(queue, ()))

    def all_readers(self) -> list[LiteReader]:
        return list(self._queues)

    def add(self, reader: LiteReader, queues: Iterable[str], most: int) -> list[str]:
        """The reader reads these, too; those that are new. ``most``: how many a reader of its group may have. Raises
        Refused; then nothing is changed."""
        known = self._queues.get(reader, {})
        new = [queue for queue in dict.fromkeys(queues) if queue not in known]
        self._check_room(len(known) + len(new), len(new), most)
        if new:
            own = self._queues.setdefault(reader, {})
            for queue in new:
                own[queue] = None
                self._readers.setdefault(queue, {})[reader] = None
            self._count += len(new)
            self.changed = True
        return new

    def replace(self, reader: LiteReader, queues: Collection[str], most: int) -> list[str]:
        """The reader reads exactly these; those that are new. Raises Refused; then nothing is changed."""
        wanted = dict.fromkeys(queues)
        known = self._queues.get(reader, {})
        gone = [queue for queue in known if queue not in wanted]
        self._check_room(len(wanted), len(wanted) - len(known), most)
        self.remove(reader, gone)
        return self.add(reader, wanted, most)

    def _check_room(self, of_reader: int, more: int, most: int) -> None:
        if more > 0 and 0 <= most < of_reader:
            raise Refused(
                Refusal.LITE_SUBSCRIPTIONS_EXCEEDED,
                f"{of_reader} lite topics are too many for one client of the group; the limit is {most} "
                "(lite.sub.client.quota of the group)",
            )
        if more > 0 and self._count + more > SUBSCRIPTIONS_MAX:
            raise Refused(
                Refusal.LITE_SUBSCRIPTIONS_EXCEEDED,
                f"this broker has {self._count} subscriptions of lite topics; at most {SUBSCRIPTIONS_MAX} are kept",
            )

    def remove(self, reader: LiteReader, queues: Iterable[str]) -> list[str]:
        """The reader does not read these any more; those that it had read."""
        own = self._queues.get(reader, {})
        gone = [queue for queue in dict.fromkeys(queues) if queue in own]
        for queue in gone:
            del own[queue]
            readers = self._readers[queue]
            del readers[reader]
            if not readers:
                del self._readers[queue]
        self._count -= len(gone)
        self.changed = self.changed or bool(gone)
        if not own:
            self._queues.pop(reader, None)
        return gone

    def forget(self, reader: LiteReader) -> list[str]:
        """The reader reads nothing any more; what it had read."""
        return self.remove(reader, list(self._queues.get(reader, ())))

    def others(self, reader: LiteReader, queue: str) -> list[LiteReader]:
        """Other members of its group that read a queue."""
        return [other for other in self.readers(queue) if other.group == reader.group and other != reader]
