"""Says to each controller once a second that this broker lives, and how far its log is. Whoever is silent for ten
seconds, or whose connection to the leader ends, is dead for the controller. Source: ReplicasManager,
BrokerHeartbeatManager."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

from gantrymq.broker.replication.election.controller.calls import Controller, LogEnd
from gantrymq.errors import GantryError
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.tasks import TaskGroupOwner

BEAT_S: Final = 1.0
"""Source: BrokerConfig.brokerHeartbeatInterval."""


class Heartbeats:
    """Of the broker with this number and address. ``log_end``: asked before each of them."""

    def __init__(
        self, controller: Controller, clock: Clock, number: int, address: str, log_end: Callable[[], LogEnd]
    ) -> None:
        self._controller = controller
        self._clock = clock
        self._number = number
        self._address = address
        self._log_end = log_end
        self._tasks = TaskGroupOwner("heartbeats to controllers")

    def start(self) -> None:
        for address in self._controller.addresses:
            self._tasks.start(f"heartbeats to {address}", self._run(address))

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _run(self, controller: str) -> None:
        while True:
            # The election says what is wrong with the controller, and the next heartbeat connects again.
            with contextlib.suppress(GantryError):
                await self._controller.beat(controller, self._number, self._address, self._log_end())
            await self._clock.sleep(BEAT_S)
