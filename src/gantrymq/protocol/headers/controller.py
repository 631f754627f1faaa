"""Requests of brokers to Apache's controller. Source: RocketMQ's header classes in header.controller, and
BrokerHeartbeatRequestHeader; reference "replication", section 5."""

from __future__ import annotations

from gantrymq.message.numbers import Int, Long
from gantrymq.protocol.command import Header


class GetMetadataAnswer(Header, frozen=True, kw_only=True):
    """Of CONTROLLER_GET_METADATA_INFO, as a controller without a leader gives it, too."""

    controller_leader_address: str | None = None


class BrokerOfGroup(Header, frozen=True, kw_only=True):
    """CONTROLLER_GET_NEXT_BROKER_ID."""

    cluster_name: str
    broker_name: str


class NextBrokerId(Header, frozen=True, kw_only=True):
    """The answer to it."""

    next_broker_id: Long


class ApplyBrokerId(Header, frozen=True, kw_only=True):
    """CONTROLLER_APPLY_BROKER_ID."""

    cluster_name: str
    broker_name: str
    applied_broker_id: Long
    register_check_code: str
    """Whoever comes with it again is the same broker."""


class RegisterAtController(Header, frozen=True, kw_only=True):
    """CONTROLLER_REGISTER_BROKER."""

    cluster_name: str
    broker_name: str
    broker_id: Long
    broker_address: str
    invoke_time: Long


class AlterSyncStateSet(Header, frozen=True, kw_only=True):
    """CONTROLLER_ALTER_SYNC_STATE_SET; the body is a SyncStateSet."""

    broker_name: str
    master_broker_id: Long
    master_epoch: Int
    invoke_time: Long


class HeartbeatToController(Header, frozen=True, kw_only=True):
    """BROKER_HEARTBEAT, to a controller."""

    cluster_name: str
    broker_name: str
    broker_addr: str
    broker_id: Long
    epoch: Int
    max_offset: Long
    confirm_offset: Long
    heartbeat_timeout_mills: Long
    election_priority: Int
