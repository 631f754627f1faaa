"""A client with a wrong clock, e.g. one that sends microseconds, makes no page unusable, and no command."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.cli.tool import Tool
from tests.console.site import Site, on_site

MICROSECONDS = 1_790_000_000_000_000


def test_times_that_are_no_dates(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        key = "7F0000014B2D18B4AAC2000000000001"
        half = f"TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01{key}\x02KEYS\x01k\x02"
        plain = await there.running.sent("Orders", b"x", properties="KEYS\x01p\x02", born_timestamp=MICROSECONDS)
        await there.running.sent("Orders", b"x", properties=half, born_timestamp=MICROSECONDS)
        await there.browser.log_in("otto")
        assert key in await there.browser.get("/transactions")
        assert f"{MICROSECONDS} ms" in await there.browser.get(f"/transactions/{key}")
        place = f"topic=Orders&broker=broker-a&queue={plain.queue_id}&offset={plain.queue_offset}"
        assert f"{MICROSECONDS} ms" in await there.browser.get(f"/messages/at?{place}")
        tool = Tool(there.name_servers, there.audit)
        for command in (
            ("transactions", "list"), ("transactions", "explain", key), ("transactions", "show", key),
            ("message", "show", "--topic", "Orders", "--key", "p"), ("message", "tail", "Orders"),
            ("transactions", "rollback", key, "--yes", "--why", "its clock is wrong"),
        ):  # fmt: skip
            assert await asyncio.to_thread(tool.text, *command), command

    on_site(work, tmp_path)
