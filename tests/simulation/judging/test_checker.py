"""The judge is judged: histories with each kind of violation planted are caught, and good ones pass."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gantrymq.simulation.judging.checker import EXCUSED, RULES, UNDER_WAY_MS, check
from gantrymq.simulation.judging.history import Event, decode, encode

TransactionFacts = list[Event]
IMMUNITY_MS = 4000


def begin(*, decisive: bool = False) -> Event:
    return {"at": 0, "event": "begin", "tx": "t", "immunity_ms": IMMUNITY_MS, "sender": "p", "decisive": decisive}


def local(name: str = "t") -> Event:
    return {**begin(decisive=True), "tx": name, "local": True}


def event(kind: str) -> Event:
    return {"event": kind, "tx": "t"}


def gone(process: str = "p") -> Event:
    return {"event": "gone", "process": process}


def half(name: str = "t") -> Event:
    return {"event": "half", "tx": name, "confirmed": True}


def end(decision: str, *, confirmed: bool = True, name: str = "t") -> Event:
    return {"event": "end", "tx": name, "decision": decision, "confirmed": confirmed}


def row(state: str, name: str = "t") -> Event:
    return {"event": "row", "tx": name, "state": state}


def check_answer(answer: str, *, lie: bool = False, at: int = IMMUNITY_MS) -> Event:
    return {"at": at, "event": "check", "tx": "t", "answer": answer, "lie": lie}


def of(copy: str, event: Event) -> Event:
    """The event, about this one of several half messages."""
    return {**event, "half": copy}


def got(offset: int = 0, name: str = "t") -> Event:
    return {"event": "delivered", "tx": name, "broker": "a", "topic": "T", "queue": 0, "offset": offset}


def plain(confirmed: bool = True) -> Event:
    return {"event": "plain", "tx": "t", "confirmed": confirmed}


def flip(record: str, *, covered: bool = True) -> Event:
    return {"event": "flip", "tx": "t", "record": record, "covered": covered}


QUIET: Event = {"event": "quiet"}

GOOD = {
    "committed": [begin(), half(), row("committed"), end("COMMIT"), got(), QUIET],
    "delivered again from the same place": [half(), row("committed"), end("COMMIT"), got(), got(), QUIET],
    "rolled back": [half(), row("rolled back"), end("ROLLBACK"), QUIET],
    "the end was lost, the check said it": [half(), row("committed"), end("COMMIT", confirmed=False), got(), QUIET],
    "committed by a check": [begin(), half(), row("committed"), end("UNKNOWN"), check_answer("COMMIT"), got(), QUIET],
    "still open": [half(), QUIET],
    "not yet arrived": [half(), row("committed"), end("COMMIT")],
    "plain": [plain(), got(), QUIET],
    "a plain message sent twice": [plain(), got(0), got(1), QUIET],
    "a plain message that was not acknowledged": [plain(confirmed=False), QUIET],
    "a lying checker that delivers": [half(), row("rolled back"), check_answer("COMMIT", lie=True), got(), QUIET],
    "a lying checker that delivers the first of two copies": [
        of("1", check_answer("COMMIT", lie=True)), got(), half(), row("rolled back"), of("2", end("ROLLBACK")), QUIET],
    "a lying checker that drops": [half(), row("committed"), check_answer("ROLLBACK", lie=True), QUIET],
    "a flipped final message": [half(), row("committed"), end("COMMIT"), flip("final"), QUIET],
    "a flipped half message": [half(), row("committed"), flip("half"), QUIET],
    "a flipped op message": [half(), end("ROLLBACK"), flip("op"), end("COMMIT"), row("committed"), got(), QUIET],
    "garbled": [half(), end("COMMIT"), end("ROLLBACK"), got(0), got(1), flip("half", covered=False), QUIET],
    "asked early when the sender was gone": [begin(decisive=True), gone(), check_answer("ROLLBACK", at=5)],
    "asked early when the sender was cut off": [begin(decisive=True), {"event": "fault", "what": "parted"},
                                                check_answer("ROLLBACK", at=5)],
    "asked early by a clock put wrong": [begin(), {"event": "fault", "what": "clock jump"},
                                         check_answer("ROLLBACK", at=5)],
    "a local transaction": [local(), row("committed"), end("COMMIT"), got(), QUIET],
    "a local transaction that a check settled": [local(), row("committed"), check_answer("COMMIT"), got(), QUIET],
    "a local transaction that a check claimed": [local(), row("rolled back"), check_answer("ROLLBACK"), QUIET],
    "asked once more while the end was under way": [
        begin(), half(), row("committed"), of("1", {**end("COMMIT"), "at": 9_000}),
        of("1", check_answer("COMMIT", at=9_000 + UNDER_WAY_MS)), got(), QUIET],
    "asked about another copy": [begin(), half(), row("committed"), of("1", {**end("COMMIT"), "at": 9_000}),
                                 of("2", check_answer("COMMIT", at=99_000)), got(), QUIET],
    "a half message whose outcome row was deleted": [local(), row("committed"), event("cleaned"), event("stuck"),
                                                     QUIET],
}  # fmt: skip
BAD = {
    "one decision": [half(), end("COMMIT"), end("ROLLBACK")],
    "one final message": [half(), row("committed"), end("COMMIT"), got(0), got(1)],
    "no phantom": [half(), end("UNKNOWN"), got()],
    "rolled back stays": [half(), end("COMMIT", confirmed=False), end("ROLLBACK"), got()],
    "no delivery without row": [half(), row("rolled back"), end("COMMIT", confirmed=False), got()],
    "one row": [half(), row("committed"), row("rolled back")],
    "immunity": [begin(), half(), check_answer("ROLLBACK", at=IMMUNITY_MS - 1)],
    "settled once": [
        half(),
        row("committed"),
        of("1", {**end("COMMIT"), "at": 9_000}),
        of("1", check_answer("COMMIT", at=9_001 + UNDER_WAY_MS)),
    ],
    "nothing lost": [half(), end("COMMIT"), QUIET],
    "row means message": [half(), row("committed"), end("UNKNOWN"), QUIET],
    "a check keeps a commit": [local(), row("committed"), check_answer("ROLLBACK")],
    "nothing stuck": [local(), event("stuck"), QUIET],
}


@pytest.mark.parametrize("history", GOOD.values(), ids=GOOD.keys())
def test_good_histories_pass(history: TransactionFacts) -> None:
    assert check(history) == []


MORE_BAD = {
    "a local message that comes before its row": ("no phantom", [local(), end("COMMIT"), got(), row("committed")]),
    "a lost message of which only the row is cleaned": ("row means message", [local(), row("committed"),
                                                                              event("cleaned"), QUIET]),
}  # fmt: skip


@pytest.mark.parametrize(("rule", "history"), MORE_BAD.values(), ids=MORE_BAD.keys())
def test_local_transactions_are_judged_more_strictly(rule: str, history: TransactionFacts) -> None:
    assert rule in {violation.rule for violation in check(history)}


@pytest.mark.parametrize(("rule", "history"), BAD.items(), ids=BAD.keys())
def test_each_violation_is_caught(rule: str, history: TransactionFacts) -> None:
    assert rule in {violation.rule for violation in check(history)}


ASKED_ABOUT_A_LIVING_SENDER = {
    "checkers are not decisive": [begin(), gone()],
    "another one died": [begin(decisive=True), gone("other")],
    "its connections broke": [begin(decisive=True), {"event": "fault", "what": "connections broken"}],
    "the broker died": [begin(decisive=True), {"event": "fault", "what": "process killed"}],
}


@pytest.mark.parametrize("history", ASKED_ABOUT_A_LIVING_SENDER.values(), ids=ASKED_ABOUT_A_LIVING_SENDER.keys())
def test_nobody_is_asked_about_a_living_sender_within_the_immunity(history: list[Event]) -> None:
    too_early = [*history, check_answer("ROLLBACK", at=5), gone()]
    assert [violation.rule for violation in check(too_early)] == ["immunity"]


def test_a_process_that_does_not_know_its_outcome_may_ask_its_own_database() -> None:
    asked = [check_answer("ROLLBACK", at=5), row("rolled back")]
    assert check([local(), end("UNKNOWN", confirmed=False), *asked]) == []
    assert [violation.rule for violation in check([local(), *asked])] == ["immunity"]
    plain_one = [begin(), end("UNKNOWN", confirmed=False), check_answer("ROLLBACK", at=5)]
    assert [violation.rule for violation in check(plain_one)] == ["immunity"]


@pytest.mark.parametrize(
    ("lie", "rollback"),
    [
        (of("1", check_answer("COMMIT", lie=True)), of("1", end("ROLLBACK"))),
        (of("1", check_answer("COMMIT", lie=True)), end("ROLLBACK")),
        (check_answer("COMMIT", lie=True), of("2", end("ROLLBACK"))),
        (of("1", check_answer("ROLLBACK", lie=True)), of("2", end("ROLLBACK"))),
        (of("1", check_answer("COMMIT")), of("2", end("ROLLBACK"))),
    ],
)
def test_a_lie_excuses_a_delivery_only_of_another_copy(lie: Event, rollback: Event) -> None:
    history = [half(), row("rolled back"), lie, end("COMMIT", confirmed=False), rollback, got()]
    assert "rolled back stays" in {violation.rule for violation in check(history)}


def test_every_rule_has_a_history_that_breaks_it() -> None:
    assert {rule.name for rule in RULES} == set(BAD)


def test_a_lost_plain_message_is_caught() -> None:
    assert [violation.rule for violation in check([plain(), QUIET])] == ["nothing lost"]


def test_delivered_before_it_was_committed_is_caught() -> None:
    assert [violation.rule for violation in check([half(), got(), end("COMMIT"), QUIET])] == ["no phantom"]


@pytest.mark.parametrize(("rule", "history"), BAD.items(), ids=BAD.keys())
@pytest.mark.parametrize("record", EXCUSED)
def test_a_flipped_record_excuses_what_needed_it_and_nothing_else(
    rule: str, history: TransactionFacts, record: str
) -> None:
    found = {violation.rule for violation in check([*history[:1], flip(record), *history[1:]])}
    assert (rule in found) == (rule not in EXCUSED[record])


# ---- histories of many transactions, by Hypothesis


def committed(draw: Callable[[int], int]) -> TransactionFacts:
    """A transaction that is committed, by its end or by a check, and delivered once or several times."""
    scenario = [begin(), half(), row("committed")]
    by_check = draw(2)
    scenario.append(end("UNKNOWN" if by_check else "COMMIT", confirmed=not by_check))
    if by_check:
        scenario.append(check_answer("COMMIT", at=IMMUNITY_MS + draw(1000)))
    place = draw(1000)
    return scenario + [got(place) for _ in range(1 + draw(3))]


def rolled_back(draw: Callable[[int], int]) -> TransactionFacts:
    """A transaction that is rolled back; the answer of the broker may be lost."""
    return [begin(), half(), row("rolled back"), end("ROLLBACK", confirmed=draw(2) > 0)]


def ordinary(draw: Callable[[int], int]) -> TransactionFacts:
    """An ordinary message, perhaps sent twice."""
    return [plain(), *(got(number) for number in range(1 + draw(2)))]


def lost_end(draw: Callable[[int], int]) -> TransactionFacts:
    """Nobody learns what became of the half; no row was written."""
    return [begin(), half()][: 1 + draw(2)]


BREAK: dict[str, Callable[[TransactionFacts], TransactionFacts]] = {
    "one decision": lambda scenario: [*scenario, end("COMMIT"), end("ROLLBACK")],
    "one final message": lambda scenario: [*scenario, end("COMMIT"), got(2001), got(2002)],
    "no phantom": lambda scenario: [scenario[0], got(), *scenario[1:]],
    "rolled back stays": lambda scenario: [*scenario, end("COMMIT", confirmed=False), got(), end("ROLLBACK")],
    "no delivery without row": lambda scenario: [row("rolled back"), end("COMMIT", confirmed=False), got(), *scenario],
    "one row": lambda scenario: [*scenario, row("committed"), row("rolled back")],
    "immunity": lambda scenario: [*scenario[:1], check_answer("UNKNOWN", at=1), *scenario[1:]],
    "settled once": lambda scenario: [
        *scenario,
        of("1", {**end("COMMIT"), "at": 50_000}),
        of("1", check_answer("COMMIT", at=99_000)),
        got(3001),
    ],
    "nothing lost": lambda scenario: [event for event in scenario if event["event"] != "delivered"] + [end("COMMIT")],
    "row means message": lambda scenario: (
        [event for event in scenario if event["event"] != "delivered"] + [row("committed")]
    ),
}
KINDS = (committed, rolled_back, ordinary, lost_end)


def play(seed: int, count: int) -> list[TransactionFacts]:
    """Correct histories, each of a transaction of its own."""
    rng = random.Random(seed)
    return [rng.choice(KINDS)(rng.randrange) for _ in range(count)]


def mixed(scenarios: list[TransactionFacts], seed: int) -> list[Event]:
    """One history of them: any order between two transactions, the own order within one."""
    rng = random.Random(seed)
    left = [(f"t{number}", list(scenario)) for number, scenario in enumerate(scenarios) if scenario]
    history = []
    while left:
        name, scenario = rng.choice(left)
        history.append({**scenario.pop(0), "tx": name})
        left = [item for item in left if item[1]]
    return [*history, QUIET]


SEEDS = st.integers(0, 1 << 32)


@settings(deadline=None)
@given(SEEDS, st.integers(1, 12))
def test_good_histories_of_many_transactions_pass(seed: int, count: int) -> None:
    assert check(decode(encode(mixed(play(seed, count), seed)))) == []


@pytest.mark.parametrize("rule", BREAK)
@settings(deadline=None)
@given(SEEDS, st.integers(1, 8), st.data())
def test_a_planted_violation_is_caught_and_nobody_else_is_blamed(
    rule: str, seed: int, count: int, data: st.DataObject
) -> None:
    scenarios = play(seed, count)
    victim = data.draw(st.integers(0, count - 1))
    scenarios[victim] = BREAK[rule](committed(random.Random(seed).randrange))
    found = check(mixed(scenarios, seed))
    assert rule in {violation.rule for violation in found}
    assert {violation.transaction for violation in found} == {f"t{victim}"}


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
