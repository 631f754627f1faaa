"""How END_TRANSACTION is passed to the operation, and how its result is sent to the client."""

from __future__ import annotations

import pytest

from gantrymq.broker.client import Client, Operator
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.client_calls import ClientCalls
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.end_transaction import EndTransactionHandler
from gantrymq.broker.transactions.end import Done, EndRequest
from gantrymq.message.transaction import OPERATOR_REMARK, Resolution
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, SerializeType, decode_command, encode_request
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.protocol.headers.transaction import EndTransaction
from gantrymq.remoting.server import RemotingServer
from gantrymq.runtime.network import TcpNetwork
from tests.broker.transaction_lab import LabClock
from tests.support.connections import FakeLink


class Peer:
    """The client's side of a real session: keeps the answers."""

    def __init__(self) -> None:
        self._clock = LabClock()
        self._link = FakeLink()
        self.session = ClientSession(ClientCalls(self._clock), RemotingServer(TcpNetwork(), self._clock, {}), 1)
        self.session.connected(self._link)

    @property
    def answers(self) -> list[Command]:
        self._clock.run()
        return [decode_command(*parts) for parts in FrameSplitter().feed(self._link.written)]


class Ends:
    """Keeps what it is called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[Client, EndRequest, Done | None]] = []

    def end(self, client: Client, request: EndRequest, done: Done | None) -> None:
        self.calls.append((client, request, done))


def command(
    resolution: int = 8, *, check: bool | None = None, remark: str | None = None, one_way: bool = False,
    serialize: SerializeType = SerializeType.JSON,
) -> Command:  # fmt: skip
    header = EndTransaction(
        producer_group="PG", tran_state_table_offset=7, commit_log_offset=4711, commit_or_rollback=resolution,
        from_transaction_check=check, msg_id="KEY", transaction_id="KEY2",
    )  # fmt: skip
    frame = encode_request(RequestCode.END_TRANSACTION, 99, header, one_way=one_way, remark=remark, serialize=serialize)
    return decode_command(*FrameSplitter().feed(frame)[0])


def handled(command: Command) -> tuple[Peer, EndRequest, Done | None]:
    peer, ends = Peer(), Ends()
    assert EndTransactionHandler(ends.end).handle(peer.session, command) is None  # type: ignore[func-returns-value]
    ((client, request, done),) = ends.calls
    assert client is peer.session
    return peer, request, done


@pytest.mark.parametrize("serialize", SerializeType)
@pytest.mark.parametrize("resolution", Resolution)
def test_the_header_becomes_a_request(resolution: Resolution, serialize: SerializeType) -> None:
    _, request, _ = handled(command(int(resolution), check=True, serialize=serialize))
    assert request == EndRequest("PG", 7, 4711, "KEY", "KEY2", resolution, True, None)


@pytest.mark.parametrize("number", [4, 1, -8, 99])
def test_a_resolution_that_does_not_exist_is_refused(number: int) -> None:
    with pytest.raises(Refused, match="commitOrRollback field wrong; it is 0, 8 or 12") as refused:
        handled(command(number))
    assert refused.value.reason is Refusal.FAILED


@pytest.mark.parametrize(
    ("check", "remark", "operator"),
    [
        (True, f"{OPERATOR_REMARK}ann: ticket 7", Operator("ann: ticket 7")),
        (True, "the order is there", None),
        (True, None, None),
        (False, f"{OPERATOR_REMARK}ann: ticket 7", None),
        (None, None, None),
    ],
)
def test_an_operator_is_named_by_the_remark_of_an_answer(
    check: bool | None, remark: str | None, operator: Operator | None
) -> None:
    _, request, _ = handled(command(check=check, remark=remark))
    assert (request.answers_check, request.operator) == (bool(check), operator)


def test_the_result_is_the_answer() -> None:
    peer, _, done = handled(command())
    assert done is not None and peer.answers == []
    done(None)
    done(Refused(Refusal.CONFLICT, "it is COMMITTED"))
    assert [(answer.opaque, answer.code, answer.remark) for answer in peer.answers] == [
        (99, ResponseCode.SUCCESS, None),
        (99, ResponseCode.ILLEGAL_OPERATION, "it is COMMITTED"),
    ]


def test_nobody_waits_for_the_result_of_a_one_way_request() -> None:
    assert handled(command(one_way=True))[2] is None
