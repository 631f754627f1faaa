"""Users at a proxy: who is refused what, with the answers that the door of a broker gives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from gantrymq.access.directory import Content
from gantrymq.access.values import Action, Policy, PolicyDecision, Resource, User, UserKind
from gantrymq.client.connection.endpoint import Outside
from gantrymq.demo.ports import free_port
from gantrymq.grpc import service_pb2 as service
from gantrymq.grpc.definition_pb2 import Code, MessageType, Status, TransactionResolution
from gantrymq.protocol.bodies.access import AclBody, EntryBody, PolicyBody, UserBody
from gantrymq.protocol.files.topics import TopicConfig
from gantrymq.protocol.signature import Account
from gantrymq.proxy.config import ProxyConfig
from gantrymq.proxy.proxy import Proxy
from gantrymq.proxy.users import content_of
from tests.support.brokers import Cluster, cluster, until
from tests.support.grpc_client import GrpcClient, message, producer, resource

ADMIN = Account("admin", "admin-secret")
FIRST = '{"username":"admin","password":"admin-secret"}'
USERS = {"authentication_enabled": True, "authorization_enabled": True, "init_authentication_user": FIRST}
SHOP, OTHER = ("shop", "shop-secret"), ("other", "other-secret")


@dataclass
class Guarded:
    """A broker with users, its own door, and a proxy."""

    running: Cluster
    door: GrpcClient
    proxy: GrpcClient
    server: Proxy

    def doors(self, key: tuple[str, str] | None, client_id: str = "c") -> tuple[GrpcClient, GrpcClient]:
        return replace(self.door, key=key, client_id=client_id), replace(self.proxy, key=key, client_id=client_id)

    @property
    def directory(self) -> Any:
        guard = self.running.broker.guard
        assert guard is not None
        return guard.directory

    async def known(self, change: Callable[[], object]) -> None:
        """Make a change, and wait until the proxy knows it, too."""
        change()
        users = self.server._users
        assert users is not None
        await until(lambda: users.guard.directory.content == self.directory.content)


def allow(resource_text: str, *actions: Action) -> Policy:
    return Policy(Resource.parse(resource_text), frozenset(actions), PolicyDecision.ALLOW)


@asynccontextmanager
async def guarded(root: Path, account: Account | None = ADMIN, **settings: object) -> AsyncIterator[Guarded]:
    port = free_port()
    async with asyncio.timeout(60), AsyncExitStack() as stack:
        running = await stack.enter_async_context(
            cluster(root, with_name_server=True, grpc_port=port, **{**USERS, **settings})  # type: ignore[arg-type]
        )
        for topic in ("orders", "salaries"):
            running.broker.topics.update(TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1))
        assert running.name_server is not None
        guard = running.broker.guard
        if guard is not None:
            for name, secret in (SHOP, OTHER):
                guard.directory.create(User(name, secret), None)
            both = (Action.PUB, Action.SUB)
            guard.directory.grant("shop", [allow("Topic:orders", *both), allow("Group:group", Action.SUB)])
            guard.directory.grant("other", [allow("Topic:salaries", *both), allow("Group:other", Action.SUB)])
        config = ProxyConfig(
            name_servers=(running.name_server.address,), bind="127.0.0.1", grpc_port=0, account=account
        )
        proxy = Proxy(config, Outside())
        address = await proxy.start()
        stack.push_async_callback(proxy.close)
        door, before = [
            GrpcClient(await stack.enter_async_context(grpc.aio.insecure_channel(where)), key=SHOP)
            for where in (f"127.0.0.1:{port}", address)
        ]
        yield Guarded(running, door, before, proxy)


def story(work: Callable[[Guarded], Awaitable[None]], root: Path, **settings: Any) -> None:
    async def play() -> None:
        async with guarded(root, **settings) as place:
            await until(lambda: place.server.healthy)

            async def routed() -> bool:
                key = (ADMIN.access_key, ADMIN.secret_key)
                asked = [await route(place.doors(key)[1], topic) for topic in ("orders", "salaries")]
                return [status.code for status in asked] == [Code.OK, Code.OK]

            await until(routed)
            await work(place)

    asyncio.run(play())


async def route(client: GrpcClient, topic: str = "orders") -> Status:
    request = service.QueryRouteRequest(topic=resource(topic))
    return (await client.call("QueryRoute", request, service.QueryRouteResponse)).status


async def send(client: GrpcClient, topic: str = "orders") -> Status:
    return (await client.send(message(topic))).status


async def receive(client: GrpcClient, topic: str = "orders", group: str = "group") -> Status:
    return (await client.receive(topic, group))[0]


async def speak(client: GrpcClient, *topics: str) -> Status:
    async with client.telemetry(producer(*topics)) as answer:
        return answer.status


async def both(place: Guarded, key: tuple[str, str] | None, call: Callable[..., Awaitable[Status]], *rest: str) -> int:
    """The code of the proxy's answer, which is that of the broker's door to the letter."""
    door, proxy = [await call(client, *rest) for client in place.doors(key)]
    assert (proxy.code, proxy.message) == (door.code, door.message)
    return int(proxy.code)


@pytest.mark.slow
def test_a_proxy_refuses_whom_the_door_of_a_broker_refuses_in_its_words(tmp_path: Path) -> None:
    async def work(place: Guarded) -> None:
        refused, granted = Code.UNAUTHORIZED, Code.OK
        assert await both(place, None, send) == refused
        assert await both(place, ("shop", "wrong"), send) == refused
        assert await both(place, ("nobody", "secret"), send) == refused
        assert await both(place, SHOP, send) == granted
        assert await both(place, SHOP, send, "salaries") == refused
        assert await both(place, SHOP, route, "salaries") == refused
        assert await both(place, SHOP, receive, "salaries", "group") == refused
        assert await both(place, SHOP, receive, "orders", "other") == refused
        assert await both(place, SHOP, speak, "orders") == granted
        assert await both(place, SHOP, speak, "salaries") == refused
        assert await both(place, ("shop", "wrong"), speak, "orders") == refused
        assert (await receive(place.doors(SHOP)[1])).code == granted
        await place.known(lambda: place.directory.update("shop", None, enabled=False))
        assert await both(place, SHOP, send) == refused
        assert place.server.metrics.total("gantry_permission_refusals_total") > 3

    story(work, tmp_path)


@pytest.mark.slow
def test_what_is_changed_at_the_brokers_counts_at_a_proxy(tmp_path: Path) -> None:
    async def work(place: Guarded) -> None:
        _, shop = place.doors(SHOP)
        assert (await send(shop, "salaries")).code == Code.UNAUTHORIZED
        await place.known(lambda: place.directory.grant("shop", [allow("Topic:salaries", Action.PUB)]))
        assert (await send(shop, "salaries")).code == Code.OK
        await place.known(lambda: place.directory.update("shop", None, secret="new"))
        assert (await send(shop)).code == Code.UNAUTHORIZED
        assert (await send(place.doors(("shop", "new"))[1])).code == Code.OK
        await place.known(lambda: place.directory.delete("shop", None))
        assert (await send(place.doors(("shop", "new"))[1])).code == Code.UNAUTHORIZED

    story(work, tmp_path)


@pytest.mark.slow
def test_policies_do_not_count_where_brokers_only_ask_who_it_is(tmp_path: Path) -> None:
    async def work(place: Guarded) -> None:
        assert await both(place, SHOP, send, "salaries") == Code.OK
        assert await both(place, ("shop", "wrong"), send) == Code.UNAUTHORIZED

    story(work, tmp_path, authorization_enabled=False)


async def half(client: GrpcClient, topic: str) -> tuple[str, str]:
    answer = await client.send(message(topic, message_type=MessageType.TRANSACTION))
    assert answer.status.code == Code.OK, answer.status
    return answer.entries[0].message_id, answer.entries[0].transaction_id


async def end(client: GrpcClient, topic: str, ids: tuple[str, str]) -> Status:
    request = service.EndTransactionRequest(
        topic=resource(topic), message_id=ids[0], transaction_id=ids[1], resolution=TransactionResolution.COMMIT
    )
    return (await client.call("EndTransaction", request, service.EndTransactionResponse)).status


@pytest.mark.slow
def test_nobody_ends_the_transaction_of_a_topic_that_is_not_theirs(tmp_path: Path) -> None:
    """The client names a topic, and the half message has another one."""

    async def work(place: Guarded) -> None:
        _, shop = place.doors(SHOP)
        _, other = place.doors(OTHER, "other")
        assert (await send(shop)).code == Code.OK  # it lies at the beginning of the log
        ids = await half(other, "salaries")
        refused = await end(shop, "orders", ids)
        assert refused.code == Code.UNAUTHORIZED
        assert "salaries" in refused.message
        assert (await end(shop, "orders", (ids[0], ids[0]))).code in (Code.UNAUTHORIZED, Code.INVALID_TRANSACTION_ID)
        broker_name = ids[1].split(".", 2)[2]
        assert (await end(shop, "orders", ("x", f"0.0.{broker_name}"))).code == Code.INVALID_TRANSACTION_ID
        assert (await end(other, "salaries", ids)).code == Code.OK
        assert (await receive(other, "salaries", "other")).code == Code.OK

    story(work, tmp_path, transaction_time_out=60_000)


@pytest.mark.slow
def test_a_check_goes_only_to_who_may_send_to_the_topic(tmp_path: Path) -> None:
    """Who takes the client id of somebody else gets nothing that is meant for them."""

    async def work(place: Guarded) -> None:
        _, owner = place.doors(OTHER, "one id")
        _, thief = place.doors(SHOP, "one id")
        owner.commands, thief.commands = asyncio.Queue(), asyncio.Queue()
        async with owner.telemetry(producer("salaries")), thief.telemetry(producer("orders")) as answer:
            assert answer.status.code == Code.OK
            _, transaction = await half(owner, "salaries")
            command = await owner.commands.get()
            assert command.recover_orphaned_transaction_command.transaction_id == transaction
            assert thief.commands.empty()

    story(work, tmp_path, transaction_time_out=200, transaction_check_interval=200)


@pytest.mark.slow
def test_dead_letters_of_several_topics_are_given_to_super_users_alone(tmp_path: Path) -> None:
    async def work(place: Guarded) -> None:
        name = "%DLQ%group"
        place.running.broker.topics.update(TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1))
        await place.known(lambda: place.directory.grant("shop", [allow(f"Topic:{name}", Action.SUB)]))
        _, shop = place.doors(SHOP)
        assert (await receive(shop, name, "group")).code == Code.FORBIDDEN

    story(work, tmp_path)


@pytest.mark.slow
def test_nobody_makes_a_dead_letter_of_a_message_that_they_may_not_read(tmp_path: Path) -> None:
    """The end of a receipt handle says where in the log its message lies, and a client can write anything there."""

    async def work(place: Guarded) -> None:
        _, shop = place.doors(SHOP)
        _, other = place.doors(OTHER, "other")
        assert (await send(other, "salaries")).code == Code.OK  # at the beginning of the log
        assert (await send(shop)).code == Code.OK
        _, (got,) = await shop.receive("orders", "group")
        *parts, _ = got.system_properties.receipt_handle.split(" ")
        request = service.ForwardMessageToDeadLetterQueueRequest(
            group=resource("group"), topic=resource("orders"), receipt_handle=" ".join([*parts, "0"])
        )
        forward = "ForwardMessageToDeadLetterQueue", request, service.ForwardMessageToDeadLetterQueueResponse
        assert (await shop.call(*forward)).status.code == Code.INVALID_RECEIPT_HANDLE

    story(work, tmp_path)


@pytest.mark.slow
def test_a_proxy_judges_the_first_call_after_its_start(tmp_path: Path) -> None:
    """It was refused until the brokers and their users were known, and an official client ends then."""

    async def play() -> None:
        async with guarded(tmp_path) as place:
            clients = [place.doors(key)[1] for key in (SHOP, ("shop", "wrong"))]
            told = await asyncio.gather(*map(route, clients))
            assert [status.code for status in told] == [Code.OK, Code.UNAUTHORIZED]

    asyncio.run(play())


async def unready(place: Guarded, words: str) -> None:
    """Nobody is served, whatever their secret, and the answer says why."""

    async def told() -> bool:
        return words in (await send(place.doors(SHOP)[1])).message

    await until(told)
    assert (await send(place.doors(SHOP)[1])).code == Code.INTERNAL_ERROR
    assert (await send(place.doors(None)[1])).code == Code.INTERNAL_ERROR
    assert not place.server.healthy


@pytest.mark.slow
@pytest.mark.parametrize(
    ("account", "settings", "words"),
    [
        (Account("admin", "wrong"), {}, "signature of admin is wrong"),
        (Account(*SHOP), {}, "needs"),
        (ADMIN, {"authentication_enabled": False, "authorization_enabled": False}, "it has no users"),
    ],
)
def test_a_proxy_that_cannot_judge_serves_nobody(
    tmp_path: Path, account: Account, settings: dict[str, Any], words: str
) -> None:
    async def play() -> None:
        async with guarded(tmp_path, account=account, **settings) as place:
            await unready(place, words)

    asyncio.run(play())


@pytest.mark.slow
def test_a_broker_that_does_not_know_the_secret_of_the_proxy_makes_no_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever can register a broker at a name server could make users up."""

    async def play() -> None:
        async with guarded(tmp_path) as place:
            users = place.server._users
            assert users is not None
            await until(lambda: users.known)
            with pytest.raises(Exception, match="does not know the account of the proxy"):
                users._prove(Content({"admin": User("admin", "made up", UserKind.SUPER)}, {}))
            with pytest.raises(Exception, match="not a super user"):
                users._prove(Content({"admin": User("admin", "admin-secret")}, {}))

    asyncio.run(play())


def test_a_user_with_a_policy_that_cannot_be_read_is_refused() -> None:
    """The rest of its policies might allow what that one denies."""
    users = [UserBody(username=name, password="s", user_type="Normal") for name in ("good", "bad")]
    acls = [
        AclBody(
            subject=f"User:{name}",
            policies=[PolicyBody(entries=[EntryBody(resource=text, actions=["Pub"], decision="Deny")])],
        )
        for name, text in (("good", "Topic:a"), ("bad", "Planet:a"))
    ]
    assert set(content_of(users, acls).users) == {"good"}
    assert set(content_of([UserBody(username="open", password="")], []).users) == set()
