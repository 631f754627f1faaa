"""Calls the public functions of the clients with values of wrong types, and prints what each call raised, as JSON.

``test_wrong_types`` runs it twice, on pure Python and on the compiled core: users must read the same words.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import gantrymq
from gantrymq import aio
from gantrymq.client.listener import TransactionListener
from gantrymq.message.message import Message
from gantrymq.message.queues import MessageQueue
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.sql.transaction.settings import TransactionsConfig
from tests.client.real import server

WRONG: Final[list[Any]] = [None, 1.5, -1, True, "", "text", b"bytes", [], [1], {"a": 1}, object, Ellipsis]
RIGHT: Final[dict[str, Any]] = {
    "message": Message("T", b"x"), "messages": [Message("T", b"x")], "queue": None, "timeout_ms": 3_000, "key": "k",
    "topic": "T", "recall_handle": "no handle", "request": None, "body": b"x", "arg": None, "group": "G",
}  # fmt: skip
"""Arguments beside the wrong one, by name."""
SKIPPED: Final = {"arg", "selector", "queues"}
"""Parameters that take anything, and what users call with a function of their own."""


class _Commit(TransactionListener):
    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        return LocalTransactionState.COMMIT

    def check_local_transaction(self, message: Any) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


def raised(error: BaseException) -> str:
    words = str(error)
    return f"{type(error).__name__}: {words.split(' at 0x')[0]}"


def wrong_calls(function: Callable[..., Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """For each parameter each wrong value, the others right."""
    parameters = [
        one for one in inspect.signature(function).parameters.values()
        if one.kind is not inspect.Parameter.VAR_KEYWORD and one.name not in SKIPPED
    ]  # fmt: skip
    for wrong in parameters:
        given = {
            one.name: RIGHT[one.name] for one in parameters
            if one is not wrong and one.default is inspect.Parameter.empty
        }  # fmt: skip
        for value in WRONG:
            if value != wrong.default:
                yield f"{wrong.name}={value!r}", given | {wrong.name: value}


async def asynchronous(address: str, outcomes: dict[str, str]) -> None:
    async with (
        aio.Producer("PG", name_servers=address, send_timeout_ms=3_000) as producer,
        aio.TransactionProducer("TG", name_servers=address, listener=_Commit(), send_timeout_ms=3_000) as sender,
    ):
        await producer.send(Message("T", b"x"))
        for call in (
            producer.send, producer.send_ordered, producer.send_oneway, producer.send_batch, producer.recall,
            producer.reply, sender.send, sender.send_in_transaction,
        ):  # fmt: skip
            for words, given in wrong_calls(call):
                try:
                    await call(**given)
                except Exception as error:
                    outcomes[f"aio.{type(call.__self__).__name__}.{call.__name__}({words})"] = raised(error)


def blocking(address: str, outcomes: dict[str, str]) -> None:
    with gantrymq.Producer("BG", name_servers=address, send_timeout_ms=3_000) as producer:
        for call in (producer.send, producer.send_ordered, producer.send_batch):
            for words, given in wrong_calls(call):
                try:
                    call(**given)
                except Exception as error:
                    outcomes[f"Producer.{call.__name__}({words})"] = raised(error)


def values(outcomes: dict[str, str]) -> None:
    makers: dict[str, Callable[..., Any]] = {
        "Message": Message, "MessageQueue": MessageQueue, "aio.Producer": aio.Producer,
        "TransactionsConfig": lambda **given: TransactionsConfig(**{"group": "G", "name_servers": "a:1"} | given),
    }  # fmt: skip
    wanted: dict[str, list[dict[str, Any]]] = {
        "Message": [{"topic": wrong, "body": b"x"} for wrong in WRONG]
        + [{"topic": "T", "body": wrong} for wrong in WRONG],
        "MessageQueue": [{"topic": "T", "broker_name": "b", "queue_id": wrong} for wrong in WRONG],
        "aio.Producer": [{"group": wrong, "name_servers": "a:1"} for wrong in WRONG]
        + [{"group": "G", "name_servers": "a:1", "retries": wrong} for wrong in WRONG]
        + [{"group": "G", "name_servers": wrong} for wrong in WRONG],
        "TransactionsConfig": [
            {name: wrong}
            for name in ("table", "claim_timeout", "keep_rows", "when_broker_is_away", "row_limit", "wait_for_brokers")
            for wrong in WRONG
        ],
    }  # fmt: skip
    for name, make in makers.items():
        for given in wanted[name]:
            try:
                make(**given)
            except Exception as error:
                outcomes[f"{name}({given})"] = raised(error)


def main(directory: Path) -> None:
    outcomes: dict[str, str] = {}

    async def clients() -> None:
        async with server(directory) as address:
            await asynchronous(address, outcomes)
            await asyncio.to_thread(blocking, address, outcomes)

    values(outcomes)
    asyncio.run(clients())
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
