"""For tests of Django projects: what a TestCase has sent, and a TransactionTestCase with a broker of its own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, overload

from django.db import connections
from django.test import TransactionTestCase

from gantrymq.django import project_settings, running
from gantrymq.django.recording import Recorded, recorded
from gantrymq.message.message import Message
from gantrymq.sql.rows.tables import check_name
from gantrymq.testing.local.cluster import LocalCluster


class Outbox(Sequence[Message]):
    """The messages that a TestCase has sent, the oldest first: those of transactions that would have committed.

    It is empty again when the next test begins. Messages of ``setUpTestData`` stay for all tests of their class, as its
    rows do.
    """

    def clear(self) -> None:
        """Forget what was sent up to here, until the test ends."""
        for one in self._sent():
            one.cleared_in = one.recording.blocks[-1]

    def _sent(self) -> list[Recorded]:
        for recording in {one.recording for one in recorded}:
            recording.released()
        return [one for one in recorded if one.visible]

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        return [one.message for one in self._sent()][index]

    def __len__(self) -> int:
        return len(self._sent())

    def __iter__(self) -> Iterator[Message]:
        return iter([one.message for one in self._sent()])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Outbox {list(self)!r}>"


outbox: Final = Outbox()


class LocalClusterTestCase(TransactionTestCase):
    """Each test has an empty broker in this process, ``self.gantry``, and its transactions really commit.

    ``cluster``: what LocalCluster takes, for example ``{"virtual_time": True}``.
    """

    cluster: ClassVar[Mapping[str, Any]] = {}
    gantry: LocalCluster

    def setUp(self) -> None:
        super().setUp()
        settings = project_settings.read()
        for using in {connection.alias for connection in connections.all()} & {*settings.databases}:
            if using in self.databases:
                _prepare(using)
        running.close()
        self.gantry = LocalCluster(**self.cluster).start()
        self.addCleanup(self.gantry.close)
        self.addCleanup(running.close)  # before the cluster


def _prepare(using: str) -> None:
    """TransactionTestCase empties the tables of models, and ours have none."""
    connection = connections[using]
    if connection.vendor == "sqlite" and connection.is_in_memory_db():
        warnings.warn(
            f"the test database {using!r} is SQLite in memory, which does not let one thread wait for another: a "
            "consumer may fail with 'table is locked' when the test reads at the same time. Give it a file: "
            f'DATABASES[{using!r}]["TEST"] = {{"NAME": "test.sqlite3"}}',
            stacklevel=3,
        )
    running.create_tables(using)
    inbox = project_settings.read().of(using).inbox_table
    with connections[using].cursor() as cursor:
        cursor.execute(f"DELETE FROM {check_name(inbox)}")  # nosec B608 # the name was checked
