"""Several brokers behind one name server: what is planned, and real processes that are killed."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from gantrymq import Admin, Message, Producer
from gantrymq.cli.serving import supervise
from gantrymq.cli.serving.supervise import Plan, backoff_s, left_out, plans
from gantrymq.errors import ConfigError
from tests.cli.test_serve import DEADLINE_S, Program, address, fails, program, server

BROKER = re.compile(r"broker (\S+) (\d+\.\d+\.\d+\.\d+:\d+)")


def test_each_broker_has_a_store_and_room_for_its_ports(tmp_path: Path) -> None:
    assert plans(2, tmp_path, 10911, None) == [
        Plan("broker-0", tmp_path / "broker-0", 10911),
        Plan("broker-1", tmp_path / "broker-1", 10921),
    ]
    assert [plan.port for plan in plans(2, tmp_path, 0, "shop")] == [0, 0]
    assert [plan.name for plan in plans(2, tmp_path, 0, "shop")] == ["shop-0", "shop-1"]


@pytest.mark.parametrize(("count", "port"), [(0, 1), (-1, 1), (65, 1), (2, 65_530)])
def test_what_cannot_be_planned(tmp_path: Path, count: int, port: int) -> None:
    with pytest.raises(ConfigError):
        plans(count, tmp_path, port, None)


def test_stores_that_nobody_would_serve_are_named(tmp_path: Path) -> None:
    for name in ("broker-0", "broker-2", "broker-10", "other"):
        (tmp_path / name).mkdir()
    assert left_out(1, tmp_path) == [str(tmp_path / "broker-2"), str(tmp_path / "broker-10")]


def test_the_wait_grows_and_ends_at_its_limit() -> None:
    assert [backoff_s(number) for number in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert backoff_s(10_000) == supervise.BACKOFF_MAX_S


def test_messages_of_one_broker_are_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    said = fails(*server(tmp_path / "store", "--brokers", "2"))
    assert "broker-0" in said, "it says where to move them"
    (tmp_path / "many" / "broker-0" / "commitlog").mkdir(parents=True)
    assert "--brokers" in fails(*server(tmp_path / "many"))


@pytest.mark.slow
def test_several_brokers_serve_and_one_that_dies_comes_back(tmp_path: Path) -> None:
    with program(*server(tmp_path / "store", "--brokers", "2")) as running:
        ready = running.ready()
        name_server = address(ready, "name server")
        assert [name for name, _ in BROKER.findall(ready)] == ["broker-0", "broker-1"]
        with (
            Admin(name_server) as admin,
            Producer("PG", name_servers=name_server, avoid_slow_brokers=False) as producer,
        ):
            admin.create_topic("T", queues=1)
            assert {data.broker_name for data in admin.route("T").queue_datas} == {"broker-0", "broker-1"}
            for number in range(4):
                producer.send(Message("T", f"{number}"))
            assert sorted(stats.messages for stats in admin.queue_stats("T")) == [2, 2]
        (victim,) = children(running, "broker-1")
        os.kill(victim, signal.SIGKILL)
        said = until(running, "broker-1 is ready again")
        assert "broker-1 ended (killed by SIGKILL)" in said and "started again in 1 s" in said
        with Admin(name_server) as admin:
            deadline = time.monotonic() + DEADLINE_S
            while {data.broker_name for data in admin.route("T").queue_datas} != {"broker-0", "broker-1"}:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert sorted(stats.messages for stats in admin.queue_stats("T")) == [2, 2], "nothing is lost"
        running.process.send_signal(signal.SIGINT)
        assert running.ended()[0] == 0
    assert not (tmp_path / "store" / "broker-0" / "abort").exists(), "each stopped in order"
    assert not (tmp_path / "store" / "broker-1" / "abort").exists()


def test_brokers_do_not_outlive_the_one_who_started_them(tmp_path: Path) -> None:
    with program(*server(tmp_path / "store", "--brokers", "2")) as running:
        running.ready()
        left = [pid for number in range(2) for pid in children(running, f"broker-{number}")]
        assert len(left) == 2
        running.process.kill()
        deadline = time.monotonic() + DEADLINE_S
        while any(map(alive, left)):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_a_broker_that_cannot_start_ends_everything(tmp_path: Path) -> None:
    strange = tmp_path / "store" / "broker-1" / "commitlog"
    strange.mkdir(parents=True)
    (strange / "photos.zip").write_bytes(b"not a log")
    with program(*server(tmp_path / "store", "--brokers", "2")) as running:
        status, out, err = running.ended()
    assert (status, out) == (1, "")
    assert "broker-1 did not start" in err and "photos.zip" in err
    assert not (tmp_path / "store" / "broker-0" / "abort").exists()


def children(running: Program, name: str) -> list[int]:
    """Process ids of the brokers of that name below a program."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if parent == running.process.pid and name.encode() in words:
            found.append(int(entry.name))
    return found


def alive(pid: int) -> bool:
    try:
        return "Z" not in (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def until(running: Program, text: str) -> str:
    """What it says on standard error until that text comes."""
    assert running.process.stderr is not None
    said = ""
    while text not in said:
        line = running.process.stderr.readline()
        assert line, said
        said += line
    return said
