"""A job that is to run through Spark Connect says at once when it cannot."""

from __future__ import annotations

import socket

import pytest

from gantrymq.demo.ports import free_port
from gantrymq.errors import ConfigError, Unreachable
from gantrymq.spark.pipelines.job import Run
from gantrymq.spark.pipelines.job_session import check_answers


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(Unreachable, match=r"cannot reach 127\.0\.0\.1:\d+: .*start the server of Spark Connect there"):
        check_answers(f"sc://127.0.0.1:{free_port()}")
    with pytest.raises(ConfigError, match="write it as sc"):
        check_answers("sc://127.0.0.1:port")


def test_a_server_that_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_answers(f"sc://127.0.0.1:{server.getsockname()[1]}/;user_id=me")


@pytest.mark.parametrize(
    "master, remote", [("sc://127.0.0.1", True), ("local[*]", False), ("spark://127.0.0.1", False)]
)
def test_only_addresses_of_spark_connect_are_remote(master: str, remote: bool) -> None:
    assert Run(master=master).is_remote is remote
