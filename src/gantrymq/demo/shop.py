"""The worker processes of the order service: members of one producer group, which are killed and replaced by plan."""

from __future__ import annotations

import sys

from gantrymq.demo.layout import GROUP, TOPIC, Layout
from gantrymq.demo.plan import KILLED, Plan
from gantrymq.demo.processes import Child, DemoFailed, Watchdog

WORKERS = 3
"""At least two, so that another member of the group is alive when one is killed."""
END_SECONDS = 10
SILENT = {
    "committed_and_silent": "between its local commit and the end of its transaction",
    "uncommitted_and_silent": "just before its local commit",
}
"""Events after which a worker is killed."""


class Shop:
    """The workers. Call ``step`` often; it kills workers according to the plan."""

    def __init__(self, layout: Layout, plan: Plan, seed: int, name_servers: str, watchdog: Watchdog) -> None:
        self._layout = layout
        self._plan = plan
        self._seed = seed
        self._name_servers = name_servers
        self._watchdog = watchdog
        self._workers: dict[int, Child] = {}
        self._finished: set[int] = set()
        self._limit = 0
        self.kills: list[str] = []
        """Orders whose producer was killed just before or after the commit of the payment."""
        self.failed_sends = 0

    def start(self) -> None:
        for share in range(WORKERS):
            self._start(share)

    def _start(self, share: int) -> None:
        command = [sys.executable, "-m", "gantrymq.demo.order_service", "--name-servers", self._name_servers]
        command += ["--topic", TOPIC, "--group", GROUP, "--database", str(self._layout.orders_db)]
        command += ["--orders", str(len(self._plan.fates)), "--seed", str(self._seed)]
        command += ["--share", str(share), "--shares", str(WORKERS), "--unharmed", *self.kills]
        log = self._layout.logs / f"order-service-{share}.log"
        worker = Child(f"order service {share}", command, log, self._watchdog)
        self._workers[share] = worker
        worker.say(f"limit {self._limit}")

    def raise_limit(self, limit: int) -> None:
        """Let the workers pay the orders below ``limit``."""
        if limit > self._limit:
            self._limit = limit
            for worker in self._workers.values():
                worker.say(f"limit {limit}")

    def step(self) -> list[str]:
        """Check the workers, and return what was killed now. Raises DemoFailed when a worker ended unexpectedly."""
        killed = []
        for share, worker in list(self._workers.items()):
            if silent := self._follow(share, worker):
                self.kills += silent
                self._kill_and_replace(share, worker)
                killed += [f"killed the producer of {order} {moment}" for order, moment in silent.items()]
            else:
                worker.check_alive()
        return killed

    def _follow(self, share: int, worker: Child) -> dict[str, str]:
        """Orders whose message this worker will not decide any more, and at which moment it fell silent."""
        silent = {}
        for event in worker.events():
            if event["event"] in SILENT:
                silent[str(event["order"])] = SILENT[event["event"]]
            elif event["event"] == "send_failed":
                self.failed_sends += 1
            elif event["event"] == "finished":
                self._finished.add(share)
            elif event["event"] == "gave_up":
                raise worker.failure(f"could not pay order {event['order']}")
        return silent

    def _kill_and_replace(self, share: int, worker: Child) -> None:
        worker.kill()
        self._finished.discard(share)
        self._start(share)

    @property
    def finished(self) -> bool:
        """Whether every worker has decided its orders. The workers continue to answer check-backs."""
        return len(self._finished) == WORKERS

    def check_kills(self) -> None:
        """Raise DemoFailed unless every kill of the plan has happened."""
        wanted = self._plan.count(*KILLED)
        if len(self.kills) != wanted:
            raise DemoFailed(f"the plan has {wanted} producer kills, but {len(self.kills)} happened")

    def end(self) -> None:
        for worker in self._workers.values():
            worker.say("stop")
        for worker in self._workers.values():
            worker.wait(END_SECONDS)
            worker.kill()
