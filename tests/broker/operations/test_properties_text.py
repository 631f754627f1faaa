"""One match and many searches say the same of every text."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gantrymq.broker.operations.admission import is_set, separated, unique_key_of, waits
from gantrymq.broker.operations.delays_and_retries import NOT_THE_SENDERS
from gantrymq.broker.operations.properties_text import NOT_ORDINARY, read_ordinary
from gantrymq.message import properties
from gantrymq.store.dispatch import tags_code_of
from gantrymq.store.values import NewRecord
from gantrymq.transactions.records.half import with_real_place
from tests.support.halves import half_record

KEY = "7F0000016D98E784C4C96794C4000001"
JAVA = f"KEYS\x01k1\x02UNIQ_KEY\x01{KEY}\x02WAIT\x01true\x02TAGS\x01TagA\x02"
HALF = f"TRAN_MSG\x01true\x02PGROUP\x01PG\x02{JAVA}"
NAMES = st.one_of(
    st.sampled_from(
        [*sorted(properties.RESERVED | NOT_ORDINARY), "a", "MYKEYS", "MY_UNIQ_KEY", "TAGS2", "DELAYED", "", "\0"]
    ),
    st.sampled_from(["UNIQ_KEY", "TAGS", "WAIT", "KEYS", "TRAN_MSG", "PGROUP", properties.IMMUNE_WHILE_CONNECTED]),
)
VALUES = st.sampled_from(
    ["true", "false", "PG", "K1", "a b", "0", "3", "", "x\x01y", "DELAY", "ß\n", "TRAN_MSG", "\0", "\U0010ffff"]
)
ITEMS = st.lists(st.tuples(NAMES, VALUES), max_size=7)
TEXTS = st.one_of(
    ITEMS.map(lambda items: "".join([f"{name}\x01{value}\x02" for name, value in items])),
    st.text(alphabet="aT\x01\x02", max_size=12),
)


@given(st.one_of(TEXTS, TEXTS.map(lambda text: HALF + text)))
@example("UNIQ_KEY\x01A\x02UNIQ_KEY\x01\x02")
@example("WAIT\x01false\x02WAIT\x01true\x02")
@example("TRAN_MSG\x01true\x02TRAN_MSG\x01false\x02")
def test_an_ordinary_text_is_read_as_the_searches_read_it(text: str) -> None:
    text = separated(text)
    found = read_ordinary(text)
    if found is None:
        return
    unique_key, group, tags_code, wait, is_half = found
    assert (unique_key or "", tags_code, wait) == (unique_key_of(text), tags_code_of(text), waits(text))
    assert group == properties.find(text, properties.PRODUCER_GROUP)
    assert is_half is (properties.find(text, properties.TRANSACTION_PREPARED) == "true")
    # The other way would store the same text in the same place.
    assert properties.without(text, NOT_THE_SENDERS) == text
    assert not any(is_set(text, name) for name in properties.DELAYS)
    assert properties.find(text, properties.CHECK_IMMUNITY_SECONDS) is None
    if unique_key:
        record = NewRecord("Orders", 3, b"paid", text, 0, b"")
        stored = half_record(record, "Orders", 3, unique_key)
        assert stored.properties == with_real_place(text, "Orders", 3, unique_key)


@pytest.mark.parametrize("name", sorted(NOT_ORDINARY))
def test_a_text_with_such_a_property_is_not_ordinary(name: str) -> None:
    assert read_ordinary(f"UNIQ_KEY\x01A\x02{name}\x01x\x02a\x01b\x02") is None
    assert read_ordinary(f"UNIQ_KEY\x01A\x02{name}S\x01{name}\x02a\x01b\x02") is not None


@pytest.mark.parametrize("text", [JAVA.replace("TagA", ""), "\x01value\x02", "name\x02", "name\x01value"])
def test_a_text_with_an_empty_name_or_value_is_not_ordinary(text: str) -> None:
    assert read_ordinary(text) is None


def test_what_clients_send_is_ordinary() -> None:
    plain = (KEY, None, tags_code_of(JAVA), True, False)
    assert read_ordinary(JAVA) == plain
    assert read_ordinary(f"INSTANCE_ID\x01MQ_INST\x02{JAVA}orderId\x0117\x02Übung\x01ß\x02") == plain
    assert read_ordinary(f"UNIQ_KEY\x01{KEY}\x02WAIT\x01false\x02") == (KEY, None, 0, False, False)
    assert read_ordinary("") == (None, None, 0, True, False)
    assert read_ordinary(HALF) == (KEY, "PG", tags_code_of(JAVA), True, True)
