"""Reading messages and queue offsets. Source: PullMessageRequestHeader and its neighbours; docs/protocol.md#pulling."""

from __future__ import annotations

from msgspec import field

from gantrymq.message.numbers import Int, Long
from gantrymq.protocol.command import Header


class PullMessage(Header, frozen=True, kw_only=True):
    """PULL_MESSAGE and LITE_PULL_MESSAGE."""

    consumer_group: str
    topic: str
    queue_id: Int
    queue_offset: Long
    max_msg_nums: Int
    sys_flag: Int
    """Bits: 1 store ``commit_offset``, 2 may be held, 4 subscription inline, 8 class filter, 16 lite."""
    commit_offset: Long
    suspend_timeout_millis: Long
    sub_version: Long
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: Int | None = None
    request_source: Int | None = None
    proxy_froward_client_id: str | None = None
    """Spelled like this on the wire."""
    bname: str | None = None


class PullMessageAnswer(Header, frozen=True, kw_only=True):
    """Answer to a pull: found, not found, nothing matched, offset moved. Java needs the first four fields in each."""

    suggest_which_broker_id: Long
    next_begin_offset: Long
    min_offset: Long
    max_offset: Long
    offset_delta: Long | None = None
    topic_sys_flag: Int | None = None
    group_sys_flag: Int | None = None
    forbidden_type: Int | None = None


class QueryMessage(Header, frozen=True, kw_only=True):
    """QUERY_MESSAGE: by key, or by unique key."""

    topic: str
    key: str
    max_num: Int
    begin_timestamp: Long
    end_timestamp: Long
    index_type: str | None = None
    """``U`` unique key, ``K`` key (5.5)."""
    unique_key_query: bool | None = field(name="_UNIQUE_KEY_QUERY", default=None)


class QueryMessageAnswer(Header, frozen=True, kw_only=True):
    """Answer to QUERY_MESSAGE, found or not."""

    index_last_update_timestamp: Long
    index_last_update_phyoffset: Long


class ViewMessage(Header, frozen=True, kw_only=True):
    """VIEW_MESSAGE_BY_ID."""

    offset: Long
    """Log offset."""
    topic: str | None = None


class SearchOffset(Header, frozen=True, kw_only=True):
    """SEARCH_OFFSET_BY_TIMESTAMP."""

    topic: str
    queue_id: Int
    timestamp: Long
    boundary_type: str | None = None
    """``UPPER``, in upper or lower case: the last message that is not after ``timestamp``. All other values: the first
    message that is not before it."""
    bname: str | None = None


class GetMaxOffset(Header, frozen=True, kw_only=True):
    """GET_MAX_OFFSET."""

    topic: str
    queue_id: Int
    committed: bool | None = None
    bname: str | None = None


class GetMinOffset(Header, frozen=True, kw_only=True):
    """GET_MIN_OFFSET."""

    topic: str
    queue_id: Int
    bname: str | None = None


class GetEarliestStoreTime(Header, frozen=True, kw_only=True):
    """GET_EARLIEST_MSG_STORETIME."""

    topic: str
    queue_id: Int
    bname: str | None = None


class OffsetAnswer(Header, frozen=True, kw_only=True):
    """Answer with one queue offset, to the requests 14, 29, 30 and 31."""

    offset: Long


class StoreTimeAnswer(Header, frozen=True, kw_only=True):
    """Answer to GET_EARLIEST_MSG_STORETIME."""

    timestamp: Long
