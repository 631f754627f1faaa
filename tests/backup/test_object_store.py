"""Backups in a bucket, on the S3 server of the package ``moto``: real requests, as to every other such server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("moto")
pytest.importorskip("pyarrow")
from gantrymq.backup.object_store import ObjectStore
from gantrymq.backup.pruning import prune
from gantrymq.backup.reading import problems_in
from gantrymq.backup.restoring import Restoring
from gantrymq.backup.target import open_target
from gantrymq.errors import BackupDamaged, ConfigError, StoreError
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.store.layout import Layout
from tests.backup.scene import Scene
from tests.backup.test_store import filled, more
from tests.spark.pipelines.s3_server import BUCKET, s3_server
from tests.support.places import run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What an URL needs to reach the server."""
    with s3_server(tmp_path_factory.mktemp("s3") / "log") as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            if name.startswith("AWS_") and "ENDPOINT" not in name:
                patch.setenv(name, value)
        address = environment["AWS_ENDPOINT_URL"].removeprefix("http://")
        yield f"?endpoint_override={address}&scheme=http&region=us-east-1"


def test_a_bucket_takes_and_gives_backups(tmp_path: Path, query: str) -> None:
    scene = Scene(tmp_path)
    target = open_target(f"s3://{BUCKET}/broker-a{query}", scene.disk)
    assert isinstance(target, ObjectStore)
    assert (target.place, target.sizes("backups/")) == (f"s3://{BUCKET}/broker-a", {})

    async def work() -> None:
        store = await filled(scene, 100)
        first = scene.take(target)
        await more(store, 20)
        second = scene.take(target)
        assert 0 < second.sent_bytes < first.sent_bytes
        await store.close()

    run(work())
    assert list(problems_in(target, lambda done, total: None)) == []
    restored = Restoring(scene.disk, Layout(str(tmp_path / "restored")), target).restore()
    assert restored.records == 120
    assert scene.log("restored") == scene.log()
    assert prune(target, SystemClock().wall_ms() + 1000, dry_run=False).objects == 0  # all are in the second one
    assert len(target.sizes("backups/")) == 1
    target.write("log/of-nobody", b"x")
    assert prune(target, 0, dry_run=False).objects == 1
    assert "log/of-nobody" not in target.sizes("log/")
    target.remove("log/of-nobody")
    victim = next(iter(target.sizes("log/")))
    target.write(victim, b"other bytes")
    assert [text for _, text in problems_in(target, lambda done, total: None)] != []
    with pytest.raises(BackupDamaged, match="is damaged"):
        Restoring(scene.disk, Layout(str(tmp_path / "again")), target).restore()


def test_what_an_interrupt_leaves_of_a_manifest_counts_for_nothing(tmp_path: Path, query: str) -> None:
    scene = Scene(tmp_path)
    target = open_target(f"s3://{BUCKET}/broker-b{query}", scene.disk)

    async def work() -> None:
        store = await filled(scene, 3)
        name = scene.take(target).stored.name
        target.write(name.replace("-", "-0", 1).replace(".json", "")[:-1] + ".json", b"")
        assert len(target.sizes("backups/")) == 2
        assert list(problems_in(target, lambda done, total: None)) == []
        await store.close()

    run(work())


def test_a_bucket_that_is_not_there(query: str) -> None:
    target = open_target(f"s3://nobody-has-it/broker-a{query}", OsDisk())
    with pytest.raises(StoreError, match="it was not possible to write tables/x in s3://nobody-has-it/broker-a"):
        target.write("tables/x", b"data")
    with pytest.raises(FileNotFoundError):
        open_target(f"s3://{BUCKET}/broker-a{query}", OsDisk()).read("tables/none")


def test_an_url_of_nothing() -> None:
    with pytest.raises(ConfigError, match=r"nowhere:/{2}localhost is not the URL of an object store"):
        open_target("nowhere://localhost", OsDisk())
