"""What a replica takes beside the log: everything that a primary of ours has, a moment after it was made there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
from pathlib import Path
from typing import Any, cast

from gantrymq.access.values import User, UserKind
from gantrymq.broker.broker import Broker
from gantrymq.broker.pop.consumption import ORDER_FILE
from gantrymq.broker.remoting.door import RemotingDoor
from gantrymq.broker.roles import Role
from gantrymq.demo.ports import free_port
from gantrymq.protocol.bodies.access import AclBody, EntryBody, PolicyBody, UserBody
from gantrymq.protocol.bodies.copied_tables import CopiedTables, KnownTables
from gantrymq.protocol.codes import RequestCode as Code
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.headers.access import SubjectOnly, UserOnly
from gantrymq.protocol.signature import Account
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.network import TcpNetwork
from gantrymq.runtime.rng import SystemRng
from tests.broker.replication.test_pair import replica_of
from tests.support.brokers import Cluster, cluster, until

INNER = ("inner", "inner-secret")
USERS: dict[str, Any] = {
    "authentication_enabled": True, "authorization_enabled": True, "ha_allowed_addresses": "127.0.0.1",
    "inner_client_authentication_credentials": json.dumps({"accessKey": INNER[0], "secretKey": INNER[1]}),
}  # fmt: skip


def as_user(name: str, secret: str) -> RemotingClient:
    return RemotingClient(TcpNetwork(), SystemClock(), SystemRng(), account=Account(name, secret))


def free_neighbours() -> int:
    """The first of two free ports, below those that connections get."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as one, socket.socket() as other, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 1))
            return port
    raise AssertionError("no two ports are free")


def directory_of(broker: Broker) -> Any:
    assert broker.guard is not None
    return broker.guard.directory


def test_users_and_policies_travel_and_nobody_else_gets_them(tmp_path: Path) -> None:
    async def work() -> None:
        port = free_neighbours()
        ha_address = f"127.0.0.1:{port + 1}"  # the port for clients is the one below it
        async with cluster(tmp_path / "a", listen_port=port, ha_listen_port=port + 1, **USERS) as primary:
            address = primary.broker.address
            async with replica_of(primary, tmp_path / "b", ha_master_address=ha_address, **USERS) as replica:
                inner = as_user(*INNER)
                shop = UserBody(password="shop-secret", user_type="Normal")
                made = await inner.call(
                    address, Code.AUTH_CREATE_USER, UserOnly(username="shop"), shop.encode(), timeout_ms=5000
                )
                assert made.code == ResponseCode.SUCCESS, made.remark
                policy = PolicyBody(
                    policy_type="Custom",
                    entries=[EntryBody(resource="Topic:orders", actions=["Pub"], decision="Allow")],
                )  # fmt: skip
                acl = AclBody(subject="User:shop", policies=[policy])
                made = await inner.call(
                    address, Code.AUTH_CREATE_ACL, SubjectOnly(subject="User:shop"), acl.encode(), timeout_ms=5000
                )
                assert made.code == ResponseCode.SUCCESS, made.remark
                await until(lambda: bool(directory_of(replica).grants("shop")))
                assert directory_of(replica).content == directory_of(primary.broker).content
                directory_of(primary.broker).delete("shop", None)
                await until(lambda: directory_of(replica).user("shop") is None)

                directory_of(primary.broker).create(User("other", "other-secret", UserKind.NORMAL), None)
                other = as_user("other", "other-secret")
                refused = await other.call(address, Code.COPY_TABLES, body=KnownTables().encode(), timeout_ms=5000)
                assert refused.code == ResponseCode.NO_PERMISSION and not refused.body
                refused = await inner.call(
                    replica.address, Code.COPY_TABLES, body=KnownTables().encode(), timeout_ms=5000
                )
                assert refused.code != ResponseCode.SUCCESS and not refused.body, "a replica gives them to nobody"
                answer = await inner.call(address, Code.COPY_TABLES, body=KnownTables().encode(), timeout_ms=5000)
                assert "other-secret" in CopiedTables.decode(answer.body).tables["users"].content
                await until(lambda: directory_of(replica).user("other") is not None)
                await other.close()
                await inner.close()
            async with cluster(tmp_path / "b", **USERS) as promoted:
                assert directory_of(promoted.broker).user("other") is not None

    asyncio.run(work())


def test_a_user_who_may_do_everything_else_gets_no_secrets(tmp_path: Path) -> None:
    """Without permissions every user may ask everything."""

    async def work() -> None:
        settings = {**USERS, "authorization_enabled": False}
        async with cluster(tmp_path / "a", ha_listen_port=free_port(), **settings) as primary:
            directory_of(primary.broker).create(User("other", "other-secret", UserKind.NORMAL), None)
            other = as_user("other", "other-secret")
            body = KnownTables().encode()
            refused = await other.call(primary.broker.address, Code.COPY_TABLES, body=body, timeout_ms=5000)
            assert refused.code != ResponseCode.SUCCESS and "only a super user" in (refused.remark or "")
            assert not refused.body
            await other.close()

    asyncio.run(work())


def test_request_modes_and_orderly_pops_are_there_after_a_promotion(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path / "a", with_name_server=True, ha_listen_port=free_port()) as primary:
            await primary.create_topic("orders", queues=1)
            async with replica_of(primary, tmp_path / "b") as replica:
                mode = {"topic": "orders", "consumerGroup": "CG", "mode": "POP", "popShareQueueNum": 2}
                made = await primary.ask(Code.SET_MESSAGE_REQUEST_MODE, body=json.dumps(mode).encode())
                assert made.code == ResponseCode.SUCCESS
                blocks = primary.broker.popping.consumption.blocks
                blocks.load({"table": {"orders@CG": {"0": {"o": [3, 1], "i": 60_000, "popTime": 1, "l": 1, "cm": 0}}}})
                content = blocks.content()
                modes = tmp_path / "b" / "config" / "messageRequestMode.json"
                order = tmp_path / "b" / ORDER_FILE
                await until(lambda: modes.exists() and "POP" in modes.read_text())
                await until(lambda: order.exists() and "orders@CG" in order.read_text())
                await primary.broker.become(Role.REPLICA)
                await replica.become(Role.PRIMARY)
                assert replica.popping.assignments.modes() == primary.broker.popping.assignments.modes()
                assert replica.popping.consumption.blocks.content()["table"].keys() == content["table"].keys()

    asyncio.run(work())


def test_a_primary_without_our_request_is_asked_as_apaches_slaves_do(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path / "a", with_name_server=True, ha_listen_port=free_port()) as primary:
            door = cast("RemotingDoor", primary.broker.doors[0])
            for code in (Code.COPY_TABLES, Code.GET_ALL_MESSAGE_REQUEST_MODE):  # as a broker of 4.9
                door.handlers.pop(code)
            await primary.create_topic("orders", queues=1)
            async with replica_of(primary, tmp_path / "b") as replica:
                await until(lambda: replica.topics.get("orders") is not None)
                primary.broker.offsets.commit("CG", "orders", 0, 7)
                await until(lambda: replica.offsets.get("CG", "orders", 0) == 7)

    asyncio.run(work())


def test_only_what_has_changed_is_given(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path / "a") as primary:
            first = await copied(primary, {})
            versions = {name: table.version for name, table in first.tables.items()}
            assert {"topics", "groups", "offsets", "delays", "requestModes", "orderInfo"} == versions.keys()
            assert not (await copied(primary, versions)).tables
            await primary.create_topic("orders")
            primary.broker.offsets.commit("CG", "orders", 0, 7)
            assert (await copied(primary, versions)).tables.keys() == {"topics", "offsets"}

    asyncio.run(work())


async def copied(primary: Cluster, versions: dict[str, str]) -> CopiedTables:
    answer = await primary.ask(Code.COPY_TABLES, body=KnownTables(versions=versions).encode())
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return CopiedTables.decode(answer.body)
