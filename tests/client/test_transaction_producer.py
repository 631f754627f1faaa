"""Transactions over real sockets, against a scripted cluster."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from gantrymq.aio import LocalTransactionState, Message, MessageView, SendStatus, TransactionProducer
from gantrymq.errors import ConfigError, MessageIllegal, RequestRejected, TransactionConflict, Unreachable
from gantrymq.message import properties
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import encode_response
from tests.client.peer import ScriptedBroker, cluster, run, until

SEND, END = RequestCode.SEND_MESSAGE_V2, RequestCode.END_TRANSACTION
COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN


class Listener:
    """A listener with the answers that the test sets."""

    def __init__(self, execute: Any = COMMIT, check: Any = COMMIT) -> None:
        self.execute = execute
        self.check = check
        self.executed: list[tuple[Message, Any]] = []
        self.checked: list[MessageView] = []
        self.threads: list[str] = []

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        self.executed.append((message, arg))
        self.threads.append(threading.current_thread().name)
        return self._answer(self.execute)

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        self.checked.append(message)
        self.threads.append(threading.current_thread().name)
        return self._answer(self.check)

    @staticmethod
    def _answer(answer: Any) -> LocalTransactionState:
        if isinstance(answer, Callable):  # type: ignore[arg-type]
            answer = answer()
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[no-any-return]


class AsyncListener:
    def __init__(self, answer: LocalTransactionState = COMMIT) -> None:
        self.answer = answer
        self.running = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        self.running.set()
        await self.go_on.wait()
        return self.answer

    async def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        return self.answer


@pytest.mark.parametrize("state", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("kind", [Listener, AsyncListener])
def test_a_decision_reaches_the_broker_that_holds_the_half(kind: Any, state: LocalTransactionState) -> None:
    async def test() -> None:
        async with (
            cluster(brokers=2) as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=kind(state)) as producer,
        ):
            message = Message("T", b"paid", tags="vip")
            result = await producer.send_in_transaction(message, arg=5)
            assert (result.state, result.decided, result.status) == (state, True, SendStatus.SEND_OK)
            assert result.transaction_id == result.message_id
            broker = next(broker for broker in peers.brokers if broker.halves)
            assert result.queue.broker_name == broker.name
            header, body = broker.halves[0]
            sent = properties.decode(header.properties or "")
            assert body == b"paid" and header.sys_flag == 4
            assert sent["TRAN_MSG"] == "true" and sent["PGROUP"] == "tpg" and sent["TAGS"] == "vip"
            assert message.properties == {"TAGS": "vip"} and sent["UNIQ_KEY"] == result.transaction_id
            (end,) = broker.ended
            assert end.commit_or_rollback == {COMMIT: 8, ROLLBACK: 12}[state]
            assert (end.producer_group, end.tran_state_table_offset, end.commit_log_offset) == ("tpg", 0, 0)
            assert (end.msg_id, end.topic, end.from_transaction_check) == (result.transaction_id, "T", False)

    run(test)


def test_the_listener_gets_the_message_with_its_id_and_the_argument_in_a_thread() -> None:
    async def test() -> None:
        listener = Listener()
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=listener) as producer,
        ):
            message = Message("T", b"x")
            result = await producer.send_in_transaction(message, arg="order-1")
            ((observed, arg),) = listener.executed
            assert (
                (observed.topic, observed.body) == ("T", b"x")
                and arg == "order-1"
                and observed.transaction_id == result.transaction_id
            )
            assert listener.threads != [threading.current_thread().name]

    run(test)


@pytest.mark.parametrize("answer", [UNKNOWN, None, "COMMIT", RuntimeError("db away")])
def test_unknown_is_told_one_way_and_the_reason_is_in_the_result(answer: Any) -> None:
    async def test() -> None:
        listener = Listener(execute=answer)
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=listener) as producer,
        ):
            result = await producer.send_in_transaction(Message("T", b"x"))
            assert (result.state, result.decided) == (UNKNOWN, False)
            await until(lambda: peers.broker.ended_one_way)
            assert peers.broker.ended_one_way[0].commit_or_rollback == 0 and not peers.broker.ended
            remark = next(c for c in peers.broker.requests if c.code == END).remark
            if isinstance(answer, RuntimeError):
                assert result.listener_error is answer and remark and "db away" in remark
            elif answer is UNKNOWN:
                assert result.listener_error is None
            else:
                assert isinstance(result.listener_error, TypeError)

    run(test)


def test_a_message_object_sent_again_is_another_transaction() -> None:
    """Under the same id it would be taken for a retry, and be lost; or its check would be answered by the outcome of
    the first one, and it would be delivered although it was rolled back."""

    async def test() -> None:
        listener = Listener(execute=UNKNOWN)
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=listener) as producer,
        ):
            message = Message("T", b"first")
            first = await producer.send_in_transaction(message)
            message.body = b"second"
            listener.execute = COMMIT
            second = await producer.send_in_transaction(message)
            third = await producer.send_in_transaction(message)
            ids = [first.transaction_id, second.transaction_id, third.transaction_id]
            assert len(set(ids)) == 3 and message.transaction_id is None
            keys = [properties.decode(header.properties or "")["UNIQ_KEY"] for header, _ in peers.broker.halves]
            assert keys == ids == [observed.transaction_id for observed, _ in listener.executed]

    run(test)


def test_one_message_object_in_concurrent_transactions_is_as_many_messages() -> None:
    async def test() -> None:
        listener = Listener()
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=listener) as producer,
        ):
            message = Message("T", b"x", keys="k")
            message.properties.update({"UNIQ_KEY": "of another", "__transactionId__": "of another"})
            results = await asyncio.gather(*(producer.send_in_transaction(message) for _ in range(50)))
            assert all(result.decided for result in results)
            assert len({result.transaction_id for result in results} - {"of another"}) == 50
            assert len({end.msg_id for end in peers.broker.ended}) == len(peers.broker.ended) == 50
            assert len({observed.transaction_id for observed, _ in listener.executed}) == 50
            assert message.properties == {"KEYS": "k", "UNIQ_KEY": "of another", "__transactionId__": "of another"}

    run(test)


def test_a_transaction_is_repeated_under_its_id_when_that_is_said() -> None:
    async def test() -> None:
        listener = AsyncListener()
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=listener) as producer,
        ):
            message = Message("T", b"x")
            first = await producer.send_in_transaction(message, transaction_id="order-42")
            again = await producer.send_in_transaction(message, transaction_id="order-42")
            assert first.transaction_id == again.transaction_id == "order-42" and again.decided
            assert [end.msg_id for end in peers.broker.ended] == ["order-42", "order-42"]
            listener.go_on.clear()
            running = asyncio.create_task(producer.send_in_transaction(message, transaction_id="order-43"))
            await asyncio.sleep(0.05)
            with pytest.raises(MessageIllegal, match="'order-43' is still running in this process"):
                await producer.send_in_transaction(message, transaction_id="order-43")
            listener.go_on.set()
            assert (await running).decided
            for wrong in ("", "a b", "ä", "x" * 129, "a\x01", 5):
                with pytest.raises(MessageIllegal, match="transaction_id"):
                    await producer.send_in_transaction(message, transaction_id=wrong)  # type: ignore[arg-type]

    run(test)


def test_an_id_is_under_way_once_also_when_two_begin_together() -> None:
    """Both waited for the first connection; each looked whether the other was there before that."""

    async def test() -> None:
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=Listener()) as producer,
        ):
            both = [producer.send_in_transaction(Message("T", b"x"), transaction_id="order-44") for _ in range(2)]
            first, second = await asyncio.gather(*both, return_exceptions=True)
            refused = [each for each in (first, second) if isinstance(each, MessageIllegal)]
            assert len(refused) == 1 and "still running in this process" in str(refused[0])
            assert len(peers.broker.ended) == 1 and producer._idle()

    run(test)


def test_a_half_stored_less_safely_is_rolled_back_without_asking_the_listener() -> None:
    async def test() -> None:
        listener = Listener()
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=listener) as producer,
        ):
            from gantrymq.protocol.headers.send import SendMessageAnswer
            from gantrymq.protocol.hosts import pack_host
            from gantrymq.protocol.message_ids import offset_message_id

            place = offset_message_id(pack_host(peers.broker.address), 64)
            answer = SendMessageAnswer(msg_id=place, queue_id=0, queue_offset=3)
            peers.broker.next(SEND, lambda s, c: encode_response(c, 10, answer))
            result = await producer.send_in_transaction(Message("T", b"x"))
            assert (result.status, result.state, result.decided) == (SendStatus.FLUSH_DISK_TIMEOUT, ROLLBACK, True)
            assert not listener.executed and peers.broker.ended[0].commit_or_rollback == 12
            assert peers.broker.ended[0].commit_log_offset == 64

    run(test)


def test_a_half_that_was_refused_runs_nothing_and_its_check_is_answered_rollback() -> None:
    async def test() -> None:
        listener = Listener()
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=listener) as producer,
        ):

            def store_and_refuse(session: Any, command: Any) -> bytes:
                peers.broker.send(session, command)
                return encode_response(command, 13, remark="no")

            peers.broker.next(SEND, store_and_refuse)
            with pytest.raises(RequestRejected):
                await producer.send_in_transaction(Message("T", b"x"))
            peers.broker.check(0)
            await until(lambda: peers.broker.ended)
            assert peers.broker.ended[0].commit_or_rollback == 12
            assert not listener.executed and not listener.checked

    run(test)


def test_a_decision_is_repeated_until_the_broker_takes_it() -> None:
    async def test() -> None:
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=Listener()) as producer,
        ):
            peers.broker.next(
                END,
                lambda s, c: encode_response(c, 2, remark="busy"),
                lambda s, c: s.close(),
            )
            result = await producer.send_in_transaction(Message("T", b"x"))
            assert result.decided and len(peers.broker.ended) == 1

    run(test)


def test_an_apache_broker_is_not_asked_twice_when_the_first_answer_is_lost() -> None:
    async def test() -> None:
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=Listener()) as producer,
        ):
            peers.broker.next(
                RequestCode.HEART_BEAT, lambda s, c: encode_response(c, 0).replace(b'"PYTHON"', b'"JAVA"  ')
            )
            peers.broker.next(END, lambda s, c: s.close())
            result = await producer.send_in_transaction(Message("T", b"x"))
            assert (result.state, result.decided) == (COMMIT, False)
            assert isinstance(result.decision_error, Unreachable) and not peers.broker.ended

    run(test)


def test_a_decision_against_an_earlier_one_is_raised() -> None:
    async def test() -> None:
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=Listener()) as producer,
        ):
            peers.broker.next(END, lambda s, c: encode_response(c, 604, remark="rolled back before"))
            message = Message("T", b"x")
            with pytest.raises(TransactionConflict, match="rolled back before") as caught:
                await producer.send_in_transaction(message)
            assert caught.value.transaction_id == caught.value.result.transaction_id
            assert caught.value.result.state is COMMIT and not caught.value.result.decided

    run(test)


def test_a_broker_that_is_gone_leaves_the_decision_to_check_back() -> None:
    async def test() -> None:
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=AsyncListener()) as producer,
        ):
            listener = producer.listener
            listener.go_on.clear()  # type: ignore[attr-defined]
            sending = asyncio.create_task(producer.send_in_transaction(Message("T", b"x")))
            await listener.running.wait()  # type: ignore[attr-defined]
            await peers.broker.server.close()
            listener.go_on.set()  # type: ignore[attr-defined]
            result = await sending
            assert (result.state, result.decided) == (COMMIT, False)
            assert isinstance(result.decision_error, Unreachable)

    run(test)


@pytest.mark.parametrize("kind", [Listener, AsyncListener])
@pytest.mark.parametrize("state", [COMMIT, ROLLBACK, UNKNOWN])
def test_checks_are_answered_by_the_listener(kind: Any, state: LocalTransactionState) -> None:
    async def test() -> None:
        listener = kind(UNKNOWN)
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=listener) as producer,
        ):
            result = await producer.send_in_transaction(Message("T", b"body", tags="t"))
            if kind is Listener:
                listener.check = state
            else:
                listener.answer = state
            await until(lambda: len(peers.broker.ended_one_way) == 1)
            peers.broker.check(0)
            await until(lambda: peers.broker.ended or len(peers.broker.ended_one_way) == 2)
            end = (peers.broker.ended or peers.broker.ended_one_way)[-1]
            assert end.commit_or_rollback == {COMMIT: 8, ROLLBACK: 12, UNKNOWN: 0}[state]
            assert end.from_transaction_check is True and end.msg_id == result.message_id
            if kind is Listener:
                (view,) = listener.checked
                assert (view.topic, view.body, view.tags) == ("T", b"body", "t")
                assert view.transaction_id == result.transaction_id

    run(test)


def test_another_process_of_the_group_answers_checks_before_it_sends_anything() -> None:
    async def test() -> None:
        async with cluster() as peers:
            async with TransactionProducer("tpg", name_servers=peers.address, listener=Listener(UNKNOWN)) as first:
                await first.send_in_transaction(Message("T", b"x"))
            listener = Listener(check=COMMIT)
            async with TransactionProducer("tpg", name_servers=peers.address, listener=listener, topics=["T"]):
                await until(lambda: len(peers.broker.beats) >= 2)
                peers.broker.check(0)
                await until(lambda: peers.broker.ended)
                assert peers.broker.ended[0].commit_or_rollback == 8 and len(listener.checked) == 1

    run(test)


@pytest.mark.parametrize("answer", [RuntimeError("db away"), None])
def test_a_check_that_fails_is_answered_unknown(answer: Any) -> None:
    """Hole 33: Apache's client answers nothing when the listener gives null."""

    async def test() -> None:
        listener = Listener(execute=UNKNOWN, check=answer)
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=listener) as producer,
        ):
            await producer.send_in_transaction(Message("T", b"x"))
            await until(lambda: len(peers.broker.ended_one_way) == 1)
            peers.broker.check(0)
            await until(lambda: len(peers.broker.ended_one_way) == 2)
            end = peers.broker.ended_one_way[1]
            assert end.from_transaction_check and end.commit_or_rollback == 0

    run(test)


def test_hole_33_more_checks_than_may_wait_are_answered_unknown() -> None:
    async def test() -> None:
        release = threading.Event()
        listener = Listener(execute=UNKNOWN, check=lambda: COMMIT if release.wait(20) else UNKNOWN)
        async with (
            cluster() as peers,
            TransactionProducer(
                "tpg", name_servers=peers.address, listener=listener, check_threads=1, check_queue_size=2
            ) as producer,
        ):
            for _ in range(4):
                await producer.send_in_transaction(Message("T", b"x"))
            await until(lambda: len(peers.broker.ended_one_way) == 4)
            for number in range(4):
                peers.broker.check(number)
            await until(lambda: len(peers.broker.ended_one_way) == 6)
            assert [end.tran_state_table_offset for end in peers.broker.ended_one_way[4:]] == [2, 3]
            release.set()
            await until(lambda: len(peers.broker.ended) == 2)

    run(test)


def test_hole_34_a_slow_check_does_not_hold_up_the_others() -> None:
    async def test() -> None:
        release, first = threading.Event(), threading.Lock()
        listener = Listener(execute=UNKNOWN)

        def check() -> LocalTransactionState:
            if first.acquire(blocking=False):
                release.wait(20)
            return COMMIT

        listener.check = check
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=listener) as producer,
        ):
            for _ in range(3):
                await producer.send_in_transaction(Message("T", b"x"))
            for number in range(3):
                peers.broker.check(number)
            await until(lambda: len(peers.broker.ended) == 2)
            release.set()
            await until(lambda: len(peers.broker.ended) == 3)

    run(test)


def test_hole_34_a_check_while_the_local_transaction_runs_here_is_answered_unknown() -> None:
    async def test() -> None:
        listener = AsyncListener(COMMIT)
        listener.go_on.clear()
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=listener) as producer,
        ):
            sending = asyncio.create_task(producer.send_in_transaction(Message("T", b"x")))
            await listener.running.wait()
            peers.broker.check(0)
            await until(lambda: peers.broker.ended_one_way)
            assert peers.broker.ended_one_way[0].from_transaction_check and not peers.broker.ended
            listener.go_on.set()
            assert (await sending).decided

    run(test)


def stores_and_dies(broker: ScriptedBroker) -> Any:
    """Store the message, then end the connection instead of answering."""

    def answer(session: Any, command: Any) -> None:
        broker.send(session, command)
        session.close()

    return answer


def test_hole_15_after_an_uncertain_attempt_the_same_broker_is_asked_first() -> None:
    async def test() -> None:
        async with (
            cluster(brokers=2) as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=Listener()) as producer,
        ):
            for broker in peers.brokers:
                broker.next(SEND, stores_and_dies(broker))
            result = await producer.send_in_transaction(Message("T", b"x"))
            (used,) = [broker for broker in peers.brokers if broker.halves]
            assert len(used.halves) == 2 and result.queue.broker_name == used.name and result.queue_offset == 1

    run(test)


def test_hole_15_a_half_that_may_be_stored_goes_to_no_other_broker() -> None:
    async def test() -> None:
        listener = Listener()
        async with (
            cluster(brokers=2) as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=listener) as producer,
        ):
            # The turn decides which broker is first; the other one is healthy.
            first = (await producer.queues("T"))[0].broker_name
            doomed, other = sorted(peers.brokers, key=lambda broker: broker.name != first)
            doomed.script[SEND] = [stores_and_dies(doomed)] * 3
            while not doomed.halves:
                other.halves.clear()
                with contextlib.suppress(Unreachable):
                    await producer.send_in_transaction(Message("T", b"x"))
            assert len(doomed.halves) == 3 and not other.halves
            listener.executed.clear()
            await until(lambda: any(session.alive for session in doomed.sessions))
            doomed.check(0)
            await until(lambda: doomed.ended)
            assert doomed.ended[0].commit_or_rollback == 12 and not listener.checked

    run(test)


def test_halves_that_were_never_confirmed_are_rolled_back() -> None:
    async def test() -> None:
        listener = Listener()
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=listener) as producer,
        ):
            peers.broker.next(SEND, *[stores_and_dies(peers.broker)] * 3)
            with pytest.raises(Unreachable):
                await producer.send_in_transaction(Message("T", b"lost"))
            assert len(peers.broker.halves) == 3 and not listener.executed
            await until(lambda: any(session.alive for session in peers.broker.sessions))
            peers.broker.check(1)
            await until(lambda: peers.broker.ended)
            assert peers.broker.ended[0].commit_or_rollback == 12 and not listener.checked

    run(test)


def test_cancelling_an_async_listener_tells_unknown() -> None:
    async def test() -> None:
        listener = AsyncListener()
        listener.go_on.clear()
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=listener) as producer,
        ):
            sending = asyncio.create_task(producer.send_in_transaction(Message("T", b"x")))
            await listener.running.wait()
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            await until(lambda: peers.broker.ended_one_way)
            listener.answer = ROLLBACK
            peers.broker.check(0)
            await until(lambda: peers.broker.ended)
            assert peers.broker.ended[0].commit_or_rollback == 12

    run(test)


def test_a_listener_in_a_thread_ends_its_transaction_although_its_caller_gave_up() -> None:
    async def test() -> None:
        release = threading.Event()
        listener = Listener(execute=lambda: COMMIT if release.wait(20) else UNKNOWN)
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=listener) as producer,
        ):
            sending = asyncio.create_task(producer.send_in_transaction(Message("T", b"x")))
            await until(lambda: listener.executed)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            release.set()
            await until(lambda: peers.broker.ended)
            assert peers.broker.ended[0].commit_or_rollback == 8

    run(test)


def test_what_cannot_be_a_transaction() -> None:
    async def test() -> None:
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=Listener()) as producer,
        ):
            with pytest.raises(MessageIllegal, match="delayed"):
                await producer.send_in_transaction(Message("T", b"x", delay_level=2))
            with pytest.raises(MessageIllegal, match="empty"):
                await producer.send_in_transaction(Message("T", b""))
            assert not peers.broker.halves

    run(test)
    with pytest.raises(ConfigError, match="execute_local_transaction"):
        TransactionProducer("tpg", name_servers="h:1", listener=object())  # type: ignore[arg-type]
