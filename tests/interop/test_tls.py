"""TLS between official software and ours, both ways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gantrymq import Message, Producer, PullConsumer
from tests.interop.apache import ApacheCluster, JavaClient
from tests.interop.ours import READY, GantryCluster
from tests.runtime.tls.peers import file

COUNT = 5
SERVER = f"""tls.test.mode.enable=false
tls.server.certPath={file("server.pem")}
tls.server.keyPath={file("server.key")}
tls.server.trustCertPath={file("authority.pem")}
"""
OURS = f"""{SERVER}tls.server.mode=enforcing
tls.server.need.client.auth=require
tls.enable=true
tls.client.trustCertPath={file("authority.pem")}
tls.client.certPath={file("client.pem")}
tls.client.keyPath={file("client.key")}
"""
JAVA = {
    "tls_enable": "true",
    "tls_test_mode_enable": "false",
    "tls_client_authServer": "true",
    "tls_client_trustCertPath": file("authority.pem"),
    "tls_client_certPath": file("client.pem"),
    "tls_client_keyPath": file("client.key"),
}


@pytest.fixture(scope="module")
def enforcing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GantryCluster]:
    """Our servers, which take only connections with TLS and a certificate of the client."""
    directory = tmp_path_factory.mktemp("gantry-tls")
    path = directory / "tls.properties"
    path.write_text(OURS)
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
    driver = java_client.play("Plain", enforcing.name_servers, name, f"G{name}", COUNT, **JAVA)
    driver.done()
    assert sorted(step["body"] for step in driver.steps("got")) == sorted(f"body {i}" for i in range(COUNT))


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
