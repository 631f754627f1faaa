"""The processes of ``bench recovery``: a producer that is killed, and its sibling that gets the checks. They report in
JSON lines. Times are seconds of the monotonic clock of the machine, which is the same for all processes.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import uvloop

from gantrymq.aio import LocalTransactionState, Message, MessageView, TransactionProducer

TOPIC = "Recovery"


def say(**values: Any) -> None:
    print(json.dumps(values), flush=True)


class Committed:
    """A listener whose local transactions are all committed. Only the ends are missing."""

    def __init__(self, decisive: bool) -> None:
        self.decisive = decisive

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        raise NotImplementedError

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        now = time.monotonic()
        # The broker has the same clock as this process. The sender only knows when it got the answer, which is later.
        say(checked=message.body.decode(), at=now, stored=now - time.time() + message.store_timestamp / 1000)
        return LocalTransactionState.COMMIT


def producer(name_server: str, group: str, decisive: bool) -> TransactionProducer:
    return TransactionProducer(group, name_servers=name_server, listener=Committed(decisive), topics=[TOPIC])


async def victim(name_server: str, group: str, decisive: bool, halves: int) -> None:
    """Send half messages, and wait to be killed."""
    sender = producer(name_server, group, decisive)
    await sender.start()

    async def one(number: int) -> None:
        name = f"{group}-{number}"
        await sender.begin(Message(TOPIC, name))
        say(stored=name, at=time.monotonic())

    await asyncio.gather(*map(one, range(halves)))
    say(ready=True)
    await asyncio.Event().wait()


async def sibling(name_server: str, groups: list[str], decisive: bool) -> None:
    """Join every group, and answer all checks with COMMIT."""
    members = [producer(name_server, group, decisive) for group in groups]
    for member in members:
        await member.start()
    say(ready=True)
    await asyncio.Event().wait()


def main() -> None:
    role, name_server, decisive, *more = sys.argv[1:]
    if role == "victim":
        uvloop.run(victim(name_server, more[0], decisive == "decisive", int(more[1])))
    else:
        uvloop.run(sibling(name_server, more, decisive == "decisive"))


if __name__ == "__main__":
    main()
