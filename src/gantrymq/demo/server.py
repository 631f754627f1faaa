"""The demo's server: ``gantry server`` as a process of its own, killed and started again on the same store."""

from __future__ import annotations

import sys

from gantrymq import Admin
from gantrymq.demo.layout import TOPIC, Layout
from gantrymq.demo.processes import Child, DemoFailed, Watchdog, is_listening
from gantrymq.errors import GantryError
from gantrymq.runtime.clock import SystemClock

START_SECONDS = 30
END_SECONDS = 15
LOOK_SECONDS = 0.05
TOPIC_QUEUES = 4
DOWN_SECONDS = 4.0
"""The time between the kill and the restart of the broker. A send gives up earlier, so the order service must repeat
it."""


class Server:
    """Name server and broker in one process."""

    def __init__(self, layout: Layout, name_server_port: int, broker_port: int, watchdog: Watchdog) -> None:
        self._layout = layout
        self._ports = (name_server_port, broker_port)
        self._watchdog = watchdog
        self._clock = SystemClock()
        self._child: Child | None = None
        self.kills = 0
        self.name_servers = f"127.0.0.1:{name_server_port}"

    def start(self) -> None:
        command = [sys.executable, "-m", "gantrymq.cli.main", "server", "-c", str(self._layout.broker_conf)]
        command += ["--log-level", "info"]
        self._child = Child("server", command, self._layout.logs / "server.log", self._watchdog)

    @property
    def child(self) -> Child:
        if self._child is None:
            raise DemoFailed("the server was not started")
        return self._child

    def is_ready(self) -> bool:
        """Whether both ports answer. Raises DemoFailed when the process has ended."""
        self.child.check_alive()
        return all(is_listening(port) for port in self._ports)

    def wait_until_ready(self) -> None:
        deadline = self._clock.monotonic() + START_SECONDS
        while not self.is_ready():
            if self._clock.monotonic() > deadline:
                raise self.child.failure(f"did not listen on ports {self._ports} within {START_SECONDS} s")
            self._clock.block(LOOK_SECONDS)

    def create_topic(self) -> None:
        """Create the topic of type TRANSACTION. It is tried until the broker has registered with the name server."""
        deadline = self._clock.monotonic() + START_SECONDS
        while True:
            try:
                with Admin(name_servers=self.name_servers) as admin:
                    admin.create_topic(TOPIC, queues=TOPIC_QUEUES, message_type="TRANSACTION")
                return
            except GantryError as error:
                if self._clock.monotonic() > deadline:
                    raise DemoFailed(f"the topic {TOPIC} could not be created: {error}") from error
                self._clock.block(LOOK_SECONDS)

    def kill(self) -> None:
        self.child.kill()
        self.kills += 1

    def end(self) -> None:
        self.child.end(END_SECONDS)


class Outage:
    """Kills the broker once, and starts it again."""

    def __init__(self, server: Server, at: int) -> None:
        self._server = server
        self._at = at
        self._back_at: float | None = None

    def step(self, now: float, decided: int) -> str | None:
        """Do what is due after ``decided`` orders at ``now`` (monotonic seconds), and return a description of it.

        Raises DemoFailed when the server has ended unexpectedly.
        """
        if self._back_at is not None:
            return self._restart() if now >= self._back_at else None
        if self._server.kills == 0 and decided >= self._at:
            self._server.kill()
            self._back_at = now + DOWN_SECONDS
            return f"killed the broker after {decided} orders"
        self._server.child.check_alive()
        return None

    def finish(self) -> None:
        """Start the server again if it is still down."""
        if self._back_at is not None:
            self._restart()

    def _restart(self) -> str:
        self._back_at = None
        self._server.start()
        return "started the broker again on the same store"
