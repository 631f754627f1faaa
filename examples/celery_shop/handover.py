"""Hands every committed message to Celery: ``python handover.py``, as often as you like, as one consumer group.

The id of the message is the id of the task. A process that dies between ``apply_async`` and its progress hands the
message over again, with the same id.
"""

from __future__ import annotations

import os
import signal
import threading

from tasks import ship

from gantrymq import ConsumeFromWhere, MessageView, PushConsumer


def hand_over(messages: list[MessageView]) -> None:
    """Returns when Celery's broker has the task. When that fails it raises, and the message comes again."""
    for message in messages:
        ship.apply_async((message.body.decode(),), task_id=message.message_id)


def main() -> None:
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    name_servers = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
    consumer = PushConsumer(
        "celery", name_servers=name_servers, listener=hand_over, from_where=ConsumeFromWhere.FIRST_OFFSET
    )
    with consumer.subscribe("orders-paid"):
        ended.wait()


if __name__ == "__main__":
    main()
