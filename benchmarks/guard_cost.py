"""``python -m benchmarks.guard_cost``: what watching and guarding cost a broker for each message.

One broker for each variant runs in this process without sockets, as in ``benchmarks.broker_cost``. The variants take
turns, round by round, so that all of them meet the same moments of a busy machine. Of each turn the processor time of a
variant is divided by that of the broker without guards; the median of these ratios is the result.

| guard | off | on |
|---|---|---|
| metrics | what is counted only for metrics is not counted | it is; all is read every ``--scrape`` messages |
| tls | plain bytes | TLS 1.3; only the broker's side is counted |
| limits | no limit of requests | each request is counted against a limit that is never reached |
| signed | no users | each request is signed by a user; signing is not counted |
| permissions | no users | the same, and a policy must allow it |
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import logging
import os
import shutil
import ssl
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from benchmarks.broker_cost import FIRST_USER, FORMS, HEARTBEAT, ROUND, Peer, account_of
from benchmarks.no_network import NoNetwork
from gantrymq.broker.broker import Broker
from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.metrics.counters import MessageCounters
from gantrymq.cli.serving.running import GC_THRESHOLDS
from gantrymq.observability.metrics import Histogram
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import encode_request
from gantrymq.remoting.latency import RequestLatency
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.network import Network
from gantrymq.runtime.rng import SystemRng
from gantrymq.runtime.tls.certificates import ServerCertificates
from gantrymq.runtime.tls.network import TlsNetwork
from gantrymq.runtime.tls.settings import ServerTls, TlsMode

NEVER_REACHED: Final = 1_000_000_000
"""Requests per second."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A broker with some guards."""

    name: str
    metrics: bool = False
    tls: bool = False
    limits: bool = False
    users: bool = False
    policies: bool = False


VARIANTS: Final = (
    Variant("none"),
    Variant("metrics", metrics=True),
    Variant("tls", tls=True),
    Variant("limits", limits=True),
    Variant("signed", users=True),
    Variant("permissions", users=True, policies=True),
    Variant("all", metrics=True, tls=True, limits=True, users=True, policies=True),
)


class SecurePeer(Peer):
    """The client with TLS. Its own work for TLS is not counted."""

    def __init__(self, *arguments: Any) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._tls = context.wrap_bio(self._in, self._out)
        super().__init__(*arguments)
        for _ in range(3):
            with contextlib.suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()
            self._session.received(self._out.read() or b"")
            for part in self._wire.out:
                self._in.write(part)
            self._wire.out.clear()
            if self._tls.version() is not None and not self._out.pending:
                break

    def to_broker(self, data: bytes) -> bytes:
        if data:
            self._tls.write(data)
        return self._out.read()

    def from_broker(self, data: bytes) -> bytes:
        self._in.write(data)
        plain: list[bytes] = []
        with contextlib.suppress(ssl.SSLWantReadError):
            while piece := self._tls.read(1 << 18):
                plain.append(piece)
        return b"".join(plain)


class Runner:
    """A broker, and who sends to it."""

    def __init__(self, variant: Variant, broker: Broker, peer: Peer, chosen: argparse.Namespace) -> None:
        self.variant = variant
        self._broker = broker
        self._peer = peer
        self._chosen = chosen
        self._since_scrape = 0

    async def round(self) -> float:
        """Microseconds of the broker for one message."""
        peer, batch = self._peer, self._chosen.batch
        before = peer.spent_s
        with _metrics(self.variant.metrics):
            for _ in range(ROUND // batch):
                if self._chosen.kind == "transaction":
                    await peer.transactions(batch, one_way=False)
                else:
                    await peer.plain(batch)
        self._since_scrape += ROUND
        if self.variant.metrics and self._since_scrape >= self._chosen.scrape:
            self._since_scrape = 0
            peer.spent_s += _seconds(lambda: list(self._broker.metrics.families()))
        spent_s = peer.spent_s - before
        return float(spent_s / (ROUND // batch * batch) * 1e6)


def _seconds(work: Callable[[], object]) -> float:
    started = time.thread_time()
    work()
    return time.thread_time() - started


@contextlib.contextmanager
def _metrics(on: bool) -> Iterator[None]:
    """Without them, what is counted only for them is not counted."""
    counting = (
        (MessageCounters, "got"), (Histogram, "observe"), (RequestLatency, "answered"), (RequestLatency, "executed"),
    )  # fmt: skip
    with contextlib.ExitStack() as off:
        for owner, name in () if on else counting:
            off.enter_context(patch.object(owner, name, lambda *_: None))
        yield


@asynccontextmanager
async def running(variant: Variant, chosen: argparse.Namespace, root: Path) -> AsyncIterator[Runner]:
    bare = NoNetwork()
    network: Network = bare
    if variant.tls:
        settings = ServerTls(mode=TlsMode.ENFORCING, cert_path=chosen.cert, key_path=chosen.key)
        network = TlsNetwork(bare, SystemClock(), server=ServerCertificates(settings), mode=settings.mode)
    config = BrokerConfig.of(
        store_path_root_dir=str(root / variant.name), listen_port=0, bind_address="127.0.0.1",
        flush_disk_type="ASYNC_FLUSH", disk_space_warning_level_ratio=100, mapped_file_size_commit_log=64 << 20,
        max_requests_per_second=NEVER_REACHED if variant.limits else 0,
        authentication_enabled=variant.users, authorization_enabled=variant.policies,
        init_authentication_user=FIRST_USER if variant.users else "",
    )  # fmt: skip
    broker = Broker(config, network, SystemClock(), SystemRng(), OsDisk())
    await broker.start()
    try:
        kind = SecurePeer if variant.tls else Peer
        peer = kind(bare, FORMS[chosen.form], chosen.size, None, account_of(broker))
        await peer.ask(encode_request(RequestCode.HEART_BEAT, 1, body=HEARTBEAT), 1)
        yield Runner(variant, broker, peer, chosen)
    finally:
        await broker.close()


async def measure(chosen: argparse.Namespace) -> dict[str, Any]:
    scratch = Path(tempfile.mkdtemp(prefix="gantry-guards-", dir=chosen.dir))
    try:
        async with AsyncExitStack() as stack:
            runners = [await stack.enter_async_context(running(variant, chosen, scratch)) for variant in VARIANTS]
            for runner in runners:
                await runner.round()
            costs: dict[str, list[float]] = {variant.name: [] for variant in VARIANTS}
            for turn in range(max(1, chosen.count // ROUND)):
                for number in range(len(runners)):  # each is the first one as often as any other
                    runner = runners[(turn + number) % len(runners)]
                    costs[runner.variant.name].append(await runner.round())
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    bare = costs["none"]
    return {
        name: {
            "best_us": round(min(found), 2),
            "median_us": round(statistics.median(found), 2),
            "ratio": round(statistics.median(one / other for one, other in zip(found, bare, strict=True)), 3),
            "ratio_of_best": round(min(found) / min(bare), 3),
        }
        for name, found in costs.items()
    }


def main() -> None:
    files = Path(__file__).resolve().parents[1] / "tests" / "runtime" / "tls" / "files"
    arguments = argparse.ArgumentParser(
        prog="python -m benchmarks.guard_cost",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments.add_argument("--kind", choices=("transaction", "plain"), default="transaction")
    arguments.add_argument("--form", choices=tuple(FORMS), default="binary", help="form of the headers")
    arguments.add_argument("--batch", type=int, default=32, help="frames that one read brings")
    arguments.add_argument("--size", type=int, default=128, help="bytes of a body")
    arguments.add_argument("--count", type=int, default=20_480, help="messages of each variant")
    arguments.add_argument("--scrape", type=int, default=20_480, help="messages between two readings of all metrics")
    arguments.add_argument("--dir", default="/dev/shm", help="where the stores are made; memory, no disk is measured")
    arguments.add_argument("--cert", default=str(files / "server.pem"))
    arguments.add_argument("--key", default=str(files / "server.key"))
    arguments.add_argument("--json", action="store_true")
    chosen = arguments.parse_args()
    logging.disable(logging.CRITICAL)
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    found = asyncio.run(measure(chosen))
    if chosen.json:
        print(json.dumps({"kind": chosen.kind, "batch": chosen.batch, "load": os.getloadavg()[0], "guards": found}))
        return
    print(f"{chosen.kind}, {chosen.batch} frames a read, {chosen.size} bytes; load {os.getloadavg()[0]:.1f}")
    print(f"{'guards':10} {'median us':>10} {'best us':>9} {'ratio':>7} {'of best':>8}")
    for name, cost in found.items():
        figures = f"{cost['median_us']:10.2f} {cost['best_us']:9.2f} {cost['ratio']:7.3f} {cost['ratio_of_best']:8.3f}"
        print(f"{name:10} {figures}")


if __name__ == "__main__":
    main()
