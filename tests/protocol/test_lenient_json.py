from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import RemoteProtocolError
from gantrymq.protocol import lenient_json
from gantrymq.protocol.lenient_json import loads

PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20
)


@given(VALUES)
def test_standard_json_means_what_it_always_means(value: Any) -> None:
    assert loads(json.dumps(value).encode()) == value


@given(VALUES, st.sampled_from(["", " ", "\n\t"]))
def test_the_dialect_reader_agrees_about_standard_json(value: Any, blank: str) -> None:
    # The object key sends the text to the reader of the dialect.
    text = f'{blank}[{{{{"a":1}}{blank}:{blank}{json.dumps(value)}}}{blank}]{blank}'
    assert loads(text.encode()) == [{'{"a":1}': value}]


@pytest.mark.slow
@given(st.dictionaries(st.integers(-(2**63), 2**63 - 1), VALUES, min_size=1, max_size=5))
def test_unquoted_integer_keys_become_texts(table: dict[int, Any]) -> None:
    text = "{" + ",".join(f"{key}:{json.dumps(value)}" for key, value in table.items()) + "}"
    assert loads(text.encode()) == {str(key): value for key, value in table.items()}


def test_object_keys_become_compact_texts_with_sorted_keys() -> None:
    text = (
        b'{"offsetTable":{{"topic":"T","queueId":0,"brokerName":"b"}:6,{"brokerName":"b","queueId":1,"topic":"T"}:7}}'
    )
    assert loads(text) == {
        "offsetTable": {
            '{"brokerName":"b","queueId":0,"topic":"T"}': 6,
            '{"brokerName":"b","queueId":1,"topic":"T"}': 7,
        }
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"a":{"x":1},"b":{"$ref":"$.a"}}', {"a": {"x": 1}, "b": {"x": 1}}),
        (b'{"b":{"$ref":"$.a"},"a":[1,2]}', {"b": [1, 2], "a": [1, 2]}),
        (b'{"a":[{"x":1},{"$ref":"$.a[0]"}]}', {"a": [{"x": 1}, {"x": 1}]}),
        (b'{"a":{0:{"x":1}},"b":{"$ref":"$.a[0]"}}', {"a": {"0": {"x": 1}}, "b": {"x": 1}}),
        (b'{"a":{"p.q":{"x":1}},"b":{"$ref":"$.a[\\"p.q\\"]"}}', {"a": {"p.q": {"x": 1}}, "b": {"x": 1}}),
        (b'{"$ref":"$.a","b":1}', {"$ref": "$.a", "b": 1}),
        (b'{"$ref":1}', {"$ref": 1}),
    ],
)
def test_references_become_what_they_name(text: bytes, value: Any) -> None:
    assert loads(text) == value


@pytest.mark.parametrize(
    "path", ["$.b", "$.a.b", "$.a[1]", "$.a.x", "$.c[5]", "$.c.x", "$.s.x", "$x", "nothing", "", "@", "..", "$", "$.a["]
)
def test_references_that_name_nothing_or_a_circle_are_refused(path: str) -> None:
    with pytest.raises(RemoteProtocolError, match="reference"):
        loads(json.dumps({"a": {"r": {"$ref": path}}, "c": [1], "s": "text"}).encode())


def test_a_reference_to_itself_is_refused() -> None:
    with pytest.raises(RemoteProtocolError):
        loads(b'{"$ref":"$"}')
    with pytest.raises(RemoteProtocolError, match="a key that can be read"):
        loads(b'{{"$ref":"$"}:1}')


def test_text_cannot_unfold_to_more_than_it_is() -> None:
    doubling = ",".join(f'"a{n + 1}":[{{"$ref":"$.a{n}"}},{{"$ref":"$.a{n}"}}]' for n in range(64))
    with pytest.raises(RemoteProtocolError, match="holds references"):
        loads(f'{{"a0":[0,0],{doubling}}}'.encode())
    many = ",".join('{"$ref":"$[0]"}' for _ in range(lenient_json.MAX_REFERENCES + 1))
    with pytest.raises(RemoteProtocolError, match="more than 1000 references"):
        loads(f"[[],{many}]".encode())


def test_depth_is_limited() -> None:
    assert loads(b"[" * 60 + b"{0:1}" + b"]" * 60)
    with pytest.raises(RemoteProtocolError, match="deeper than 64"):
        loads(b"[" * 65 + b"{0:1}" + b"]" * 65)
    with pytest.raises(RemoteProtocolError):
        loads(b"[" * 1_000_000)


@pytest.mark.parametrize(
    "text",
    [
        b"", b" ", b"{", b"[", b"[1", b"[1,", b"[,1]", b"{0}", b"{0:}", b"{0:1", b"{0:1 1:2}", b"{,}", b"{x:1}",
        b"{0:1}}", b'{0:"x}', b'{0:"\\x"}', b'{0:"\n"}', b"{0:-}", b"{0:tru}", b"{0:+1}",
        b"{0:" + b"1" * 5000 + b"}",
        b'"\xff', b"nul",
    ],
)  # fmt: skip
def test_malformed_texts_are_refused(text: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        loads(text)


JAVAISH = st.lists(
    st.sampled_from(
        ["{", "}", "[", "]", ",", ":", '"a"', "0", "-1", "1.5E3", "null", "true", '"$ref"', '"$"', '"$.a"', " "]
    ),
    max_size=25,
).map("".join)


@given(st.binary(max_size=60) | JAVAISH.map(str.encode))
def test_any_bytes_are_read_or_raise_the_documented_error(data: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        json.dumps(loads(data))  # and no circle comes out
