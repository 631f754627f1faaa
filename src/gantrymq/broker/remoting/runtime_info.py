"""Figures of a broker: 28, 45, 315."""

from __future__ import annotations

from gantrymq.broker.operations.runtime_info import Figures
from gantrymq.broker.registries.json_file import pretty
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.protocol.bodies.topics import KVTable
from gantrymq.protocol.body import encode
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.tools import StatsKey


class RuntimeInfoHandler:
    """What the tools show of a broker."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def runtime_info(self, session: ClientSession, command: Command) -> bytes:
        """GET_BROKER_RUNTIME_INFO."""
        body = KVTable(table=self._figures.runtime_info())
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())

    def delay_offsets(self, session: ClientSession, command: Command) -> bytes:
        """GET_ALL_DELAY_OFFSET."""
        body = pretty(self._figures.delay_offsets()).encode()
        return encode_response(command, ResponseCode.SUCCESS, body=body)

    def statistic(self, session: ClientSession, command: Command) -> bytes:
        """VIEW_BROKER_STATS_DATA."""
        header = command.header(StatsKey)
        body = self._figures.statistic(header.stats_name, header.stats_key)
        return encode_response(command, ResponseCode.SUCCESS, body=encode(body))
