"""A pipeline says at once when Spark cannot run where it was told to."""

from __future__ import annotations

import socket

import pytest

from gantrymq.demo.ports import free_port
from gantrymq.errors import ConfigError, Unreachable
from gantrymq.spark.pipelines.job import Run
from gantrymq.spark.pipelines.run.job_session import addresses, check_master


@pytest.mark.parametrize(
    "kind, server", [("sc://", "server of Spark Connect"), ("spark://", "master of the Standalone")]
)
def test_a_server_that_is_not_there(kind: str, server: str) -> None:
    with pytest.raises(Unreachable, match=rf"cannot reach 127\.0\.0\.1:\d+: .*start the {server}"):
        check_master(f"{kind}127.0.0.1:{free_port()}")


@pytest.mark.parametrize(
    "master",
    [
        "sc://127.0.0.1:port",
        "sc://:15002",
        "spark://127.0.0.1",
        "spark://",
        "spark://127.0.0.1:1,b",
        "spark://127.0.0.1:99999",
    ],
)
def test_an_address_that_is_none(master: str) -> None:
    with pytest.raises(ConfigError, match="write it as s"):
        check_master(master)


def test_the_addresses_of_a_master() -> None:
    assert addresses("sc://", "sc://[::1]") == [("::1", 15002)]
    assert addresses("sc://", "sc://[::1]:7/;token=x:1") == [("::1", 7)]
    assert addresses("spark://", "spark://127.0.0.1:1,localhost:2") == [("127.0.0.1", 1), ("localhost", 2)]


def test_a_server_that_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_master(f"sc://127.0.0.1:{port}/;user_id=me")
        check_master(f"spark://127.0.0.1:{free_port()},127.0.0.1:{port}")  # the first one is the standby that is down


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local[2]", "local-cluster[2,1,512]", "yarn", "k8s://127.0.0.1:1"]
)
def test_spark_asks_the_others_itself(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize("master", ["", "nonsense", "local[", "local[]", "127.0.0.1:7077", "Yarn", "k8s://"])
def test_no_master_at_all(master: str) -> None:
    with pytest.raises(ConfigError, match=r"is no master of Spark; write for example local\[\*\], spark://"):
        check_master(master)


@pytest.mark.parametrize(
    "master, remote", [("sc://127.0.0.1", True), ("local[*]", False), ("spark://127.0.0.1", False)]
)
def test_only_addresses_of_spark_connect_are_remote(master: str, remote: bool) -> None:
    assert Run(master=master).is_remote is remote
