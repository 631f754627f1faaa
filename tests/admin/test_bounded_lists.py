"""``--max``, or a page, bounds the work of a list: requests are counted, and do not grow with what there is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gantrymq.admin import Admin
from gantrymq.admin.browsing import SEARCHED_MAX
from gantrymq.errors import ConfigError
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.files.groups import Group
from tests.admin.test_wanted_transactions import asked
from tests.cli.tool import Tool
from tests.support.brokers import Cluster, cluster

MANY, QUEUES = 60, SEARCHED_MAX + 4


def with_admin(root: Path, work: Callable[[Cluster, Admin, Tool], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with (
            asyncio.timeout(90),
            cluster(root / "store", with_name_server=True, broker_name="b", flush_disk_type="ASYNC_FLUSH") as c,
        ):
            assert c.name_server is not None
            async with Admin(c.name_server.address) as admin:
                await work(c, admin, Tool(c.name_server.address, root / "audit.jsonl"))

    asyncio.run(bounded())


def test_commands_ask_about_the_rows_that_they_show(tmp_path: Path) -> None:
    async def work(c: Cluster, admin: Admin, tool: Tool) -> None:
        for number in range(MANY):
            body = Group(group_name=f"group{number:02}").encode()
            await c.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)
            await c.create_topic(f"A{number:02}", 1)
        for command in (("group", "list"), ("consumer", "progress"), ("topic", "list", "--long")):
            before = asked(c)
            status, out, err = await asyncio.to_thread(tool.run, *command, "--max", "3")
            assert (status, asked(c) - before < 15) == (0, True), (command, asked(c) - before)
            first = "A" if command[0] == "topic" else "group"
            assert [f"{first}{number:02}" in out for number in range(5)] == [True] * 3 + [False] * 2, out
            assert " more; --max shows more of them" in err and "... and " in err, err
        status, out, err = await asyncio.to_thread(tool.run, "topic", "list", "--max", "3")
        assert f"A{MANY - 1}" in out and "more" not in err, "a name alone costs no request"

    with_admin(tmp_path, work)


def test_the_newest_messages_are_read_from_the_queues_that_were_written_to_last(tmp_path: Path) -> None:
    async def work(c: Cluster, admin: Admin, tool: Tool) -> None:
        await c.create_topic("Wide", QUEUES)
        await asyncio.gather(*(c.sent("Wide", b"%d" % number, queue_id=number) for number in range(QUEUES - 9)))
        for number in range(QUEUES - 9, QUEUES):
            await c.sent("Wide", b"%d" % number, queue_id=number)
        before = asked(c)
        found = await admin.browsing.newest("Wide", 5)
        assert asked(c) - before < 10
        assert {view.body for view in found} <= {b"%d" % number for number in range(QUEUES - 9, QUEUES)}
        stamps = [view.store_timestamp for view in found]
        assert len(found) == 5 and stamps == sorted(stamps, reverse=True)
        with pytest.raises(ConfigError, match="name a broker and a queue"):
            await admin.browsing.since("Wide", 0, 5)
        only = await admin.browsing.since("Wide", 0, 5, only=MessageQueue("Wide", "b", 7))
        assert [view.body for view in only] == [b"7"]
        before = asked(c)
        assert len(await admin.browsing.since("Wide", found[0].store_timestamp, 5)) >= 1
        assert asked(c) - before < 2 * QUEUES

    with_admin(tmp_path, work)


def test_readers_and_owners_are_bounded_and_say_so(tmp_path: Path) -> None:
    async def work(c: Cluster, admin: Admin, tool: Tool) -> None:
        await c.sent("T", b"x")
        for number in range(MANY):
            await c.pull("T", offset=1, consumer_group=f"group{number:02}", sys_flag=5, commit_offset=1)
        (message,) = await admin.browsing.newest("T", 1)
        readers, left = await admin.messages.readers(message)
        assert left == MANY - len(readers) > 0
        before = asked(c)
        few, left = await admin.messages.readers(message, 2)
        assert [one.group for one in few] == ["group00", "group01"] and left == MANY - 2
        assert asked(c) - before < 10

    with_admin(tmp_path, work)
