"""Topics are made, changed and deleted here: first a dry run, then with a reason. What destroys asks for the name."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from gantrymq.admin.topic_changes import Wanted, why_refused
from gantrymq.console.forms import value_of, whole_of
from gantrymq.console.parts import Console, console_of, page, person_of
from gantrymq.errors import ConfigError
from gantrymq.message import system_topics

QUEUES_MAX: Final = 1_024
"""Of a topic on one broker, for a form: more are an error of typing. The command line takes more."""
PERMS: Final = {"6": "read and write", "4": "read", "2": "write"}
NEW: Final = Wanted(read_queues=8, write_queues=8, perm=6, order=False)
FIELDS: Final = ("topic", "read_queues", "write_queues", "perm", "order", "type", "hide")


async def plan(request: Request) -> Response:
    """The dry run of a new topic, or of a change: what it would be on each broker."""
    return await _put(request, dry_run=True)


async def change(request: Request) -> Response:
    """Make it so, and note it in the audit file."""
    return await _put(request, dry_run=False)


async def _put(request: Request, *, dry_run: bool) -> Response:
    console, form = console_of(request), request.state.form
    topic, why = value_of(form, "topic"), value_of(form, "why")
    wanted = wanted_of(form)
    changes = await console.admin.topic_changes.plan(topic, wanted, NEW)
    new = all(one.before is None for one in changes)
    if value_of(form, "new") == "1" and not new and dry_run:
        raise ConfigError(f"topic {topic!r} exists already; open its page to change it")
    hidden = await console.admin.topic_changes.hidden(topic, changes)
    refused = why_refused(topic, changes, hidden)
    nothing = not any(one.before is None or one.differences() for one in changes)
    if not dry_run:
        if refused and value_of(form, "hide") != "1":
            raise ConfigError(refused)
        facts = {one.broker: {name: [now, then] for name, now, then in one.differences()} for one in changes}
        async with console.changes.noted(
            person_of(request), "create topic" if new else "change topic", why, topic=topic,
            settings=described(wanted), brokers=facts,
        ):  # fmt: skip
            await console.admin.change_topic(topic, changes)
        _forget(console)
    return page(
        request, "topic_change.html", topic=topic, changes=changes, new=new, refused=refused, nothing=nothing,
        dry_run=dry_run, why=why, fields={name: value_of(form, name) for name in FIELDS}, hidden=hidden,
        perms=PERMS,
    )  # fmt: skip


def wanted_of(form: dict[str, list[str]]) -> Wanted:
    """What a form asks for; an empty field leaves it as it is. Raises ConfigError saying what to write."""
    perm, order = value_of(form, "perm"), value_of(form, "order")
    if perm and perm not in PERMS:
        raise ConfigError(f"{perm!r} is not a valid permission; choose one of {', '.join(PERMS)}")
    if order not in ("", "yes", "no"):
        raise ConfigError(f"{order!r} is not a valid answer to whether it is ordered; choose yes or no")
    wanted = Wanted(
        read_queues=whole_of(form, "read_queues", 1, QUEUES_MAX),
        write_queues=whole_of(form, "write_queues", 1, QUEUES_MAX),
        perm=int(perm) if perm else None, order=order == "yes" if order else None,
        message_type=value_of(form, "type") or None,
    )  # fmt: skip
    wanted.check()
    return wanted


def described(wanted: Wanted) -> dict[str, Any]:
    """For the audit file."""
    values = {
        "readQueueNums": wanted.read_queues, "writeQueueNums": wanted.write_queues, "perm": wanted.perm,
        "order": wanted.order, "message.type": wanted.message_type,
    }  # fmt: skip
    return {name: value for name, value in values.items() if value is not None}


async def plan_deletion(request: Request) -> Response:
    """The dry run: what would be gone."""
    return await _delete(request, dry_run=True)


async def delete(request: Request) -> Response:
    """Delete it with its messages. The form must repeat the name."""
    return await _delete(request, dry_run=False)


async def _delete(request: Request, *, dry_run: bool) -> Response:
    console, form, topic = console_of(request), request.state.form, request.path_params["topic"]
    if topic in system_topics.SYSTEM_TOPICS:
        raise ConfigError(f"{topic} belongs to the system; it cannot be deleted")
    status = await console.admin.topic_state.status(topic)
    brokers: dict[str, dict[str, int]] = {}
    for queue, at in status.queues.items():
        row = brokers.setdefault(queue.broker_name, {"queues": 0, "messages": 0})
        row["queues"] += 1
        row["messages"] += at.max_offset - at.min_offset
    groups = await console.admin.groups.reading(topic)
    why = value_of(form, "why")
    if not dry_run:
        if value_of(form, "name") != topic:
            raise ConfigError(f"write the name of the topic, {topic}, to delete it; nothing was deleted")
        messages = sum(row["messages"] for row in brokers.values())
        async with console.changes.noted(
            person_of(request), "delete topic", why, topic=topic, messages=messages, brokers=sorted(brokers),
            groups=groups,
        ):  # fmt: skip
            await console.admin.delete_topic(topic)
        _forget(console)
    return page(
        request, "topic_deletion.html", topic=topic, brokers=brokers, groups=groups, dry_run=dry_run, why=why
    )  # fmt: skip


def _forget(console: Console) -> None:
    """The next list asks anew."""
    console.topics.forget()
    console.topic_rows.forget()
