"""Handles of timer messages."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import MessageIllegal
from gantrymq.message import recall_handle

WORDS = st.text(st.characters(exclude_characters=" ", exclude_categories=["Cs"]), min_size=1)


def test_a_recorded_one() -> None:
    text = "djEgR29sZGVuUGxhaW4gYnJva2VyLWEgMTc5NTIyMTc2ODAwMSBDMDAwMDIwMjUzMDE0RTBFMkYyQTY3MjU3NTI5MDAxMA=="
    handle = recall_handle.decode(text)
    assert handle == ("GoldenPlain", "broker-a", 1795221768001, "C000020253014E0E2F2A672575290010")
    assert recall_handle.encode(*handle) == text


@given(WORDS, WORDS, st.integers(0, 1 << 62), WORDS)
def test_round_trip(topic: str, broker: str, deliver_ms: int, key: str) -> None:
    assert recall_handle.decode(recall_handle.encode(topic, broker, deliver_ms, key)) == (
        topic,
        broker,
        deliver_ms,
        key,
    )


@pytest.mark.parametrize("text", ["", "!", "djEg", "Zm9v", "djIgYSBiIDEgYw==", "ÄÖ"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(MessageIllegal):
        recall_handle.decode(text)


@given(st.text())
def test_any_text_is_refused_or_read(text: str) -> None:
    with contextlib.suppress(MessageIllegal):
        recall_handle.decode(text)
