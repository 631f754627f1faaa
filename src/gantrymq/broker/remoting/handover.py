"""CONTROLLER_ELECT_MASTER (1002): an operator names the next primary of a broker group.
NOTIFY_BROKER_ROLE_CHANGED (1008): a controller has elected one."""

from __future__ import annotations

from functools import partial

from gantrymq.broker.operations.handover import Handovers
from gantrymq.broker.refusal import Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.refusals import rejected
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.tools import ElectMaster


class HandoverHandler:
    """Changes the primary of a group."""

    def __init__(self, handovers: Handovers) -> None:
        self._handovers = handovers

    def elect(self, session: ClientSession, command: Command) -> None:
        """CONTROLLER_ELECT_MASTER; it is answered when the record names the successor."""
        self._handovers.elect(command.header(ElectMaster).broker_id, partial(_told, session, command))

    def role_changed(self, session: ClientSession, command: Command) -> bytes:
        """NOTIFY_BROKER_ROLE_CHANGED. What it says is not read: anybody can say it, and it may be late."""
        self._handovers.told()
        return encode_response(command, ResponseCode.SUCCESS)


def _told(session: ClientSession, command: Command, error: Refused | None) -> None:
    frame = encode_response(command, ResponseCode.SUCCESS) if error is None else rejected(command, error)
    session.answer(command, frame)
