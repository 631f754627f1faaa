"""What tools ask a controller, or a broker of one, of a group that elects its primary: 1005, 1006, 1007.

Our groups have no controller: each broker of one answers as a controller whose leader is the primary, so that
``mqadmin getControllerMetaData -a BROKER``, ``getSyncStateSet -a BROKER`` and ``getBrokerEpoch`` work. Where Apache's
controller elects, it has to be asked the first two. Outside of a group they are refused, in words like those of
Apache's broker without a controller, which no test compares. Source: ControllerRequestProcessor,
AdminBrokerProcessor.getBrokerEpochCache; reference "replication", section 5.
"""

from __future__ import annotations

from typing import Final

import msgspec

from gantrymq.broker.operations.runtime_info import Figures
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.errors import RemoteProtocolError
from gantrymq.message.replication import ElectionState, GroupState, MemberState, ReplicationState
from gantrymq.protocol.bodies.replication import (
    EpochEntry,
    EpochEntryCache,
    GroupReplicas,
    ReplicaIdentity,
    ReplicasOfGroups,
)
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.tools import ControllerMetadata

NO_GROUP: Final = "this request only for controllerMode"
"""Like Apache's words. Ours: etcdAddr is not set, or there is no primary yet."""


class GroupQuestionsHandler:
    """Answers for the group of this broker."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def metadata(self, session: ClientSession, command: Command) -> bytes:
        """CONTROLLER_GET_METADATA_INFO."""
        election = self._figures.replication().election
        group = None if election is None else election.group
        if election is None or group is None or group.by_controller:
            return _not_supported(command)
        peers = "".join(f"{one.disk}:{one.address};" for one in group.members if one.address)
        header = ControllerMetadata(
            group=group.name, controller_leader_id=str(group.primary_disk),
            controller_leader_address=election.primary, is_leader=group.leads, peers=peers,
        )  # fmt: skip
        return encode_response(command, ResponseCode.SUCCESS, header)

    def sync_state(self, session: ClientSession, command: Command) -> bytes:
        """CONTROLLER_GET_SYNC_STATE_DATA: of the names in the body; of those of other groups nothing is known."""
        election = self._figures.replication().election
        group = None if election is None else election.group
        if election is None or group is None or group.by_controller:
            return _not_supported(command)
        if not group.leads:
            remark = f"the primary knows who is in sync: ask {election.primary}"
            return encode_response(command, ResponseCode.CONTROLLER_NOT_LEADER, remark=remark)
        try:
            names = msgspec.json.decode(command.body, type=list[str])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise RemoteProtocolError(f"the body is not a JSON list of broker names: {error}") from error
        table = {group.name: _replicas(election, group)} if group.name in names else {}
        return encode_response(command, ResponseCode.SUCCESS, body=ReplicasOfGroups(replicas_info_table=table).encode())

    def epochs(self, session: ClientSession, command: Command) -> bytes:
        """GET_BROKER_EPOCH_CACHE: of the present epoch alone in a group of ours, which has no list of earlier ones."""
        state = self._figures.replication()
        election = state.election
        if election is None or election.group is None:
            return encode_response(command, ResponseCode.SYSTEM_ERROR, remark=NO_GROUP)
        body = _epochs(state, election, election.group)
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())


def _not_supported(command: Command) -> bytes:
    remark = f" request type {command.code} not supported"
    return encode_response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)


def _replicas(election: ElectionState, group: GroupState) -> GroupReplicas:
    def identity(one: MemberState) -> ReplicaIdentity:
        return ReplicaIdentity(
            broker_name=group.name, broker_id=one.disk, broker_address=one.address, alive=one.is_here
        )

    return GroupReplicas(
        master_broker_id=group.primary_disk, master_address=election.primary, master_epoch=election.epoch,
        sync_state_set_epoch=group.beat,
        in_sync_replicas=[identity(one) for one in group.members if one.in_sync],
        not_in_sync_replicas=[identity(one) for one in group.members if not one.in_sync],
    )  # fmt: skip


def _epochs(state: ReplicationState, election: ElectionState, group: GroupState) -> EpochEntryCache:
    ends = [start for _, start in group.epochs[1:]] + [state.end]
    entries = [
        EpochEntry(epoch=epoch, start_offset=start, end_offset=end)
        for (epoch, start), end in zip(group.epochs, ends, strict=False)
    ]
    if not entries and group.start_of_epoch is not None:
        entries.append(EpochEntry(epoch=election.epoch, start_offset=group.start_of_epoch, end_offset=state.end))
    return EpochEntryCache(
        cluster_name=group.cluster, broker_name=group.name, broker_id=0 if group.leads else group.broker_id,
        epoch_list=entries, max_offset=state.end,
    )  # fmt: skip
