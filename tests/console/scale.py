"""The console with very many transactions and topics: python -m tests.console.scale --open 1000000 --topics 10000

With ``--browser`` a person in Chromium turns pages and decides instead (100,000 transactions: about 20 s).
Prints how long each page takes, three times each, and for how long broker and console (one event loop here) answered
nobody else meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import tempfile
import time
from pathlib import Path

from gantrymq.message import properties
from gantrymq.message.message import Message
from gantrymq.protocol.batch import encode_batch
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.files.topics import TopicConfig, TopicTable
from tests.console.scene import served_over
from tests.console.site import Site, site
from tests.support.brokers import Cluster, cluster, send_header

AT_ONCE = 500
GROUPS = 20
TICK_S = 0.002


async def many_halves(running: Cluster, count: int) -> None:
    """Open half messages of some groups, in requests of many."""
    for first in range(0, count, AT_ONCE):
        messages = []
        for number in range(first, min(first + AT_ONCE, count)):
            message = Message("Orders", b'{"order": %d}' % number, tags="paid", keys=f"k{number}")
            message.properties[properties.UNIQ_KEY] = f"KEY{number:010d}"
            messages.append(message)
        group = f"group-{first // AT_ONCE % GROUPS}"
        common = properties.encode({"TRAN_MSG": "true", "PGROUP": group, "CHECK_IMMUNITY_TIME_IN_SECONDS": "86400"})
        header = send_header("Orders", common, producer_group=group)
        answer = await running.ask(RequestCode.SEND_HALVES, header, encode_batch(messages))
        assert answer.code == ResponseCode.SUCCESS, answer.remark


def many_topics(root: Path, count: int) -> None:
    """Before the broker starts: asked for one by one it would take long."""
    names = [f"Topic{number:06d}" for number in range(count)]
    table = TopicTable(
        topic_config_table={name: TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1) for name in names}
    )
    folder = root / "store" / "config"
    folder.mkdir(parents=True)
    (folder / "topics.json").write_bytes(table.encode())


async def until_known(there: Site, topics: int) -> None:
    """Until the name server knows all topics."""
    last = f"Topic{topics - 1:06d}"
    while topics and last not in await there.browser.get(f"/topics?q={last}"):
        await asyncio.sleep(0.5)


class Gaps:
    """Measures for how long the event loop did nothing else."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        before = time.perf_counter()
        while True:
            await asyncio.sleep(TICK_S)
            now = time.perf_counter()
            self.longest = max(self.longest, now - before - TICK_S)
            before = now

    def take(self) -> float:
        found, self.longest = self.longest, 0.0
        return found

    def stop(self) -> None:
        self._task.cancel()


async def measure(there: Site, paths: list[str]) -> None:
    gaps = Gaps()
    for path in paths:
        times = []
        for _ in range(3):
            began = time.perf_counter()
            await there.browser.get(path)
            times.append((time.perf_counter() - began) * 1000)
        shown = ", ".join(f"{one:.0f}" for one in times)
        print(f"{path[:64]:64}  {shown:>16} ms   longest gap {gaps.take() * 1000:.0f} ms", flush=True)
    gaps.stop()


async def work(root: Path, open_count: int, topics: int) -> None:
    began = time.monotonic()
    many_topics(root, topics)
    async with site(root, transaction_check_interval=3_600_000, mapped_file_size_commit_log=256 << 20,
                    mapped_file_size_consume_queue=20 * 300_000) as there:  # fmt: skip
        await many_halves(there.running, open_count)
        await there.browser.log_in("otto")
        await until_known(there, topics)
        print(f"{open_count} open transactions, {topics} topics after {time.monotonic() - began:.0f} s", flush=True)
        page = await there.browser.get("/transactions?rows=200")
        found = re.search(r'rel="next" href="([^"#]+)', page)
        assert page.count('name="chosen"') == min(200, open_count) and found is not None
        last = f"KEY{open_count - 1:010d}"
        far = f"broker-a:{open_count - 100}"
        await measure(there, [
            "/", "/transactions", found[1].replace("&amp;", "&"), f"/transactions?after={far}",
            "/transactions?group=group-7", "/transactions?group=nobody", "/transactions?min_age=1",
            f"/transactions/{last}", "/topics", "/topics?q=9999", "/topics/Topic000001", "/consumers",
        ])  # fmt: skip


async def in_chromium(root: Path, open_count: int) -> None:
    """Turn pages, filter, and commit a whole page; every number on the pages is right."""
    from tests.console.chromium import chromium, tab

    async with contextlib.AsyncExitStack() as stack:
        running = await stack.enter_async_context(
            cluster(root / "store", with_name_server=True, transaction_check_interval=3_600_000,
                    mapped_file_size_commit_log=256 << 20, mapped_file_size_consume_queue=20 * 300_000)
        )  # fmt: skip
        await many_halves(running, open_count)
        address = await stack.enter_async_context(served_over(running, root))
        there = await stack.enter_async_context(tab(await stack.enter_async_context(chromium()), address))
        page, first = there.page, "tbody tr:has(input[name=chosen]) th a.id >> nth=0"
        await there.log_in("otto")
        for number in range(4):
            await (there.go("/transactions") if number == 0 else page.click("a[rel=next]"))
            await page.wait_for_selector(f"text=KEY{number * 50:010d}")
            assert (await page.inner_text(first)) == f"KEY{number * 50:010d}"
        await page.wait_for_selector(f"dd >> text={open_count:,}")
        await there.go("/transactions?group=group-3")
        assert (await page.inner_text(first)) == f"KEY{3 * AT_ONCE:010d}"
        await page.click("text=choose all 50")
        await page.click("text=Commit…")
        await page.fill("[name=why]", "ticket 4713")
        await page.click("button.primary")
        await page.wait_for_selector("text=Commit: 50 done")
        await there.go("/transactions?group=group-3")
        assert (await page.inner_text(first)) == f"KEY{3 * AT_ONCE + 50:010d}"
        await page.wait_for_selector(f"dd >> text={open_count - 50:,}")
        # All others of the group in one go, over many pages.
        await page.click("text=Roll back all…")
        rest = open_count // GROUPS - 50
        await page.wait_for_selector(f"text=Roll back {rest:,} transactions?")
        await page.fill("[name=why]", "ticket 4714")
        await page.click("button.primary")
        await page.wait_for_selector("text=Every one of the list was tried")
        await page.wait_for_selector(f".figure:has(dt:text-is('Done')) >> text={rest:,}")
        await there.go("/transactions?group=group-3")
        await page.wait_for_selector("text=No open transactions here")
        assert there.complaints == []


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--open", type=int, default=1_000_000)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--browser", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        if options.browser:
            asyncio.run(in_chromium(Path(root), options.open))
        else:
            asyncio.run(work(Path(root), options.open, options.topics))
