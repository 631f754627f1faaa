"""POP consumption: the official push consumer in POP mode, and each request of POP, on our server and on Apache's.

Where Apache behaves differently the test says so:

* a message that is never consumed goes to the dead letters here when the group's ``retryMaxTimes`` is used up; Apache
  brings it back for ever (its client acknowledges it silently after its own maximum, 16);
* Apache revives two to ten seconds late;
* renewing a delivery that has ended is refused here, and "succeeds" there.
"""

from __future__ import annotations

import json
import time
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from gantrymq.message.pop import RequestMode
from gantrymq.message.receipt_handle import ReceiptHandle
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.files.request_modes import RequestModeTable
from gantrymq.protocol.headers.pop import (
    ChangeInvisibleTimeAnswer,
    Notification,
    NotificationAnswer,
    PeekMessage,
    PopMessageAnswer,
    WaitingPops,
    WaitingPopsAnswer,
)
from gantrymq.protocol.stored_message import scan
from tests.interop.apache import ApacheCluster, JavaClient
from tests.interop.ours import GantryCluster
from tests.interop.pops import LONG_MS, PopBroker
from tests.interop.process import poll

COUNT = 10


@pytest.fixture(scope="module", params=["gantry", "apache_5"], ids=["gantrymq", "apache-5.5.0"])
def server(request: pytest.FixtureRequest) -> GantryCluster | ApacheCluster:
    cluster = request.getfixturevalue(request.param)
    assert isinstance(cluster, GantryCluster | ApacheCluster)
    return cluster


@pytest.fixture(scope="module")
def java_5(jdk: None, tmp_path_factory: pytest.TempPathFactory) -> JavaClient:
    return JavaClient("5.5.0", tmp_path_factory.mktemp("java-pop"))


@pytest.fixture(scope="module")
def broker(server: GantryCluster | ApacheCluster) -> PopBroker:
    return PopBroker(server)


def _push_consumer(client: JavaClient, cluster: GantryCluster | ApacheCluster, broker: PopBroker) -> None:
    topic, group = "PopPush", "GPopPush"
    broker.prepare(topic, group, 2, retryMaxTimes=1)
    mode = json.dumps({"topic": topic, "consumerGroup": group, "mode": "POP", "popShareQueueNum": 0}).encode()
    assert broker.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, None, mode).code == ResponseCode.SUCCESS
    driver = client.play("PopPushFive", cluster.name_servers, topic, group, COUNT)
    driver.await_line('"what":"all"')
    assert driver.steps("reached"), driver.text()

    def times(body: str) -> list[int]:
        return [step["times"] for step in driver.steps("got") if step["body"] == body]

    if broker.ours:
        poll(lambda: broker.end(f"%DLQ%{group}") == 1, "the dead letter")
        assert times("poison") == [0, 1]
    else:
        poll(lambda: 2 in times("poison"), "a third delivery")
        assert broker.end(f"%DLQ%{group}") == 0
    got = driver.steps("got")
    assert sorted(step["body"] for step in got if step["body"].startswith("ok")) == sorted(
        f"ok {number}" for number in range(COUNT)
    )
    assert times("silent") == times("later") == [0, 1]
    assert times("not wanted") == []
    assert all(step["pop"] and step["topic"] == topic for step in got), "by POP, and under the topic it was sent to"
    driver.kill()


@pytest.mark.feature("push: POP", column="Java 5.5.0 on GantryMQ")
def test_push_consumer_on_ours(java_5: JavaClient, gantry: GantryCluster) -> None:
    _push_consumer(java_5, gantry, PopBroker(gantry))


def test_push_consumer_on_apache(java_5: JavaClient, apache_5: ApacheCluster) -> None:
    _push_consumer(java_5, apache_5, PopBroker(apache_5))


def test_mqadmin_sets_the_mode(jdk: None, gantry: GantryCluster, tmp_path: Path) -> None:
    broker = PopBroker(gantry)
    broker.prepare("PopMode", "GPopMode")
    said = ApacheCluster("5.5.0", tmp_path).mqadmin(
        "setConsumeMode", "-b", broker.address, "-t", "PopMode", "-g", "GPopMode", "-m", "POP", "-q", "2",
        name_servers=gantry.name_servers,
    )  # fmt: skip
    assert "success" in said, said
    modes = RequestModeTable.decode(broker.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE).body)
    mode = modes.message_request_mode_map["PopMode"]["GPopMode"]
    assert (mode.mode, mode.pop_share_queue_num) == (RequestMode.POP, 2)


def test_acknowledged_renewed_given_back(broker: PopBroker) -> None:
    topic, group = "PopRaw", "GPopRaw"
    broker.prepare(topic, group)
    for number in range(4):
        broker.send(topic, str(number))
    answer, found = broker.pop(topic, group)
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, "FOUND")
    header = answer.header(PopMessageAnswer)
    assert (header.start_offset_info, header.msg_offset_info) == ("0 0 0", "0 0 0,1,2,3")
    assert (header.invisible_time, header.rest_num, header.order_count_info) == (LONG_MS, 0, None)
    assert [(body, times) for body, times, _ in found] == [("0", 0), ("1", 0), ("2", 0), ("3", 0)]
    empty, none = broker.pop(topic, group)
    assert (empty.code, empty.remark, none) == (ResponseCode.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE", [])
    handles = [handle for _, _, handle in found]
    assert broker.ack(topic, group, handles[0]).code == ResponseCode.SUCCESS
    renewed = broker.change(topic, group, handles[1], LONG_MS).header(ChangeInvisibleTimeAnswer)
    assert (renewed.invisible_time, renewed.revive_qid) == (LONG_MS, handles[1].revive_queue)
    assert broker.change(topic, group, handles[2], 1000).code == ResponseCode.SUCCESS
    assert broker.change(topic, group, handles[3], 1000).code == ResponseCode.SUCCESS
    back: list[tuple[str, int, ReceiptHandle]] = []

    def both() -> bool:
        # On a busy machine Apache's broker sometimes forgets a pop that it holds: then nobody has its messages.
        with nullcontext() if broker.ours else suppress(TimeoutError):
            back.extend(broker.pop(topic, group, poll_time=2000)[1])
        return len(back) >= 2

    poll(both, "what was given back")
    assert sorted((body, times) for body, times, _ in back) == [("2", 1), ("3", 1)]
    assert {handle.kind for _, _, handle in back} == {"1"}
    assert broker.ack(topic, group, back[0][2]).code == ResponseCode.SUCCESS
    broker.batch_ack(topic, group, [back[1][2]])
    assert broker.pop(topic, group, poll_time=3000)[1] == []


def test_looking_and_waiting(broker: PopBroker) -> None:
    topic, group = "PopWait", "GPopWait"
    broker.prepare(topic, group)
    now = round(time.time() * 1000)
    ask_peek = PeekMessage(consumer_group=group, topic=topic, queue_id=-1, max_msg_nums=5)
    nothing = broker.ask(RequestCode.PEEK_MESSAGE, ask_peek)
    assert (nothing.code, nothing.remark) == (ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE")
    notice = Notification(consumer_group=group, topic=topic, queue_id=-1, poll_time=0, born_time=now)
    assert broker.ask(RequestCode.NOTIFICATION, notice).header(NotificationAnswer).has_msg is False
    info = broker.ask(RequestCode.POLLING_INFO, WaitingPops(consumer_group=group, topic=topic, queue_id=-1))
    assert info.header(WaitingPopsAnswer).polling_num == 0
    broker.send(topic, "x")
    # Apache's broker answers a send before the message is in its queue.
    poll(
        lambda: broker.ask(RequestCode.NOTIFICATION, notice).header(NotificationAnswer).has_msg or None,
        "the notice of a message",
    )
    peeked = broker.ask(RequestCode.PEEK_MESSAGE, ask_peek)
    assert [message.body for message in scan(peeked.body)] == [b"x"]
    assert broker.pop(topic, group, exp="B")[1] == [], "another tag"


def test_orderly(broker: PopBroker) -> None:
    topic, group = "PopOrder", "GPopOrder"
    broker.prepare(topic, group)
    for number in range(3):
        broker.send(topic, str(number))
    answer, found = broker.pop(topic, group, order=True, max_msg_nums=2, invisible_time=5000)
    assert answer.header(PopMessageAnswer).order_count_info == "0 0 0"
    assert [handle.revive_queue for _, _, handle in found] == [999, 999]
    assert broker.pop(topic, group, order=True)[1] == []
    assert broker.ack(topic, group, found[0][2]).code == ResponseCode.SUCCESS
    second, again = broker.pop(topic, group, order=True, poll_time=15_000)
    assert [body for body, _, _ in again] == ["1", "2"]
    assert second.header(PopMessageAnswer).order_count_info == "0 qo0%1 1;0 0 0"
    for _, _, handle in again:
        assert broker.ack(topic, group, handle).code == ResponseCode.SUCCESS
    assert broker.pop(topic, group, order=True)[1] == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"max_msg_nums": 33}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "PopNowhere"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queue_id": 9}, ResponseCode.INVALID_PARAMETER),
        ({"born_time": 1, "poll_time": 1}, ResponseCode.POLLING_TIMEOUT),
    ],
)
def test_refusals(broker: PopBroker, fields: dict[str, object], code: ResponseCode) -> None:
    broker.prepare("PopRefused", "GPopRefused")
    answer, _ = broker.pop(**{"topic": "PopRefused", "group": "GPopRefused", **fields})  # type: ignore[arg-type]
    assert answer.code == code
