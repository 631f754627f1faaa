"""Figures of a broker: 28, 45, 315, 907."""

from __future__ import annotations

from gantrymq.broker.operations.runtime_info import Figures
from gantrymq.broker.registries.json_file import pretty
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.message.replication import ElectionState, ReplicationState
from gantrymq.protocol.bodies.replication import MAX_GAP_NOT_IN_SYNC, Election, HAClient, HAConnection, HAStatus
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

    def ha_status(self, session: ClientSession, command: Command) -> bytes:
        """GET_BROKER_HA_STATUS."""
        return encode_response(command, ResponseCode.SUCCESS, body=ha_status(self._figures.replication()).encode())

    def statistic(self, session: ClientSession, command: Command) -> bytes:
        """VIEW_BROKER_STATS_DATA."""
        header = command.header(StatsKey)
        body = self._figures.statistic(header.stats_name, header.stats_key)
        return encode_response(command, ResponseCode.SUCCESS, body=encode(body))


def _election(state: ElectionState, *, takes_writes: bool) -> Election:
    return Election(
        epoch=state.epoch, primary=state.primary, in_sync=state.in_sync, is_member=state.is_member,
        problem=state.problem or None, disk=state.disk, takes_writes=takes_writes,
    )  # fmt: skip


def ha_status(state: ReplicationState) -> HAStatus:
    """As RocketMQ's tools read it."""
    copies = [
        HAConnection(
            addr=copy.address, slave_ack_offset=copy.confirmed, diff=copy.gap, in_sync=copy.gap < MAX_GAP_NOT_IN_SYNC,
            transfer_from_where=copy.sent,
        )
        for copy in state.copies
    ]  # fmt: skip
    follows = state.following
    client = None
    if follows is not None:
        client = HAClient(
            master_addr=follows.primary, max_offset=state.end, last_read_timestamp=follows.heard_ms,
            last_write_timestamp=follows.reported_ms, is_activated=follows.follows, state=follows.state,
            problem=follows.problem or None,
        )  # fmt: skip
    return HAStatus(
        master=state.is_primary, master_commit_log_max_offset=state.end if state.is_primary else 0,
        in_sync_slave_nums=sum(copy.in_sync for copy in copies), ha_connection_info=copies,
        ha_client_runtime_info=client,
        election=None if state.election is None else _election(state.election, takes_writes=state.takes_writes),
    )  # fmt: skip
