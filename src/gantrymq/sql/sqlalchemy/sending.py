"""``send``: a message in the transaction of what the caller has, a session or a connection of Core."""

from __future__ import annotations

from typing import Any

from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session, scoped_session

from gantrymq.message.message import Message
from gantrymq.sql.sqlalchemy import core, sessions


def send(
    session: Session | AsyncSession | scoped_session[Any] | Connection | AsyncConnection, *messages: Message,
    order_key: str | None = None,
) -> None:  # fmt: skip
    """Send messages when the running transaction of ``session`` commits, and never when it does not.

    ``session``: one of a session maker that is attached, or a connection of an engine that is attached
    (``transactions.attach``). The half messages are sent now, and the commit waits for them. A message that is sent
    within a savepoint is dropped when the savepoint is rolled back. Raises MessageIllegal, and ConfigError for what is
    not attached. ``order_key``: messages of one key become visible in the order of the commits (docs/sql.md, Order).
    """
    inner: Any = session() if isinstance(session, scoped_session) else session
    may_begin = isinstance(inner, Connection)
    if isinstance(inner, AsyncConnection):
        inner = inner.sync_connection
    if isinstance(inner, Connection):
        owner = core.session_of(inner)
        if owner is None:
            core.send(inner, messages, order_key, may_begin=may_begin)
            return
        inner = owner
    for message in messages:
        sessions.send(inner, message, order_key)
