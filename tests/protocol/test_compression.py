from __future__ import annotations

import contextlib
import sys
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import ConfigError, RemoteProtocolError
from gantrymq.message import flags
from gantrymq.message.sizes import MAX_DECOMPRESSED_BYTES
from gantrymq.protocol import compression
from gantrymq.protocol.compression import compress, decompress, decompressed_start


@given(st.binary(max_size=2000))
def test_what_was_compressed_comes_back(body: bytes) -> None:
    assert decompress(compress(body), compression.SENT_FLAGS) == body
    assert decompress(compress(body), flags.COMPRESSED) == body  # clients before 4.9.4 do not name the kind
    assert decompress(body, 0) is body


@given(st.binary(max_size=200), st.integers(0, 2**11))
def test_any_bytes_decompress_or_raise_the_documented_error(body: bytes, sys_flag: int) -> None:
    with contextlib.suppress(RemoteProtocolError):
        decompress(body, sys_flag)


@pytest.mark.parametrize(("name", "library"), [("ZLIB", "zlib"), ("LZ4", "lz4.frame"), ("zstd", "zstandard")])
def test_every_kind_comes_back_and_its_damage_is_noticed(name: str, library: str) -> None:
    pytest.importorskip(library)
    sys_flag = compression.flags_of(name)
    body = b"0123456789" * 1000
    packed = compress(body, sys_flag=sys_flag)
    assert len(packed) < 1000 and decompress(packed, sys_flag) == body
    with pytest.raises(RemoteProtocolError, match=name.lower()):
        decompress(b"\x00" * 50, sys_flag)


def test_what_cannot_be_compressed_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="known: ZLIB"):
        compression.flags_of("rar")
    for module in ("lz4", "lz4.frame", "zstandard"):
        monkeypatch.setitem(sys.modules, module, None)
    for name in ("LZ4", "ZSTD"):
        with pytest.raises(ConfigError, match="pip install"):
            compression.flags_of(name)
        with pytest.raises(RemoteProtocolError, match=f"{name}.*pip install"):
            decompress(b"x", flags.COMPRESSED | compression.KINDS[name])


def test_a_missing_end_is_noticed() -> None:
    with pytest.raises(RemoteProtocolError, match="end is missing"):
        decompress(compress(b"x" * 100)[:-1], flags.COMPRESSED)


def test_a_bomb_is_stopped() -> None:
    bomb = zlib.compress(bytes(MAX_DECOMPRESSED_BYTES + 1), 1)
    with pytest.raises(RemoteProtocolError, match="grows over"):
        decompress(bomb, flags.COMPRESSED)
    assert len(decompress(zlib.compress(bytes(MAX_DECOMPRESSED_BYTES), 1), flags.COMPRESSED)) == MAX_DECOMPRESSED_BYTES


@pytest.mark.parametrize("name", list(compression.KINDS))
@given(body=st.binary(max_size=300) | st.integers(1, 3000).map(bytes), most=st.integers(1, 400))
def test_the_start_of_a_body_is_all_that_is_decompressed(name: str, body: bytes, most: int) -> None:
    sys_flag = compression.flags_of(name)
    packed = compress(body, sys_flag=sys_flag)
    assert decompressed_start(packed, sys_flag, most) == (body[:most], len(body) <= most)
    assert decompressed_start(body, 0, most) == (body[:most], len(body) <= most)
    if len(body) <= most:
        assert decompress(packed, sys_flag, most) == body
    else:
        with pytest.raises(RemoteProtocolError, match=f"over {most} bytes"):
            decompress(packed, sys_flag, most)


@pytest.mark.parametrize("name", list(compression.KINDS))
def test_the_start_of_a_bomb_takes_no_memory(name: str) -> None:
    sys_flag = compression.flags_of(name)
    bomb = compress(bytes(60_000_000), sys_flag=sys_flag)
    tracemalloc.start()
    try:
        for _ in range(40):
            assert decompressed_start(bomb, sys_flag, 4096) == (bytes(4096), False)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
