"""A target whose rows pass through the driver: the tasks of Spark put them into their descriptions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gantrymq.spark.pipelines.targets.staging import InDescriptions, Stage, Staged, rows_in

if TYPE_CHECKING:
    import pyarrow as pa


class ThroughDriver(ABC):
    """What such targets do alike; see ``writer.Writer``."""

    def refusals(self, query: str, batch: int, rows: pa.Table) -> Mapping[int, str]:
        """It has every value that comes here."""
        return {}

    def stage(self, query: str, batch: int) -> Stage:
        return InDescriptions()

    def accepts(self, query: str, batch: int, staged: Sequence[Staged]) -> bool:
        return True

    def commit(self, query: str, batch: int, staged: Sequence[Staged]) -> int:
        rows = rows_in(staged)
        return 0 if rows is None else self.add(query, batch, rows)

    @abstractmethod
    def add(self, query: str, batch: int, rows: pa.Table) -> int:
        """Add the rows of a batch; how many it has changed."""

    def others(self, query: str) -> Mapping[str, int]:
        """Rows of others need no search."""
        return {}

    def known(self, query: str, keys: pa.Table) -> pa.Table | None:
        return None
