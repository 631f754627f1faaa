"""Users and their policies, as tools send and get them. Source: UserInfo, AclInfo."""

from __future__ import annotations

from msgspec import field

from gantrymq.protocol.body import Body


class UserBody(Body, frozen=True, kw_only=True):
    """A user. What is None stays as it is when a user is changed."""

    username: str | None = None
    password: str | None = None
    """The secret. Our servers never send it."""
    user_type: str | None = None
    user_status: str | None = None
    """``enable`` or ``disable``."""

    def __repr__(self) -> str:
        return f"UserBody({self.username!r}, {self.user_type!r}, {self.user_status!r})"


class EntryBody(Body, frozen=True, kw_only=True):
    """What a policy says about one resource. Source: PolicyEntryInfo."""

    resource: str
    actions: list[str] = field(default_factory=list)
    source_ips: list[str] | None = None
    decision: str


class PolicyBody(Body, frozen=True, kw_only=True):
    """Entries of one type. Source: PolicyInfo."""

    policy_type: str | None = None
    """``Custom`` (also when absent) or ``Default``."""
    entries: list[EntryBody] = field(default_factory=list)


class AclBody(Body, frozen=True, kw_only=True):
    """Everything that is granted to a subject."""

    subject: str | None = None
    """``User:name``"""
    policies: list[PolicyBody] = field(default_factory=list)
