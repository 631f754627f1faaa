"""A broker reads its log ahead, piece by piece, for the time when it is primary.

What a primary knows of its log grows with the log: which half messages are decided, what was delivered, which messages
are final ones of transactions. To read a GB for it takes seconds, and clients would wait for so long. What is not read
yet when a replica is elected is read in pieces as well: the broker goes on saying that it is alive.

How far it came is kept over a restart (``ahead_file``). In a group that elects its primary, the primary reads ahead,
too: it will be a replica when it is started again, and it may be elected soon.
"""

from __future__ import annotations

import logging
from array import array
from typing import Final

from gantrymq.broker.replication.ahead_file import FILE_NAME, AheadFile, Block, can_end, digest_of
from gantrymq.message.system_topics import HALF, OP
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Disk
from gantrymq.store.linked_records import Links, Pointers
from gantrymq.store.message_store import MessageStore
from gantrymq.transactions.decisions_ahead import DecisionsAhead
from gantrymq.transactions.table.decisions import DecisionLog

log = logging.getLogger("gantrymq.broker.replication")

AHEAD_SECONDS: Final = 0.02
"""From one look to the next, while the log grows."""
IDLE_LOOKS: Final = 10
"""So many times as long, while it does not."""
PIECE_BYTES: Final = 2 * 1024 * 1024
"""Some milliseconds of work when the records are small. 100 MB in a second are more than a primary takes."""
NOTE_BYTES: Final = 8 * 1024 * 1024
"""So much of the log is noted at once, or"""
NOTE_LOOKS: Final = 50
"""what was read in the time of so many looks, a second. A start reads that again."""
PAUSE_LOOKS: Final = 3_000
"""The time of so many looks, a minute, behind a failure to write."""
NOWHERE: Final = (-1, -1)
REWRITE_BYTES: Final = 16 * 1024 * 1024
"""The file is written anew when it has this much more than twice what it had then."""


class Ahead:
    """Of one broker."""

    def __init__(self, store: MessageStore, disk: Disk) -> None:
        self._store = store
        self._linked = store.linked
        self._file = AheadFile(disk, store.path(FILE_NAME), store.read_raw)
        self._loaded = False
        self._looks = 0
        """The time since the last note, in looks."""
        self._pause = 1
        """The time since the last look, in looks."""
        self._whole = 0
        """Bytes of the file when it was written anew."""
        self._noted = NOWHERE
        """Where the file ends: log offset, and queue offset of the next op message."""
        self._ops = NOWHERE
        """A log offset, and the queue offset of the first op message that does not lie before it."""
        self.decisions: Final = DecisionsAhead(store)

    @property
    def is_done(self) -> bool:
        """Whether little is left to be read."""
        rest = self._store.max_log_offset - self._linked.ahead
        return rest <= PIECE_BYTES and self.decisions.is_done

    def load(self) -> None:
        """Go on where this broker was when it ran last. Only the first call does something."""
        if not self._loaded:
            self._go_on_before(self._store.max_log_offset)
            log.info("the log is read ahead up to %d of %d", self._linked.ahead, self._store.max_log_offset)

    def look(self) -> float:
        """Read the next piece, if there is one. Returns in how many seconds the next look should be."""
        self.load()
        before = self._linked.ahead, self.decisions.next_op
        self._linked.look_ahead(PIECE_BYTES)
        ahead = self._linked.ahead
        if ahead != self._ops[0]:  # most looks find nothing new, and to search the queue is what costs
            self._ops = ahead, self._store.queue_end(OP, 0, ahead)
        if self.decisions.next_op < self._ops[1]:
            self.decisions.look_ahead(self._ops[1])
        self._looks += self._pause
        if self._looks >= NOTE_LOOKS or 0 <= self._file.end <= self._linked.ahead - NOTE_BYTES:
            self.note()
        self._pause = IDLE_LOOKS if before == (ahead, self.decisions.next_op) else 1
        return AHEAD_SECONDS * self._pause

    async def finish(self, clock: Clock) -> None:
        """Read until little is left, and let others work in between."""
        while not self.is_done:
            self.look()
            await clock.sleep(0)

    def note(self) -> None:
        """Write what was read since the last call."""
        self._looks = 0
        linked, file = self._linked, self._file
        place = linked.ahead, self.decisions.next_op
        if not self._loaded or place == self._noted or not can_end(linked.last, linked.ahead):
            return
        anew = file.end < linked.begin or file.size > 2 * self._whole + REWRITE_BYTES
        begin = linked.begin if anew else file.end
        decided = self.decisions.everything() if anew else self.decisions.news()
        digest = digest_of(self._store.read_raw, linked.last, linked.ahead)
        block = Block(
            begin, linked.ahead, linked.last, digest, self.decisions.next_op, linked.since(begin), decided
        )  # fmt: skip
        if anew:
            file.replace(block)
            self._whole = file.size
        else:
            file.append(block)
        self._noted = place
        if file.end < 0:
            self._noted, self._looks = NOWHERE, -PAUSE_LOOKS

    def forget(self, position: int) -> None:
        """The log will be cut there. Nothing was read of what is not visible."""
        if position < self._store.max_log_offset:
            self._go_on_before(position)

    def _go_on_before(self, limit: int) -> None:
        """Take from the file what it says of the log before a log offset."""
        self._loaded = True
        blocks = self._file.load(limit)
        self._whole = self._file.size
        decisions = DecisionLog(self._store.queue_range(HALF, 0)[0])
        links = Links(*(Pointers(array("q"), array("q")) for _ in range(2)))
        for block in blocks:
            for all_of, of_block in zip(links, block.links, strict=True):
                all_of.places.extend(of_block.places)
                all_of.targets.extend(of_block.targets)
            for queue_offset, known in block.decisions:
                decisions.add(queue_offset, known)
        self._noted = self._ops = NOWHERE
        if blocks:
            last = blocks[-1]
            self._noted = last.end, last.next_op
            self.decisions.restore(decisions, last.next_op)
            self._linked.restore(blocks[0].begin, last.end, last.last, links)
        else:
            self.decisions.restore(decisions, 0)
            start = self._store.min_log_offset
            self._linked.restore(start, start, -1, links)
