"""SUMMARIZE, a request of our own for tools: all topics, groups or clients at a glance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from gantrymq.broker.operations.summaries import Overviews
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.errors import GantryError, LocalProtocolError
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.tools import Summarize
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.stepwise import gather


class SummaryHandler:
    """Puts an answer together in turns of the loop."""

    def __init__(self, overviews: Overviews, clock: Clock) -> None:
        self._rows: Final[dict[str, Callable[[], Iterator[Any]]]] = {
            "topics": overviews.topics,
            "groups": overviews.groups,
            "clients": overviews.clients,
        }
        self._clock = clock

    def summarize(self, session: ClientSession, command: Command) -> None:
        """SUMMARIZE."""
        what = command.header(Summarize).what
        rows = self._rows.get(what)
        if rows is None:
            raise Refused(Refusal.PARAMETER_INVALID, f"{what!r} is not a valid summary; write {', '.join(self._rows)}")

        def done(encoded: list[bytes]) -> None:
            try:
                body = b'{"%s":[%s]}' % (what.encode(), b",".join(filter(None, encoded)))
                frame = encode_response(command, ResponseCode.SUCCESS, body=body)
            except LocalProtocolError as error:
                failed(error)
            else:
                session.answer(command, frame)

        def failed(error: GantryError) -> None:
            session.answer(command, encode_response(command, ResponseCode.SYSTEM_ERROR, remark=str(error)))

        gather(self._clock, (b"" if row is None else msgspec.json.encode(row) for row in rows()), done, failed)
