"""Lists of consumer groups. The groups themselves: ``protocol.files.groups``."""

from __future__ import annotations

from msgspec import field

from gantrymq.protocol.body import Body
from gantrymq.protocol.files.groups import Group


class GroupList(Body, frozen=True, kw_only=True):
    """Answer to QUERY_TOPIC_CONSUME_BY_WHO."""

    group_list: list[str] = field(default_factory=list)


class GroupConfigList(Body, frozen=True, kw_only=True):
    """Request body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST."""

    group_config_list: list[Group] = field(default_factory=list)


class GroupForbidden(Body, frozen=True, kw_only=True):
    """Answer to UPDATE_AND_GET_GROUP_FORBIDDEN."""

    group: str
    topic: str
    readable: bool
