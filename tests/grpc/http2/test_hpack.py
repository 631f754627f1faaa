"""Header blocks: those of the RFC, of another library, and anything at all."""

from __future__ import annotations

import hpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gantrymq.grpc.http2 import huffman
from gantrymq.grpc.http2.codes import ConnectionFailed, ErrorCode
from gantrymq.grpc.http2.hpack import STATIC, TABLE_BYTES, Header, HeaderDecoder, encode

LIMIT = 16 * 1024
TEXTS = st.text(st.characters(max_codepoint=255), max_size=60)
NAMES = st.sampled_from([name for name, _ in STATIC]) | TEXTS.filter(bool)
LISTS = st.lists(st.tuples(NAMES, TEXTS) | st.sampled_from(STATIC), max_size=12)


def decoder() -> HeaderDecoder:
    return HeaderDecoder(LIMIT)


def test_the_requests_of_the_rfc() -> None:
    """Appendix C.4: three requests on one connection, with the Huffman code."""
    reads = decoder()
    common: list[Header] = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")]
    assert reads.decode(bytes.fromhex("828684418cf1e3c2e5f23a6ba0ab90f4ff")) == common
    assert reads.decode(bytes.fromhex("828684be5886a8eb10649cbf")) == [*common, ("cache-control", "no-cache")]
    assert reads.decode(bytes.fromhex("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf")) == [
        (":method", "GET"), (":scheme", "https"), (":path", "/index.html"), (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    ]  # fmt: skip


@given(st.lists(LISTS, max_size=6), st.booleans())
def test_what_another_library_writes_is_read(blocks: list[list[Header]], compressed: bool) -> None:
    writes, reads = hpack.Encoder(), decoder()
    for headers in blocks:
        pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        assert reads.decode(writes.encode(pairs, huffman=compressed)) == headers


@given(st.lists(LISTS, max_size=3))
def test_what_is_written_another_library_reads(blocks: list[list[Header]]) -> None:
    reads = hpack.Decoder()
    for headers in blocks:
        found = reads.decode(encode(headers), raw=True)
        assert [(name.decode("latin-1"), value.decode("latin-1")) for name, value in found] == headers


def test_an_entry_that_fills_the_table_is_kept_and_a_larger_one_empties_it() -> None:
    reads = decoder()
    fills = ("x", "y" * (TABLE_BYTES - 33))
    assert reads.decode(b"\x40" + encode([fills])[1:] + b"\xbe") == [fills, fills]
    larger = ("x", "y" * (TABLE_BYTES - 32))
    reads.decode(b"\x40" + encode([larger])[1:])
    with pytest.raises(ConnectionFailed):
        reads.decode(b"\xbe")


@given(st.lists(st.binary(max_size=80), max_size=6))
def test_anything_is_read_or_refused_and_the_table_stays_in_its_limit(blocks: list[bytes]) -> None:
    reads = decoder()
    for block in blocks:
        try:
            reads.decode(block)
        except ConnectionFailed as failed:
            assert failed.code in (ErrorCode.COMPRESSION_ERROR, ErrorCode.ENHANCE_YOUR_CALM)
            return
        assert 0 <= reads._size <= TABLE_BYTES
        assert reads._size == sum(len(name) + len(value) + 32 for (name, value), _ in reads._entries)


@given(st.binary(max_size=60))
def test_every_text_of_the_code_is_read_as_it_was_written(text: bytes) -> None:
    block = hpack.Encoder().encode([(b"x", text)], huffman=True)
    assert decoder().decode(block) == [("x", text.decode("latin-1"))]


@settings(max_examples=200)
@given(st.binary(max_size=12))
def test_a_text_that_is_not_valid_in_the_code_is_refused_as_by_another_library(data: bytes) -> None:
    block = b"\x00\x01x" + bytes((0x80 | len(data),)) + data
    try:
        theirs = hpack.Decoder().decode(block, raw=True)[0][1]
    except hpack.HPACKError:
        with pytest.raises(ConnectionFailed):
            decoder().decode(block)
    else:
        assert decoder().decode(block)[0][1].encode("latin-1") == theirs


def test_the_symbol_of_the_end_and_wrong_padding_are_refused() -> None:
    with pytest.raises(ValueError, match="the end of a text"):
        huffman.decode(b"\xff\xff\xff\xff")
    # A whole byte of ones; "0" and three zeros; "a" and eleven ones, which is more than the rest of a byte.
    for data in (b"\xff", b"\x00", b"\x1f\xff"):
        with pytest.raises(ValueError, match="padding"):
            huffman.decode(data)


@pytest.mark.parametrize(
    ("block", "code"),
    [
        ("80", ErrorCode.COMPRESSION_ERROR),  # number 0
        ("c0", ErrorCode.COMPRESSION_ERROR),  # an entry that is not there
        ("ff80808080808001", ErrorCode.COMPRESSION_ERROR),  # a number without an end
        ("ff", ErrorCode.COMPRESSION_ERROR),
        ("4003", ErrorCode.COMPRESSION_ERROR),
        ("400378", ErrorCode.COMPRESSION_ERROR),
        ("3fe21f", ErrorCode.COMPRESSION_ERROR),  # a table of 4097 bytes
        ("8220", ErrorCode.COMPRESSION_ERROR),  # a new size behind a header
    ],
)
def test_a_block_that_breaks_a_rule_ends_the_connection(block: str, code: ErrorCode) -> None:
    with pytest.raises(ConnectionFailed) as failed:
        decoder().decode(bytes.fromhex(block))
    assert failed.value.code == code


def test_a_few_bytes_that_stand_for_many_headers_are_refused() -> None:
    writes = hpack.Encoder()
    bomb = writes.encode([(b"x", b"y" * 3000)]) + b"\xbe" * 10_000
    with pytest.raises(ConnectionFailed) as failed:
        decoder().decode(bomb)
    assert failed.value.code == ErrorCode.ENHANCE_YOUR_CALM
