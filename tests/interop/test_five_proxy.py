"""Official clients of RocketMQ 5, unchanged, on `gantry proxy` before a cluster: ours, and Apache's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gantrymq.demo.ports import free_port
from tests.interop import guarded, secured
from tests.interop.apache import OPS_AT_ONCE, ApacheCluster
from tests.interop.five_clients import CLIENTS
from tests.interop.jars import NotHere
from tests.interop.ours import READY, GantryCluster
from tests.interop.process import Process
from tests.interop.test_five_clients import FIRST_CHECK_MS, Place, check_wanted, play

CHECKS = {"transactionTimeOut": FIRST_CHECK_MS, "transactionCheckInterval": FIRST_CHECK_MS}
OF_APACHE = {**OPS_AT_ONCE, "timerWheelEnable": "true"}


def cluster_of(kind: str, directory: Path) -> GantryCluster | ApacheCluster:
    """A name server and two brokers."""
    cluster: GantryCluster | ApacheCluster
    cluster = GantryCluster(directory) if kind == "gantry" else ApacheCluster("5.5.0", directory)
    cluster.start_name_server()
    for name in ("broker-a", "broker-b"):
        cluster.start_broker(name=name, **CHECKS, **(OF_APACHE if kind != "gantry" else {}))
    return cluster


@pytest.fixture(scope="module", params=["gantry", "5.5.0"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    if guarded.is_on() or secured.is_on():
        pytest.skip("a proxy stands before clusters without users, and clients of RocketMQ 5 show no certificates")
    directory = tmp_path_factory.mktemp("five-proxy")
    try:
        cluster = cluster_of(request.param, directory)
    except NotHere as reason:
        pytest.skip(str(reason))
    port = free_port()
    command = [sys.executable, "-m", "gantrymq.cli.main", "proxy", "--name-servers", cluster.name_servers,
               "--grpc-port", str(port), "--bind", "127.0.0.1"]  # fmt: skip
    proxy = Process("proxy", command, directory)
    proxy.await_line(READY)
    yield Place(cluster, port=port)  # type: ignore[arg-type]
    proxy.kill()
    cluster.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_client_sends_is_consumed_and_its_transactions_end(
    client: str, place: Place, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    check_wanted(client, pytestconfig)
    play(client, place, tmp_path)
