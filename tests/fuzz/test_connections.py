"""The short version of the fuzzing, and properties of a connection's beginning."""

from __future__ import annotations

import asyncio
import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.protocol.command import encode_request, encode_response
from gantrymq.remoting.server import RemotingServer
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.network import Link, Listener, Receiver
from gantrymq.runtime.tls.certificates import ServerCertificates
from gantrymq.runtime.tls.network import TlsNetwork
from gantrymq.runtime.tls.settings import TlsMode
from tests.fuzz.connections import run
from tests.fuzz.inputs import client_hello
from tests.runtime.tls.peers import server_tls
from tests.support.connections import FakeLink

ROUNDS = 15
CODE = 1
SETTINGS = server_tls()
CERTIFICATES = ServerCertificates(SETTINGS)


@pytest.mark.parametrize("users", [False, True], ids=["", "users"])
def test_other_protocols_may_send_anything(users: bool) -> None:
    seed = secrets.randbelow(1 << 32)
    print(f"seed {seed}: python -m tests.fuzz.connections --seed {seed} --rounds {ROUNDS}" + " --users" * users)
    counts = run(seed, range(ROUNDS), users=users)
    assert min(counts[kind] for kind in ("plain", "handshake", "tls")) > 0


class _NoNetwork:
    """Keeps what accepts connections."""

    address = "127.0.0.1:1"

    async def listen(self, host: str, port: int, accept: object, gate: object = None) -> Listener:
        self.accept = accept
        return self

    async def close(self) -> None: ...

    async def connect(self, host: str, port: int, receiver: Receiver, timeout_s: float) -> Link:
        raise NotImplementedError


class _Wire(FakeLink):
    """A link that may be written to when it is closed, as every link may."""

    def write(self, data: bytes) -> None:
        self.written += data


REQUEST = encode_request(CODE, 7)
HELLO = client_hello()
BEGINNINGS = st.sampled_from(
    [b"", b"\x16", REQUEST, REQUEST[:9], HELLO, HELLO[:40], b"\0\0\0\x04\0\0\0\0", b"\xff" * 8]
)


@pytest.mark.parametrize("mode", [TlsMode.PERMISSIVE, TlsMode.ENFORCING])
@given(data=st.lists(BEGINNINGS | st.binary(min_size=1, max_size=80), min_size=1, max_size=6))
def test_a_connection_ends_or_goes_on_whatever_comes(mode: TlsMode, data: list[bytes]) -> None:
    """Nothing is raised to the network; a plain request of an enforcing port is never executed."""
    executed: list[int] = []

    async def test() -> None:
        network = _NoNetwork()
        tls = TlsNetwork(network, SystemClock(), server=CERTIFICATES, mode=mode)

        def handler(session: object, command: object) -> bytes:
            executed.append(1)
            return encode_response(command, 0)  # type: ignore[arg-type]

        server = RemotingServer(tls, SystemClock(), {CODE: handler})
        await server.start("127.0.0.1", 0)
        receiver, wire = network.accept(), _Wire()  # type: ignore[operator]
        receiver.connected(wire)
        for piece in data:
            if piece:
                receiver.received(piece)
        receiver.lost("closed")
        assert not server.sessions
        await server.close()

    asyncio.run(test())
    if mode is TlsMode.ENFORCING:
        assert not executed
    elif b"".join(data).startswith(REQUEST):
        assert executed
