"""Answers brokers that ask how a local transaction ended (CHECK_TRANSACTION_STATE).

Every check is answered, so that the broker knows that the producer is alive (hole 33). The answer is UNKNOWN when the
listener fails, returns nothing or has too much to do, and while the local transaction is still running in this process
(hole 34).

Source: ClientRemotingProcessor.checkTransactionState; docs/store.md#checks.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

from gantrymq.client.config import TransactionProducerConfig
from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.connection.namespaces import without_namespace
from gantrymq.client.large_bodies import begun_view, complete
from gantrymq.client.listener import (
    ListenerAnswer,
    TransactionListener,
    call_contained,
    contain,
    is_async,
    is_decisive,
    read_failure,
)
from gantrymq.client.metrics.figures import ClientFigures
from gantrymq.client.sending.check_again import CheckAgain
from gantrymq.client.sending.half_memory import HalfMemory
from gantrymq.client.sending.longest_transaction import RUNNING
from gantrymq.client.tracing.watch import Check, Watch
from gantrymq.message import properties
from gantrymq.message.message import MessageView, StoredMessage
from gantrymq.message.sizes import LARGEST_READ_BODY_BYTES
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, encode_request
from gantrymq.protocol.headers.transaction import CheckTransactionState, EndTransaction
from gantrymq.protocol.stored_message import decode_record
from gantrymq.remoting.channel import ClientChannel

log = logging.getLogger("gantrymq.client")

SWAMPED = ListenerAnswer(LocalTransactionState.UNKNOWN, remark="too many checks are waiting in this process; ask again")
NOT_DECISIVE = ListenerAnswer(
    LocalTransactionState.UNKNOWN, remark="this member's checker is not decisive; ask when the immunity is over"
)
STILL_CHECKED = ListenerAnswer(
    LocalTransactionState.UNKNOWN,
    remark="the checker is still at work on earlier checks of this transaction",
    ask_again=True,
)
GONE = ListenerAnswer(LocalTransactionState.UNKNOWN, remark="the broker that asked has gone")
CHECKS_AT_ONCE: Final = 2
"""Checks of one transaction that may run at the same time. The first may hang in a lost connection to the database, so
a second one is allowed. With more, one transaction whose checks all hang could occupy every thread."""


@dataclass(frozen=True, slots=True)
class Question:
    """One check, and the connection on which to answer it."""

    channel: ClientChannel
    header: CheckTransactionState
    view: MessageView
    stored: StoredMessage
    broker_name: str
    transaction_id: str
    check: Check | None
    """Who records it."""


class CheckBack:
    """The checks of one transaction producer."""

    def __init__(
        self,
        endpoint: Endpoint,
        group: str,
        listener: TransactionListener,
        memory: HalfMemory,
        config: TransactionProducerConfig,
        watch: Watch | None,
        figures: ClientFigures,
    ) -> None:
        self._watch = watch
        self._figures = figures
        self._endpoint = endpoint
        self._group = group
        self._listener = listener
        self._decisive = is_decisive(listener)
        self._memory = memory
        self._config = config
        self._again = CheckAgain(endpoint, config.check_queue_size)
        self._free = asyncio.Semaphore(config.check_threads)
        self._pool = ThreadPoolExecutor(config.check_threads, "gantrymq-check")
        self._waiting = self._unconfirmed = 0
        self._at_work: Counter[str] = Counter()
        """The number of checks that the listener is at work on, by transaction."""
        self._in_threads = 0
        endpoint.listeners.append(lambda: self._in_threads)

    def idle(self) -> bool:
        """Whether all checks so far were answered, and the brokers have confirmed the answers."""
        return not self._waiting and not self._unconfirmed

    def close(self) -> None:
        """Answer no further checks. A running listener continues in its thread to its end."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def asked(self, channel: ClientChannel, command: Command) -> None:
        """Answer one check of a broker. Raises RemoteProtocolError when it cannot be read."""
        question = self._read(channel, command)
        if question is None:
            return
        known = self._memory.answer(question.transaction_id, question.broker_name, question.header.commit_log_offset)
        if known is LocalTransactionState.UNKNOWN:
            self._answer_running(question)
        elif known is not None:
            self._answer(question, ListenerAnswer(known))
        elif not self._decisive and properties.EARLY_CHECK in question.view.properties:
            # Another member, perhaps of another version, declared the checkers of the whole group decisive. But this
            # checker cannot tell a transaction that will never commit from one that is being committed right now.
            log.warning(
                "an early check of transaction %s is answered UNKNOWN: %s", question.transaction_id, NOT_DECISIVE.remark
            )
            self._answer(question, NOT_DECISIVE)
        elif self._at_work[question.transaction_id] >= CHECKS_AT_ONCE:
            log.warning(
                "a check of transaction %s is answered UNKNOWN: %s", question.transaction_id, STILL_CHECKED.remark
            )
            self._answer(question, STILL_CHECKED)
        elif self._waiting >= self._config.check_queue_size:
            log.warning("%d checks are waiting; answering UNKNOWN", self._waiting)
            self._answer(question, SWAMPED)
        else:
            self._waiting += 1
            # The callback counts down, because a task that is cancelled before its first step runs no code.
            self._endpoint.tasks.start("check", self._ask(question)).add_done_callback(self._asked)

    def _answer_running(self, question: Question) -> None:
        """The local transaction is running in this process."""
        longest = self._memory.longest_of(question.transaction_id)
        outcome = RUNNING if longest is None else longest.asked()
        if outcome.state is not LocalTransactionState.UNKNOWN:
            log.warning(
                "transaction %s takes longer than it may, and a broker asks for its outcome: it cannot commit any more",
                question.transaction_id,
            )
            self._memory.ended(question.transaction_id, outcome.state)
        self._answer(question, outcome)

    def _read(self, channel: ClientChannel, command: Command) -> Question | None:
        header = command.header(CheckTransactionState)
        broker_name = header.bname or self._endpoint.routes.name_at(channel.address) or ""
        stored = decode_record(command.body)
        view = begun_view(stored, broker_name)
        group = view.properties.get(properties.PRODUCER_GROUP)
        if group != self._group:
            log.warning(
                "%s asks producer group %s about a transaction of group %s", channel.address, self._group, group
            )
            return None
        view.topic = without_namespace(self._config.namespace, view.topic)
        transaction_id = view.transaction_id or header.transaction_id or ""
        check = None if self._watch is None else self._watch.checking(view)
        return Question(channel, header, view, stored, broker_name, transaction_id, check)

    async def _ask(self, question: Question) -> None:
        try:
            async with self._free:
                if question.view.body_cut:
                    most = max(LARGEST_READ_BODY_BYTES, self._config.max_message_bytes)
                    await complete(question.view, question.stored, most)
                outcome = await self._outcome(question.view, question.transaction_id, question.check)
        except BaseException as error:
            # The listener cancelled its own task, or all tasks were cancelled, or there was a Ctrl-C. A producer that
            # is being closed does not answer, so that the broker asks another member of the group.
            if self._endpoint.running:
                self._answer(question, read_failure(error, "check_local_transaction"))
            elif question.check is not None:
                question.check.failed(error)
            raise
        if outcome.error is not None:
            log.warning("check of transaction %s: %s", question.transaction_id, outcome.remark, exc_info=outcome.error)
        half = (question.broker_name, question.header.commit_log_offset)
        if outcome.state is not LocalTransactionState.UNKNOWN:
            self._memory.ended(question.transaction_id, outcome.state)
            self._again.told(half)
        self._answer(question, outcome)
        if outcome.state is LocalTransactionState.UNKNOWN and outcome.ask_again:
            again = replace(question, check=None)  # the trace of this check ends with its answer
            self._again.later(half, lambda: self._once_more(again), lambda found: self._found(again, found))

    async def _once_more(self, question: Question) -> ListenerAnswer:
        """The outcome of a half message whose check was answered UNKNOWN."""
        if not question.channel.alive:
            return GONE
        known = self._memory.answer(question.transaction_id, question.broker_name, question.header.commit_log_offset)
        if known is not None:
            return ListenerAnswer(known)
        async with self._free:
            return await self._outcome(question.view, question.transaction_id)

    def _found(self, question: Question, outcome: ListenerAnswer) -> None:
        log.warning("the outcome of transaction %s is known now: %s", question.transaction_id, outcome.state.name)
        self._memory.ended(question.transaction_id, outcome.state)
        self._answer(question, outcome)

    async def ask_about(self, view: MessageView, transaction_id: str) -> ListenerAnswer:
        """What the listener says about a half message of ours now, without a broker that asks. UNKNOWN when it may not
        be asked before the broker asks, because its checker is not decisive."""
        if not self._decisive:
            return NOT_DECISIVE
        async with self._free:
            return await self._outcome(view, transaction_id)

    async def _outcome(self, view: MessageView, transaction_id: str, check: Check | None = None) -> ListenerAnswer:
        method: Callable[..., Any] = self._listener.check_local_transaction
        at_work = self._at_work
        if check is not None:
            method = check.within(method)
        if at_work[transaction_id] >= CHECKS_AT_ONCE:
            return STILL_CHECKED
        at_work[transaction_id] += 1
        try:
            if is_async(method) or self._config.inline_listener:
                return await call_contained(method, view)
            self._in_threads += 1
            try:
                return await asyncio.get_running_loop().run_in_executor(self._pool, contain, method, view)
            finally:
                self._in_threads -= 1
        finally:
            at_work[transaction_id] -= 1
            if not at_work[transaction_id]:
                del at_work[transaction_id]

    def _asked(self, _task: asyncio.Task[None]) -> None:
        self._waiting -= 1

    def _answer(self, question: Question, outcome: ListenerAnswer) -> None:
        """Send the answer on the connection of the check. A commit or a rollback is sent two-way, to learn whether the
        broker accepted it."""
        self._figures.checks[outcome.state] += 1
        if question.check is not None:
            question.check.answered(outcome)
        channel, header = question.channel, question.header
        decided = outcome.state is not LocalTransactionState.UNKNOWN
        opaque = channel.next_opaque()
        frame = encode_request(
            RequestCode.END_TRANSACTION,
            opaque,
            EndTransaction(
                producer_group=self._group,
                tran_state_table_offset=header.tran_state_table_offset,
                commit_log_offset=header.commit_log_offset,
                commit_or_rollback=int(outcome.state.resolution),
                from_transaction_check=True,
                msg_id=question.view.message_id,
                transaction_id=header.transaction_id or question.transaction_id,
                topic=header.topic,
                bname=header.bname,
            ),
            one_way=not decided,
            remark=outcome.remark,
        )
        if not decided:
            channel.send(frame)
            return
        answer = channel.request(opaque, frame, self._config.send_timeout_ms)
        self._unconfirmed += 1
        answer.add_done_callback(lambda done: self._settled(question.transaction_id, outcome, done))

    def _settled(self, transaction_id: str, outcome: ListenerAnswer, answer: asyncio.Future[Command]) -> None:
        self._unconfirmed -= 1
        if answer.cancelled():
            return
        error = answer.exception()
        if error is not None:
            # If the broker did not get the answer, it asks again.
            log.info("the answer to a check of transaction %s may have been lost: %s", transaction_id, error)
        elif (code := answer.result().code) == ResponseCode.SUCCESS:
            self._memory.confirmed(transaction_id)
        else:
            log.warning(
                "the answer %s to a check of transaction %s was refused with code %d: %s",
                outcome.state.name, transaction_id, code, answer.result().remark,
            )  # fmt: skip
