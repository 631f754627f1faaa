"""Official clients of RocketMQ 5, unchanged, on the gRPC door of our broker."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gantrymq import Admin
from gantrymq.demo.ports import free_port
from gantrymq.protocol.bodies.heartbeat import ConsumerIdList
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.consumer import ConsumerListByGroup
from gantrymq.protocol.headers.send import SendMessageAnswer
from gantrymq.protocol.headers.tools import ClientOfGroup, ConsumeDirectly
from gantrymq.runtime.tls.settings import ENVIRONMENT
from tests.interop import guarded, secured
from tests.interop.five_clients import CLIENTS
from tests.interop.jars import NotHere
from tests.interop.ours import GantryCluster
from tests.interop.process import Process, poll
from tests.runtime.tls.peers import file
from tests.support.brokers import new_client, send_header

EVERYTHING = {"normal 0", "normal 1", "normal 2", "ordered", "delayed", "committed", "checked"}
FIRST_CHECK_MS = 2000
NO_ANSWER = "did not answer within 5 s"
TO_TOOLS = {
    "java": (".java", "CR_SUCCESS"),
    "go": ("goroutine", "NOT_IMPLEMENTED"),
    "node": ("mock stack", "NOT_IMPLEMENTED"),
    "python": (NO_ANSWER, NO_ANSWER),
}
"""What tools get for a question for stack traces, and for one to consume a message directly; in docs/grpc.md, too."""
UNKNOWN_TOPIC = {"python": "failed to fetch topic:Nothing route."}
"""What a client says that keeps the code of the answer to itself."""


@dataclass(frozen=True)
class Place:
    """A cluster, and how clients reach its door."""

    cluster: GantryCluster
    arguments: tuple[str, ...] = ()
    """Access key and secret key, with which the drivers use TLS, too."""
    account: dict[str, str] = field(default_factory=dict)
    """Of our own client."""
    port: int = 0


def started(directory: Path, **settings: object) -> tuple[GantryCluster, int]:
    cluster, port = GantryCluster(directory), free_port()
    cluster.start_name_server()
    cluster.start_broker(
        grpcPort=port, transactionTimeOut=FIRST_CHECK_MS, transactionCheckInterval=FIRST_CHECK_MS, **settings
    )
    return cluster, port


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    if guarded.is_on() or secured.is_on():
        pytest.skip("clients of RocketMQ 5 show no certificates; the other test has TLS and users")
    cluster, port = started(tmp_path_factory.mktemp("five"))
    yield Place(cluster, port=port)
    cluster.close()


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A broker with a certificate, and with users who may do what clients do."""
    if guarded.is_on() or secured.is_on():
        pytest.skip("this test has a certificate and users of its own")
    directory = tmp_path_factory.mktemp("five-closed")
    tls = directory / "tls.properties"
    tls.write_text(secured.SERVER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENVIRONMENT, str(tls))
        cluster, port = started(directory, **guarded.USERS, authConfigPath=str(directory / "users"))
    account = {"access_key": guarded.ADMIN.access_key, "secret_key": guarded.ADMIN.secret_key}
    asyncio.run(guarded.make_normal_user(cluster.name_servers))
    yield Place(cluster, (guarded.APP.access_key, guarded.APP.secret_key), account, port)
    cluster.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_client_sends_is_consumed_and_its_transactions_end(
    client: str, plain: Place, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    check_wanted(client, pytestconfig)
    play(client, plain, tmp_path, asks=True)


@pytest.mark.parametrize("client", CLIENTS)
def test_the_same_with_tls_and_a_signature(
    client: str, closed: Place, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    check_wanted(client, pytestconfig)
    play(client, closed, tmp_path)


def check_wanted(client: str, config: pytest.Config) -> None:
    """The Go client takes 90 s of a processor to compile."""
    if client == "go" and not config.getoption("--go5", False):
        pytest.skip("the Go client is long in compiling: pytest tests/interop/test_five_clients.py --go5")


def play(client: str, place: Place, directory: Path, *, asks: bool = False) -> None:
    """``asks``: the questions of tools, too, which only the door of a broker hands on."""
    try:
        command = CLIENTS[client]()
    except NotHere as reason:
        pytest.skip(str(reason))
    topic = f"Five{client.title()}"
    with Admin(place.cluster.name_servers, **place.account) as admin:
        admin.create_topic(topic, queues=2)
    # Two of the clients write their logs into HOME, and two of them verify certificates.
    authority = file("authority.pem")
    home = {
        **os.environ, "HOME": str(directory), "NODE_EXTRA_CA_CERTS": authority,
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": authority,
    }  # fmt: skip
    driver = Process(f"five-{client}", [*command, f"localhost:{place.port}", topic, *place.arguments], directory, home)
    try:
        driver.await_step("ready")
        for consumer in ("push", "simple"):
            poll(lambda who=consumer: said(driver, who) == EVERYTHING, f"all messages at the {consumer} consumer")
        assert said(driver, "check") == {"checked"}
        assert said(driver, "refused") == {UNKNOWN_TOPIC.get(client, "40402")}
        assert len(said(driver, "as sent")) == 1
        assert all("five" in text and "k0" in text and "a" in text for text in said(driver, "as sent"))
        for consumer in ("push", "simple"):
            bodies = [entry["text"] for entry in driver.steps(consumer)]
            assert len(bodies) == len(set(bodies)), "none came twice"
        if asks:
            stacks, verified = asyncio.run(questions(place.cluster.broker_address, topic, driver))
            assert (TO_TOOLS[client][0] in stacks, TO_TOOLS[client][1] in verified) == (True, True), (stacks, verified)
    finally:
        driver.kill()


async def questions(broker: str, topic: str, driver: Process) -> tuple[str, str]:
    """The answers of the push consumer to the two questions that tools have for it."""
    client, group = new_client(), f"{topic}-push"
    try:
        listed = await client.call(
            broker, RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerListByGroup(consumer_group=group), timeout_ms=5000
        )
        (member,) = ConsumerIdList.decode(listed.body).consumer_id_list
        stack = ClientOfGroup(consumer_group=group, client_id=member, jstack_enable=True)
        stacks = await client.call(broker, RequestCode.GET_CONSUMER_RUNNING_INFO, stack, timeout_ms=8000)
        sent = await client.call(
            broker, RequestCode.SEND_MESSAGE_V2, send_header(topic, "TAGS\x01five\x02"), b"for tools", timeout_ms=5000
        )
        await asyncio.to_thread(poll, lambda: "for tools" in said(driver, "push"), "the message of the tool")
        asked = ConsumeDirectly(
            consumer_group=group, client_id=member, msg_id=sent.header(SendMessageAnswer).msg_id,
            broker_name="broker-a",
        )  # fmt: skip
        verified = await client.call(broker, RequestCode.CONSUME_MESSAGE_DIRECTLY, asked, timeout_ms=8000)
    finally:
        await client.close()
    times = [entry["text"] for entry in driver.steps("push")].count("for tools")
    assert times == (2 if verified.code == ResponseCode.SUCCESS else 1)
    return tuple(answer.remark or answer.body.decode() for answer in (stacks, verified))  # type: ignore[return-value]


def said(driver: Process, step: str) -> set[str]:
    return {entry["text"] for entry in driver.steps(step)}
