"""``gantry server --replicas``: a broker group on one machine, whose primary is killed."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from gantrymq import Message, Producer, PullConsumer, SendStatus
from gantrymq.broker.config import BrokerConfig
from gantrymq.cli.serving.replicas import group_plans, write_config
from gantrymq.errors import ConfigError, GantryError, RequestRejected
from tests.cli.test_serve import DEADLINE_S, address, fails, program, server
from tests.cli.test_supervise import children, until
from tests.kill.group import Etcd
from tests.kill.test_guarded_group import CLIENT, TLS, USERS

PRIMARY = re.compile(r"the primary is (\S+),")


def settings(**more: object) -> BrokerConfig:
    return BrokerConfig.of(**more)


def test_each_has_a_store_and_the_same_name(tmp_path: Path) -> None:
    plans = group_plans(3, tmp_path, settings(broker_name="b", listen_port=10911))
    assert [(plan.name, plan.store.name, plan.port) for plan in plans] == [
        ("b", "replica-1", 10911), ("b", "replica-2", 10921), ("b", "replica-3", 10931),
    ]  # fmt: skip


@pytest.mark.parametrize(("count", "port"), [(0, 1), (1, 1), (10, 1), (3, 65_530)])
def test_what_cannot_be_planned(tmp_path: Path, count: int, port: int) -> None:
    with pytest.raises(ConfigError):
        group_plans(count, tmp_path, settings(listen_port=port))


def test_messages_of_another_kind_of_server_are_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "broker-0").mkdir()
    with pytest.raises(ConfigError, match="another --store"):
        group_plans(3, tmp_path, settings())


def test_given_settings_are_kept(tmp_path: Path) -> None:
    given = tmp_path / "given.conf"
    given.write_text("flushDiskType=ASYNC_FLUSH\nbrokerRole=SYNC_MASTER")
    plan = group_plans(2, tmp_path / "store", settings(listen_port=10911))[1]
    text = write_config(plan, 2, "127.0.0.1:2379", given).read_text()
    assert text.splitlines()[0] == "flushDiskType=ASYNC_FLUSH"
    assert text.splitlines()[2:] == [
        "brokerRole = SLAVE", "brokerId = 2", "haListenPort = 10922", "etcdAddr = 127.0.0.1:2379",
    ]  # fmt: skip


def test_both_kinds_of_several_brokers_are_refused(tmp_path: Path) -> None:
    assert "--brokers or --replicas" in fails(*server(tmp_path, "--replicas", "3", "--brokers", "2"))


@pytest.mark.slow
@pytest.mark.skipif(not Etcd.is_here(), reason="etcd is not installed (Debian: etcd-server)")
def test_the_primary_is_killed_and_everything_goes_on(tmp_path: Path) -> None:
    with program(*server(tmp_path / "store", "--replicas", "3")) as running:
        ready = running.ready()
        name_server, primary = address(ready, "name server"), PRIMARY.search(ready)
        assert primary is not None
        with Producer("p", name_servers=name_server) as producer, PullConsumer(name_servers=name_server) as consumer:
            send(producer, b"before")
            (victim,) = children(running, primary.group(1).rpartition(":")[2])
            os.kill(victim, signal.SIGKILL)
            send(producer, b"after")
            until(running, "is ready again")
            bodies = [
                message.body
                for queue in consumer.queues("orders")
                for message in consumer.pull(queue, 0, wait_ms=0).messages
            ]
        assert set(bodies) == {b"before", b"after"}
        running.process.send_signal(signal.SIGINT)
        assert running.ended()[0] == 0


@pytest.mark.slow
@pytest.mark.skipif(not Etcd.is_here(), reason="etcd is not installed (Debian: etcd-server)")
def test_with_users_and_tls_nobody_is_served_without_an_account(tmp_path: Path) -> None:
    """Neither by the brokers nor by the name server."""
    given, tls = tmp_path / "given.conf", tmp_path / "tls.properties"
    given.write_text("".join(f"{key}={value}\n" for key, value in USERS.items()))
    tls.write_text(TLS)
    words = server(tmp_path / "store", "--replicas", "3", "--config", str(given), "--tls-config", str(tls))
    with program(*words) as running:
        ready = running.ready()
        name_server, primary = address(ready, "name server"), PRIMARY.search(ready)
        assert primary is not None
        with Producer("p", name_servers=name_server, **CLIENT) as producer:
            send(producer, b"before")
            (victim,) = children(running, primary.group(1).rpartition(":")[2])
            os.kill(victim, signal.SIGKILL)
            send(producer, b"after")
        nobody = {key: value for key, value in CLIENT.items() if key.startswith("tls")}
        with (
            PullConsumer(name_servers=name_server, **nobody) as consumer,
            pytest.raises(RequestRejected, match=r"no account|sign|user"),
        ):
            consumer.queues("orders")
        running.process.send_signal(signal.SIGINT)
        assert running.ended()[0] == 0


def send(producer: Producer, body: bytes) -> None:
    """As soon as there is a primary, and enough replicas."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            if producer.send(Message("orders", body)).status is SendStatus.SEND_OK:
                return
        except GantryError:
            assert time.monotonic() < deadline
        time.sleep(0.1)
