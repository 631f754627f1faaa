"""Lines about users: who is let in, who may do what, and with which code the others are refused.

A line tells the codes that the client shows. Some clients keep them to themselves.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.interop.five_driver import Play, Refused, codes_in
from tests.interop.five_line import expect, line

STRANGERS: dict[str, dict[str, str]] = {
    "without credentials": {"access": ""},
    "with a wrong secret": {"access": "app", "secret": "wrong"},
    "of an unknown user": {"access": "nobody", "secret": "nobody-secret"},
}
OF_THE_CLIENT = "4"
"""What all codes begin with that say that the client is not allowed to do that."""


def _code(p: Play, verb: str, work: Callable[[], object]) -> str:
    """The codes that the client shows when it is refused."""
    try:
        work()
    except Refused as refused:
        codes = codes_in(str(refused))
        assert all(code.startswith(OF_THE_CLIENT) for code in codes), f"{verb} was refused with {codes}: {refused}"
        return ", ".join(codes)
    raise AssertionError(f"{verb} was taken")


def as_user(name: str) -> dict[str, str]:
    return {"access": name, "secret": f"{name}-secret"}


def _sends(p: Play, verb: str, who: dict[str, str]) -> str:
    topic = p.topic("TRANSACTION" if verb == "half" else "NORMAL")

    def work() -> None:
        name = p.at_once("producer", topic=topic, **who)
        p.driver.ask(verb, name=name, topic=topic, body="one", **({"transaction": topic} if verb == "half" else {}))

    code = _code(p, f"{verb} {who}", work)
    p.nothing(p.reader(topic))
    return code


def _receives(p: Play, who: dict[str, str]) -> str:
    topic = p.topic()
    p.send(topic, "one")
    group = p.group()

    def work() -> None:
        name = p.at_once("simple", topic=topic, group=group, wait=p.door.wait_s, **who)
        for _ in range(3):
            p.driver.ask("receive", name=name, count=1, invisible=30)
        expect(p.driver.seen("got", name), [])
        raise AssertionError("its receptions were taken")

    code = _code(p, f"receive {who}", work)
    expect(p.take(p.reader(topic, group), 1), ["one"])
    return code


@line("users: one with all rights sends, receives and commits", short=False, users=True)
def _(p: Play) -> None:
    topic = p.topic("TRANSACTION")
    producer = p.client("producer", topic=topic)
    p.driver.ask("half", name=producer, topic=topic, body="one", transaction=topic)
    p.driver.ask("end", transaction=topic, how="commit")
    expect(p.take(p.reader(topic), 1), ["one"])


def _line(name: str, play: Callable[[Play], str | None]) -> None:
    line(f"users: {name}", short=False, users=True)(play)


for _name, _who in STRANGERS.items():
    _line(f"{_name}, a message is refused", lambda p, who=_who: _sends(p, "send", who))
    _line(f"{_name}, a half message is refused", lambda p, who=_who: _sends(p, "half", who))
    _line(f"{_name}, a reception is refused", lambda p, who=_who: _receives(p, who))
_line("without PUB on the topic, a message is refused", lambda p: _sends(p, "send", as_user("sub-alone")))
_line("without PUB on the topic, a half message is refused", lambda p: _sends(p, "half", as_user("sub-alone")))
_line("without SUB on the topic, a reception is refused", lambda p: _receives(p, as_user("pub-alone")))
_line("without SUB on the group, a reception is refused", lambda p: _receives(p, as_user("groupless")))
