"""Official clients of RocketMQ 5 with an account and TLS, on `gantry proxy` before brokers of ours and of Apache's.

The port of the proxy takes both, TLS and plain. Our brokers take only TLS, so the proxy has to reach them with it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc.aio
import pytest

from gantrymq import Admin
from gantrymq.demo.ports import free_port
from gantrymq.grpc import service_pb2 as service
from gantrymq.grpc.definition_pb2 import Code
from gantrymq.runtime.tls.settings import ENVIRONMENT
from tests.interop import guarded, secured
from tests.interop.apache import ApacheCluster
from tests.interop.five_clients import CLIENTS
from tests.interop.jars import NotHere
from tests.interop.ours import READY, GantryCluster
from tests.interop.process import Process
from tests.interop.test_five_clients import Place, play
from tests.interop.test_five_proxy import CHECKS, OF_APACHE
from tests.interop.test_permissions import PROVIDERS
from tests.runtime.tls.peers import file
from tests.support.grpc_client import GrpcClient, message, resource

TO_BROKERS = f"tls.enable=true\ntls.client.trustCertPath={file('authority.pem')}\n"
ONLY_TLS = f"{secured.SERVER}tls.server.mode=enforcing\n{TO_BROKERS}"


def cluster_of(kind: str, directory: Path, patch: pytest.MonkeyPatch) -> tuple[GantryCluster | ApacheCluster, str]:
    """A broker with users, and the TLS settings of a proxy before it."""
    if kind == "gantry":
        tls = directory / "broker-tls.properties"
        tls.write_text(ONLY_TLS)
        patch.setenv(ENVIRONMENT, str(tls))
        ours = GantryCluster(directory)
        ours.start_name_server()
        ours.start_broker(**guarded.USERS, **CHECKS, authConfigPath=str(directory / "users"))
        return ours, secured.SERVER + TO_BROKERS
    apache = ApacheCluster("5.5.0", directory)
    apache.start_name_server()
    apache.start_broker(**guarded.USERS, **PROVIDERS, **CHECKS, **OF_APACHE, authConfigPath=str(directory / "auth"))
    return apache, secured.SERVER


@pytest.fixture(scope="module", params=["gantry", "5.5.0"])
def closed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    if guarded.is_on() or secured.is_on():
        pytest.skip("this test has a certificate and users of its own")
    directory = tmp_path_factory.mktemp("five-proxy-users")
    with pytest.MonkeyPatch.context() as patch:
        try:
            cluster, settings = cluster_of(request.param, directory, patch)
        except NotHere as reason:
            pytest.skip(str(reason))
        account = {"access_key": guarded.ADMIN.access_key, "secret_key": guarded.ADMIN.secret_key}
        asyncio.run(guarded.make_normal_user(cluster.name_servers))
        tls, port = directory / "proxy-tls.properties", free_port()
        tls.write_text(settings)
        command = [sys.executable, "-m", "gantrymq.cli.main", "proxy", "--name-servers", cluster.name_servers,
                   "--grpc-port", str(port), "--bind", "127.0.0.1", "--tls-config", str(tls)]  # fmt: skip
        who = {"GANTRY_ACCESS_KEY": guarded.ADMIN.access_key, "GANTRY_SECRET_KEY": guarded.ADMIN.secret_key}
        proxy = Process("proxy", command, directory, who)
        proxy.await_line(READY)
        yield Place(cluster, (guarded.APP.access_key, guarded.APP.secret_key), account, port)  # type: ignore[arg-type]
        proxy.kill()
        cluster.close()


@pytest.mark.parametrize("client", ["java", "python"])
def test_with_tls_and_a_signature(client: str, closed: Place, tmp_path: Path) -> None:
    assert client in CLIENTS
    play(client, closed, tmp_path)


def test_the_same_port_takes_plain_connections_and_judges_them_the_same(closed: Place) -> None:
    async def codes() -> list[int]:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{closed.port}") as channel:
            keys = (closed.arguments, (closed.arguments[0], "wrong"), ("nobody", "secret"), None)
            clients = [GrpcClient(channel, key=key) for key in keys]  # type: ignore[arg-type]
            return [(await client.send(message("FiveJava"))).status.code for client in clients]

    assert asyncio.run(codes()) == [Code.OK, Code.UNAUTHORIZED, Code.UNAUTHORIZED, Code.UNAUTHORIZED]


def test_a_message_is_given_up_and_no_other_one_with_its_handle(closed: Place) -> None:
    """Our broker makes a dead letter and ends the delivery in one step; Apache's has two requests for that."""
    with Admin(closed.cluster.name_servers, **closed.account) as admin:
        admin.create_topic("FiveGivenUp", queues=1)

    async def codes() -> list[int]:
        async with asyncio.timeout(60), grpc.aio.insecure_channel(f"127.0.0.1:{closed.port}") as channel:
            client = GrpcClient(channel, key=closed.arguments)  # type: ignore[arg-type]
            while (await client.send(message("FiveGivenUp"))).status.code != Code.OK:
                await asyncio.sleep(0.2)  # the name server has not heard of the topic
            got = (await client.receive("FiveGivenUp", "CG_gives_up", seconds=20))[1]
            handle = got[0].system_properties.receipt_handle
            forged = " ".join([*handle.split(" ")[:-1], "0"])
            return [await _forward(client, one) for one in (forged, handle)]

    assert asyncio.run(codes()) == [Code.INVALID_RECEIPT_HANDLE, Code.OK]


async def _forward(client: GrpcClient, handle: str) -> int:
    request = service.ForwardMessageToDeadLetterQueueRequest(
        group=resource("CG_gives_up"), topic=resource("FiveGivenUp"), receipt_handle=handle
    )
    answer = await client.call(
        "ForwardMessageToDeadLetterQueue", request, service.ForwardMessageToDeadLetterQueueResponse
    )
    return int(answer.status.code)
