"""The order service: a process whose client threads pay orders, in one of the ways, for some time.

Commands: ``{"first", "count", "clients", "seconds", "rate"}``: numbers of the orders, threads, how long, and how many
orders a second all of them begin at most (0: each begins the next one at once).
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.consistency.roles import commands, say
from benchmarks.consistency.setting import Order, Setting
from benchmarks.consistency.ways import WAYS, Way

PAUSE_AFTER_ERROR_S: Final = 0.05


@dataclass(slots=True)
class Load:
    """What the client threads of one command do, and what they saw."""

    way: Way
    first: int
    count: int
    seconds: float
    rate: float
    begun: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    """When each order was paid, seconds from the beginning."""
    errors: Counter[str] = field(default_factory=Counter)
    numbers: Any = None

    def client(self) -> None:
        while (number := next(self.numbers)) < self.count:
            now = time.perf_counter() - self.begun
            if self.rate and (wait := number / self.rate - now) > 0:
                time.sleep(wait)
            begun = time.perf_counter()
            if begun - self.begun > self.seconds:
                return
            self._pay(Order(self.first + number), begun)

    def _pay(self, order: Order, begun: float) -> None:
        try:
            self.way.pay(order)
        except Exception as error:  # noqa: BLE001 - the database or the broker may be away; that is counted
            self.errors[f"{type(error).__name__}: {str(error).splitlines()[:1]}"[:200]] += 1
            time.sleep(PAUSE_AFTER_ERROR_S)
        else:
            now = time.perf_counter()
            self.latencies_ms.append(round((now - begun) * 1000, 3))
            self.ends.append(round(now - self.begun, 4))

    def run(self, clients: int) -> dict[str, Any]:
        self.numbers = itertools.count()
        threads = [threading.Thread(target=self.client) for _ in range(clients)]
        self.begun = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        elapsed = time.perf_counter() - self.begun
        return {
            "elapsed_s": elapsed, "latencies_ms": self.latencies_ms, "ends": self.ends, "errors": dict(self.errors),
        }  # fmt: skip


def main() -> None:
    name, described = sys.argv[1:]
    way = WAYS[name](Setting.parse(described))
    say(ready=True)
    for command in commands():
        load = Load(way, command["first"], command["count"], command["seconds"], command.get("rate", 0))
        say(**load.run(command["clients"]))


if __name__ == "__main__":
    main()
