"""Who follows proves who it is: before a byte is sent to it, and before its reports count."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.access.directory import Content, Directory
from gantrymq.access.guard import Guard
from gantrymq.access.values import User, UserKind
from gantrymq.broker.broker import Broker
from gantrymq.broker.replication import auto_switch
from gantrymq.broker.replication.authentication import (
    ASK,
    Demand,
    NotLetIn,
    PrimaryAuthentication,
    ReplicaAuthentication,
    State,
)
from gantrymq.broker.replication.election.record import Record
from gantrymq.broker.replication.election.record_store import NEVER, Held
from gantrymq.broker.replication.frames import FrameReader, encode_report
from gantrymq.demo.ports import free_port
from gantrymq.errors import ConfigError, RemoteProtocolError
from gantrymq.message.replication import FollowState
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.signature import Account
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.network import Network, TcpNetwork
from gantrymq.runtime.rng import SystemRng
from gantrymq.runtime.tls.certificates import ServerCertificates, client_context
from gantrymq.runtime.tls.network import TlsNetwork
from gantrymq.runtime.tls.settings import TlsMode
from tests.runtime.tls.peers import client_tls, server_tls
from tests.support.brokers import Cluster, broker_config, until

INNER = ("inner", "inner-secret")
TOKEN = SystemRng().token
SYNC: dict[str, Any] = {"broker_role": "SYNC_MASTER", "slave_timeout": 400}


def account(name: str = INNER[0], secret: str = INNER[1]) -> str:
    return json.dumps({"accessKey": name, "secretKey": secret})


USERS: dict[str, Any] = {"authentication_enabled": True, "inner_client_authentication_credentials": account()}


# ---- the rules


def guard() -> Guard:
    users = {
        "inner": User("inner", "inner-secret", UserKind.SUPER), "shop": User("shop", "shop-secret", UserKind.NORMAL),
        "off": User("off", "off-secret", UserKind.SUPER, enabled=False),
    }  # fmt: skip
    return Guard(Directory(Content(users), lambda _: None), "c", authorize=False)


def demand(**more: Any) -> Demand:
    return Demand(**{"guard": guard(), "token": TOKEN, **more})


def played(
    primary: PrimaryAuthentication, replica: ReplicaAuthentication, size: int, behind: bytes = b""
) -> tuple[bytes, bytes]:
    """Let both speak, in pieces of ``size`` bytes. Returns what each has for the HA protocol. ``behind``: what the
    replica says when it is in."""
    to_primary, to_replica, at_primary, at_replica = replica.ask(), b"", b"", b""
    said = False
    while to_primary or to_replica:
        piece, to_primary = to_primary[:size], to_primary[size:]
        if piece:
            answer, rest = primary.feed(piece)
            to_replica, at_primary = to_replica + answer, at_primary + rest
        piece, to_replica = to_replica[:size], to_replica[size:]
        if piece:
            answer, rest = replica.feed(piece)
            to_primary, at_replica = to_primary + answer, at_replica + rest
        if replica.state is State.IN and not said:
            said, to_primary = True, to_primary + behind
    return at_primary, at_replica


@given(st.integers(1, 80), st.booleans())
def test_however_it_is_cut_both_know_each_other(size: int, needed: bool) -> None:
    primary = PrimaryAuthentication(demand() if needed else Demand(), "10.0.0.1")
    replica = ReplicaAuthentication(Account(*INNER), TOKEN, other_primaries=True)
    assert played(primary, replica, size, encode_report(7)) == (encode_report(7), b"")
    assert primary.state is replica.state is State.IN
    assert (primary.user is not None) is needed


@pytest.mark.parametrize(
    ("name", "secret", "words"),
    [
        ("inner", "guessed", "the signature of inner is wrong"),
        ("nobody", "inner-secret", "there is no user 'nobody'"),
        ("shop", "shop-secret", "has to be a super user"),
        ("off", "off-secret", "is disabled"),
        ("", "", "not signed"),
    ],
)
def test_who_does_not_know_the_secret_of_a_super_user_is_told_why(name: str, secret: str, words: str) -> None:
    primary = PrimaryAuthentication(demand(), "10.0.0.1")
    replica = ReplicaAuthentication(Account(name, secret), TOKEN, other_primaries=False)
    challenge, _ = primary.feed(replica.ask())
    proof, _ = replica.feed(challenge)
    with pytest.raises(NotLetIn, match=words) as refused:
        primary.feed(proof)
    assert primary.state is not State.IN
    with pytest.raises(RemoteProtocolError, match=words):
        replica.feed(refused.value.answer)


@given(st.data())
def test_each_other_byte_of_a_proof_is_refused(data: st.DataObject) -> None:
    primary = PrimaryAuthentication(demand(), "10.0.0.1")
    proof = bytearray(
        ReplicaAuthentication(Account(*INNER), TOKEN, other_primaries=False).feed(primary.feed(ASK)[0])[0]
    )
    proof[data.draw(st.integers(2, len(proof) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(NotLetIn):
        primary.feed(bytes(proof))


def test_a_proof_that_was_heard_is_of_no_use() -> None:
    rules = demand()
    heard = PrimaryAuthentication(rules, "10.0.0.1")
    proof, _ = ReplicaAuthentication(Account(*INNER), TOKEN, other_primaries=False).feed(heard.feed(ASK)[0])
    heard.feed(proof)
    assert heard.state is State.IN
    again = PrimaryAuthentication(rules, "10.0.0.1")
    again.feed(ASK)
    with pytest.raises(NotLetIn, match="signature of inner is wrong"):
        again.feed(proof)


def test_a_replica_notices_a_primary_that_does_not_have_the_secret() -> None:
    """It answers whatever is said to it, and sends back the proof of the replica as its own."""
    for forged in (bytes(32), None):
        replica = ReplicaAuthentication(Account(*INNER), TOKEN, other_primaries=False)
        proof, _ = replica.feed(PrimaryAuthentication(demand(), "10.0.0.1").feed(ASK)[0])
        with pytest.raises(RemoteProtocolError, match="it is not the primary"):
            replica.feed(b"\x01\x00\x20" + (forged or proof[-32:]))


def test_who_may_come_without_an_account() -> None:
    named = frozenset({"10.0.0.1"})
    report = encode_report(0)
    assert PrimaryAuthentication(Demand(), "10.0.0.9").feed(report) == (b"", report)
    assert PrimaryAuthentication(demand(without=named), "10.0.0.1").feed(report) == (b"", report)
    with pytest.raises(NotLetIn, match="haAllowedAddresses"):
        PrimaryAuthentication(demand(without=named), "10.0.0.2").feed(report)
    with pytest.raises(NotLetIn, match="Each broker of a group"):
        PrimaryAuthentication(demand(without=named, elected=True), "10.0.0.1").feed(auto_switch.encode_hello(5))


def test_only_a_primary_of_apache_may_be_silent() -> None:
    ReplicaAuthentication(None, TOKEN, other_primaries=True).silent()
    with pytest.raises(RemoteProtocolError, match="in time"):
        ReplicaAuthentication(Account(*INNER), TOKEN, other_primaries=False).silent()
    asked = ReplicaAuthentication(Account(*INNER), TOKEN, other_primaries=True)
    asked.feed(PrimaryAuthentication(demand(), "10.0.0.1").feed(ASK)[0])
    with pytest.raises(RemoteProtocolError, match="in time"):
        asked.silent()


@given(st.binary(max_size=120))
def test_any_bytes_let_in_or_are_an_error(data: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        one = PrimaryAuthentication(demand(), "10.0.0.1")
        one.feed(data)
        assert one.state is not State.IN
    with contextlib.suppress(RemoteProtocolError):
        ReplicaAuthentication(None, TOKEN, other_primaries=True).feed(data)


# ---- brokers over real sockets


def network_with_tls(mode: TlsMode, *, as_client: bool = True) -> Network:
    server = ServerCertificates(server_tls(mode=mode))
    client = client_context(client_tls()) if as_client else None
    return TlsNetwork(TcpNetwork(), SystemClock(), server=server, mode=mode, client=client)


@contextlib.asynccontextmanager
async def running(
    root: Path, network: Network | None = None, records: Records | None = None, **settings: Any
) -> AsyncIterator[Broker]:
    config = broker_config(root, **settings)
    broker = Broker(config, network or TcpNetwork(), SystemClock(), SystemRng(), OsDisk(), records=records)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.close()


def replica(root: Path, port: int, network: Network | None = None, **settings: Any) -> Any:
    """A replica of the primary whose HA port this is."""
    values = {"broker_role": "SLAVE", "broker_id": 1, "ha_master_address": f"127.0.0.1:{port}"}
    return running(root, network, **{**values, **settings})


def following(broker: Broker) -> FollowState:
    found = broker._watched.follower
    assert found is not None
    return found.following()


class Records:
    """The record of a group, in memory: see ``RecordStore``."""

    def __init__(self) -> None:
        self._held = Held(None, NEVER)

    def members(self) -> int:
        """Of the in-sync set."""
        return 0 if self._held.record is None else len(self._held.record.in_sync)

    async def read(self) -> Held:
        return self._held

    async def replace(self, held: Held, record: Record) -> Held | None:
        if held.revision != self._held.revision:
            return None
        self._held = Held(record, held.revision + 1)
        return self._held


def client_of(broker: Broker, network: Network | None = None) -> Cluster:
    return Cluster(broker, RemotingClient(network or TcpNetwork(), SystemClock(), SystemRng(), account=Account(*INNER)))


async def in_time(work: Coroutine[Any, Any, None]) -> None:
    async with asyncio.timeout(60):
        await work


async def all_of(port: int, *said: bytes) -> bytes:
    """What a stranger hears on the HA port until the connection is ended."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    heard = b""
    for piece in said:
        writer.write(piece)
        await writer.drain()
        if piece == ASK:
            heard += await asyncio.wait_for(reader.readexactly(29), 30)
    with contextlib.suppress(ConnectionError):
        heard += await asyncio.wait_for(reader.read(), 30)
    writer.close()
    return heard


def test_ours_follows_ours_with_an_account_and_a_stranger_gets_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        port = free_port()
        async with running(tmp_path / "a", ha_listen_port=port, **SYNC, **USERS) as primary:
            client = client_of(primary)
            await client.create_topic("orders", queues=1)
            # Forged: one that says nothing of itself, one with another secret, and one that promises more than it has.
            assert await all_of(port, encode_report(0)) == b""
            assert b"signature" in await all_of(port, ASK, _forged(), encode_report(0))
            assert (await client.send("orders", b"x")).code == ResponseCode.SLAVE_NOT_AVAILABLE
            async with replica(tmp_path / "b", port, **USERS) as copy:
                await until(lambda: copy.store.written == primary.store.written > 0)
                await until(lambda: primary.leads)
                answer = await client.send("orders", b"y")
                assert answer.code == ResponseCode.SUCCESS, answer.remark
            await client.client.close()

    asyncio.run(in_time(work()))


def _forged() -> bytes:
    name = INNER[0].encode()
    return len(name).to_bytes(2) + name + bytes(16) + bytes(32)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "the primary has users: set innerClientAuthenticationCredentials"),
        ({"inner_client_authentication_credentials": account(secret="other")}, "the signature of inner is wrong"),
    ],
)
def test_a_replica_without_the_account_says_what_to_do(
    tmp_path: Path, settings: dict[str, Any], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        port = free_port()
        async with running(tmp_path / "a", ha_listen_port=port, **USERS) as primary:
            await client_of(primary).create_topic("orders", queues=1)
            async with replica(tmp_path / "b", port, **settings) as copy:
                await until(lambda: words in following(copy).problem)
                assert copy.store.written == 0

    asyncio.run(in_time(work()))


@pytest.mark.slow
def test_a_user_that_is_taken_away_follows_no_longer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        port = free_port()
        settings = {**USERS, "init_authentication_user": json.dumps({"username": "admin", "password": "p"})}
        async with (
            running(tmp_path / "a", ha_listen_port=port, **settings) as primary,
            replica(tmp_path / "b", port, inner_client_authentication_credentials=account()) as copy,
        ):
            await until(lambda: following(copy).follows)
            assert primary.guard is not None
            primary.guard.directory.update("inner", None, secret="another")
            await until(lambda: "has to prove again" in caplog.text)
            await until(lambda: "signature of inner is wrong" in following(copy).problem)

    asyncio.run(in_time(work()))


def test_an_address_that_is_named_needs_no_account(tmp_path: Path) -> None:
    """As Apache's slaves: a report is their first word."""

    async def work() -> None:
        port = free_port()
        async with running(tmp_path / "a", ha_listen_port=port, ha_allowed_addresses="127.0.0.1", **USERS) as primary:
            await client_of(primary).create_topic("orders", queues=1)
            await client_of(primary).sent("orders")
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(encode_report(0))
            frames = FrameReader().feed(await reader.readexactly(100))
            assert frames == [] or frames[0].place == 0
            writer.close()

    asyncio.run(in_time(work()))


@pytest.mark.parametrize("mode", [TlsMode.PERMISSIVE, TlsMode.ENFORCING])
def test_with_tls_on_the_port_plain_replicas_come_where_it_is_permissive(
    tmp_path: Path, mode: TlsMode, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        port, tls = free_port(), network_with_tls(mode)
        async with running(tmp_path / "a", tls, ha_listen_port=port, **USERS) as primary:
            client = client_of(primary, tls)
            await client.create_topic("orders", queues=1)
            await client.sent("orders", b"in secret")
            async with replica(tmp_path / "b", port, tls, **USERS) as copy:
                await until(lambda: copy.store.written == primary.store.written)
            async with replica(tmp_path / "c", port, network_with_tls(mode, as_client=False), **USERS) as plain:
                if mode is TlsMode.PERMISSIVE:
                    await until(lambda: plain.store.written == primary.store.written)
                else:
                    await until(lambda: "set tls.enable=true" in following(plain).problem)
                    assert plain.store.written == 0
                    assert "it does not use TLS" in caplog.text
            await client.client.close()

    asyncio.run(in_time(work()))


@pytest.mark.slow
def test_no_member_of_a_group_is_believed_without_the_account(tmp_path: Path) -> None:
    """A stranger says that it is the disk of a member, and that it has everything."""

    async def work() -> None:
        records = Records()
        common = {
            "broker_role": "SLAVE", "slave_timeout": 400, "etcd_addr": "127.0.0.1:1", "primary_lease": 1000,
            "ha_allowed_addresses": "127.0.0.1", **USERS,
        }  # fmt: skip
        async with contextlib.AsyncExitStack() as stack:
            brokers, ports = [], []
            for number in (1, 2):
                ports.append(free_port())
                brokers.append(
                    await stack.enter_async_context(
                        running(
                            tmp_path / str(number), None, records, ha_listen_port=ports[-1], broker_id=number, **common
                        )
                    )
                )
            await until(lambda: any(one.leads for one in brokers) and records.members() == 2)
            first = next(at for at, one in enumerate(brokers) if one.leads)
            primary, other = brokers[first], brokers[1 - first]
            client = client_of(primary)
            await client.create_topic("orders", queues=1)
            await client.sent("orders", b"both have it")
            assert other.group is not None
            disk = other.group.leadership.me.disk
            await other.close()
            end = primary.store.written
            claim = auto_switch.encode_hello(disk)
            assert await all_of(ports[first], claim, auto_switch.encode_report(end)) == b""
            assert b"signature" in await all_of(ports[first], ASK, _forged(), claim)
            answer = await client.send("orders", b"nobody else has it")
            assert answer.code in (ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT)
            await client.client.close()

    asyncio.run(in_time(work()))


def test_a_group_with_users_needs_the_account(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="innerClientAuthenticationCredentials"):
        broker_config(
            tmp_path, broker_role="SLAVE", broker_id=1, ha_listen_port=10912, etcd_addr="127.0.0.1:1",
            authentication_enabled=True,
        )  # fmt: skip
