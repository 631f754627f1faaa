"""QUERY_ASSIGNMENT (400), SET_MESSAGE_REQUEST_MODE (401) and GET_ALL_MESSAGE_REQUEST_MODE (402) as frames.

Source: QueryAssignmentProcessor.
"""

from __future__ import annotations

from collections.abc import Sequence

from gantrymq.broker.pop.assignments import Assignments
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.message.pop import Assignment
from gantrymq.protocol.bodies.pop import QueryAssignment, QueryAssignmentAnswer
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.files.request_modes import GroupRequestMode


class AssignmentHandler:
    """Handles questions of members for their queues, and how groups read topics."""

    def __init__(self, assignments: Assignments) -> None:
        self._assignments = assignments

    def query(self, session: ClientSession, command: Command) -> None:
        def answer(found: Sequence[Assignment] | None) -> None:
            body = QueryAssignmentAnswer(message_queue_assignments=None if found is None else list(found))
            session.answer(command, encode_response(command, ResponseCode.SUCCESS, body=body.encode()))

        self._assignments.query(QueryAssignment.of_request(command.body), answer)

    def set_mode(self, session: ClientSession, command: Command) -> bytes:
        self._assignments.set_mode(GroupRequestMode.of_request(command.body))
        return encode_response(command, ResponseCode.SUCCESS)

    def all_modes(self, session: ClientSession, command: Command) -> bytes:
        return encode_response(command, ResponseCode.SUCCESS, body=self._assignments.modes().encode())
