"""Topics of a broker. Source: CreateTopicRequestHeader."""

from __future__ import annotations

from gantrymq.message.numbers import Int
from gantrymq.protocol.command import Header


class CreateTopic(Header, frozen=True, kw_only=True):
    """UPDATE_AND_CREATE_TOPIC."""

    topic: str
    default_topic: str
    read_queue_nums: Int
    write_queue_nums: Int
    perm: Int
    topic_filter_type: str
    """``SINGLE_TAG`` or ``MULTI_TAG``."""
    topic_sys_flag: Int | None = None
    order: bool
    attributes: str | None = None
    """``+key=value,-key``, e.g. ``+message.type=TRANSACTION`` (5.x)."""
    force: bool | None = None


class AllTopicsAnswer(Header, frozen=True, kw_only=True):
    """Answer to GET_ALL_TOPIC_CONFIG. Replicas of 5.5 ask for pages until they have so many. Source:
    GetAllTopicConfigResponseHeader; reference "replication", section 3."""

    total_topic_num: Int


class AllGroupsAnswer(Header, frozen=True, kw_only=True):
    """Answer to GET_ALL_SUBSCRIPTIONGROUP_CONFIG, likewise."""

    total_group_num: Int


class TopicOnly(Header, frozen=True, kw_only=True):
    """Requests about one topic: DELETE_TOPIC_IN_BROKER, GET_TOPIC_CONFIG, ..."""

    topic: str
    lo: bool | None = None
    bname: str | None = None


class GroupOnly(Header, frozen=True, kw_only=True):
    """GET_SUBSCRIPTIONGROUP_CONFIG."""

    group: str


class DeleteGroup(Header, frozen=True, kw_only=True):
    """DELETE_SUBSCRIPTIONGROUP."""

    group_name: str
    remove_offset: bool | None = None
    """The name of the next field in 4.9."""
    clean_offset: bool | None = None
