"""What is before a body in Confluent's wire format, byte by byte."""

from __future__ import annotations

import pyarrow as pa
import pytest

from gantrymq.spark.registry.wire import NoIndexes, header, headers_of, indexes_read, indexes_written


def test_headers() -> None:
    """Also where the array is a part of a longer one, and where a body ends in its header."""
    bodies = [b"before", b"\0\0\0\0\7", header(0xFFFFFFFF) + b"x", b"", b"\0\0\0", b"\1\0\0\0\7", b"{}", header(258)]
    found = headers_of(pa.array(bodies, pa.binary())[1:])
    assert found.ids.tolist() == [7, 0xFFFFFFFF, -1, -1, -1, -1, 258]
    text = "the body is not in the wire format of a schema registry: "
    assert found.reasons == {
        2: f"{text}it has 0 bytes, and the id of a schema alone takes 5",
        3: f"{text}it has 3 bytes, and the id of a schema alone takes 5",
        4: f"{text}it begins with the byte 0x01, and not with 0",
        5: f"{text}it begins with the byte 0x7b, and not with 0",
    }
    assert headers_of(pa.array([b"", b""])).ids.tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("path", "written"), [((0,), b"\2\0"), ((1,), b"\2\2"), ((1, 0), b"\4\2\0"), ((70,), b"\2\x8c\1")]
)
def test_indexes(path: tuple[int, ...], written: bytes) -> None:
    assert written in indexes_written(path)
    assert indexes_read(written + b"rest") == (path, len(written))
    serde = pytest.importorskip("confluent_kafka.schema_registry.serde")
    # Confluent's own writer takes the short form for [0].
    theirs = serde.SchemaId("PROTOBUF", 7, None, list(path)).id_to_bytes()
    assert theirs[:5] == header(7)
    assert theirs[5:] in indexes_written(path)


@pytest.mark.parametrize("payload", [b"", b"\2", b"\xff" * 9, b"\3\0", b"\xfe\xff\1"])
def test_what_names_no_message_type(payload: bytes) -> None:
    with pytest.raises(NoIndexes):
        indexes_read(payload)


def test_the_short_form_of_the_first_message_type() -> None:
    assert indexes_read(b"\0\n") == ((0,), 1)
    assert b"\0" in indexes_written((0,))
