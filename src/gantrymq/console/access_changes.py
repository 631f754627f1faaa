"""Changes of users and policies as forms ask for them, and the rows of both. One change is the same at every server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gantrymq.access.texts import enabled_of, grants_of, kind_of
from gantrymq.admin.access import Access
from gantrymq.console.forms import value_of
from gantrymq.errors import ConfigError
from gantrymq.protocol.bodies.access import AclBody, EntryBody, PolicyBody, UserBody

ACTIONS: Final = {
    "create": "create user",
    "change": "update user",
    "delete": "delete user",
    "policy": "put policy",
    "remove": "remove policy",
}
"""What a form may ask for, and its name in the audit file: the command line has the same names."""
NAME_MAX: Final = 128
RESOURCE_MAX: Final = 512


@dataclass(frozen=True, slots=True)
class UserRow:
    """A user that is the same at some servers."""

    name: str
    kind: str
    status: str
    servers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GrantRow:
    """A policy that is the same at some servers."""

    user: str
    resource: str
    actions: str
    decision: str
    sources: str
    policy_type: str
    servers: tuple[str, ...]


def user_rows(found: Mapping[str, Iterable[UserBody]]) -> list[UserRow]:
    """By name; a user that differs between servers has several rows."""
    servers: dict[tuple[str, str, str], list[str]] = {}
    for server, users in found.items():
        for user in users:
            key = user.username or "", user.user_type or "", user.user_status or ""
            servers.setdefault(key, []).append(server)
    return [UserRow(*key, tuple(where)) for key, where in sorted(servers.items())]


def grants_rows(found: Mapping[str, Iterable[AclBody]]) -> list[GrantRow]:
    """By user and resource."""
    servers: dict[tuple[str, str, str, str, str, str], list[str]] = {}
    for server, acls in found.items():
        for acl in acls:
            for policy in acl.policies:
                for entry in policy.entries:
                    key = (
                        (acl.subject or "").removeprefix("User:"), entry.resource, ", ".join(entry.actions),
                        entry.decision, ", ".join(entry.source_ips or ()), policy.policy_type or "Custom",
                    )  # fmt: skip
                    servers.setdefault(key, []).append(server)
    return [GrantRow(*key, tuple(where)) for key, where in sorted(servers.items())]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessChange:
    """What a form asks for, without a password."""

    action: str
    user: str
    kind: str = ""
    status: str = ""
    """``enable`` or ``disable``; empty: as it is."""
    new_password: bool = False
    resource: str = ""
    actions: tuple[str, ...] = ()
    decision: str = ""
    sources: tuple[str, ...] = ()

    @property
    def needs_password(self) -> bool:
        return self.action == "create" or self.new_password

    @property
    def entry(self) -> EntryBody:
        """The policy."""
        return EntryBody(
            resource=self.resource, actions=list(self.actions), source_ips=list(self.sources) or None,
            decision=self.decision,
        )  # fmt: skip

    def facts(self) -> dict[str, Any]:
        """For the audit file."""
        values = {
            "user": self.user, "type": self.kind, "status": self.status, "resource": self.resource,
            "actions": list(self.actions), "policy": self.decision, "from": list(self.sources),
            "new_password": self.needs_password,
        }  # fmt: skip
        return {name: value for name, value in values.items() if value}

    def fields(self) -> list[tuple[str, str]]:
        """The form once more, for the second step."""
        pairs = [("action", self.action), ("user", self.user), ("kind", self.kind), ("user_status", self.status),
                 ("new_password", "1" if self.new_password else ""), ("resource", self.resource),
                 ("decision", self.decision), ("sources", ", ".join(self.sources))]  # fmt: skip
        return [(name, value) for name, value in pairs if value] + [("actions", one) for one in self.actions]

    async def apply(self, access: Access, password: str | None) -> list[str]:
        """Make the change; returns the servers where it was made. Raises what ``Access`` raises."""
        body = UserBody(
            username=self.user, password=password, user_type=self.kind or None, user_status=self.status or None
        )
        if self.action == "create":
            return await access.create_user(body)
        if self.action == "change":
            return await access.update_user(body)
        if self.action == "delete":
            return await access.delete_user(self.user)
        if self.action == "policy":
            return await access.put_policies(self.user, [self.entry])
        return await access.delete_policy(self.user, self.resource or None)


def change_of(form: Mapping[str, list[str]]) -> AccessChange:
    """Raises ConfigError saying what is wrong; before any server is asked."""
    action, user = value_of(form, "action"), value_of(form, "user")
    if action not in ACTIONS:
        raise ConfigError(f"{action[:40]!r} is not a valid change of a user; there are {', '.join(ACTIONS)}")
    if not user or len(user) > NAME_MAX or not user.isprintable():
        raise ConfigError(f"give the name of the user, of 1 to {NAME_MAX} characters")
    if action == "policy":
        return _policy_of(form, user)
    if action == "remove":
        return AccessChange(action=action, user=user, resource=value_of(form, "resource")[:RESOURCE_MAX])
    if action == "delete":
        return AccessChange(action=action, user=user)
    kind, status = value_of(form, "kind"), value_of(form, "user_status")
    kind_of(UserBody(username=user, user_type=kind or None))
    enabled_of(UserBody(username=user, user_status=status or None))
    change = AccessChange(
        action=action, user=user, kind=kind, status=status, new_password=value_of(form, "new_password") == "1"
    )
    if action == "change" and not (kind or status or change.new_password):
        raise ConfigError("say what to change: the type, the status or the password")
    return change


def _policy_of(form: Mapping[str, list[str]], user: str) -> AccessChange:
    resource = value_of(form, "resource")
    if not resource or len(resource) > RESOURCE_MAX:
        raise ConfigError(f"give a resource of 1 to {RESOURCE_MAX} characters, for example Topic:orders or Group:ship*")
    actions = tuple(one.strip() for one in form.get("actions", []) if one.strip())
    if not actions:
        raise ConfigError("choose at least one action, for example Pub or Sub")
    change = AccessChange(
        action="policy", user=user, resource=resource, actions=actions, decision=value_of(form, "decision") or "Allow",
        sources=tuple(one.strip() for one in value_of(form, "sources").split(",") if one.strip()),
    )  # fmt: skip
    grants_of(AclBody(policies=[PolicyBody(entries=[change.entry])]))
    return change
