"""A consumer with Sub on its topic and its group can do all that a consumer does; a retry topic needs no right more."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.aio import ConsumeFromWhere, MessageView, PushConsumer, ReconsumeLater
from gantrymq.message.system_topics import dead_letter_topic
from gantrymq.protocol.codes import RequestCode as Code
from tests.access.test_broker import ADMIN, Guarded, play
from tests.support.brokers import send_header, until

TOPIC, GROUP = "orders", "billing"
CONSUMER = (f"Topic:{TOPIC}=Sub", f"Group:{GROUP}=Sub")


@pytest.mark.parametrize("orderly", [False, True])
def test_what_failed_too_often_becomes_a_dead_letter(orderly: bool, tmp_path: Path) -> None:
    async def work(broker: Guarded) -> None:
        admin = broker.caller(ADMIN)
        account = await admin.make_user("app", *CONSUMER)
        await admin.fine(Code.SEND_MESSAGE_V2, send_header(TOPIC), b"bad")
        got: list[MessageView] = []

        def listener(views: list[MessageView]) -> ReconsumeLater:
            got.extend(views)
            return ReconsumeLater(delay_level=-1)

        running = broker.running
        assert running.name_server is not None
        consumer = PushConsumer(
            GROUP, name_servers=running.name_server.address, listener=listener, orderly=orderly, max_reconsume_times=0,
            from_where=ConsumeFromWhere.FIRST_OFFSET, access_key=account.access_key, secret_key=account.secret_key,
        ).subscribe(TOPIC)  # fmt: skip
        async with consumer:
            await until(lambda: running.broker.topics.exists(dead_letter_topic(GROUP)))
        assert {view.body for view in got} == {b"bad"}
        assert running.broker.metrics.total("gantry_permission_refusals_total") == 0

    play(work, tmp_path, with_name_server=True)
