"""``plain_acl.yml``, the accounts of RocketMQ 4.x, as users and policies.

The same guard decides with them, and so it is stricter than 4.x: what such a file cannot express (settings, groups of
others, positions, the cluster as a whole) is for accounts with ``admin: true``, where 4.x asks most of it of nobody.
Source: PlainPermissionManager, PlainAccessValidator, Permission of 4.9.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gantrymq.access.addresses import Matcher, pattern_4x
from gantrymq.access.directory import Content
from gantrymq.access.values import (
    Action,
    Grants,
    Pattern,
    Policy,
    PolicyDecision,
    Resource,
    ResourceKind,
    User,
    UserKind,
)
from gantrymq.errors import ConfigError
from gantrymq.message.arguments import shown
from gantrymq.message.system_topics import TRACE

SHORTEST: Final = 7
"""Characters of an access key and of a secret key at least."""
_PUB: Final = frozenset({Action.PUB})
_SUB: Final = frozenset({Action.SUB, Action.GET})
_PERMISSIONS: Final[Mapping[str, frozenset[Action]]] = {
    "DENY": frozenset(),
    "PUB": _PUB,
    "SUB": _SUB,
    "PUB|SUB": _PUB | _SUB,
    "SUB|PUB": _PUB | _SUB,
}
_KEYS: Final = frozenset(
    {
        "accessKey", "secretKey", "whiteRemoteAddress", "admin", "defaultTopicPerm", "defaultGroupPerm", "topicPerms",
        "groupPerms",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Accounts:
    """What a file says."""

    content: Content
    trusted: Mapping[str, Matcher]
    """Accounts that need no signature from some addresses (``whiteRemoteAddress``)."""
    open_to: tuple[Matcher, ...]
    """``globalWhiteRemoteAddresses``"""


def parse(data: bytes, path: str) -> Accounts:
    """Raises ConfigError, which names the file and what is wrong with it."""
    try:
        return _accounts(_loaded(data))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _loaded(data: bytes) -> Mapping[str, Any]:
    try:
        import yaml
    except ImportError:
        raise ConfigError("reading it needs PyYAML: pip install pyyaml") from None
    try:
        value = yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        # Not the parser's sentence, which quotes lines of the file: it holds secrets.
        mark = getattr(error, "problem_mark", None)
        raise ConfigError("this is no YAML" + (f" (line {mark.line + 1})" if mark else "")) from None
    if not isinstance(value, dict):
        raise ConfigError("there are no accounts in it; write `accounts:` and a list")
    return value


def _accounts(file: Mapping[str, Any]) -> Accounts:
    users: dict[str, User] = {}
    grants: dict[str, Grants] = {}
    trusted: dict[str, Matcher] = {}
    for number, entry in enumerate(_list(file.get("accounts"), "accounts"), 1):
        if not isinstance(entry, dict):
            raise ConfigError(f"account {number} is no mapping; write accessKey, secretKey and so on")
        user = _user(entry, number)
        if user.name in users:
            raise ConfigError(f"the accessKey {user.name!r} is there twice")
        users[user.name] = user
        grants[user.name] = _grants(entry, user.name)
        if white := entry.get("whiteRemoteAddress"):
            trusted[user.name] = pattern_4x(str(white))
    addresses = _list(file.get("globalWhiteRemoteAddresses"), "globalWhiteRemoteAddresses")
    return Accounts(Content(users, grants), trusted, tuple(pattern_4x(str(address)) for address in addresses))


def _user(entry: Mapping[str, Any], number: int) -> User:
    name, secret = str(entry.get("accessKey") or ""), str(entry.get("secretKey") or "")
    if unknown := sorted(str(key) for key in entry.keys() - _KEYS):
        raise ConfigError(f"account {number} has unknown keys: {', '.join(unknown)}")
    if len(name) < SHORTEST or len(secret) < SHORTEST:
        raise ConfigError(f"account {number}: accessKey and secretKey must have at least {SHORTEST} characters each")
    admin = entry.get("admin") or False
    if not isinstance(admin, bool):
        raise ConfigError(f"account {name}: admin is {shown(admin)}; write true or false")
    return User(name, secret, UserKind.SUPER if admin else UserKind.NORMAL)


def _grants(entry: Mapping[str, Any], name: str) -> Grants:
    policies = [
        # Clients that trace send there, and nobody writes that into the file.
        Policy(Resource(ResourceKind.TOPIC, Pattern.LITERAL, TRACE), _PUB, PolicyDecision.ALLOW),
        _policy(ResourceKind.TOPIC, "", str(entry.get("defaultTopicPerm") or "DENY"), name),
        _policy(ResourceKind.GROUP, "", str(entry.get("defaultGroupPerm") or "DENY"), name),
    ]
    for key, kind in (("topicPerms", ResourceKind.TOPIC), ("groupPerms", ResourceKind.GROUP)):
        for text in _list(entry.get(key), f"{key} of account {name}"):
            resource, equals, permission = str(text).partition("=")
            if not equals or not resource.strip():
                raise ConfigError(f"account {name}: {key} has {shown(text)}; write for example orders=PUB|SUB")
            policies.append(_policy(kind, resource.strip(), permission, name))
    by_resource = {policy.resource: policy for policy in policies}
    return Grants(tuple(by_resource.values()))


def _policy(kind: ResourceKind, resource: str, permission: str, name: str) -> Policy:
    """A permission of the file; ``resource`` is empty for a default."""
    words = permission.replace(" ", "").upper()
    if words not in _PERMISSIONS:
        raise ConfigError(
            f"account {name}: the permission for {resource or kind.value} is {shown(permission)}; "
            f"write {', '.join(_PERMISSIONS)}"
        )
    actions = _PERMISSIONS[words]
    named = Resource(kind, Pattern.LITERAL, resource) if resource else Resource(kind, Pattern.ANY)
    if not actions:
        return Policy(named, frozenset({Action.ALL}), PolicyDecision.DENY)
    return Policy(named, actions, PolicyDecision.ALLOW)


def _list(value: Any, what: str) -> Iterable[Any]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ConfigError(f"{what} is {shown(value)}; write a list")
    return value
