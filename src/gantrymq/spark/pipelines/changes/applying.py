"""What a target that applies changes needs to know of its job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Protocol

from gantrymq.spark.pipelines.changes.positions import keys_of, newest, not_behind, position_of, positions_of
from gantrymq.spark.pipelines.changes.rows import CHANGE, DELETE, gone_of, upserts_of
from gantrymq.spark.pipelines.job import Changes

if TYPE_CHECKING:
    import pyarrow as pa

FORGET_AFTER: Final = 50
"""After so many batches the deletes that are older than the horizon are forgotten."""
DELETES: Final = "gantry_deletes"
"""The name of the table that remembers deletes, or a part of it."""


@dataclass(frozen=True, slots=True)
class Applying:
    """How changes are applied."""

    changes: Changes
    now_ms: Callable[[], int]
    """The time of the job."""
    query: str
    """The query of the target, as a short name."""

    @classmethod
    def of(cls, changes: Changes, now_ms: Callable[[], int], sql: str) -> Applying:
        return cls(changes, now_ms, sha256(sql.encode()).hexdigest()[:12])

    @property
    def oldest_ms(self) -> int:
        """Deletes that are older are forgotten."""
        return self.now_ms() - self.changes.horizon_ms


class Deletes(Protocol):
    """The deletes of one table, which are kept beside it. So they outlive the checkpoint, and other jobs see them."""

    def positions(self, keys: Iterable[str]) -> Iterable[tuple[str, str]]:
        """The key and the position of each delete of one of these keys; several of a key are possible."""

    def remember(self, positions: Mapping[str, str], now_ms: int) -> None:
        """Remember deletes, each of which is newer than what is known of its key. When this returns, they are durable,
        or a part of the transaction of the batch."""

    def forget(self, before_ms: int) -> None:
        """Forget deletes that were remembered before this time."""


def decided(rows: pa.Table, applying: Applying, deletes: Deletes) -> pa.Table:
    """The upserts that no delete is behind. The deletes among ``rows`` are remembered first: should the batch be
    interrupted, it comes again, and meets them."""
    changes = applying.changes
    kinds = [rows.schema.field(name).type for name in changes.order_by]
    gone, upserts = gone_of(rows), upserts_of(rows)
    known = newest(deletes.positions(keys_of(rows, changes.key)), kinds, applying.query)
    pairs = zip(keys_of(gone, changes.key), positions_of(gone, changes.order_by, applying.query), strict=True)
    later = {
        key: text for key, text in pairs if key not in known or known[key] < position_of(text, kinds, applying.query)
    }
    if later:
        deletes.remember(later, applying.now_ms())
    return not_behind(upserts, changes.key, changes.order_by, known)


def overtaken(upserts: pa.Table, applying: Applying, deletes: Deletes) -> pa.Table:
    """Those of the upserts that a delete is behind by now, as rows that go. Asked after their commit: another job may
    have remembered the delete after this one had looked, and have found no row then."""
    import pyarrow as pa
    import pyarrow.compute as pc

    changes = applying.changes
    names = list(dict.fromkeys((*changes.key, *changes.order_by)))
    kinds = [upserts.schema.field(name).type for name in changes.order_by]
    numbered = upserts.select(names).append_column("_row", pa.array(range(len(upserts)), pa.int64()))
    known = newest(deletes.positions(keys_of(upserts, changes.key)), kinds, applying.query)
    left = not_behind(numbered, changes.key, changes.order_by, known)["_row"]
    behind = upserts.filter(pc.invert(pc.is_in(numbered["_row"], value_set=left.combine_chunks())))
    return behind.append_column(CHANGE, pa.array([DELETE] * len(behind), pa.string()))
