"""A name server as a whole: builds its parts, starts and closes it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from gantrymq.access.counts import Refusals
from gantrymq.access.metrics import declare_access
from gantrymq.nameserver.config import NameServerConfig
from gantrymq.nameserver.kv_config import KVConfig
from gantrymq.nameserver.metrics import metrics_of
from gantrymq.nameserver.processors import Processors
from gantrymq.nameserver.route_table import RouteTable
from gantrymq.observability.event_loop import declare_event_loop
from gantrymq.remoting.server import Handler, RemotingServer
from gantrymq.remoting.session import Session
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Disk
from gantrymq.runtime.limits.client_limits import ClientLimits
from gantrymq.runtime.loop_watch import LoopWatch
from gantrymq.runtime.network import Network
from gantrymq.runtime.tasks import TaskGroupOwner

if TYPE_CHECKING:
    from gantrymq.access.guard import Guard
    from gantrymq.access.opening import Access

log = logging.getLogger("gantrymq.nameserver")

ACCOUNTS_SECONDS: Final = 2.0
"""How often it is looked whether ``plain_acl.yml`` has changed."""


class NameServer:
    """Knows which brokers serve a topic. Only key-values are on disk; everything else is registered by brokers."""

    def __init__(
        self, config: NameServerConfig, network: Network, clock: Clock, disk: Disk, access: Access | None = None
    ) -> None:
        """Raises ConfigError when the key-value file or the file of users cannot be read. ``access``: users of the
        broker in the same process, who are managed there; None: this name server opens its own, if it has users.
        """
        self._config = config
        self._clock = clock
        self._routes = RouteTable()
        self.client_limits: Final = ClientLimits(clock, config.limits)
        """The limits of clients and brokers, and what was refused."""
        kv = KVConfig(disk, config.kv_config_path)
        limits = self.client_limits
        processors = Processors(config, self._routes, kv, clock, lambda config: limits.change(config.limits))
        self._access = access
        self._server = RemotingServer(
            network, clock, self._handlers(processors, disk), closed=self._closed, client_limits=limits
        )  # fmt: skip
        self.loop_watch: Final = LoopWatch(clock, self._server.last_request_text)
        """Measures how long the event loop stands still; whoever runs this name server starts it."""
        self._tasks = TaskGroupOwner("nameserver")
        self.metrics: Final = metrics_of(self._routes, limits, self._server.latency)
        declare_event_loop(self.metrics, self.loop_watch)
        declare_access(self.metrics, Refusals() if self._access is None else self._access.guard.refusals)
        self.address = ""
        """The ``ip:port`` on which it listens; empty before ``start``."""

    def _handlers(self, processors: Processors, disk: Disk) -> Mapping[int, Handler]:
        table, shared = processors.table(), self._access is not None
        if not shared and not self._config.access.is_on:
            return table
        from gantrymq.nameserver.access import behind_guard, open_users  # loaded only where there are users

        self._access = access = self._access or open_users(self._config, disk)
        return behind_guard(table, access, manages=access.managed and not shared)

    @property
    def guard(self) -> Guard | None:
        """What judges the requests of users, for other doors; None without users."""
        return None if self._access is None else self._access.guard

    async def start(self) -> str:
        """Listen and return the address. Raises Unreachable, which names the port, when it is in use."""
        self.address = await self._server.start(self._config.listen_host, self._config.listen_port)
        self._tasks.start("expiry", self._expire())
        if self._access is not None and self._access.reload is not None:
            self._tasks.start("accounts", self._read_accounts(self._access.reload))
        log.info("name server listens on %s", self.address)
        return self.address

    async def close(self) -> None:
        """Close every connection. Harmless when not started."""
        await self._tasks.stop()
        await self._server.close()

    async def _expire(self) -> None:
        while True:
            await self._clock.sleep(self._config.scan_interval_seconds)
            for address in self._routes.expire(self._clock.monotonic()):
                log.warning("broker %s was silent for too long and is removed from the routes", address)

    async def _read_accounts(self, reload: Callable[[], None]) -> None:
        while True:
            await self._clock.sleep(ACCOUNTS_SECONDS)
            reload()

    def _closed(self, session: Session) -> None:
        for address in self._routes.session_closed(session.id):
            log.warning("broker %s is removed from the routes: its connection was closed", address)
