"""Questions that a consumer answers, without a door."""

from __future__ import annotations

from typing import Any

import pytest

from gantrymq.broker.operations.consumer_questions import ConsumeNow, ConsumerQuestions
from gantrymq.broker.pushes import ConsumerAnswer
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.clients import ConsumerGroups, Member
from gantrymq.message.heartbeat import ConsumerData
from gantrymq.message.system_topics import HALF
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.message_ids import offset_message_id
from tests.support.connections import KeptConnection


def questions(*members: KeptConnection, store: Any = None) -> ConsumerQuestions:
    groups = ConsumerGroups()
    for member in members:
        groups.register(ConsumerData(group_name="CG"), Member(member, f"client-{member.id}", "JAVA", 513, 0.0))
    return ConsumerQuestions("broker-a", groups, store, None)


def test_the_member_that_is_meant_is_asked_and_its_answer_comes_back() -> None:
    one, two = KeptConnection(1), KeptConnection(2)
    answers: list[ConsumerAnswer | Refused] = []
    questions(one, two).running_info("CG", "client-2", True, answers.append)
    assert not one.questions
    ((question, done),) = two.questions
    assert (question.group, question.client_id, question.with_stacks) == ("CG", "client-2", True)
    done(ConsumerAnswer(0, b"{}"))
    assert answers == [ConsumerAnswer(0, b"{}")]


def test_a_member_that_does_not_answer_is_said_to_be_silent() -> None:
    one = KeptConnection(1)
    answers: list[ConsumerAnswer | Refused] = []
    questions(one).consume_directly(one, ConsumeNow("CG", None, None), answers.append)
    one.questions[0][1](None)
    (refused,) = answers
    assert isinstance(refused, Refused) and refused.reason is Refusal.CONSUMER_SILENT
    assert "client-1" in refused.remark


def test_who_is_not_there_cannot_be_asked() -> None:
    for group, client_id in (("CG", "client-9"), ("No", "client-1")):
        with pytest.raises(Refused, match="not online"):
            questions(KeptConnection(1)).running_info(group, client_id, None, lambda _: None)
    with pytest.raises(Refused) as refused:
        questions().positions("CG", "T", None, lambda _: None)
    assert refused.value.reason is Refusal.CONSUMER_OFFLINE


def test_positions_are_collected_until_the_last_member_has_answered() -> None:
    members = [KeptConnection(number) for number in (1, 2, 3)]
    found: list[Any] = []
    asked = questions(*members)
    asked.positions("CG", "T", None, found.append)
    for member, answer in zip(members, ({"q": 5}, None, {"q": 7}), strict=True):
        assert not found
        member.questions[0][1](answer)
    assert found == [{"client-1": {"q": 5}, "client-3": {"q": 7}}]
    asked.positions("CG", "T", "client-9", found.append)
    assert found[-1] == {}, "nobody of that name"


@pytest.mark.parametrize("where", [0, 4096])
def test_what_nobody_has_committed_is_shown_to_no_consumer(where: int) -> None:
    class HalfAt4096:
        def read(self, offset: int) -> Any:
            class Half:
                topic = HALF

            return Half if offset == 4096 else None

    one = KeptConnection(1)
    message_id = offset_message_id(pack_host("10.0.0.9:10911"), where)
    with pytest.raises(Refused, match="that consumers may receive"):
        questions(one, store=HalfAt4096()).consume_directly(one, ConsumeNow("CG", None, message_id), lambda _: None)
    assert not one.questions
