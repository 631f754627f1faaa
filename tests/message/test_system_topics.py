from __future__ import annotations

import pytest

from gantrymq.errors import MessageIllegal
from gantrymq.message import system_topics


@pytest.mark.parametrize("name", ["orders", "%RETRY%group", "a|b_c-D9", "x" * 127])
def test_good_topics(name: str) -> None:
    system_topics.check_topic(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "blank"),
        ("  ", "blank"),
        ("x" * 128, "128 characters; at most 127"),
        ("a b", "not allowed"),
        ("a.b", "not allowed"),
        ("中文", "not allowed"),
        ("a\n", "not allowed"),
    ],
)
def test_bad_topics_say_what_is_wrong(name: str, reason: str) -> None:
    with pytest.raises(MessageIllegal, match=f"the topic .*{reason}"):
        system_topics.check_topic(name)


def test_groups() -> None:
    system_topics.check_group("g" * 120)
    with pytest.raises(MessageIllegal, match=r"the group .*121 characters; at most 120"):
        system_topics.check_group("g" * 121)


def test_derived_topics() -> None:
    assert system_topics.retry_topic("CG") == "%RETRY%CG"
    assert system_topics.dead_letter_topic("CG") == "%DLQ%CG"


def test_topics_of_transactions_take_no_sends() -> None:
    assert system_topics.TRANSACTION_TOPICS <= system_topics.NOT_SENDABLE
