"""The door of a broker for code in the same process: values in, values out, no frames. ``LocalDoor`` is its client."""

from __future__ import annotations

from typing import Final

from gantrymq.broker.client import Connection
from gantrymq.broker.door import Ground, Served
from gantrymq.broker.refusal import Refusal, Refused


class InProcessDoor:
    """Hands the broker to whoever asks in this process."""

    name: Final = "in process"
    address: Final = ""

    def __init__(self, ground: Ground) -> None:
        self._broker: Served | None = None

    @property
    def broker(self) -> Served:
        """Raises Refused while the broker starts or stops."""
        if self._broker is None:
            raise Refused(Refusal.UNAVAILABLE, "the broker is starting or shutting down")
        return self._broker

    async def listen(self) -> None:
        """There is no port."""

    def serve(self, broker: Served) -> None:
        self._broker = broker

    async def refuse(self) -> None:
        self._broker = None

    async def close(self) -> None:
        self._broker = None

    def forget(self, client: Connection) -> None:
        """Whatever its clients are asked is answered at once."""

    def last_request(self) -> str:
        return ""
