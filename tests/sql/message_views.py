"""Messages as a consumer gets them, made by hand."""

from __future__ import annotations

import itertools

from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue

_numbers = itertools.count()


def view(name: str | None = None, topic: str = "orders", **properties: str) -> MessageView:
    """A message as a consumer gets it; each has a place of its own."""
    number = next(_numbers)
    name = name or f"message {number}"
    values = {"UNIQ_KEY": name, **properties}
    return MessageView(
        topic, name.encode(), values, 0, MessageQueue(topic, "b", 0), number, name, f"offset {number}", 0, "", 0, "",
        0, number,
    )  # fmt: skip
