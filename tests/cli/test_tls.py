"""A server, commands and clients with TLS: real processes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gantrymq import Message, Producer, PullConsumer
from gantrymq.errors import ConfigError, GantryError, Unreachable
from tests.cli.test_serve import Program
from tests.runtime.tls.peers import file

SERVER = f"""
tls.server.certPath={file("server.pem")}
tls.server.keyPath={file("server.key")}
"""
CLIENT = f"""
tls.enable=true
tls.client.trustCertPath={file("authority.pem")}
"""


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def started(directory: Path, text: str) -> tuple[Program, str]:
    """A server, and the address of its name server."""
    path = written(directory / "tls.properties", text)
    program = Program(
        "server", "--store", str(directory / "store"), "--listen-port", "0", "--name-server-port", "0",
        "--flush", "async", "--tls-config", str(path),
    )  # fmt: skip
    found = re.match(r"name server (\S+),", program.ready())
    assert found
    return program, found.group(1)


def test_only_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, servers = started(tmp_path, f"tls.server.mode=enforcing{SERVER}{CLIENT}")
    trust = file("authority.pem")
    try:
        with Producer("tls", name_servers=servers, tls=True, tls_trust_cert_path=trust) as producer:
            sent = producer.send(Message("Secret", b"paid"))
        with PullConsumer(name_servers=servers, tls=True, tls_trust_cert_path=trust) as consumer:
            assert [m.body for m in consumer.pull(sent.queue, sent.queue_offset).messages] == [b"paid"]
        with pytest.raises(GantryError), PullConsumer(name_servers=servers, call_timeout_ms=1_000) as consumer:
            consumer.queues("Secret")
        with (
            pytest.raises(Unreachable, match="the certificate of the other side is not accepted"),
            PullConsumer(name_servers=servers, tls=True, tls_trust_cert_path=file("stranger.pem")) as consumer,
        ):
            consumer.queues("Secret")
        ours = written(tmp_path / "client.properties", CLIENT)
        command = [sys.executable, "-m", "gantrymq.cli.main", "topic", "list", "-n", servers, "--json"]
        plain = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert plain.returncode == 1 and "set GANTRY_TLS_CONFIG" in plain.stderr, plain.stderr
        assert "gantry server`" not in plain.stderr
        monkeypatch.setenv("GANTRY_TLS_CONFIG", str(ours))
        assert "Secret" in subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        with Producer("tls", name_servers=servers) as producer:  # as the environment says
            producer.send(Message("Secret", b"paid"))
    finally:
        program.kill()


def test_both_kinds_of_connections(tmp_path: Path) -> None:
    program, servers = started(tmp_path, SERVER)
    try:
        with Producer("plain", name_servers=servers) as producer:
            producer.send(Message("Both", b"plain"))
        with Producer("tls", name_servers=servers, tls=True, tls_trust_cert_path=file("authority.pem")) as producer:
            producer.send(Message("Both", b"tls"))
    finally:
        program.kill()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"tls.server.mode=enforcing{SERVER}", "the broker must reach its name server with TLS, too"),
        ("tls.server.certPath=/nowhere.pem\ntls.server.keyPath=/nowhere.key", "cannot read /nowhere.pem"),
        ("tls.server.mode=always", "write disabled, permissive, enforcing"),
    ],
)
def test_mistakes_are_one_sentence(text: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path / "tls.properties", text)
    program = Program("server", "--store", str(tmp_path / "store"), "--tls-config", str(path))
    status, _, errors = program.ended()
    assert status == 1 and said in errors and errors.count("\n") == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tls_trust_cert_path": "/ca.pem"}, "tls_trust_cert_path is given, and tls is None: set tls=True"),
        ({"tls": True, "tls_trust_cert_path": "/nowhere.pem"}, "cannot read the trusted certificates in /nowhere.pem"),
        ({"tls": True, "tls_cert_path": "/c.pem"}, "the certificate of a TLS client is given without its key"),
        ({"tls": "yes"}, "tls must be True, False or None"),
        ({"tls_key_password": b"hunter2"}, "tls_key_password: it must be a text, or None"),
    ],
)
def test_settings_of_clients(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)) as refused:
        Producer("tls", name_servers="127.0.0.1:9876", **settings)  # type: ignore[arg-type]
    assert "hunter2" not in str(refused.value)
