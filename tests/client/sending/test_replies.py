"""Requests and their replies, with a real broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gantrymq.aio import ConsumeFromWhere, Message, MessageView, Producer, PushConsumer
from gantrymq.errors import MessageIllegal, RequestRejected, TimedOut
from tests.client.peer import run, until
from tests.client.real import server


def test_each_request_gets_its_own_reply_and_late_ones_are_refused(tmp_path: Path) -> None:
    async def test() -> None:
        late: list[MessageView] = []
        refused: list[RequestRejected] = []

        async with (
            server(tmp_path) as address,
            Producer("PG", name_servers=address) as requester,
            Producer("RG", name_servers=address) as replier,
        ):

            async def listener(messages: list[MessageView]) -> None:
                (view,) = messages
                if view.body == b"late":
                    late.append(view)
                else:
                    await replier.reply(view, view.body * 2 if view.body != b"big" else b"x" * 10_000)

            consumer = PushConsumer(
                "CG", name_servers=address, listener=listener, from_where=ConsumeFromWhere.FIRST_OFFSET
            )
            async with consumer.subscribe("T"):
                asked = [requester.request(Message("T", f"{number}"), 10_000) for number in range(10)]
                replies = await asyncio.gather(*asked)
                assert [reply.body for reply in replies] == [b"%d%d" % (number, number) for number in range(10)]
                assert (await requester.request(Message("T", "big"), 10_000)).body == b"x" * 10_000
                with pytest.raises(TimedOut, match="reply"):
                    await requester.request(Message("T", "late"), 500)
                await until(lambda: late)
                try:
                    await replier.reply(late[0], "too late")
                except RequestRejected as error:
                    refused.append(error)
                with pytest.raises(MessageIllegal, match="not a request"):
                    await replier.reply(replies[0].__class__(**{**_fields(late[0]), "properties": {}}), "x")
        assert refused and refused[0].code == 1

    run(test)


def _fields(view: MessageView) -> dict[str, object]:
    return {name: getattr(view, name) for name in view.__struct_fields__}
