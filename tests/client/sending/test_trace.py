"""The message trace: its records, as Java's reader takes them apart."""

from __future__ import annotations

from pathlib import Path

from gantrymq.aio import (
    ConsumeFromWhere,
    LocalTransactionState,
    Message,
    MessageView,
    PullConsumer,
    PushConsumer,
    TransactionProducer,
)
from tests.client.peer import run, until
from tests.client.real import server

FIELDS = {"Pub": 14, "SubBefore": 8, "SubAfter": 9, "EndTransaction": 13}
"""How many fields Java's reader expects; it loses empty ones at the end."""


class Commits:
    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return LocalTransactionState.COMMIT

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


def test_what_becomes_of_a_message_is_told(tmp_path: Path) -> None:
    async def test() -> None:
        observed: list[bytes] = []

        async def listener(messages: list[MessageView]) -> None:
            observed.append(messages[0].body)
            if len(observed) == 1:
                raise ValueError("once")

        async with server(tmp_path) as address:
            consumer = PushConsumer(
                "CG", name_servers=address, listener=listener, trace=True, orderly=True, suspend_ms=10,
                from_where=ConsumeFromWhere.FIRST_OFFSET,
            )  # fmt: skip
            producer = TransactionProducer("PG", name_servers=address, listener=Commits(), trace=True)
            async with consumer.subscribe("T"), producer:
                plain = await producer.send(Message("T", "plain", keys="k1", tags="A"))
                later = await producer.send(Message("T", "later", delay_level=18))
                ended = await producer.send_in_transaction(Message("T", "transaction"))
                await until(lambda: len(observed) == 3)
            async with PullConsumer(name_servers=address) as reader:
                queues = await reader.queues("RMQ_SYS_TRACE_TOPIC")
                views = [view for queue in queues for view in (await reader.pull(queue, 0)).messages]
        records = [text.split("\x01") for view in views for text in view.body.decode().split("\x02") if text]
        for fields in records:
            assert len(fields) == FIELDS[fields[0]] and fields[-1], fields
        sent = {fields[5]: fields for fields in records if fields[0] == "Pub"}
        assert {key: fields[11] for key, fields in sent.items()} == {
            plain.message_id: "0", later.message_id: "3", ended.message_id: "1",
        }  # fmt: skip
        assert sent[plain.message_id][3:8] == ["PG", "T", plain.message_id, "A", "k1"]
        (end,) = [fields for fields in records if fields[0] == "EndTransaction"]
        assert (end[5], end[11]) == (ended.message_id, "COMMIT_MESSAGE")
        outcomes = [(fields[2], fields[4]) for fields in records if fields[0] == "SubAfter"]
        assert len(outcomes) == 3 and sorted(reported for _, reported in outcomes) == ["false", "true", "true"]
        assert any(plain.message_id in view.keys and "k1" in view.keys for view in views)

    run(test)
