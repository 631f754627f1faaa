"""Backups beside Apache's brokers: of a running one of theirs, started by one of theirs, and as the seed of a slave."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gantrymq import Message, Producer
from gantrymq.backup.log_walk import RecordWalk
from gantrymq.demo.ports import free_port
from tests.backup.scene import Scene
from tests.interop.apache import ApacheCluster
from tests.interop.ours import GantryCluster
from tests.interop.process import poll
from tests.interop.swap import CONF, SwapScenario

FILE_BYTES = 1 << 20


@pytest.mark.usefixtures("jdk")
@pytest.mark.parametrize(
    ("version", "ours_first"),
    [
        pytest.param("5.5.0", True, id="ours-to-5.5.0"),
        pytest.param("5.5.0", False, id="5.5.0-to-ours"),
        pytest.param("4.9.7", True, id="ours-to-4.9.7"),
        pytest.param("4.9.7", False, id="4.9.7-to-ours"),
    ],
)
def test_the_backup_of_one_broker_is_the_store_of_another(version: str, ours_first: bool, tmp_path: Path) -> None:
    """The first one is killed behind the backup, and its store is not used again."""
    ours, apache = GantryCluster(tmp_path / "ours"), ApacheCluster(version, tmp_path / "apache")
    scene = Scene(tmp_path)
    scenario = SwapScenario(scene.store, timers=version.startswith("5"), recalls=False)
    try:
        ours.start_name_server()
        apache.name_servers = ours.name_servers
        broker = ours.start_broker(scene.store, **CONF)
        scenario.write("0-ours", ours.name_servers, forgets=False)
        if not ours_first:
            broker.stop()
            broker = apache.start_broker(scene.store, **CONF)
            scenario.check(ours.name_servers)
            scenario.write("1-apache", ours.name_servers, forgets=True)
        scene.take()
        assert scene.problems() == []
        broker.kill()
        scene.restore()
        (apache if ours_first else ours).start_broker(scene.root / "restored", **CONF)
        scenario.check(ours.name_servers)
    finally:
        apache.close()
        ours.close()


def records_in(store: Path) -> int:
    """Up to the first byte that belongs to none."""
    names = sorted((store / "commitlog").iterdir())
    data = b"".join(path.read_bytes() for path in names)
    return RecordWalk(data, int(names[0].name), FILE_BYTES).to_the_end().records


def entries_in(store: Path, topic: str) -> int:
    """Of the queues of a topic."""
    files = (store / "consumequeue" / topic).glob("*/*")
    data = [path.read_bytes() for path in files]
    return sum(any(one[at : at + 20]) for one in data for at in range(0, len(one), 20))


@pytest.mark.usefixtures("jdk")
@pytest.mark.parametrize("version", ["5.5.0", "4.9.7"])
def test_an_apache_slave_that_was_seeded_has_all_files_of_the_log(version: str, tmp_path: Path) -> None:
    ours, apache = GantryCluster(tmp_path / "ours"), ApacheCluster(version, tmp_path / "apache")
    scene = Scene(tmp_path)
    sizes = {"mappedFileSizeCommitLog": FILE_BYTES}
    try:
        ours.start_name_server()
        apache.name_servers = names = ours.name_servers
        ours.start_broker(
            scene.store, name_servers=names, haListenPort=free_port(), brokerRole="ASYNC_MASTER", **sizes
        )  # fmt: skip
        with Producer("seeding", name_servers=names) as producer:
            for _ in range(100):
                producer.send(Message("seeded", os.urandom(20_000)))
            scene.take()
            scene.restore()
            for _ in range(100):
                producer.send(Message("seeded", os.urandom(20_000)))
        assert len(list((scene.store / "commitlog").iterdir())) > 3
        apache.start_broker(scene.root / "restored", name_servers=names, brokerRole="SLAVE", brokerId=1, **sizes)
        whole = records_in(scene.store)
        assert whole >= 200
        poll(lambda: records_in(scene.root / "restored") == whole, "whole log of the slave")
        assert scene.log("restored").startswith(scene.log().rstrip(b"\0"))
        poll(lambda: entries_in(scene.root / "restored", "seeded") == 200, "queues of the slave")
    finally:
        apache.close()
        ours.close()
