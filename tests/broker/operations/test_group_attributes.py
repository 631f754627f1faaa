"""Attributes of consumer groups change as ``mqadmin updateSubGroup -a`` says. Source: AttributeUtil."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.broker.operations.group_attributes import changed
from gantrymq.broker.refusal import Refused
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.files.groups import Group
from gantrymq.protocol.headers.topics import GroupOnly
from tests.support.brokers import Cluster, on_broker


@pytest.mark.parametrize(
    ("changes", "after"),
    [
        ({}, {"a": "1", "b": "2"}),
        ({"+priority.factor": "50"}, {"a": "1", "b": "2", "priority.factor": "50"}),
        ({"+a": "7", "-b": ""}, {"a": "7"}),
        ({"-c": ""}, {"a": "1", "b": "2"}),
        ({"a": "9"}, {"a": "9", "b": "2"}),
    ],
)
def test_what_is_not_named_stays(changes: dict[str, str], after: dict[str, str]) -> None:
    assert changed({"a": "1", "b": "2"}, changes) == after


@pytest.mark.parametrize("value", ["101", "-1", "half", "٣", ""])
def test_the_factor_is_a_percentage(value: str) -> None:
    with pytest.raises(Refused, match=r"priority\.factor"):
        changed({}, {"+priority.factor": value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("lite.sub.model", "exclusive"), ("lite.sub.client.quota", "many"), ("lite.sub.client.quota", "-2")],
)
def test_attributes_of_lite_topics_have_values_that_brokers_know(name: str, value: str) -> None:
    with pytest.raises(Refused, match=f"{name} is '{value}'; write "):
        changed({}, {f"+{name}": value})


def test_an_attribute_is_kept_without_its_sign_and_by_later_changes(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        async def put(**fields: object) -> int:
            body = Group(group_name="G", **fields).encode()  # type: ignore[arg-type]
            return (await c.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)).code

        assert await put(attributes={"+priority.factor": "50"}) == ResponseCode.SUCCESS
        assert await put(retry_max_times=3) == ResponseCode.SUCCESS
        assert await put(attributes={"+priority.factor": "500"}) == ResponseCode.INVALID_PARAMETER
        answer = await c.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GroupOnly(group="G"))
        group = Group.decode(answer.body)
        assert (group.attributes, group.retry_max_times, group.priority_factor) == ({"priority.factor": "50"}, 3, 50)

    on_broker(work, tmp_path)
