"""Decisions of persons on a real broker: recorded before and after, refused when they do not fit."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from gantrymq.admin import Admin
from gantrymq.admin.audit import AuditFailed, AuditFile
from gantrymq.admin.decisions import Action, Decisions, the_one
from gantrymq.admin.transaction_pages import Filter
from gantrymq.errors import ConfigError
from gantrymq.runtime.clock import SystemClock
from tests.support.brokers import cluster


async def decided(root: Path, audit: Path) -> None:
    async with cluster(root, with_name_server=True) as running:
        assert running.name_server is not None
        for number in range(3):
            properties = f"TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01ABC{number}\x02"
            await running.sent("Orders", properties=properties)
        name_servers = running.name_server.address
        async with Admin(name_servers) as admin:
            pages = admin.transactions.pages
            page = await pages.page(Filter(), 2)
            assert [(row.id, row.broker) for row in page.rows] == [("ABC0", "broker-a"), ("ABC1", "broker-a")]
            page = await pages.page(Filter(), 2, page.cursor)
            assert [row.id for row in page.rows] == ["ABC2"] and page.cursor is None
            decisions = Decisions(admin.transactions, AuditFile(audit, SystemClock()), name_servers)
            place = the_one(await admin.transactions.find("ABC0"), Action.COMMIT)
            assert await decisions.carry_out(place, Action.COMMIT, "", person="ann", dry_run=True) == "dry run"
            with pytest.raises(ConfigError, match="reason"):
                await decisions.carry_out(place, Action.COMMIT, " ", person="ann")
            with pytest.raises(ConfigError, match="parked"):
                await decisions.carry_out(place, Action.RESUME, "why", person="ann")
            unwritable = Decisions(admin.transactions, AuditFile(root / "log" / "\0", SystemClock()), name_servers)
            with pytest.raises((AuditFailed, ValueError)):
                await unwritable.carry_out(place, Action.COMMIT, "why", person="ann")
            summary = (await pages.summaries())["broker-a"]
            assert summary is not None and summary.open == 3, "nothing was done so far"
            assert await decisions.carry_out(place, Action.COMMIT, "ticket 7", person="ann") == "committed"
            place = the_one(await admin.transactions.find("ABC1"), Action.ROLLBACK)
            assert await decisions.carry_out(place, Action.ROLLBACK, "ticket 8", person="ann") == "rolled back"
            with pytest.raises(ConfigError, match="committed"):
                the_one(await admin.transactions.find("ABC0"), Action.COMMIT)
            summary = (await pages.summaries())["broker-a"]
            assert summary is not None and (summary.open, summary.counts["commits"]) == (1, 1)


def test_decisions(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    asyncio.run(decided(tmp_path / "store", audit))
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [(line["phase"], line["action"], line["transaction_id"], line["who"]) for line in lines] == [
        ("dry run", "commit", "ABC0", "ann"), ("intended", "commit", "ABC0", "ann"), ("done", "commit", "ABC0", "ann"),
        ("intended", "rollback", "ABC1", "ann"), ("done", "rollback", "ABC1", "ann"),
    ]  # fmt: skip
    assert lines[1]["decision"] == lines[2]["decision"] and lines[2]["outcome"] == "committed"
