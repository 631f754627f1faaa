"""Requests about users and policies. Source: CreateUserRequestHeader, CreateAclRequestHeader and their neighbours."""

from __future__ import annotations

from gantrymq.protocol.command import Header


class UserOnly(Header, frozen=True, kw_only=True):
    """AUTH_CREATE_USER, AUTH_UPDATE_USER, AUTH_DELETE_USER and AUTH_GET_USER."""

    username: str | None = None


class ListUsers(Header, frozen=True, kw_only=True):
    """AUTH_LIST_USER."""

    filter: str | None = None
    """A part of the name."""


class SubjectOnly(Header, frozen=True, kw_only=True):
    """AUTH_CREATE_ACL, AUTH_UPDATE_ACL and AUTH_GET_ACL."""

    subject: str | None = None


class DeleteAcl(Header, frozen=True, kw_only=True):
    """AUTH_DELETE_ACL."""

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None
    """None: everything of the subject."""


class ListAcls(Header, frozen=True, kw_only=True):
    """AUTH_LIST_ACL. Both are parts of texts."""

    subject_filter: str | None = None
    resource_filter: str | None = None
