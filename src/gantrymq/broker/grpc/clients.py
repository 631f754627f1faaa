"""The clients of the door. One client has many calls, perhaps on several connections; its id holds them together.

Source: GrpcClientChannel, GrpcChannelManager, ClientActivity.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Final

from gantrymq.access.values import User
from gantrymq.broker.client import Check
from gantrymq.broker.grpc.consumers import CONSUMERS, running_of
from gantrymq.broker.grpc.outgoing import message_of
from gantrymq.broker.grpc.questions import Questions, refused, sent_to
from gantrymq.broker.pushes import (
    AnswerDone,
    ConsumerAnswer,
    DirectConsumption,
    OffsetReset,
    PositionsDone,
    Reply,
    ReplyDone,
    RunningInfoQuestion,
)
from gantrymq.grpc.definition_pb2 import MessageType, Settings
from gantrymq.grpc.service_pb2 import (
    PrintThreadStackTraceCommand,
    ReconnectEndpointsCommand,
    RecoverOrphanedTransactionCommand,
    TelemetryCommand,
    VerifyMessageCommand,
)
from gantrymq.message.message import StoredMessage
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.stored_message import decode_record
from gantrymq.runtime.clock import Clock

log = logging.getLogger("gantrymq.grpc")

FIRST_ID: Final = 1 << 40
"""Numbers of these clients begin here: those of the remoting door are below."""
UNSENT_MAX: Final = 1_000
"""Commands that may wait for one client that does not read them."""
MAX_CLIENTS: Final = 20_000
NAME_MAX: Final = 512
"""Characters of a name that is noted with each delivery that is prolonged."""
_numbers = itertools.count(FIRST_ID)


class GrpcClient:
    """What the broker knows of a client; see ``broker.client.Connection``."""

    protocol: Final = "grpc"

    def __init__(self, client_id: str, user: User | None, address: str, language: str, clock: Clock) -> None:
        self.id: Final = next(_numbers)
        self.client_id: Final = client_id
        self.address = address
        self.host = pack_host(address)
        self.language: Final = language
        self.alive = True
        self.user = user
        self.since_ms: Final = clock.wall_ms()
        """Of its first call, ms since 1970."""
        self.heard_at = clock.monotonic()
        """Seconds by the monotonic clock of the last call."""
        self.settings: Settings | None = None
        """What it said last; None: it has not said it yet."""
        self.topics: set[str] = set()
        """Those that it sends messages of transactions to, and those of its settings, if it is a producer."""
        self._commands: asyncio.Queue[TelemetryCommand | None] | None = None
        self._questions = Questions(clock, client_id)

    @property
    def name(self) -> str:
        """Names it also after the next start of the door; empty when its id is too long to be noted."""
        name = "\n".join(_key(self.client_id, self.user))
        return name if len(name) <= NAME_MAX else ""

    @property
    def writable(self) -> bool:
        """False without a stream: a command would reach nobody, so another client is asked."""
        return self.alive and self._commands is not None and self._commands.qsize() < UNSENT_MAX

    @property
    def is_consumer(self) -> bool:
        return self.settings is not None and self.settings.client_type in CONSUMERS

    # The stream of commands. The newest one counts.

    def open_stream(self) -> asyncio.Queue[TelemetryCommand | None]:
        """What is put there is sent, in order; None ends the stream."""
        if self._commands is not None:
            self._commands.put_nowait(None)
        self._commands = asyncio.Queue()
        return self._commands

    def close_stream(self, commands: asyncio.Queue[TelemetryCommand | None]) -> None:
        """The stream ended."""
        if self._commands is commands:
            self._commands = None

    @property
    def has_stream(self) -> bool:
        return self._commands is not None

    def command(self, command: TelemetryCommand) -> None:
        """Send a command; dropped when nobody reads."""
        if self._commands is not None and self.writable:
            self._commands.put_nowait(command)

    # The check-back.

    def ask(self, check: Check) -> None:
        self.recover(decode_record(check.message), check.topic, check.unique_key)

    def recover(self, half: StoredMessage, topic: str, transaction_id: str) -> None:
        """Ask how the transaction of a half message ended. ``topic``: where it goes with a commit."""
        message = message_of(half, topic)
        message.system_properties.message_type = MessageType.TRANSACTION
        self.command(
            TelemetryCommand(
                recover_orphaned_transaction_command=RecoverOrphanedTransactionCommand(
                    message=message, transaction_id=transaction_id
                )
            )
        )

    # Questions of tools.

    def running_info(self, question: RunningInfoQuestion, seconds: float, done: AnswerDone) -> None:
        if not question.with_stacks:
            done(ConsumerAnswer(ResponseCode.SUCCESS, self._running()))
        elif self._can_be_asked(done) and (nonce := self._questions.stack(self._running, seconds, done)):
            asks = PrintThreadStackTraceCommand(nonce=nonce)
            self.command(TelemetryCommand(print_thread_stack_trace_command=asks))

    def consume_directly(self, question: DirectConsumption, seconds: float, done: AnswerDone) -> None:
        stored = question.message
        if stored is None:
            done(refused("say which message shall be consumed: the request has no message id"))
        elif self._can_be_asked(done):
            asks = VerifyMessageCommand(message=message_of(stored, sent_to(stored, question.group)))
            if nonce := self._questions.verify(seconds, done):
                asks.nonce = nonce
                self.command(TelemetryCommand(verify_message_command=asks))

    def answered(self, said: TelemetryCommand) -> None:
        """It answers a question."""
        self._questions.answered(said)

    def _running(self, stack: str | None = None) -> bytes:
        return running_of(self.settings or Settings(), self.since_ms, stack).encode()

    def _can_be_asked(self, done: AnswerDone) -> bool:
        if not self.writable:
            done(refused(f"the client {self.client_id} has no open Telemetry stream, or does not read it"))
        return self.writable

    def gone(self) -> None:
        """It is not asked again, and what it was asked has no answer any more."""
        self.alive = False
        self._questions.close()

    # Clients of gRPC share no queues, and keep no offsets; the protocol has no question for these.

    def members_changed(self, group: str) -> None: ...

    def reset_offsets(self, reset: OffsetReset) -> None: ...

    def positions(self, group: str, topic: str, seconds: float, done: PositionsDone) -> None:
        done(None)

    def hand_reply(self, reply: Reply, seconds: float, done: ReplyDone) -> None:
        done("clients of gRPC ask for no replies")


class GrpcClients:
    """All of them, by their ids and users: who takes the id of somebody else does not get what is meant for them."""

    def __init__(self, clock: Clock, gone: Callable[[GrpcClient], None]) -> None:
        self._clock = clock
        self._gone = gone
        self._clients: dict[tuple[str, str], GrpcClient] = {}

    def __iter__(self) -> Iterator[GrpcClient]:
        return iter(list(self._clients.values()))

    def heard(self, client_id: str, user: User | None, address: str, language: str) -> GrpcClient | None:
        """The client that calls; None when there are too many already. ``user``: who signed the call."""
        key, now = _key(client_id, user), self._clock.monotonic()
        client = self._clients.get(key)
        if client is None:
            if len(self._clients) >= MAX_CLIENTS:
                return None
            client = self._clients[key] = GrpcClient(client_id, user, address, language, self._clock)
        client.heard_at, client.user = now, user
        if client.address != address:  # it has opened another connection
            client.address, client.host = address, pack_host(address)
        return client

    def named(self, name: str) -> GrpcClient | None:
        """The client of ``GrpcClient.name``, if it was heard since the start."""
        client_id, _, user = name.rpartition("\n")
        return self._clients.get((client_id, user))

    def drop(self, client: GrpcClient) -> None:
        """It says goodbye, or is silent for too long."""
        if self._clients.pop(_key(client.client_id, client.user), None) is client:
            client.gone()
            self._gone(client)

    def expire(self, silent_s: float) -> None:
        """Drop those that have said nothing for so long."""
        before = self._clock.monotonic() - silent_s
        for client in self:
            if client.heard_at < before:
                log.info("the client %s has said nothing for %.0f s", client.client_id, silent_s)
                self.drop(client)

    def close(self) -> None:
        """End every stream. Clients that know the command renew their connection then, to another door if there is one;
        others do so when the connection ends. Apache's proxy does not say it."""
        for client in self:
            client.command(TelemetryCommand(reconnect_endpoints_command=ReconnectEndpointsCommand()))
            client.gone()
            if client.has_stream:
                client.open_stream().put_nowait(None)


def _key(client_id: str, user: User | None) -> tuple[str, str]:
    return client_id, "" if user is None else user.name
