from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import LocalProtocolError
from gantrymq.protocol.hosts import host_text, pack_host


@pytest.mark.parametrize(
    ("text", "packed"),
    [
        ("127.0.0.1:9876", "7f00000100002694"),
        ("[::1]:9876", "0000000000000000000000000000000100002694"),
    ],
)
def test_both_forms(text: str, packed: str) -> None:
    assert pack_host(text).hex() == packed
    assert host_text(bytes.fromhex(packed)) == text


@given(st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20))
def test_every_packed_host_has_a_text(packed: bytes) -> None:
    assert pack_host(host_text(packed)) == packed


@pytest.mark.parametrize(
    "text", ["", "localhost:9876", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "1.2.3:4", "[::1]:9999999999"]
)
def test_what_is_no_numeric_address_is_refused(text: str) -> None:
    with pytest.raises(LocalProtocolError, match="numeric address"):
        pack_host(text)


def test_other_lengths_are_refused() -> None:
    with pytest.raises(LocalProtocolError):
        host_text(b"123")
