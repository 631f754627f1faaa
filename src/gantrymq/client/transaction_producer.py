"""The transaction producer: its messages become visible to consumers only when a local transaction commits.

Source: TransactionMQProducer, DefaultMQProducerImpl.sendMessageInTransaction; docs/protocol.md#transactions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Unpack

from gantrymq.client.config import TransactionProducerConfig, settings_of
from gantrymq.client.connection.cluster_brokers import ClusterBrokers
from gantrymq.client.connection.endpoint import Outside
from gantrymq.client.keywords import TransactionProducerSettings
from gantrymq.client.listener import (
    ListenerAnswer,
    TransactionListener,
    call,
    call_blocking,
    call_in_thread,
    is_async,
    is_decisive,
)
from gantrymq.client.metrics.figures import OutboxFigures
from gantrymq.client.producer import Producer
from gantrymq.client.results import SendStatus, TransactionSendResult
from gantrymq.client.sending.check_back import CheckBack
from gantrymq.client.sending.half_memory import HalfMemory
from gantrymq.client.sending.half_stamps import HalfStamps
from gantrymq.client.sending.halves import Halves
from gantrymq.client.sending.longest_transaction import LongestTransaction
from gantrymq.client.sending.sent_half import SentHalf
from gantrymq.client.sending.transaction_sender import TransactionSender
from gantrymq.errors import (
    ConfigError,
)
from gantrymq.message.message import Message
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Command
from gantrymq.remoting.channel import ClientChannel

log = logging.getLogger("gantrymq.client")


class LocalRun:
    """Runs one local transaction in its caller's thread. It keeps the half message and the outcome, which the caller
    needs when the client is closed meanwhile."""

    def __init__(self) -> None:
        self.half: SentHalf | None = None
        self.outcome: ListenerAnswer | None = None

    def __call__(self, method: Callable[..., object], message: Message, arg: Any) -> ListenerAnswer:
        self.outcome = call_blocking(method, message, arg)
        return self.outcome


class TransactionProducer(Producer):
    """A producer whose messages wait for the end of a local transaction: a commit delivers them, a rollback drops them.

    From its start, and not only after its first send, brokers can ask it about open transactions of its predecessor:
    those of ``topics``, or without that setting all brokers that the name servers know. Everything in Producer's
    description applies, too.
    """

    _config: TransactionProducerConfig

    def __init__(
        self,
        group: str,
        *,
        name_servers: str | Iterable[str],
        listener: TransactionListener,
        outside: Outside | None = None,
        **settings: Unpack[TransactionProducerSettings],
    ) -> None:
        """``listener``: runs and checks local transactions; see DecisiveListener for a listener whose checker may be
        called at any time. ``settings``: fields of TransactionProducerConfig."""
        self._set_up(group, settings_of(TransactionProducerConfig, name_servers, settings), outside)
        for method in ("execute_local_transaction", "check_local_transaction"):
            if not callable(getattr(listener, method, None)):
                raise ConfigError(f"the listener has no method {method}; see gantrymq.TransactionListener")
        self.listener = listener
        stamps = HalfStamps(self._endpoint, self.group, decisive=is_decisive(listener))
        self._memory = HalfMemory(self._config.remembered_transactions)
        self._halves = TransactionSender(
            self._endpoint, self._config, self._delivery, self._sender, stamps, self._memory, self._figures,
            self._watch, self.group,
        )  # fmt: skip
        self._checks: CheckBack | None = None
        self._cluster = None if self._config.topics else ClusterBrokers(self._endpoint)

    async def start(self) -> None:
        if self._checks is None:
            self._checks = CheckBack(
                self._endpoint, self.group, self.listener, self._memory, self._config, self._watch, self._figures
            )
            self._halves.ask = self._checks.ask_about
        await super().start()

    def _start_tasks(self) -> None:
        super()._start_tasks()
        if self._cluster is not None:
            self._endpoint.tasks.start("brokers", self._cluster.keep(self._heartbeats.connect))

    def _brokers(self) -> Iterable[str]:
        """Also replicas, and those that the name servers have forgotten, while transactions of ours are open there: as
        soon as such a broker is the primary, it must hear that their sender is alive. It may be so long before a route
        says it."""
        known = sorted(super()._brokers()) if self._cluster is None else self._cluster.addresses()
        routes = self._endpoint.routes
        named = {self._memory.broker_of(transaction_id) for transaction_id in self._halves.open}
        gone = {routes.last_master(name) for name in named if name and routes.master(name) is None}
        others = gone | routes.addresses()
        return [*known, *sorted(address for address in others if address is not None and address not in known)]

    async def close(self) -> None:
        """Like Producer.close. It waits for running local transactions within the same time. A transaction that takes
        longer stays undecided, until a check-back of another member of the group settles it.

        Checks that brokers had sent are answered within the same time once more. For those that take longer, brokers
        ask another member as soon as the connections are closed."""
        await super().close()

    async def _leave(self) -> None:
        try:
            await super()._leave()  # from here on no broker sends more checks
            if self._checks is not None:
                await self._endpoint.drain(self._checks.idle, self._config.close_timeout_ms)
        finally:
            if self._checks is not None:
                self._checks.close()

    async def send_in_transaction(
        self, message: Message, arg: Any = None, *, transaction_id: str | None = None
    ) -> TransactionSendResult:
        """Send a half message, run the listener's ``execute_local_transaction(message, arg)``, and end it.

        Every call is a transaction of its own, with an id of its own, even if the same object was sent before or is
        being sent elsewhere at the same time: the message that you pass is never changed. The listener gets a copy of
        it, whose ``transaction_id`` is the new id; the result has the id, too.

        Pass ``transaction_id`` to repeat a transaction on purpose. The second attempt joins the first one while the
        half message of the first is open on the broker that the second is sent to. When the first is decided, or the
        second goes to another broker, they are two transactions with the same id. A listener that writes the id under
        a unique key lets only one of them commit.

        A listener that is not ``async def`` runs in a thread. Its answer is in the result (``state``); an exception in
        it means UNKNOWN and is in ``listener_error``. ``decided`` says whether the broker confirmed the decision. If
        the broker could not be reached, check-back settles the transaction later.

        Raises the errors of ``send`` (then the local transaction did not run); MessageIllegal for delayed messages and
        for a ``transaction_id`` that is invalid or belongs to a transaction still running in this process; and
        TransactionConflict when the broker had already decided otherwise. A cancellation ends an ``async def`` listener
        (UNKNOWN is sent to the broker, which will check the transaction later). A listener in a thread continues, and
        its answer ends the transaction.
        """
        half = await self._halves.begin(message, transaction_id)
        method = self.listener.execute_local_transaction
        if is_async(method) or self._config.inline_listener:
            return await self._run(half, call, method, arg)
        # A thread cannot be cancelled, so its answer must still reach the broker when the caller is cancelled.
        work = self._run(half, call_in_thread, method, arg)
        result = await asyncio.shield(asyncio.get_running_loop().create_task(work))
        if isinstance(result.listener_error, SystemExit | KeyboardInterrupt):
            raise result.listener_error  # in the caller's task; in a task of this client it would end the event loop
        return result

    async def transact_in_caller(
        self,
        in_caller: Callable[..., Awaitable[ListenerAnswer]],
        run: LocalRun,
        message: Message,
        arg: Any,
        transaction_id: str | None,
    ) -> TransactionSendResult:
        """``send_in_transaction`` for the blocking producer: ``run`` is called in the thread of its caller."""
        run.half = await self._halves.begin(message, transaction_id)
        return await self._run(run.half, partial(in_caller, run), self.listener.execute_local_transaction, arg)

    async def _run(
        self, half: SentHalf, call: Callable[..., Awaitable[ListenerAnswer]], method: Callable[..., object], arg: Any
    ) -> TransactionSendResult:
        if half.result.status is not SendStatus.SEND_OK:
            return await self._halves.finish(half, ListenerAnswer(LocalTransactionState.ROLLBACK))
        if self._watch is not None:
            method = self._watch.executing(half.given, method)
        try:
            outcome = await call(method, half.given, arg)
        except BaseException:
            self.interrupted(half)
            raise
        return await self._halves.finish(half, outcome)

    # The steps of a transaction, for programs that run the local transaction themselves.

    def halves(self, longest_s: float | None = None) -> Halves:
        """For a local transaction with any number of messages; see there. ``longest_s``: seconds it may take from now
        on; then a check that comes to this process gives it up (``Halves.longest``). None: as long as it likes."""
        longest = None if longest_s is None else LongestTransaction(self._endpoint.clock, longest_s)
        local = None if self._watch is None else self._watch.local_transaction()
        return Halves(self._halves, self._endpoint.tasks, longest, local)

    def start_task(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task that ends with this producer, at the latest."""
        return self._endpoint.tasks.start(name, work)

    def count_outbox(self, outboxes: Callable[[], Iterable[OutboxFigures]]) -> None:
        """What the metrics of this process say of messages that wait in a database."""
        self._figures.outboxes = outboxes

    def has_broker(self) -> bool:
        """Whether a connection to a broker is up. From any thread."""
        return self._endpoint.has_broker()

    def check(self, message: Message) -> None:
        """Raise MessageIllegal for a message that cannot be sent in a transaction."""
        self._halves.check(message)

    async def begin(
        self, message: Message, transaction_id: str | None = None, longest: LongestTransaction | None = None
    ) -> SentHalf:
        """Send the half message. End each half message that this returns with ``finish`` or ``interrupted``.
        ``longest``: how long its local transaction may take."""
        return await self._halves.begin(message, transaction_id, longest)

    async def finish(self, half: SentHalf, outcome: ListenerAnswer) -> TransactionSendResult:
        """End a half message as its local transaction ended. Raises TransactionConflict."""
        return await self._halves.finish(half, outcome)

    async def finish_late(self, half: SentHalf, outcome: ListenerAnswer) -> None:
        """``finish`` did not decide it: repeat it for a while, until the broker has answered. Where the outcome was not
        known, the listener is asked first."""
        await self._halves.finish_late(half, outcome)

    def interrupted(self, half: SentHalf) -> None:
        """The local transaction was interrupted: send UNKNOWN to the broker, without waiting for an answer."""
        self._halves.interrupted(half)

    def _idle(self) -> bool:
        return super()._idle() and not self._halves.open

    def _pushed(self, channel: ClientChannel, command: Command) -> None:
        if command.code == RequestCode.CHECK_TRANSACTION_STATE and self._checks is not None:
            self._checks.asked(channel, command)
        else:
            super()._pushed(channel, command)
