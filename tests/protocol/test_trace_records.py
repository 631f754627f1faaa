"""The records of the message trace: written and read back, in older forms, and damaged."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.protocol.trace_records import LAYOUTS, TracedMessage, TraceKind, TraceRecord, decode, encode
from gantrymq.runtime.calendar import LAST_MS

WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), max_size=20)
NUMBERS = st.integers(min_value=0, max_value=LAST_MS)
BY_TYPE = {"str": WORDS, "int": NUMBERS, "bool": st.booleans(), "TracedMessage": st.sampled_from(TracedMessage)}


@st.composite
def records(draw: st.DrawFn) -> TraceRecord:
    """A record with values in the fields that its kind has."""
    kind = draw(st.sampled_from(TraceKind))
    known = [one for one in fields(TraceRecord) if one.name in LAYOUTS[kind]]
    values = {one.name: draw(BY_TYPE[getattr(one.type, "__name__", one.type)]) for one in known}
    if values.get("keys") == "null":  # what Java's client writes for no keys
        values["keys"] = ""
    return TraceRecord(kind=kind, **values)


@given(st.lists(records(), max_size=5))
def test_what_is_written_is_read(written: list[TraceRecord]) -> None:
    assert decode("".join(map(encode, written)).encode()) == (written, 0)


def test_bytes_of_apaches_clients() -> None:
    """As TraceDataEncoder writes them: 4.9 and 5.5 end a Pub with its offset message id and whether it was stored."""
    body = (
        "Pub\x011700000000000\x01DefaultRegion\x01PG\x01Orders\x0101AA\x01paid\x01k1 k2\x01127.0.0.1:10911"
        "\x015\x013\x011\x010A00\x01true\x02"
        "SubBefore\x011700000000009\x01null\x01CG\x01R1\x0101AA\x012\x01null\x02"
        "SubAfter\x01R1\x0101AA\x017\x01false\x01k1\x014\x011700000000016\x01CG\x02"
    )
    (pub, before, after), bad = decode(body.encode())
    assert bad == 0
    assert (pub.time_ms, pub.keys, pub.cost_ms, pub.message_kind) == (1700000000000, "k1 k2", 3, TracedMessage.HALF)
    assert (pub.offset_message_id, pub.good) == ("0A00", True)
    assert (before.deliveries_before, before.keys, before.request_id) == (2, "", "R1")
    assert (after.good, after.context_code, after.group) == (False, 4, "CG")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "Pub\x011\x01r\x01g\x01t\x01ID\x01\x01\x01b\x015\x013\x010\x01true",
            TraceRecord(kind=TraceKind.PUB, message_id="ID", time_ms=1, region="r", group="g", topic="t", broker="b",
                        size=5, cost_ms=3, good=True),
        ),
        (
            "SubAfter\x01R\x01ID\x017\x01true\x01k\x010",
            TraceRecord(kind=TraceKind.SUB_AFTER, message_id="ID", request_id="R", cost_ms=7, keys="k"),
        ),
        (  # a Pub of newer clients, with the address of the client at its end
            "Pub\x011\x01r\x01g\x01t\x01ID\x01\x01\x01b\x015\x013\x010\x010A\x01false\x0110.0.0.1",
            TraceRecord(kind=TraceKind.PUB, message_id="ID", time_ms=1, region="r", group="g", topic="t", broker="b",
                        size=5, cost_ms=3, offset_message_id="0A", good=False),
        ),
    ],
)  # fmt: skip
def test_other_lengths(text: str, found: TraceRecord) -> None:
    assert decode(f"{text}\x02".encode()) == ([found], 0)


@pytest.mark.parametrize(
    "text",
    ["nothing", "Pub", "Pub\x01x\x01r\x01g\x01t\x01ID\x01\x01\x01b\x015\x013\x010\x01true", "Recall\x011",
     f"Recall\x01{LAST_MS + 1}\x01r\x01g\x01t\x01ID\x01true", "Recall\x01-1\x01r\x01g\x01t\x01ID\x01true",
     "Pub\x011\x01r\x01g\x01t\x01ID\x01\x01\x01b\x015\x013\x0199\x01true", "EndTransaction\x011\x01r"],
)  # fmt: skip
def test_damaged_records_are_counted_and_the_others_read(text: str) -> None:
    good = TraceRecord(kind=TraceKind.RECALL, message_id="ID", time_ms=5)
    assert decode(f"{text}\x02{encode(good)}".encode()) == ([good], 1)


@given(st.binary(max_size=200))
def test_no_bytes_raise(body: bytes) -> None:
    decode(body)
