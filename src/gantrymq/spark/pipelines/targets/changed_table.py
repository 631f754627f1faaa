"""A lakehouse table whose rows change, in one commit for each batch; its deletes are remembered in a table beside it.

Rows of others need no search: the order says which event of a key is newer.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final, Protocol

from gantrymq.errors import GantryError
from gantrymq.spark.pipelines.changes.applying import FORGET_AFTER, Applying, Deletes, decided, overtaken
from gantrymq.spark.pipelines.changes.rows import gone_of
from gantrymq.spark.pipelines.targets.staging import ThroughDriver

if TYPE_CHECKING:
    import pyarrow as pa

TRIES: Final = 20
"""So often a batch is committed again because another program has changed the table meanwhile."""


class TableBusy(GantryError):
    """Other programs change a table so often that a batch cannot be committed. It may be tried again."""

    retryable = True
    what_to_do = "Run the job again, and let fewer programs write to the table at the same time."


class VersionedDeletes(Deletes, Protocol):
    """Deletes in a table of their own, of which it can be seen that another program has added some."""

    def make(self) -> None:
        """Make the table, unless it is there."""

    def version(self) -> int:
        """Another one after each change."""


class ChangedTable(ThroughDriver):
    """The steps of a batch, and the look at what others have deleted meanwhile."""

    def __init__(self, name: str, applying: Applying, deletes: VersionedDeletes) -> None:
        """``name``: for errors."""
        self._name = name
        self._applying = applying
        self._deletes = deletes
        self._batches = 0

    @abstractmethod
    def has(self, query: str, batch: int) -> bool: ...

    @abstractmethod
    def conflicts(self) -> tuple[type[Exception], ...]:
        """The errors of a commit that met one of another program."""

    @abstractmethod
    def replace(self, query: str, batch: int, upserts: pa.Table, gone: pa.Table) -> int:
        """Apply to the table as it is now, in one commit with the mark of the batch; how many rows have changed. Raises
        one of ``conflicts`` when another program has committed meanwhile."""

    def tidy(self) -> None:
        """Called now and then, and at the end of a run."""
        self._deletes.forget(self._applying.oldest_ms)

    def add(self, query: str, batch: int, rows: pa.Table) -> int:
        if not len(rows) or self.has(query, batch):
            return 0
        before = self._deletes.version()
        upserts = decided(rows, self._applying, self._deletes)
        changed = self._replaced(query, batch, upserts, gone_of(rows))
        if len(upserts) and self._deletes.version() != before:
            late = overtaken(upserts, self._applying, self._deletes)
            self._replaced(query, batch, upserts.slice(0, 0), late)
        self._batches += 1
        if self._batches % FORGET_AFTER == 0:
            self.tidy()
        return changed

    def finish(self) -> None:
        if self._batches:
            self.tidy()

    def _replaced(self, query: str, batch: int, upserts: pa.Table, gone: pa.Table) -> int:
        if not len(upserts) and not len(gone):
            return 0
        conflicts = self.conflicts()
        for _ in range(TRIES):
            try:
                return self.replace(query, batch, upserts, gone)
            except conflicts:
                continue
        raise TableBusy(f"{self._name}: {TRIES} commits of batch {batch} met changes of other programs")
