"""Requests to Apache's controller. Any of its nodes says which one leads; that one is asked everything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from gantrymq.errors import GantryError, RemoteProtocolError, TimedOut, Unreachable
from gantrymq.protocol.bodies.replication import ReplicasOfGroups, SyncStateSet
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, Header
from gantrymq.protocol.headers.controller import (
    AlterSyncStateSet,
    ApplyBrokerId,
    BrokerOfGroup,
    GetMetadataAnswer,
    HeartbeatToController,
    NextBrokerId,
    RegisterAtController,
)
from gantrymq.protocol.headers.tools import ElectMaster
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.clock import Clock

TIMEOUT_MS: Final = 2_000
"""Of one request. The controller declares a broker dead when it has been silent for several times as long."""
REFUSED: Final = frozenset({
    ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH, ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
    ResponseCode.CONTROLLER_INVALID_MASTER, ResponseCode.CONTROLLER_INVALID_REPLICAS,
    ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE, ResponseCode.CONTROLLER_BROKER_NOT_ALIVE,
    ResponseCode.CONTROLLER_MASTER_STILL_EXIST, ResponseCode.CONTROLLER_ELECT_MASTER_FAILED,
    ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, ResponseCode.CONTROLLER_BROKER_ID_INVALID,
})  # fmt: skip
"""Answers that mean: something else holds, and nothing was changed."""


@dataclass(frozen=True, slots=True)
class GroupName:
    """Which brokers belong together."""

    cluster: str
    name: str


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group, as the controller knows it."""

    primary: int | None
    """The number of it; None: there is none at the moment."""
    address: str
    epoch: int
    in_sync: frozenset[int]
    """Numbers of the brokers; empty: there was no primary yet."""
    set_epoch: int


@dataclass(frozen=True, slots=True)
class LogEnd:
    """How far a log is, for the controller's choice among the members of the in-sync set."""

    epoch: int
    """The last one of the log; -1: it has none."""
    end: int
    confirmed: int


DEAD_MS: Final = 10_000
"""A broker that is silent for so long is dead. Source: BrokerConfig.controllerHeartBeatTimeoutMills."""
PRIORITY: Final = 2**31 - 1
"""All are equal. Source: BrokerConfig.brokerElectionPriority."""


class Controller:
    """As one broker asks it. Each call raises Unreachable, TimedOut or RemoteProtocolError; a change that raised may
    have been done."""

    def __init__(self, client: RemotingClient, clock: Clock, addresses: tuple[str, ...], group: GroupName) -> None:
        self._client = client
        self._clock = clock
        self.addresses: Final = addresses
        self.group: Final = group
        self._leader = ""

    # ---- the number of a broker

    async def next_broker_id(self) -> int:
        """A number that no broker of the group has."""
        header = BrokerOfGroup(cluster_name=self.group.cluster, broker_name=self.group.name)
        answer = await self._changed(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, header)
        if answer is None:
            raise RemoteProtocolError("the controller gives no broker id, and does not say why")
        return int(answer.header(NextBrokerId).next_broker_id)

    async def apply_broker_id(self, number: int, check_code: str) -> bool:
        """Whether the number is this broker's now. ``check_code``: as long as it is the same, so is the broker."""
        header = ApplyBrokerId(
            cluster_name=self.group.cluster, broker_name=self.group.name, applied_broker_id=number,
            register_check_code=check_code,
        )  # fmt: skip
        return await self._changed(RequestCode.CONTROLLER_APPLY_BROKER_ID, header) is not None

    async def register(self, number: int, address: str) -> None:
        """The broker with this number is at this address from now on."""
        header = RegisterAtController(
            cluster_name=self.group.cluster, broker_name=self.group.name, broker_id=number, broker_address=address,
            invoke_time=self._clock.wall_ms(),
        )  # fmt: skip
        await self._changed(RequestCode.CONTROLLER_REGISTER_BROKER, header)

    # ---- the group

    async def view(self) -> GroupView | None:
        """Who is primary, and who is in sync; None: the controller does not know the group."""
        body = msgspec.json.encode([self.group.name])
        answer = await self._asked(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, None, body)
        if answer.code != ResponseCode.SUCCESS:
            raise self._error(answer)
        found = ReplicasOfGroups.decode(answer.body).replicas_info_table.get(self.group.name)
        if found is None:
            return None
        in_sync = frozenset(one.broker_id for one in found.in_sync_replicas)
        address = found.master_address or ""
        return GroupView(found.master_broker_id, address, found.master_epoch, in_sync, found.sync_state_set_epoch)

    async def elect(self, number: int, *, designated: bool) -> bool:
        """Elect a primary, because there is none; ``designated``: let the broker with this number take the place of
        one. Whether something was changed."""
        header = ElectMaster(
            cluster_name=self.group.cluster, broker_name=self.group.name, broker_id=number,
            designate_elect=designated, invoke_time=self._clock.wall_ms(),
        )  # fmt: skip
        return await self._changed(RequestCode.CONTROLLER_ELECT_MASTER, header) is not None

    async def alter(self, primary: int, epoch: int, set_epoch: int, in_sync: frozenset[int]) -> bool:
        """The primary of this epoch changes the in-sync set that it has read. Whether it did."""
        header = AlterSyncStateSet(
            broker_name=self.group.name, master_broker_id=primary, master_epoch=epoch,
            invoke_time=self._clock.wall_ms(),
        )  # fmt: skip
        body = SyncStateSet(sync_state_set=sorted(in_sync), sync_state_set_epoch=set_epoch).encode()
        return await self._changed(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, header, body) is not None

    async def beat(self, controller: str, number: int, address: str, log: LogEnd) -> None:
        """Say to the controller at an address, which may lead or not, that this broker lives. Nothing confirms it.
        Raises Unreachable."""
        header = HeartbeatToController(
            cluster_name=self.group.cluster, broker_name=self.group.name, broker_addr=address, broker_id=number,
            epoch=log.epoch, max_offset=log.end, confirm_offset=log.confirmed, heartbeat_timeout_mills=DEAD_MS,
            election_priority=PRIORITY,
        )  # fmt: skip
        await self._client.call_oneway(controller, RequestCode.BROKER_HEARTBEAT, header)

    # ---- requests

    async def _changed(self, code: RequestCode, header: Header, body: bytes = b"") -> Command | None:
        """The answer; None: refused, because something else holds."""
        answer = await self._asked(code, header, body)
        if answer.code == ResponseCode.SUCCESS:
            return answer
        if answer.code in REFUSED:
            return None
        raise self._error(answer)

    def _error(self, answer: Command) -> RemoteProtocolError:
        said = f"the controller at {self._leader} says {answer.code}: {answer.remark}"
        if answer.code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED:
            said += (
                ". It does not know the number of this broker: it has lost its data, or controllerAddr names another "
                "controller than before"
            )
        return RemoteProtocolError(said)

    async def _asked(self, code: RequestCode, header: Header | None, body: bytes) -> Command:
        leader = self._leader = self._leader or await self._find()
        try:
            answer = await self._client.call(leader, code, header, body, timeout_ms=TIMEOUT_MS)
        except (Unreachable, TimedOut):
            self._leader = ""
            raise
        if answer.code == ResponseCode.CONTROLLER_NOT_LEADER:
            self._leader = ""
            raise Unreachable(leader, "this controller does not lead any more")
        return answer

    async def _find(self) -> str:
        """The address of the leader."""
        failed: list[str] = []
        for address in self.addresses:
            try:
                answer = await self._client.call(
                    address, RequestCode.CONTROLLER_GET_METADATA_INFO, timeout_ms=TIMEOUT_MS
                )
                leader = answer.header(GetMetadataAnswer).controller_leader_address
            except GantryError as error:
                failed.append(str(error))
                continue
            if leader:
                return leader
            failed.append(f"{address} knows no leader")
        raise Unreachable(";".join(self.addresses), f"no controller leads: {', '.join(failed)}")
