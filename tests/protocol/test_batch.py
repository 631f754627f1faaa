from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import MessageIllegal, RemoteProtocolError
from gantrymq.message import properties
from gantrymq.message.message import Message
from gantrymq.protocol.batch import encode_batch, split_batch

NAME = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=10)
MESSAGES = st.lists(
    st.builds(
        lambda body, flag, own: Message(
            "T", body, flag=flag, properties={f"u{name}": value for name, value in own.items()}
        ),
        st.binary(max_size=50),
        st.integers(-(2**31), 2**31 - 1),
        st.dictionaries(NAME, NAME, max_size=3),
    ),
    max_size=5,
)


@given(MESSAGES)
def test_a_batch_splits_into_what_was_joined(messages: list[Message]) -> None:
    items = split_batch(encode_batch(messages))
    assert [(item.flag, item.body) for item in items] == [(message.flag, message.body) for message in messages]
    assert [properties.decode(item.properties_text) for item in items] == [message.properties for message in messages]


@given(MESSAGES)
def test_every_cut_of_a_batch_is_refused_or_is_a_shorter_batch(messages: list[Message]) -> None:
    whole = encode_batch(messages)
    for length in range(len(whole)):
        try:
            items = split_batch(whole[:length])
        except RemoteProtocolError:
            continue
        assert [item.body for item in items] == [message.body for message in messages[: len(items)]]


@given(st.binary(max_size=120))
def test_any_bytes_split_or_raise_the_documented_error(data: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        split_batch(data)


def test_a_batch_of_nothing_is_empty() -> None:
    assert encode_batch([]) == b""
    assert split_batch(b"") == []


def test_too_long_properties_are_refused() -> None:
    with pytest.raises(MessageIllegal, match="32767"):
        encode_batch([Message("T", b"x", properties={"k": "v" * 32767})])


ITEM = encode_batch([Message("T", b"hello", tags="A")])


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (ITEM[:10], "cut off"),
        (ITEM + b"\0", "cut off"),
        (ITEM[:16] + b"\xff\xff\xff\xff" + ITEM[20:], "negative"),
        (b"\0\0\0\xff" + ITEM[4:], "add up"),
        (ITEM[:25] + b"\xff\xff" + ITEM[27:], "add up"),
        (ITEM.replace(b"TAGS", b"\xff\xff\xff\xff"), "UTF-8"),
    ],
)
def test_what_is_no_batch_says_why(item: bytes, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason):
        split_batch(item)
