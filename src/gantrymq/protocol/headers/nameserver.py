"""Requests of brokers, clients and tools to a name server. Source: RocketMQ's header classes in header.namesrv."""

from __future__ import annotations

from gantrymq.message.numbers import Int, Long
from gantrymq.protocol.command import Header


class RegisterBroker(Header, frozen=True, kw_only=True):
    """REGISTER_BROKER; the body is a RegisterBrokerBody."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Long
    compressed: bool | None = None
    body_crc32: Int | None = None
    """CRC-32 of the body & 0x7FFFFFFF; 0 or absent: not checked."""
    heartbeat_timeout_millis: Long | None = None
    enable_acting_master: bool | None = None


class RegisterBrokerAnswer(Header, frozen=True, kw_only=True):
    """Answer to REGISTER_BROKER; the addresses only for slaves."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnregisterBroker(Header, frozen=True, kw_only=True):
    """UNREGISTER_BROKER."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Long


class QueryDataVersion(Header, frozen=True, kw_only=True):
    """QUERY_DATA_VERSION; the body is the broker's DataVersion."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Long


class QueryDataVersionAnswer(Header, frozen=True, kw_only=True):
    """Answer to QUERY_DATA_VERSION; the body is the name server's DataVersion, if it knows the broker."""

    changed: bool


class GetRoute(Header, frozen=True, kw_only=True):
    """GET_ROUTEINFO_BY_TOPIC; answered with a TopicRoute body."""

    topic: str
    accept_standard_json_only: bool | None = None


class DeleteTopicInNameServer(Header, frozen=True, kw_only=True):
    """DELETE_TOPIC_IN_NAMESRV, in one cluster or in all."""

    topic: str
    cluster_name: str | None = None


class TopicInNameServer(Header, frozen=True, kw_only=True):
    """REGISTER_TOPIC_IN_NAMESRV; the body is a TopicRoute."""

    topic: str


class NamespacedKey(Header, frozen=True, kw_only=True):
    """GET_KV_CONFIG and DELETE_KV_CONFIG."""

    namespace: str
    key: str


class PutKVConfig(Header, frozen=True, kw_only=True):
    """PUT_KV_CONFIG."""

    namespace: str
    key: str
    value: str


class GetKVConfigAnswer(Header, frozen=True, kw_only=True):
    """Answer to GET_KV_CONFIG."""

    value: str | None = None


class NamespaceOnly(Header, frozen=True, kw_only=True):
    """GET_KVLIST_BY_NAMESPACE."""

    namespace: str


class ClusterOnly(Header, frozen=True, kw_only=True):
    """GET_TOPICS_BY_CLUSTER."""

    cluster: str


class BrokerNameOnly(Header, frozen=True, kw_only=True):
    """WIPE_WRITE_PERM_OF_BROKER and ADD_WRITE_PERM_OF_BROKER."""

    broker_name: str


class WipedAnswer(Header, frozen=True, kw_only=True):
    """Answer to WIPE_WRITE_PERM_OF_BROKER."""

    wipe_topic_count: Int


class AddedAnswer(Header, frozen=True, kw_only=True):
    """Answer to ADD_WRITE_PERM_OF_BROKER."""

    add_topic_count: Int
