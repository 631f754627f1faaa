"""For Alembic: create and drop our tables in a migration, and keep ``--autogenerate`` away from them.

A migration::

    from alembic import op
    from gantrymq.sql.alembic import create_tables, drop_tables

    def upgrade() -> None:
        create_tables(op)

    def downgrade() -> None:
        drop_tables(op)

A project whose migrations have made the first two tables already gets the outbox in another one:
``create_outbox_table(op)`` and ``drop_outbox_table(op)``.

And in ``env.py``: ``context.configure(..., include_name=gantrymq.sql.alembic.include_name)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gantrymq.sql.rows.dialect import DatabaseKind, dialect_in_sqlalchemy
from gantrymq.sql.rows.outbox_table import OUTBOX, drop_order_ddl, order_ddl, outbox_ddl
from gantrymq.sql.rows.tables import INBOX, OUTCOMES, before_ddl, check_name, ddl

_OURS: Final = (OUTCOMES, INBOX, OUTBOX)


def create_tables(
    op: Any, table: str = OUTCOMES, inbox_table: str = INBOX, outbox_table: str = OUTBOX
) -> None:  # fmt: skip
    """Create our tables unless they exist. ``op``: ``alembic.op``. Works offline (``alembic upgrade --sql``), too."""
    kind = _kind(op)
    for statement in (*before_ddl(kind), *ddl(kind, table, inbox_table), *outbox_ddl(kind, outbox_table)):
        op.execute(statement)


def drop_tables(op: Any, table: str = OUTCOMES, inbox_table: str = INBOX, outbox_table: str = OUTBOX) -> None:
    """Drop our tables. No half message may be open: without its row, nobody can say how its transaction ended. Messages
    that wait in the outbox are lost."""
    for name in (table, inbox_table):
        op.execute(f"DROP TABLE {check_name(name)}")
    op.execute(f"DROP TABLE IF EXISTS {check_name(outbox_table)}")


def create_outbox_table(op: Any, outbox_table: str = OUTBOX) -> None:
    """Create the outbox alone unless it exists: for migrations that had ``create_tables`` before there was one."""
    kind = _kind(op)
    for statement in (*before_ddl(kind), *outbox_ddl(kind, outbox_table)):
        op.execute(statement)


def drop_outbox_table(op: Any, outbox_table: str = OUTBOX) -> None:
    """Drop the outbox. Messages that wait in it are lost."""
    op.execute(f"DROP TABLE IF EXISTS {check_name(outbox_table)}")


def add_ordering(op: Any, outbox_table: str = OUTBOX) -> None:
    """Add what ordering keys need to an outbox that was made before there were any."""
    kind = _kind(op)
    for statement in (*before_ddl(kind), *order_ddl(kind, outbox_table)):
        op.execute(statement)


def drop_ordering(op: Any, outbox_table: str = OUTBOX) -> None:
    """Undo ``add_ordering``. No message with an ordering key may wait in the outbox: it would be sent a second time."""
    for statement in drop_order_ddl(_kind(op), outbox_table):
        op.execute(statement)


def include_name(name: str | None, kind: str, parents: Mapping[str, str | None]) -> bool:
    """Whether ``--autogenerate`` may compare this: not our tables, which are in no metadata of yours.

    For tables with other names, write one of your own that calls this one.
    """
    return not (kind == "table" and name in _OURS)


def _kind(op: Any) -> DatabaseKind:
    return dialect_in_sqlalchemy(op.get_context().dialect).kind
