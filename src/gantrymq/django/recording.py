"""The messages of transactions in a TestCase, whose outer transaction never commits: they are kept, and nothing leaves.

A message counts as sent when the outermost ``atomic`` block of the project's own code has ended without an error. It
disappears when the test is rolled back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from django.db.backends.base.base import BaseDatabaseWrapper

from gantrymq.django import project_settings
from gantrymq.message.message import Message
from gantrymq.message.sizes import MAX_BODY_BYTES
from gantrymq.message.validation import check_in_transaction
from gantrymq.sql.rows.outbox_table import with_key
from gantrymq.sql.rules.claim import COMMIT, ROLLBACK, Answer
from gantrymq.sql.rules.outcomes import Statement


@dataclass(slots=True, eq=False)
class Recorded:
    """One message."""

    message: Message
    level: object
    recording: Recording
    sent: bool = False
    """Its block has ended."""
    cleared_in: object = None
    """The block of the test that wants to see no more of it. A message of ``setUpTestData`` is there again for the next
    test, as its rows are."""

    @property
    def visible(self) -> bool:
        return self.sent and self.cleared_in not in self.recording.blocks


recorded: Final[list[Recorded]] = []
"""Of all connections, in the order of ``send``."""


class Recording:
    """In place of an Enlistment, on one connection."""

    transaction_id: Final = "of a TestCase"
    answer: Answer | None = None
    mark = ""

    def __len__(self) -> int:
        return 0  # that wait for a commit of the database

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection = connection
        settings = project_settings.read()
        settings.of(connection.alias)  # wrong settings are an error here, too
        self._max_bytes = settings.producer.get("max_message_bytes", MAX_BODY_BYTES)

    def send(self, message: Message, level: object, order_key: str | None = None) -> None:
        check_in_transaction(message, self._max_bytes)
        if order_key is not None:
            _, message = with_key(message, order_key)
        recorded.append(Recorded(message.with_properties({**message.properties}), level, self))

    def drop(self, belongs: Callable[[object], bool]) -> None:
        recorded[:] = [one for one in recorded if one.recording is not self or not belongs(one.level)]

    @property
    def blocks(self) -> list[object]:
        """The ``atomic`` blocks that are open: of the test class, of the test, and then those of the project."""
        blocks: list[object] = self._connection.atomic_blocks
        return blocks

    def released(self) -> None:
        """A block has ended; also called before somebody looks, because blocks without a savepoint end silently."""
        if (
            all(block._from_testcase for block in self._connection.atomic_blocks)
            and not self._connection.needs_rollback
        ):
            self.committed()

    def prepare(self, insert: Callable[[Statement], int]) -> None:
        pass

    def committed(self) -> Answer:
        for one in recorded:
            one.sent = one.sent or one.recording is self
        return COMMIT

    def failed(self) -> Answer:
        self.drop(lambda level: True)
        return ROLLBACK
