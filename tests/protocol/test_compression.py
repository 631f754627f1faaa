from __future__ import annotations

import contextlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import RemoteProtocolError
from gantrymq.message import flags
from gantrymq.protocol import compression
from gantrymq.protocol.compression import compress, decompress


@given(st.binary(max_size=2000))
def test_what_was_compressed_comes_back(body: bytes) -> None:
    assert decompress(compress(body), compression.SENT_FLAGS) == body
    assert decompress(compress(body), flags.COMPRESSED) == body  # clients before 4.9.4 do not name the kind
    assert decompress(body, 0) is body


@given(st.binary(max_size=200), st.integers(0, 2**11))
def test_any_bytes_decompress_or_raise_the_documented_error(body: bytes, sys_flag: int) -> None:
    with contextlib.suppress(RemoteProtocolError):
        decompress(body, sys_flag)


def test_other_kinds_are_named() -> None:
    with pytest.raises(RemoteProtocolError, match="LZ4"):
        decompress(b"", flags.COMPRESSED | flags.COMPRESSION_LZ4)
    with pytest.raises(RemoteProtocolError, match="ZSTD"):
        decompress(b"", flags.COMPRESSED | flags.COMPRESSION_ZSTD)


def test_a_missing_end_is_noticed() -> None:
    with pytest.raises(RemoteProtocolError, match="end is missing"):
        decompress(compress(b"x" * 100)[:-1], flags.COMPRESSED)


def test_a_bomb_is_stopped() -> None:
    bomb = zlib.compress(bytes(compression.MAX_BYTES + 1), 1)
    with pytest.raises(RemoteProtocolError, match="grows over"):
        decompress(bomb, flags.COMPRESSED)
    assert len(decompress(zlib.compress(bytes(compression.MAX_BYTES), 1), flags.COMPRESSED)) == compression.MAX_BYTES
