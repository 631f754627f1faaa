"""Every socket that a command listens on says at its start when strangers can reach it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gantrymq.cli.serving.exposure import of_broker, of_console, of_http, of_name_server
from gantrymq.cli.serving.exposure import warning_of as warning
from gantrymq.demo.ports import free_port
from gantrymq.metrics import serve
from gantrymq.runtime.addresses import is_loopback
from tests.cli.test_serve import program
from tests.support.listening import listening

SOURCE = Path(__file__).parents[2] / "src/gantrymq"
SECURITY = (SOURCE.parents[1] / "docs/security.md").read_text()

PORTS = {
    "broker": lambda host, users, tls: of_broker(host, users),
    "name server": lambda host, users, tls: of_name_server(host, users),
    "HTTP of a broker": lambda host, users, tls: of_http(
        "broker", host, users, "httpBindAddress=127.0.0.1", only_tls=tls
    ),
    "HTTP of a name server": lambda host, users, tls: of_http(
        "name server", host, users, "--http-bind 127.0.0.1", only_tls=tls
    ),
    "console": lambda host, users, tls: of_console(host, users, only_tls=tls),
}


@pytest.mark.parametrize("port", PORTS)
def test_a_port_that_strangers_reach_says_so_and_what_to_do(port: str) -> None:
    for host in ("0.0.0.0", "::", "10.0.0.7", "broker.example"):
        open_to_all = warning(PORTS[port](host, False, False))
        assert open_to_all is not None and host in open_to_all and "has no users" in open_to_all
        assert "127.0.0.1" in open_to_all and "docs/" in open_to_all
        plain = warning(PORTS[port](host, True, False))
        takes_passwords = PORTS[port](host, True, False).takes_passwords
        assert (plain is not None) == takes_passwords
        assert plain is None or ("passwords" in plain and ("tls" in plain.lower()))
        assert warning(PORTS[port](host, True, True)) is None
    for host in ("127.0.0.1", "::1", "localhost", "127.9.9.9"):
        assert is_loopback(host) and warning(PORTS[port](host, False, False)) is None


def first_line(*command: str) -> str:
    """The first line on standard error of a command, which is then stopped."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gantrymq.cli.main", *command],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    try:
        return process.stderr.readline()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_broker_and_name_server_on_all_addresses_say_it_at_their_start(tmp_path: Path) -> None:
    common = ("--listen-port", "0", "--log-level", "error")
    assert "name server listens on 0.0.0.0 and has no users" in first_line("nameserver", *common)
    store = ("--store", str(tmp_path / "s"), "--http-port", "0")
    assert "broker listens on 0.0.0.0 and has no users" in first_line("broker", *store, *common)


def test_a_console_with_users_and_without_tls_says_that_passwords_can_be_read(tmp_path: Path) -> None:
    pytest.importorskip("starlette", reason="the console needs starlette")
    from gantrymq.console.passwords import hashed
    from gantrymq.runtime.rng import SystemRng

    settings = tmp_path / "console.toml"
    settings.write_text(f'[users.vera]\nrole = "viewer"\npassword = "{hashed("correct horse", SystemRng(1))}"\n')
    audit = ("--audit", str(tmp_path / "audit.jsonl"))
    line = first_line("console", "--host", "0.0.0.0", "--port", "0", "--settings", str(settings), *audit)
    assert "console listens on 0.0.0.0 without TLS" in line and "--tls-cert" in line


ALL, LOCAL = {"0.0.0.0", "::"}, {"127.0.0.1"}
DEFAULTS = {
    "broker": ("--store", "{root}/s", "--listen-port", "0", "--http-port", "0"),
    "nameserver": ("--listen-port", "0"),
    "server": ("--store", "{root}/s", "--listen-port", "0", "--name-server-port", "0"),
    "console": ("--port", "0", "--audit", "{root}/audit.jsonl"),
}
"""Programs with their defaults, but on free ports."""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
@pytest.mark.parametrize("command", DEFAULTS)
def test_each_program_listens_where_the_table_says(tmp_path: Path, command: str) -> None:
    if command == "console":
        pytest.importorskip("uvicorn", reason="the console needs uvicorn")
    (row,) = (line for line in SECURITY.splitlines() if re.match(rf"\| `gantry {command}`", line))
    told = ALL if "all addresses**" in row else LOCAL
    with program(command, *(text.format(root=tmp_path) for text in DEFAULTS[command])) as running:
        running.ready()
        found = listening(running.process.pid)
    assert found and found <= told, row


def test_metrics_of_a_program_are_local_and_say_when_they_are_not(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("prometheus_client", reason="prometheus_client is not installed")
    before = listening(os.getpid())
    serve(free_port())()
    end = serve(free_port())
    assert listening(os.getpid()) - before <= LOCAL and not caplog.records
    end()
    serve(free_port(), "0.0.0.0")()
    assert "on 0.0.0.0 to everybody" in caplog.text


def test_nothing_else_listens() -> None:
    """A file that makes a listening socket is behind a row of the table in docs/security.md."""
    made = re.compile(r"\bcreate_server\(|start_server\(|start_http_server\(|uvicorn\.Server|HTTPServer\(")
    found = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if made.search(path.read_text())}
    assert found == {"runtime/network.py", "cli/console.py", "metrics.py"}
