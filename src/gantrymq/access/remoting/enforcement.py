"""Puts the guard before the handlers of a remoting server, once, at its start."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from gantrymq.access.guard import Denied
from gantrymq.access.opening import Access
from gantrymq.access.places import Places
from gantrymq.access.remoting.gate import Gate
from gantrymq.access.remoting.naming import Row
from gantrymq.access.values import sharer_of
from gantrymq.errors import RequestRejected
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.remoting.server import Handler

log = logging.getLogger("gantrymq.access")


def guarded(
    handlers: Mapping[int, Handler], access: Access, rows: Mapping[int, Row], places: Places
) -> dict[int, Handler]:
    """The same handlers, each behind the guard. A request code without a row is for super users only.

    ``session.user`` is the sender of the last signed request of a connection, for messages that the server sends there
    on its own. The requests of a user are counted together, from wherever they come (``Session.client``).
    """
    return {
        code: _behind(
            Gate(access.guard, rows.get(code), places, signed=code not in access.unsigned,
                 judged=code not in access.unjudged),
            handler,
        )
        for code, handler in handlers.items()
    }  # fmt: skip


def _behind(gate: Gate, handler: Handler) -> Handler:
    admit = gate.admit

    def handle(session: Any, command: Command) -> bytes | None:
        try:
            user = admit(command, session.peer, session.user)
        except Denied as denied:
            if not session.refused:
                session.refused = True
                log.warning("request %d of %s is refused: %s", command.code, session.peer, denied)
            raise RequestRejected(ResponseCode.NO_PERMISSION, str(denied)) from None  # as Apache's servers do
        if user is not None and user is not session.user:
            session.user = user
            session.client = sharer_of(user)
        return handler(session, command)

    return handle
