"""Names with and without their namespace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.client.namespaces import with_namespace, without_namespace

NAMES = [
    ("orders", "ns%orders"),
    ("%RETRY%group", "%RETRY%ns%group"),
    ("%DLQ%group", "%DLQ%ns%group"),
    ("RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRACE_TOPIC"),
    ("TBW102", "TBW102"),
    ("rmq_sys_wheel_timer", "rmq_sys_wheel_timer"),
]


@pytest.mark.parametrize(("name", "spaced"), NAMES)
def test_names_are_prefixed_once_and_the_systems_own_stay(name: str, spaced: str) -> None:
    assert with_namespace("ns", name) == spaced == with_namespace("ns", spaced)
    assert without_namespace("ns", spaced) == name
    assert with_namespace(None, name) == name and without_namespace(None, spaced) == spaced


@given(st.from_regex(r"[a-zA-Z0-9_-]{1,20}", fullmatch=True))
def test_what_was_prefixed_comes_back(name: str) -> None:
    assert without_namespace("space", with_namespace("space", name)) == name
