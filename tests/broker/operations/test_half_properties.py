"""The quick way of a half and the long one say the same of every text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.broker.operations.admission import is_set, unique_key_of
from gantrymq.broker.operations.half_properties import PATTERNS_LIMIT, UsualHalves, pattern_of
from gantrymq.broker.remoting.send import _DELAYS, _NOT_THE_SENDERS
from gantrymq.message import properties
from gantrymq.store.dispatch import tags_code_of
from gantrymq.store.values import NewRecord
from gantrymq.transactions.records.half import half_record, with_real_place
from gantrymq.transactions.rules.check_policy import has_decisive_checkers

USUAL = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01K{}\x02KEYS\x01a b\x02colour.(x)\x01green\x02"
NAMES = st.sampled_from(
    ["TRAN_MSG", "PGROUP", "UNIQ_KEY", "KEYS", "TAGS", "WAIT", "DELAY", "REAL_TOPIC", "REAL_QID", "CLUSTER",
     "MSG_REGION", "TIMER_OUT_MS", "TIMER_DELAY_SEC", "__transactionId__", "CHECK_IMMUNITY_TIME_IN_SECONDS", "a",
     "MYKEYS", "GANTRY_CHECK_IMMUNITY_WHILE_CONNECTED", ""]
)  # fmt: skip
VALUES = st.sampled_from(["true", "PG", "K1", "a b", "0", "3", "", "x\x01y", "DELAY", "ß\n"])
TEXTS = st.lists(st.tuples(NAMES, VALUES), max_size=6).map(
    lambda items: "".join([f"{name}\x01{value}\x02" for name, value in items])
)
NEEDED = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01K\x02"


@given(learned=st.one_of(TEXTS, TEXTS.map(lambda text: NEEDED + text)), text=TEXTS, same=st.booleans())
def test_what_is_usual_needs_no_care(learned: str, text: str, same: bool) -> None:
    halves = UsualHalves()
    halves.learn(learned)
    text = learned if same else NEEDED + text
    found = halves.read(text)
    if found is None:
        return
    group, key, tags, decisive = found
    assert tags == tags_code_of(text)
    assert properties.without(text, _NOT_THE_SENDERS) is text
    assert (properties.find(text, "PGROUP"), unique_key_of(text), properties.find(text, "UNIQ_KEY")) == (
        group,
        key,
        key,
    )
    assert properties.find(text, "TRAN_MSG") == "true"
    assert not any(is_set(text, name) for name in _DELAYS)
    assert properties.find(text, properties.CHECK_IMMUNITY_SECONDS) is None
    assert has_decisive_checkers(text, group) is decisive
    record = NewRecord("Orders", 3, b"paid", text, 0, b"")
    assert half_record(record, "Orders", 3, key).properties == with_real_place(text, "Orders", 3, key)


def test_tags_are_read() -> None:
    halves = UsualHalves()
    halves.learn(USUAL.format(1) + "TAGS\x01A\x02")
    assert halves.read(USUAL.format(1) + "TAGS\x01B\x02") == ("PG", "K1", 66, False)


def test_texts_with_the_same_names_are_known() -> None:
    halves = UsualHalves()
    assert halves.read(USUAL.format(1)) is None
    halves.learn(USUAL.format(1))
    assert halves.read(USUAL.format("ö2")) == ("PG", "Kö2", 0, False)
    assert halves.read(USUAL.format("x" * 8_000)) is None  # its size has to be looked at


@pytest.mark.parametrize(
    "change",
    [
        ("PGROUP\x01PG\x02", ""), ("UNIQ_KEY\x01K1\x02", ""), ("true", "false"), ("green", ""), ("green", "gr\x01een"),
        ("KEYS\x01a b\x02", "DELAY\x010\x02"), ("KEYS\x01a b\x02", "REAL_TOPIC\x01T\x02"), ("KEYS", "WAIT\x01"),
        ("KEYS\x01a b\x02", "colour.(x)\x01red\x02"), ("KEYS\x01a b\x02", "CLUSTER\x01c\x02"), ("KEYS\x01a b", "KEYS"),
        ("KEYS", "CHECK_IMMUNITY_TIME_IN_SECONDS"),
    ],
)  # fmt: skip
def test_of_what_is_unusual_no_pattern_is_made(change: tuple[str, str]) -> None:
    text = USUAL.format(1)
    assert pattern_of(text) is not None
    assert pattern_of(text.replace(*change)) is None


def test_a_mark_of_decisive_checkers_is_usual_when_it_names_the_group() -> None:
    mark = f"{properties.IMMUNE_WHILE_CONNECTED}\x01{{}}\x02"
    halves = UsualHalves()
    halves.learn(USUAL.format(1) + mark.format("PG"))
    assert halves.read(USUAL.format(2) + mark.format("PG")) == ("PG", "K2", 0, True)
    other = (USUAL.format(2) + mark.format("PG")).replace("\x01PG\x02", "\x01PH\x02")
    assert halves.read(other) == ("PH", "K2", 0, True)
    assert halves.read(USUAL.format(2) + mark.format("PH")) is None
    assert pattern_of(USUAL.format(1) + mark.format("PH")) is None
    assert pattern_of(mark.format("PG") + USUAL.format(1)) is None


def test_the_number_of_patterns_is_limited() -> None:
    halves = UsualHalves()
    for number in range(PATTERNS_LIMIT + 1):
        halves.learn(USUAL.format(1) + f"n{number}\x011\x02")
    known = [halves.read(USUAL.format(1) + f"n{number}\x011\x02") is not None for number in range(PATTERNS_LIMIT + 1)]
    assert known == [True] * PATTERNS_LIMIT + [False]
