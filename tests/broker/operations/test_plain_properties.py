"""The quick way of an ordinary message and the long one say the same of every text."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gantrymq.broker.operations.admission import separated, unique_key_of, waits
from gantrymq.broker.operations.plain_properties import PATTERNS_LIMIT, STEERING, UsualSends, read_usual
from gantrymq.broker.remoting.send import _DELAYS, _NOT_THE_SENDERS
from gantrymq.message import properties
from gantrymq.store.dispatch import tags_code_of

NAMES = st.one_of(
    st.sampled_from(
        [*sorted(properties.RESERVED | STEERING), "a", "MYKEYS", "MY_UNIQ_KEY", "TAGS2", "DELAYED", "", "\0"]
    ),
    st.sampled_from(["UNIQ_KEY", "TAGS", "WAIT", "KEYS"]),
)
VALUES = st.sampled_from(
    ["true", "false", "K1", "a b", "0", "3", "", "x\x01y", "DELAY", "ß\n", "TRAN_MSG", "\0", "\U0010ffff"]
)
ITEMS = st.lists(st.tuples(NAMES, VALUES), max_size=7)
TEXTS = st.one_of(
    ITEMS.map(lambda items: "".join([f"{name}\x01{value}\x02" for name, value in items])),
    st.text(alphabet="aT\x01\x02", max_size=12),
)


@given(TEXTS)
@example("UNIQ_KEY\x01A\x02UNIQ_KEY\x01\x02")
@example("WAIT\x01false\x02WAIT\x01true\x02")
def test_what_is_usual_is_read_alike(text: str) -> None:
    text = separated(text)
    found = read_usual(text)
    if found is None:
        return
    unique_key, tags_code, wait = found
    assert (unique_key or "", tags_code, wait) == (unique_key_of(text), tags_code_of(text), waits(text))
    # The long way would store the same text in the same place.
    assert properties.without(text, _NOT_THE_SENDERS) == text
    assert properties.find(text, properties.TRANSACTION_PREPARED) is None
    assert all(properties.find(text, name) is None for name in _DELAYS)


@pytest.mark.parametrize("name", sorted(STEERING))
def test_what_steers_is_not_usual(name: str) -> None:
    assert read_usual(f"UNIQ_KEY\x01A\x02{name}\x01x\x02a\x01b\x02") is None
    assert read_usual(f"UNIQ_KEY\x01A\x02{name}S\x01{name}\x02a\x01b\x02") is not None


def test_what_clients_send_is_usual() -> None:
    key = "7F0000016D98E784C4C96794C4000001"
    java = f"KEYS\x01k1\x02UNIQ_KEY\x01{key}\x02WAIT\x01true\x02TAGS\x01TagA\x02"
    assert read_usual(java) == (key, tags_code_of(java), True)
    assert read_usual(f"INSTANCE_ID\x01MQ_INST\x02{java}orderId\x0117\x02Übung\x01ß\x02") == read_usual(java)
    assert read_usual(f"UNIQ_KEY\x01{key}\x02WAIT\x01false\x02") == (key, 0, False)
    assert read_usual("") == (None, 0, True)


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_a_learned_text_is_read_alike(texts: list[str]) -> None:
    sends = UsualSends()
    for text in [separated(text) for text in texts for _ in range(2)]:
        found, wanted = sends.read("T", text), read_usual(text)
        assert (found is None) == (wanted is None)
        if found is not None and wanted is not None:
            assert ((found[0] or ""), *found[1:]) == ((wanted[0] or ""), *wanted[1:])


def test_texts_of_a_topic_are_known_by_their_names() -> None:
    sends = UsualSends()
    key = "7F0000016D98E784C4C96794C400000{}"
    text = f"KEYS\x01a\x02UNIQ_KEY\x01{key}\x02colour.(x)\x01g\x02TAGS\x01TagA\x02"
    code = tags_code_of(text)
    assert sends.read("T", text.format(1)) == (key.format(1), code, True)
    assert sends.read("T", text.format(2)) == (key.format(2), code, True)
    assert sends.read("T", text.format(2) + "WAIT\x01false\x02") == (key.format(2), code, False)
    assert sends.read("T", text.format(2) + "DELAY\x011\x02") is None
    assert sends.read("T", text.format(3).replace("TagA", "")) is None


def test_the_number_of_patterns_is_limited() -> None:
    sends = UsualSends()
    for number in range(PATTERNS_LIMIT + 5):
        assert sends.read(f"T{number}", f"n{number}\x011\x02") == (None, 0, True)
    assert len(sends._patterns) == PATTERNS_LIMIT
