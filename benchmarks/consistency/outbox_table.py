"""The table of faststream-outbox, as its documentation makes it. Imported by the way and by the relay of the outbox."""

from __future__ import annotations

from typing import Final

from faststream_outbox import make_outbox_table
from sqlalchemy import MetaData

from benchmarks.consistency.setting import OUTBOX

metadata = MetaData()
table = make_outbox_table(metadata, table_name=OUTBOX)
HEADERS: Final = {"content-type": "application/json", "correlation_id": "benchmark"}
