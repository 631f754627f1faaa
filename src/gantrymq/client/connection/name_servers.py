"""The name servers of a client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gantrymq.errors import GantryError, Unreachable
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Command, Header
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.several import Several
from gantrymq.runtime.clock import Clock

_ADVICE: Final = "start one there with `gantry server`, or correct name_servers"


class NameServers:
    """Any of them can answer. The one that answered last is asked first; see ``Several``."""

    def __init__(self, remoting: RemotingClient, clock: Clock, addresses: Sequence[str], timeout_ms: int) -> None:
        self._several = Several(remoting, clock, addresses)
        self._timeout_ms = timeout_ms

    async def ask(self, code: RequestCode, header: Header | None = None, body: bytes = b"") -> Command:
        """The answer, whatever its code. When no name server answers, raises Unreachable, which says what to do."""
        try:
            return await self._several.ask(code, header, body, timeout_ms=self._timeout_ms)
        except GantryError as error:
            if not error.retryable:
                raise
            places = ", ".join(sorted(self._several.addresses))
            if isinstance(error, Unreachable):
                reason, advice = error.reason, error.advice or _ADVICE
            else:
                reason, advice = "it does not answer", _ADVICE
            raise Unreachable(places, f"no name server answers there ({reason})", advice) from error
