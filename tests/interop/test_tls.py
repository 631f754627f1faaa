"""TLS between official software and ours, both ways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gantrymq import Message, Producer, PullConsumer
from tests.interop.apache import ApacheCluster, JavaClient
from tests.interop.golang import driver
from tests.interop.jars import NotHere
from tests.interop.mqadmin import CLUSTER, Tool
from tests.interop.ours import READY, GantryCluster
from tests.interop.process import Process
from tests.interop.secured import JAVA, OURS, SERVER
from tests.runtime.tls.peers import file

COUNT = 5


@pytest.fixture(scope="module")
def enforcing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GantryCluster]:
    """Our servers, which take only connections with TLS and a certificate of the client."""
    yield from _enforcing(tmp_path_factory.mktemp("gantry-tls"), OURS)


@pytest.fixture(scope="module")
def enforcing_without_client_certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GantryCluster]:
    """Our servers, which take only connections with TLS."""
    settings = OURS.replace("tls.server.need.client.auth=require\n", "")
    yield from _enforcing(tmp_path_factory.mktemp("gantry-tls-only"), settings)


def _enforcing(directory: Path, settings: str) -> Iterator[GantryCluster]:
    path = directory / "tls.properties"
    path.write_text(settings)
    cluster = GantryCluster(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GANTRY_TLS_CONFIG", str(path))
        try:
            cluster.start_name_server()
            # Not by start_broker, which asks the name server for the route over a plain connection.
            broker = cluster.gantry(
                "broker",
                "--store",
                str(directory / "store"),
                "--listen-port",
                "0",
                "--host",
                "127.0.0.1",
                "--namesrv-addr",
                cluster.name_servers,
            )
            broker.await_line(READY)
            yield cluster
        finally:
            cluster.close()


def test_java_clients_on_ours(java_client: JavaClient, enforcing: GantryCluster) -> None:
    name = f"Tls{java_client.version.replace('.', '')}"
    properties = {key.replace(".", "_"): value for key, value in JAVA.items()}
    driver = java_client.play("Plain", enforcing.name_servers, name, f"G{name}", COUNT, **properties)
    driver.done()
    assert sorted(step["body"] for step in driver.steps("got")) == sorted(f"body {i}" for i in range(COUNT))


def test_the_go_client_on_ours(enforcing_without_client_certificates: GantryCluster, tmp_path: Path) -> None:
    """It shows no certificate, and accepts every one."""
    cluster = enforcing_without_client_certificates
    try:
        program = driver("go_tls")
    except NotHere as reason:
        pytest.skip(str(reason))
    client = Process(
        "go", [str(program), cluster.name_servers, "TlsGo", "GTlsGo"], tmp_path,
        {"HOME": str(tmp_path), "ROCKETMQ_GO_LOG_LEVEL": "error"},
    )  # fmt: skip
    try:
        wanted = {*(f"sync {number}" for number in range(5)), "long " * 100_000, "commit"}
        client.await_that(lambda: {step["body"] for step in client.steps("got")} >= wanted, "all messages")
        client.write_line()
        client.done()
        assert sorted(step["body"] for step in client.steps("got")) == sorted(wanted)
    finally:
        client.kill()


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_mqadmin_on_ours(jdk: None, version: str, enforcing: GantryCluster, tmp_path: Path) -> None:
    """With a certificate, as the servers demand it."""
    topic = f"TlsAdmin{version.replace('.', '')}"
    tool = Tool(version, enforcing, tmp_path, topic, JAVA)
    try:
        everywhere = ("-c", CLUSTER)
        assert "create topic to" in tool.run("updateTopic", *everywhere, "-t", topic, "-r", "1", "-w", "1")
        assert CLUSTER in tool.run("clusterList")
        assert topic in tool.run("topicList")
        assert "SEND_OK" in tool.run("sendMessage", "-t", topic, "-p", "through TLS", "-k", "k1")
        consumed = tool.run("consumeMessage", "-t", topic, "-b", "broker-a", "-i", "0", "-o", "0", "-c", "1")
        assert "through TLS" in consumed
        assert "create subscription group to" in tool.run("updateSubGroup", *everywhere, "-g", f"G{topic}")
        assert "delete topic" in tool.run("deleteTopic", *everywhere, "-t", topic)
    finally:
        tool.close()


def test_mqadmin_without_tls_gets_nothing(jdk: None, enforcing: GantryCluster, tmp_path: Path) -> None:
    tool = Tool("5.5.0", enforcing, tmp_path, "TlsAdminPlain")
    try:
        assert "TlsAdmin" not in tool.run("topicList")
        assert "Exception" in tool.run("clusterList")
    finally:
        tool.close()


def test_our_client_on_apache(jdk: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tls.properties"
    path.write_text(SERVER)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Dtls.config.file={path}")
    cluster = ApacheCluster("5.5.0", tmp_path)
    tls = {"tls": True, "tls_trust_cert_path": file("authority.pem")}
    try:
        cluster.start_name_server()
        cluster.start_broker()
        with Producer("GTlsApache", name_servers=cluster.name_servers, **tls) as producer:  # type: ignore[arg-type]
            sent = [producer.send(Message("TlsApache", b"x" * 100_000)) for _ in range(COUNT)]
        with PullConsumer(name_servers=cluster.name_servers, **tls) as consumer:  # type: ignore[arg-type]
            for each in sent:
                (got,) = consumer.pull(each.queue, each.queue_offset, 1).messages
                assert got.body == b"x" * 100_000
    finally:
        cluster.close()
