"""The page of a group says when its members select different messages."""

from __future__ import annotations

from pathlib import Path

from gantrymq.aio import MessageView, PushConsumer
from tests.console.site import Site, on_site
from tests.support.brokers import until

GROUP, TOPIC = "billing", "Orders"


async def listen(views: list[MessageView]) -> None: ...


def test_the_page_of_a_group_says_it(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await there.running.create_topic(TOPIC, 1)

        def member(name: str, tags: str) -> PushConsumer:
            made = PushConsumer(GROUP, name_servers=there.name_servers, listener=listen, instance_name=name)
            return made.subscribe(TOPIC, tags)

        await there.browser.log_in("vera")
        async with member("old", "paid"):
            assert "select different" not in await there.browser.get(f"/consumers/{GROUP}")
            async with member("new", "*"):
                group = there.running.broker.consumers.get(GROUP)
                assert group is not None
                await until(lambda: bool(group.conflicts()))
                page = await there.browser.get(f"/consumers/{GROUP}")
                assert "Members select different messages of Orders" in page and "<b>paid</b> (" in page

    on_site(work, tmp_path)
