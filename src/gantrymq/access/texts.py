"""Users and policies between values and the bodies that tools exchange; the file on the disk has the same bodies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gantrymq.access.values import Action, Grants, Policy, PolicyDecision, Resource, User, UserKind, named
from gantrymq.errors import ConfigError
from gantrymq.message.arguments import shown
from gantrymq.protocol.bodies.access import AclBody, EntryBody, PolicyBody, UserBody

ENABLED: Final = "enable"
DISABLED: Final = "disable"
CUSTOM: Final = "Custom"
DEFAULT: Final = "Default"
_SUBJECT: Final = "User:"


def user_body(user: User, *, with_secret: bool = False) -> UserBody:
    """``with_secret``: for the file on the disk only."""
    return UserBody(
        username=user.name,
        password=user.secret if with_secret else None,
        user_type=user.kind.value,
        user_status=ENABLED if user.enabled else DISABLED,
    )


def user_of(body: UserBody) -> User:
    """A whole user; what is None has the default. Raises ConfigError."""
    kind, enabled = kind_of(body), enabled_of(body)
    return User(body.username or "", body.password or "", kind or UserKind.NORMAL, enabled is not False)


def kind_of(body: UserBody) -> UserKind | None:
    """Raises ConfigError for a text that is no kind."""
    return named(UserKind, body.user_type, "the type of the user") if body.user_type else None


def enabled_of(body: UserBody) -> bool | None:
    """Raises ConfigError for a text that is no status."""
    if not body.user_status:
        return None
    status = body.user_status.lower()
    if status not in (ENABLED, DISABLED):
        raise ConfigError(f"the status of the user is {shown(body.user_status)}; write {ENABLED} or {DISABLED}")
    return status == ENABLED


def subject_text(name: str) -> str:
    return f"{_SUBJECT}{name}"


def name_of_subject(text: str | None) -> str:
    """The user of ``User:name``. Raises ConfigError."""
    if not text or not text.startswith(_SUBJECT) or len(text) == len(_SUBJECT):
        raise ConfigError(f"the subject is {shown(text)}; write {_SUBJECT}NAME")
    return text.removeprefix(_SUBJECT)


def grants_body(name: str, grants: Grants, part: str = "") -> AclBody:
    """``part``: only policies whose resource contains it."""
    kinds = ((CUSTOM, grants.custom), (DEFAULT, grants.default))
    policies = [
        PolicyBody(policy_type=kind, entries=[_entry(policy) for policy in found])
        for kind, policies in kinds
        if (found := [policy for policy in policies if part in policy.resource.text])
    ]
    return AclBody(subject=subject_text(name), policies=policies)


def grants_of(body: AclBody) -> Grants:
    """Raises ConfigError saying what is wrong with a policy."""
    custom: list[Policy] = []
    default: list[Policy] = []
    for policy in body.policies:
        (default if is_default(policy.policy_type) else custom).extend(_policies(policy.entries))
    return Grants(tuple(custom), tuple(default))


def is_default(policy_type: str | None) -> bool:
    """Whether a policy counts only where no other one fits. Raises ConfigError for an unknown type."""
    if policy_type and policy_type.lower() not in (CUSTOM.lower(), DEFAULT.lower()):
        raise ConfigError(f"the type of the policy is {shown(policy_type)}; write {CUSTOM} or {DEFAULT}")
    return (policy_type or "").lower() == DEFAULT.lower()


def _policies(entries: Iterable[EntryBody]) -> Iterable[Policy]:
    for entry in entries:
        policy = Policy(
            Resource.parse(entry.resource),
            frozenset(named(Action, action, "the action") for action in entry.actions),
            named(PolicyDecision, entry.decision, "the decision"),
            tuple(source.strip() for source in entry.source_ips or ()),
        )
        policy.check()
        yield policy


def _entry(policy: Policy) -> EntryBody:
    return EntryBody(
        resource=policy.resource.text,
        actions=sorted(action.value for action in policy.actions),
        source_ips=list(policy.sources) or None,
        decision=policy.decision.value,
    )
