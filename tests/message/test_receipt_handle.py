"""Receipt handles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import RemoteProtocolError
from gantrymq.message.receipt_handle import ReceiptHandle, parse

LONGS = st.integers(0, 2**63 - 1)


@given(LONGS, LONGS, LONGS, st.integers(0, 999), st.sampled_from("012"), st.integers(0, 4096), LONGS)
def test_a_handle_survives_the_wire(
    start: int, popped: int, invisible: int, revive: int, kind: str, queue: int, offset: int
) -> None:
    handle = ReceiptHandle(start, popped, invisible, revive, kind, "broker-a", queue, offset)
    assert parse(str(handle)) == handle
    assert handle.visible_at == popped + invisible
    assert handle.orderly == (revive == 999)


def test_the_text_of_apache() -> None:
    text = "5 1700000000000 60000 3 0 broker-a 1 7"
    assert parse(text) == ReceiptHandle(5, 1_700_000_000_000, 60_000, 3, "0", "broker-a", 1, 7)
    assert parse(text + " 4096").offset == 7, "the gRPC endpoint adds the log offset"
    assert parse(text[:-2]).offset == -1


@given(st.text())
def test_any_text_is_a_handle_or_refused(text: str) -> None:
    try:
        parse(text)
    except RemoteProtocolError as error:
        assert "receipt handle" in str(error)


@pytest.mark.parametrize("text", ["", "1 2 3", "a 2 3 4 0 b 5 6"])
def test_what_is_no_handle(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        parse(text)
