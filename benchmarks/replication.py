"""``python -m benchmarks.replication``: what a replica costs under Apache's benchmark programs, 32 threads, in ratios.

| name   | primary                                     | replica                     |
|--------|---------------------------------------------|-----------------------------|
| alone  | ours, ASYNC_MASTER                          | none                        |
| pair   | ours, SYNC_MASTER                           | ours                        |
| apache | Apache's, SYNC_MASTER, ``inSyncReplicas=2`` | Apache's                    |

Everything shares the cores of this machine, the replica too. Each set-up runs alone, one after the other, as often as
there are turns; the figures are the medians. ``--compiled`` measures the compiled core.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from benchmarks import apache, own_broker, processes
from benchmarks.apache import NotPossible
from benchmarks.processes import Running
from benchmarks.samples import sampler
from gantrymq.demo.ports import free_port

NAMES: Final = ("alone", "pair", "apache")
KINDS: Final = ("plain", "transaction")
THREADS: Final = 32
GOALS: Final = (
    ("pair of alone, plain", ("pair", "alone", "plain"), 0.6),
    ("pair of alone, transactions", ("pair", "alone", "transaction"), 0.75),
    ("pair of Apache's pair, plain", ("pair", "apache", "plain"), 2.0),
    ("pair of Apache's pair, transactions", ("pair", "apache", "transaction"), 2.0),
)
FOLLOWS_S: Final = 20.0
"""Until a replica follows: Apache's looks for its primary every few seconds."""
Environment = Mapping[str, str | None] | None


def broker_conf(directory: Path, flush: str, name_server: str, port: int, role: str, number: int) -> Path:
    """The settings of both kinds of brokers."""
    directory.mkdir(parents=True)
    path = apache.broker_conf(directory, flush, name_server, port)
    more = {
        "brokerRole": role, "brokerId": number, "haListenPort": port + 1, "inSyncReplicas": 2, "slaveTimeout": 3000,
    }  # fmt: skip
    kept = [line for line in path.read_text().splitlines() if line.partition("=")[0] not in more]
    path.write_text("\n".join([*kept, *(f"{key}={value}" for key, value in more.items())]) + "\n")
    return path


@contextlib.contextmanager
def set_up(name: str, lib: apache.Jars, root: Path, flush: str, environment: Environment) -> Iterator[Running]:
    """Name server, primary and perhaps a replica."""
    root.mkdir(parents=True)
    home, log = root / "home", root / "output.log"
    home.mkdir()
    own = [f"-Duser.home={home}"]
    name_port = free_port()
    name_server = f"127.0.0.1:{name_port}"
    ours = [sys.executable, "-m", "gantrymq.cli.main"]

    def broker(conf: Path) -> list[str]:
        if name != "apache":
            return [*ours, "broker", "-c", str(conf), "--log-level", "warning"]
        return apache.java_command(
            lib.server, [*apache.BROKER_HEAP, *own], "org.apache.rocketmq.broker.BrokerStartup", "-c", str(conf)
        )

    with contextlib.ExitStack() as stack:
        names = [*ours, "nameserver", "--listen-port", str(name_port), "--log-level", "warning"]
        process = stack.enter_context(apache.child(names, log, environment=environment))
        processes.await_route(name_port, process, time.monotonic(), log, expect=None)
        role = "ASYNC_MASTER" if name == "alone" else "SYNC_MASTER"
        port = free_port()
        conf = broker_conf(root / "primary", flush, name_server, port, role, 0)
        started = time.monotonic()
        primary = stack.enter_context(apache.child(broker(conf), log, home, environment))
        processes.await_route(name_port, primary, started, log)
        start_s = time.monotonic() - started
        if name != "alone":
            conf = broker_conf(root / "replica", flush, name_server, free_port(), "SLAVE", 1)
            stack.enter_context(apache.child(broker(conf), log, home, environment))
            time.sleep(FOLLOWS_S)
        yield Running(name_server, primary.pid, start_s, f"127.0.0.1:{port}")


def per_second(lib: apache.Jars, kind: str, running: Running, size: int, directory: Path, lines: int) -> float:
    """Of the last reports of Apache's program; the first one warms up. Raises NotPossible when sends failed."""
    directory.mkdir(parents=True, exist_ok=True)
    with apache.client(lib, kind, running, f"Bench{kind}", size, THREADS, directory, json=False) as client:
        sample = sampler(running, frozenset(os.sched_getaffinity(0)), [client.pid])
        found = apache.follow(kind, client.output, sample, lines + 1)[1:]
    if any(line.failed for line in found):
        raise NotPossible(f"sends failed: {apache.complaints(directory)}")
    return statistics.mean(line.per_second for line in found)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.replication",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--turns", type=int, default=3, help="how often each set-up is measured")
    parser.add_argument("--lines", type=int, default=2, help="reports of 10 s that count in each turn")
    parser.add_argument("--size", type=int, default=128, help="bytes of a body")
    parser.add_argument("--flush", choices=("async", "sync"), default="async", help="of all brokers")
    parser.add_argument("--compiled", action="store_true", help="our brokers run the compiled core")
    parser.add_argument("--only", choices=NAMES, action="append", help="these set-ups; default: all, with ratios")
    given = parser.parse_args()
    names = given.only or NAMES
    found: dict[tuple[str, str], list[float]] = {(name, kind): [] for name in names for kind in KINDS}
    try:
        lib = apache.jars()
        environment = (
            own_broker.compiled_environment(os.environ) if given.compiled else dict(own_broker.PURE_ENVIRONMENT)
        )
        with tempfile.TemporaryDirectory(prefix="gantry-bench-") as scratch:
            for turn in range(given.turns):
                for name in names:
                    root = Path(scratch) / f"{name}-{turn}"
                    with set_up(name, lib, root, given.flush, environment) as running:
                        for kind in KINDS:
                            rate = per_second(lib, kind, running, given.size, root / "client", given.lines)
                            found[name, kind].append(rate)
                            load = os.getloadavg()[0]
                            print(f"turn {turn + 1}, {name}, {kind}: {rate:,.0f}/s, load {load:.1f}", flush=True)
    except NotPossible as error:
        print(f"not possible: {error}", file=sys.stderr)
        return 2
    median = {key: statistics.median(values) for key, values in found.items()}
    for name in names:
        print(f"{name}: " + ", ".join(f"{median[name, kind]:,.0f} {kind}/s" for kind in KINDS))
    for what, (one, other, kind), goal in GOALS:
        if {one, other} - set(names):
            continue
        ratio = median[one, kind] / median[other, kind]
        print(f"{what}: {ratio:.2f} (goal {goal}{'' if ratio >= goal else ', NOT reached'})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
