"""``--http-port``: one endpoint for a server, one for each of several brokers."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from gantrymq.cli.serving import supervise
from gantrymq.demo.ports import free_port
from tests.cli.test_serve import program


def test_a_server_says_where_its_endpoint_is_and_answers_there(tmp_path: Path) -> None:
    port = free_port()
    arguments = ("--store", str(tmp_path), "--name-server-port", "0", "--listen-port", "0", "--http-port", str(port))
    with program("server", *arguments) as running:
        assert f"HTTP 127.0.0.1:{port}" in running.ready()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as answer:
            assert json.loads(answer.read())["status"] == "ok"


@pytest.mark.parametrize(("first", "ports"), [(8080, [8080, 8081, 8082]), (0, [0, 0, 0])])
def test_each_of_several_brokers_has_a_port_of_its_own(tmp_path: Path, first: int, ports: list[int]) -> None:
    plans = supervise.plans(3, tmp_path, 10911, None, first)
    assert [plan.http_port for plan in plans] == ports
    commands = [supervise.command_of(plan, "127.0.0.1:9876", []) for plan in plans]
    assert [("--http-port" in command) for command in commands] == [bool(port) for port in ports]
