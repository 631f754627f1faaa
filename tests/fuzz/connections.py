"""``python -m tests.fuzz.connections``: strangers send anything to a broker and a name server, with TLS and without.

With ``--users`` the broker has users, and half of the requests are signed, with right and wrong secrets.

After every round: both servers answer others, over connections that were open all the time; no connection is left, in
the limits and in the list of sessions; nothing was logged as a defect and nothing reached the event loop. The seed is
printed; with ``--seed`` and ``--round`` one round is played again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import random
import secrets
import ssl
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from gantrymq.broker.broker import Broker
from gantrymq.nameserver.config import NameServerConfig
from gantrymq.nameserver.nameserver import NameServer
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.signature import Account
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.addresses import split_address
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.limits.client_limits import ClientLimits
from gantrymq.runtime.limits.refusals import Reason
from gantrymq.runtime.network import TcpNetwork
from gantrymq.runtime.rng import SystemRng
from gantrymq.runtime.tls.certificates import client_context
from tests.fuzz.inputs import Inputs
from tests.runtime.tls.peers import client_side, client_tls, server_side, server_tls
from tests.support.brokers import broker_config
from tests.support.doors import remoting

STRANGERS: Final = 12
"""Connections of a round, which are open at the same time."""
WITNESSES: Final = 2
"""Connections to each server that are open all the time: one plain, one with TLS."""
PATIENCE_S: Final = 0.02
"""How long a stranger waits for answers after it has sent everything."""
ROUND_SECONDS: Final = 60.0
FIRST_USER: Final = '{"username":"admin","password":"admin-secret"}'
ACCOUNTS: Final = (
    Account("admin", "admin-secret"),
    Account("admin", "wrong"),
    Account("nobody", "x"),
    Account("ä", "☃"),
)


class Failed(Exception):
    """A round that a server did not survive as it should."""


class Defects(logging.Handler):
    """What servers log as a defect."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {record.exc_info[1]!r}"
        self.found.append(text)


class Target:
    """A server, and who asks it all the time."""

    def __init__(
        self,
        address: str,
        client_limits: ClientLimits,
        question: RequestCode,
        sessions: Any,
        account: Account | None = None,
    ) -> None:
        self.address = address
        self.client_limits = client_limits
        self._question = question
        self._sessions = sessions
        self._witnesses = [
            RemotingClient(network, SystemClock(), SystemRng(), account=account)
            for network in (TcpNetwork(), client_side(client_tls()))
        ]

    async def check(self) -> None:
        """Raises Failed when somebody is not answered, or a connection is left."""
        for witness in self._witnesses:
            answer = await witness.call(self.address, self._question, timeout_ms=20_000)
            if answer.code != 0:
                raise Failed(f"{self.address} answers a witness with {answer.code}: {answer.remark}")
        async with asyncio.timeout(ROUND_SECONDS):
            while (self.client_limits.connections.count, len(self._sessions())) != (WITNESSES, WITNESSES):
                await asyncio.sleep(0.005)
        if self.client_limits.bytes.total:
            raise Failed(f"{self.client_limits.bytes.total} bytes are counted, and nobody has them")

    async def close(self) -> None:
        for witness in self._witnesses:
            await witness.close()


async def stranger(target: Target, inputs: Inputs, rng: random.Random, context: ssl.SSLContext) -> str:
    """One connection, from its beginning to its end. Returns what it was."""
    host, port = split_address(target.address)
    kind = rng.choice(("plain", "handshake", "tls"))
    pieces = inputs.handshake() if kind == "handshake" else inputs.plain()
    if kind != "handshake" and rng.random() < 0.3:
        pieces.append(inputs.mutated_header())
    leaves, waits = rng.choice(("close", "reset", "end of file")), rng.random() < 0.7
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        reader, writer = await asyncio.open_connection(host, port, ssl=context if kind == "tls" else None)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            if rng.random() < 0.2:
                await asyncio.sleep(0)
        if waits:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    while await reader.read(1 << 16):
                        pass
        if leaves == "end of file" and kind != "tls":
            writer.write_eof()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    await reader.read(1 << 16)
        if leaves == "reset":
            writer.transport.abort()
        writer.close()
    return kind


async def fuzz(seed: int, rounds: range, directory: Path, users: bool) -> Counter[str]:
    """Raises Failed, which says how to play the round again."""
    problems: list[str] = []
    defects = Defects()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(str(context)))
    logging.getLogger("gantrymq").addHandler(defects)
    context = client_context(client_tls())
    counts: Counter[str] = Counter()
    try:
        async with servers(directory, users) as targets:
            for number in rounds:
                rng = random.Random(f"{seed}.{number}")
                inputs = Inputs(rng, ACCOUNTS if users else ())
                try:
                    async with asyncio.timeout(ROUND_SECONDS):
                        kinds = [stranger(rng.choice(targets), inputs, rng, context) for _ in range(STRANGERS)]
                        counts.update(await asyncio.gather(*kinds))
                        for target in targets:
                            await target.check()
                    if problems or defects.found:
                        raise Failed("; ".join(problems + defects.found))
                except (Failed, Exception) as error:
                    again = f"python -m tests.fuzz.connections --seed {seed} --round {number}" + " --users" * users
                    raise Failed(f"{error!r}\nagain: {again}") from error
            for target in targets:
                refused = target.client_limits.refusals.counts
                counts.update({f"refused because of {reason}": refused[reason] for reason in Reason})
    finally:
        logging.getLogger("gantrymq").removeHandler(defects)
    return counts


@contextlib.asynccontextmanager
async def servers(directory: Path, users: bool) -> AsyncIterator[list[Target]]:
    network, clock, rng, disk = server_side(server_tls()), SystemClock(), SystemRng(), OsDisk()
    names = NameServer(NameServerConfig(listen_host="127.0.0.1", listen_port=0), network, clock, disk)
    config = broker_config(
        directory, flush_disk_type="ASYNC_FLUSH", authentication_enabled=users, authorization_enabled=users,
        init_authentication_user=FIRST_USER if users else "",
    )  # fmt: skip
    broker = Broker(config, network, clock, rng, disk)
    targets: list[Target] = []
    async with contextlib.AsyncExitStack() as stack:
        await names.start()
        stack.push_async_callback(names.close)
        await broker.start()
        stack.push_async_callback(broker.close)
        targets = [
            Target(names.address, names.client_limits, RequestCode.GET_NAMESRV_CONFIG, lambda: names._server.sessions),
            Target(
                broker.address,
                broker.client_limits,
                RequestCode.GET_BROKER_CONFIG,
                lambda: remoting(broker).server.sessions,
                ACCOUNTS[0] if users else None,
            ),
        ]
        for target in targets:
            stack.push_async_callback(target.close)
        yield targets


def run(seed: int, rounds: range, *, users: bool = False) -> Counter[str]:
    """Play rounds. The counts: strangers by kind, and what the servers refused."""
    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(fuzz(seed, rounds, Path(directory), users))


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m tests.fuzz.connections", description=__doc__)
    arguments.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    arguments.add_argument("--rounds", type=int, default=1000)
    arguments.add_argument("--round", type=int, help="only this one")
    arguments.add_argument("--users", action="store_true", help="the broker has users and permissions")
    chosen = arguments.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    logging.getLogger("gantrymq").setLevel(logging.ERROR)
    logging.getLogger("gantrymq").propagate = False
    rounds = range(chosen.rounds) if chosen.round is None else range(chosen.round, chosen.round + 1)
    try:
        counts = run(chosen.seed, rounds, users=chosen.users)
    except Failed as error:
        sys.exit(str(error))
    print(f"{len(rounds)} rounds: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))


if __name__ == "__main__":
    main()
