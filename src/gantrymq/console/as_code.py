"""A message as a program that sends it again: for a test, or to repeat what happened."""

from __future__ import annotations

from typing import Final

from gantrymq.admin.resending import origin_topic
from gantrymq.message import properties
from gantrymq.message.message import MessageView

BODY_MAX: Final = 16 * 1024


def python_of(message: MessageView) -> str:
    """Python code with the topic, the body, tags, keys and the user's properties."""
    user = {
        name: value for name, value in sorted(message.properties.items())
        if name not in properties.RESERVED and not name.startswith(("DLQ_", "TIMER_", "1ST_", "GANTRY_"))
    }  # fmt: skip
    body = f"... # more than {len(message.body)} bytes: too long to be shown as code"
    if not message.body_cut:
        body = body_literal(message.body)
    arguments = [repr(origin_topic(message)), body]
    if message.tags:
        arguments.append(f"tags={message.tags!r}")
    if message.keys:
        arguments.append(f"keys={message.keys!r}")
    if user:
        arguments.append(f"properties={user!r}")
    lines = "".join(f"        {argument},\n" for argument in arguments)
    return (
        "from gantrymq import Message, Producer\n\n"
        'with Producer("my-group", name_servers="127.0.0.1:9876") as producer:\n'
        f"    producer.send(Message(\n{lines}    ))\n"
    )


def body_literal(body: bytes) -> str:
    """Text where it is text. A long body is cut, and the code says so by not being valid."""
    if len(body) > BODY_MAX:
        return f"... # {len(body)} bytes: too long to be shown as code"
    try:
        return repr(body.decode())
    except UnicodeDecodeError:
        return repr(body)
