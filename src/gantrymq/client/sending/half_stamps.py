"""What a transaction producer adds to the properties of its half messages.

Halves with decisive checkers say which client sent them, so that a broker that was restarted knows which senders have
come back. The client id contains the local address of a connection; it is known from the first connection to a broker
on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.sending.stamps import Stamps
from gantrymq.errors import Unreachable
from gantrymq.message import properties


class HalfStamps:
    """The marks of a transaction, of its group, and of its sender."""

    def __init__(self, endpoint: Endpoint, group: str, *, decisive: bool) -> None:
        self._endpoint = endpoint
        self._marks = {properties.TRANSACTION_PREPARED: "true", properties.PRODUCER_GROUP: group}
        if decisive:
            self._marks[properties.IMMUNE_WHILE_CONNECTED] = group
        self.complete = not decisive
        """Whether nothing has to be found out before the first message."""
        self.stamp = Stamps(endpoint.next_unique_key, self._marks).stamp
        """As of Stamps; take it from here for each message."""

    async def find_out(self, addresses: Iterable[str], deadline: float) -> None:
        """Connect to one of the brokers, unless it was done. When none can be reached by ``deadline`` (monotonic
        seconds), messages do not say who sends them, and this can be tried again."""
        endpoint = self._endpoint
        for address in addresses:
            left_ms = int((deadline - endpoint.clock.monotonic()) * 1000)
            if endpoint.client_id or left_ms <= 0:
                break
            with contextlib.suppress(Unreachable):
                await endpoint.channel(address, left_ms)
        if endpoint.client_id and not self.complete:
            self._marks[properties.SENDING_CLIENT] = endpoint.client_id
            self.stamp = Stamps(endpoint.next_unique_key, self._marks).stamp
            self.complete = True
