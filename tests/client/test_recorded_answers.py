"""The client understands everything Apache's brokers of both generations were recorded answering to clients."""

from __future__ import annotations

import pytest

from gantrymq.client.connection.routes import publish_queues, subscribe_queues
from gantrymq.client.consuming.pulling import ANSWERS, pull_answer, views
from gantrymq.client.results import PullStatus, SendStatus
from gantrymq.client.sending.delivery import send_result
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.route import TopicRoute
from gantrymq.protocol.codes import STORED, RequestCode
from gantrymq.protocol.headers.transaction import CheckTransactionState
from gantrymq.protocol.message_ids import parse_offset_message_id
from gantrymq.protocol.stored_message import decode_record, to_view
from tests.golden.recorded import Recorded, everything, scenario

SENDS = {RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}


def answers_to(*codes: int) -> list[Recorded]:
    found = [recorded for recorded in everything() if recorded.is_response and recorded.request_code in codes]
    assert len(found) > 20
    return found


def test_answers_to_sends() -> None:
    stored = 0
    for recorded in answers_to(*SENDS):
        queue = MessageQueue("T", "broker-a", 0)
        result = send_result(recorded.command(), queue, "id")
        assert (result is None) == (recorded.code not in STORED)
        if result is not None:
            stored += 1
            fields = recorded.header["extFields"]
            assert result.status is SendStatus.SEND_OK and result.region == "DefaultRegion"
            assert result.queue.queue_id == int(fields["queueId"]) and result.queue_offset == int(fields["queueOffset"])
            # 4.9.7 never says the transaction id in the answer to a send.
            assert result.transaction_id == fields.get("transactionId")
            for one in result.offset_message_id.split(","):
                parse_offset_message_id(one)
    assert stored > 100


def test_answers_to_pulls() -> None:
    observed: set[PullStatus] = set()
    messages = 0
    for recorded in answers_to(RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE):
        if recorded.code not in ANSWERS:
            continue
        queue = MessageQueue("T", "broker-a", 0)
        raw = pull_answer(recorded.command(), queue)
        found = views(raw, queue)
        observed.add(raw.status)
        messages += len(found)
        assert (raw.status is PullStatus.FOUND) == bool(found)
        assert all(view.queue_offset < raw.next_offset and view.message_id for view in found)
    assert messages > 100 and {PullStatus.FOUND, PullStatus.NO_NEW_MSG} <= observed


def test_answers_to_questions_for_routes() -> None:
    routes = [
        TopicRoute.decode(recorded.body)
        for recorded in answers_to(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        if recorded.code == 0
    ]
    for route in routes:
        assert [broker.master for broker in route.broker_datas] != [None]
        queues = publish_queues("T", route)
        assert set(subscribe_queues("T", route)) >= set(queues) or any(data.perm != 6 for data in route.queue_datas)
    assert len(routes) > 20


@pytest.mark.parametrize("generation", ["v4", "v5"])
def test_questions_of_check_back(generation: str) -> None:
    asked = [r for r in scenario(f"{generation}-transaction") if r.code == 39 and not r.is_response]
    assert asked
    for recorded in asked:
        command = recorded.command()
        header = command.header(CheckTransactionState)
        view = to_view(decode_record(command.body), header.bname or "broker-a")
        assert view.properties["PGROUP"] and view.transaction_id == header.transaction_id
        assert header.commit_log_offset == view.log_offset and header.tran_state_table_offset == view.queue_offset
