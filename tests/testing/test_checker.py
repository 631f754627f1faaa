"""The judge is judged: histories with each kind of violation planted are caught, and good ones pass."""

from __future__ import annotations

import pytest

from gantrymq.testing.checker import RULES, check
from gantrymq.testing.history import Event, decode, encode


def half(name: str = "t") -> Event:
    return {"event": "half", "tx": name, "confirmed": True}


def end(decision: str, *, confirmed: bool = True, name: str = "t") -> Event:
    return {"event": "end", "tx": name, "decision": decision, "confirmed": confirmed}


def row(state: str, name: str = "t") -> Event:
    return {"event": "row", "tx": name, "state": state}


def check_answer(answer: str, *, lie: bool = False) -> Event:
    return {"event": "check", "tx": "t", "answer": answer, "lie": lie}


def got(offset: int = 0, name: str = "t") -> Event:
    return {"event": "delivered", "tx": name, "broker": "a", "topic": "T", "queue": 0, "offset": offset}


def plain(confirmed: bool = True) -> Event:
    return {"event": "plain", "tx": "t", "confirmed": confirmed}


QUIET: Event = {"event": "quiet"}

GOOD = {
    "committed": [half(), row("committed"), end("COMMIT"), got(), QUIET],
    "delivered again from the same place": [half(), row("committed"), end("COMMIT"), got(), got(), QUIET],
    "rolled back": [half(), row("rolled back"), end("ROLLBACK"), QUIET],
    "the end was lost, the check said it": [half(), row("committed"), end("COMMIT", confirmed=False), got(), QUIET],
    "committed by a check": [half(), row("committed"), end("UNKNOWN"), check_answer("COMMIT"), got(), QUIET],
    "still open": [half(), QUIET],
    "not yet arrived": [half(), row("committed"), end("COMMIT")],
    "plain": [plain(), got(), QUIET],
    "a plain message sent twice": [plain(), got(0), got(1), QUIET],
    "a plain message that was not acknowledged": [plain(confirmed=False), QUIET],
    "a lying checker": [half(), row("rolled back"), check_answer("COMMIT", lie=True), got(), QUIET],
}
BAD = {
    "one decision": [half(), end("COMMIT"), end("ROLLBACK")],
    "one final message": [half(), row("committed"), end("COMMIT"), got(0), got(1)],
    "no phantom": [half(), end("UNKNOWN"), got()],
    "rolled back stays": [half(), end("COMMIT", confirmed=False), end("ROLLBACK"), got()],
    "no delivery without row": [half(), row("rolled back"), end("COMMIT", confirmed=False), got()],
    "one row": [half(), row("committed"), row("rolled back")],
    "nothing lost": [half(), end("COMMIT"), QUIET],
    "row means message": [half(), row("committed"), end("UNKNOWN"), QUIET],
}


@pytest.mark.parametrize("history", GOOD.values(), ids=GOOD.keys())
def test_good_histories_pass(history: list[Event]) -> None:
    assert check(history) == []


@pytest.mark.parametrize(("rule", "history"), BAD.items(), ids=BAD.keys())
def test_each_violation_is_caught(rule: str, history: list[Event]) -> None:
    assert rule in {violation.rule for violation in check(history)}


def test_every_rule_has_a_history_that_breaks_it() -> None:
    assert {rule.name for rule in RULES} == set(BAD)


def test_a_lost_plain_message_is_caught() -> None:
    assert [violation.rule for violation in check([plain(), QUIET])] == ["nothing lost"]


def test_a_violation_names_its_transaction_and_shows_the_evidence() -> None:
    (violation,) = check([half("other"), half(), end("COMMIT"), end("ROLLBACK")])
    assert violation.transaction == "t" and [event["event"] for event in violation.evidence] == ["half", "end", "end"]
    assert str(violation).startswith("t: COMMIT and ROLLBACK were both acknowledged")


def test_histories_are_files() -> None:
    history = [half(), got(), QUIET]
    assert decode(encode(history)) == history
    with pytest.raises(ValueError, match="line 2 is no event"):
        decode('{"event": "quiet"}\n[]\n')
    with pytest.raises(ValueError, match="line 1 is no JSON"):
        decode("quiet")
