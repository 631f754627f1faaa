"""The way of a half message and of its end: what every transaction costs in a client.

``TransactionProducer``, which users see, stays Python, and this is compiled (docs/compiled.md).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from gantrymq.client.config import TransactionProducerConfig
from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.listener import ListenerAnswer
from gantrymq.client.metrics.figures import ClientFigures
from gantrymq.client.results import SendResult, TransactionSendResult
from gantrymq.client.sending.delivery import Delivery
from gantrymq.client.sending.first_attempt import FirstAttempt
from gantrymq.client.sending.half_ends import AskAgain, Ends, HalfEnds, result_of
from gantrymq.client.sending.half_memory import HalfMemory
from gantrymq.client.sending.half_stamps import HalfStamps
from gantrymq.client.sending.halves import Begun
from gantrymq.client.sending.longest_transaction import LongestTransaction
from gantrymq.client.sending.ordering import by_hash
from gantrymq.client.sending.sender import Sender
from gantrymq.client.sending.sent_half import SentHalf
from gantrymq.client.tracing.watch import Act, Watch
from gantrymq.errors import MessageIllegal
from gantrymq.message import flags, properties
from gantrymq.message.message import Message
from gantrymq.message.parts import id_of
from gantrymq.message.queues import MessageQueue
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.message.validation import check_in_transaction
from gantrymq.protocol.message_ids import log_offset_of

log = logging.getLogger("gantrymq.client")

_IDS: Final = frozenset({properties.UNIQ_KEY, properties.TRANSACTION_ID})
"""Properties that would make a message part of another transaction, or of none."""
INTERRUPTED: Final = ListenerAnswer(LocalTransactionState.UNKNOWN, remark="the local transaction was interrupted")


class TransactionSender:
    """Sends the half messages of one producer, and their ends. It is the ``HalfSender`` of ``halves``."""

    def __init__(
        self,
        endpoint: Endpoint,
        config: TransactionProducerConfig,
        delivery: Delivery,
        sender: Sender,
        stamps: HalfStamps,
        memory: HalfMemory,
        figures: ClientFigures,
        watch: Watch | None,
        group: str,
    ) -> None:
        self._endpoint = endpoint
        self._clock = endpoint.clock
        self._config = config
        self._delivery = delivery
        self._sender = sender
        self._stamps = stamps
        self._memory = memory
        self._figures = figures
        self._watch = watch
        self.ends: Ends = HalfEnds(endpoint, delivery, memory, config, group)
        self._namespace = config.namespace
        self._max_message_bytes = config.max_message_bytes
        self.ask: AskAgain | None = None
        """Asks the listener what became of a local transaction; None: the producer was not started."""
        self.open: set[str] = set()
        """The ids of transactions between ``begin`` and their end here."""

    def check(self, message: Message) -> None:
        """Raise MessageIllegal for a message that cannot be sent in a transaction."""
        check_in_transaction(message, self._max_message_bytes)

    async def begin(
        self, message: Message, transaction_id: object = None, longest: LongestTransaction | None = None,
        order_key: str | None = None,
    ) -> SentHalf:  # fmt: skip
        """Send the half message. End each half message that this returns with ``finish`` or ``interrupted``.
        ``transaction_id``: as the user passed it. ``longest``: how long its local transaction may take. ``order_key``:
        its queue is that of the key, as in ``Producer.send_ordered``, and only one attempt is made."""
        endpoint, delivery, memory = self._endpoint, self._delivery, self._memory
        endpoint.check_usable()
        self.check(message)
        values = {name: value for name, value in message.properties.items() if name not in _IDS}
        if transaction_id is not None:
            values[properties.UNIQ_KEY] = id_of("transaction_id", transaction_id)
        given, act = message.with_properties(values), None
        if self._watch is not None:
            given, act = self._watch.sending(given, half=True)
            values = given.properties
        message = self._sender.in_namespace(given)
        delivery.in_flight += 1
        key = ""
        try:
            if endpoint.routes.known(message.topic) is None:
                # This comes before the id is made: the id contains our address, known from the first connection on.
                await delivery.queues(message.topic, self._sender.deadline(None))
            if not self._stamps.complete:
                await self._stamps.find_out(sorted(endpoint.routes.masters()), self._sender.deadline(None))
            queue = await self._queue_of(message, order_key)
            if transaction_id in self.open:  # no await comes after this, so two calls cannot begin with one id
                raise MessageIllegal(
                    f"the transaction {transaction_id!r} is still running in this process; wait for its end"
                )
            stamp = key, _ = self._stamps.stamp(values, self._clock.wall_ms())
            values[properties.UNIQ_KEY] = key
            self.open.add(key)
            memory.started(key, longest)
            # After an attempt with an unknown outcome only the same broker is tried, because no other broker can join
            # the two half messages.
            result = await self._sender.send(message, queue, None, flags.PREPARED, stamp, True)
            log_offset = log_offset_of(result.offset_message_id)
        except BaseException as error:
            self._failed(key, act, error)
            raise
        finally:
            delivery.in_flight -= 1
        if act is not None:
            act.done(result)
        memory.placed(key, result.queue.broker_name, log_offset)
        return SentHalf(given, message, result, log_offset)

    async def _queue_of(self, message: Message, order_key: str | None) -> MessageQueue | None:
        """The one queue that it may go to; None: any."""
        if order_key is None:
            return None
        publish = await self._delivery.queues(message.topic, self._sender.deadline(None))
        return by_hash(publish.queues, message, order_key)

    def _failed(self, key: str, act: Act | None, error: BaseException) -> None:
        """The local transaction will not run. If a half was stored nevertheless, its check is answered ROLLBACK."""
        if act is not None:
            act.failed(error)
        self._memory.ended(key, LocalTransactionState.ROLLBACK)
        self.open.discard(key)

    def begin_now(
        self, message: Message, longest: LongestTransaction | None, then: Callable[[Begun], None],
        order_key: str | None = None,
    ) -> bool:  # fmt: skip
        """``begin`` without a task, for a message that ``check`` has accepted, and that belongs to us from now on.
        ``then`` gets what ``begin`` would return or raise. False: nothing was done, because something must be waited
        for first. Raises Closed, UsedAfterFork, RouteNotFound and MessageIllegal."""
        self._endpoint.check_usable()
        values = message.properties
        if not self._stamps.complete or not _IDS.isdisjoint(values):
            return False
        given, message = message, self._sender.in_namespace(message)
        started = self._clock.monotonic()
        only = None
        if order_key is not None:
            publish = self._delivery.known_queues(message.topic)
            if publish is None:
                return False
            only = by_hash(publish.queues, message, order_key)
        way = self._delivery.way(message.topic, only, started)
        if way is None:
            return False
        act = None
        if self._watch is not None:
            given, act = self._watch.sending(given, half=True)
            message, values = self._sender.in_namespace(given), given.properties
        born_ms = self._clock.wall_ms()
        try:
            key, text = self._stamps.stamp(values, born_ms)
        except MessageIllegal as error:
            if act is not None:
                act.failed(error)
            raise
        values[properties.UNIQ_KEY] = key
        body, packed = self._sender.packed(message.body)
        make = partial(self._sender.frame, flags.PREPARED | packed, born_ms, message.flag, text, body)
        begun = partial(self._begun, given, message, key, act, then)
        self._delivery.in_flight += 1
        self.open.add(key)
        self._memory.started(key, longest)
        limit_ms = self._config.send_timeout_ms
        FirstAttempt(self._delivery, self._endpoint.tasks, way, key, make, started, limit_ms, begun, only).send()
        return True

    def _begun(
        self,
        given: Message,
        message: Message,
        key: str,
        act: Act | None,
        then: Callable[[Begun], None],
        sent: SendResult | BaseException,
    ) -> None:
        self._delivery.in_flight -= 1
        begun: Begun
        try:
            if isinstance(sent, BaseException):
                raise sent
            begun = SentHalf(given, message, sent, log_offset_of(sent.offset_message_id))
        except BaseException as error:  # noqa: BLE001 - whoever waits for it gets it
            self._failed(key, act, error)
            begun = error
        else:
            if act is not None:
                act.done(begun.result)
            self._memory.placed(key, begun.result.queue.broker_name, begun.log_offset)
        then(begun)

    async def finish(self, half: SentHalf, outcome: ListenerAnswer) -> TransactionSendResult:
        """End a half message as its local transaction ended. Raises TransactionConflict."""
        act = None if self._watch is None else self._watch.ending(half.given, half.result, outcome.state)
        key, topic, state = half.transaction_id, half.message.topic, outcome.state
        try:
            self._memory.ended(key, state)
            self._figures.of_sends(topic).ended(state)
            if outcome.error is not None:
                log.warning("transaction %s: %s", key, outcome.remark, exc_info=outcome.error)
            if state is LocalTransactionState.UNKNOWN:
                self.ends.tell_unknown(half, outcome)
                result = result_of(half, outcome, decided=False)
            else:
                result = await self.ends.decide(half, outcome)
                if not result.decided:
                    self._figures.of_sends(topic).unconfirmed += 1
        except BaseException as error:
            if act is not None:
                act.failed(error)
            raise
        finally:
            self.open.discard(key)
        if act is not None:
            act.done(result)
        return result

    async def finish_late(self, half: SentHalf, outcome: ListenerAnswer) -> None:
        """``finish`` did not decide it: repeat it for a while, until the broker has answered. Where the outcome was not
        known, the listener is asked first."""
        if self.ask is not None:
            await self.ends.decide_late(half, outcome, self.ask, self._decide)

    async def _decide(self, half: SentHalf, outcome: ListenerAnswer) -> TransactionSendResult:
        if self._watch is None:
            return await self.ends.decide(half, outcome)
        act = self._watch.ending(half.given, half.result, outcome.state)
        try:
            result = await self.ends.decide(half, outcome)
        except BaseException as error:
            act.failed(error)
            raise
        act.done(result)
        return result

    def interrupted(self, half: SentHalf) -> None:
        """The local transaction was interrupted: send UNKNOWN to the broker, without waiting for an answer."""
        self._memory.ended(half.transaction_id, LocalTransactionState.UNKNOWN)
        self._figures.of_sends(half.message.topic).ended(LocalTransactionState.UNKNOWN)
        if self._watch is not None:
            self._watch.ending(half.given, half.result, LocalTransactionState.UNKNOWN).done()
        self.open.discard(half.transaction_id)
        self.ends.tell_unknown(half, INTERRUPTED)
