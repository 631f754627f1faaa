"""Apache's tools ask a broker group of ours what they ask a controller."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.interop.mqadmin import Tool
from tests.interop.process import poll
from tests.kill.group import Etcd, Group

pytestmark = pytest.mark.skipif(not Etcd.is_here(), reason="etcd is not installed (Debian: etcd-server)")


@pytest.mark.slow
def test_mqadmin_shows_who_is_primary_who_is_in_sync_and_the_epoch(jdk: None, tmp_path: Path) -> None:
    with Group(tmp_path, 2) as group:
        poll(lambda: len(group.record().get("in_sync", ())) == 2, "both brokers in the in-sync set")
        record = group.record()
        primary, name = record["primary"], "broker-pair"
        other = next(member for member in group.members if member.number != primary["broker_id"])
        tool = Tool("5.5.0", cast(Any, SimpleNamespace(name_servers=group.name_servers)), tmp_path / "tool", "Unused")
        try:
            # Whichever broker is asked, its answer names the primary as the leader.
            asked = f"127.0.0.1:{other.port}"
            metadata = tool.run("getControllerMetaData", "-a", asked)
            assert re.search(rf"#ControllerLeaderAddress\s+{re.escape(primary['address'])}\b", metadata), metadata
            text = tool.run("getSyncStateSet", "-a", asked, "-b", name)
            assert re.search(rf"#MasterAddr\s+{re.escape(primary['address'])}\b", text), text
            assert re.search(rf"#MasterEpoch\s+{record['epoch']}\b", text), text
            assert re.search(r"#SyncStateSetNums\s+2\b", text), text
            for disk in record["in_sync"]:
                assert str(disk) in text, text
            epochs = tool.run("getBrokerEpoch", "-b", name)
            assert len(re.findall(rf"[Ee]poch[=:]\s*{record['epoch']}\b", epochs)) >= 2, epochs
            other.kill()
            poll(
                lambda: "alive=false" in tool.run("getSyncStateSet", "-a", primary["address"], "-b", name),
                "an answer that says that the other broker is away",
            )
        finally:
            tool.close()
