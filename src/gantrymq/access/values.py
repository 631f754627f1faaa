"""Users, and what they may do: the words of RocketMQ's ACL 2.0 as values.

Source: User, Acl, Policy, PolicyEntry, Resource, Action, Decision of org.apache.rocketmq.auth.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self, TypeVar

from gantrymq.access.addresses import check_range
from gantrymq.errors import ConfigError
from gantrymq.message.arguments import shown
from gantrymq.message.system_topics import RETRY_PREFIX


class Action(enum.StrEnum):
    """What is done to a resource."""

    __hash__ = str.__hash__  # that of Enum is written in Python, and judgements are looked up for each request

    ALL = "All"
    """In a policy: every action."""
    ANY = "Any"
    """In a need: whatever action a policy has. A policy cannot have it."""
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class PolicyDecision(enum.StrEnum):
    """What a policy says about a request that it fits."""

    ALLOW = "Allow"
    DENY = "Deny"


class ResourceKind(enum.StrEnum):
    """What a resource is."""

    __hash__ = str.__hash__  # that of Enum is written in Python, and judgements are looked up for each request

    ANY = "Any"
    CLUSTER = "Cluster"
    TOPIC = "Topic"
    GROUP = "Group"


class Pattern(enum.IntEnum):
    """How a policy names resources; the smaller value is the more exact one."""

    LITERAL = 0
    PREFIXED = 1
    ANY = 2


class UserKind(enum.StrEnum):
    """A super user may do everything; a normal one what policies allow."""

    SUPER = "Super"
    NORMAL = "Normal"


E = TypeVar("E", bound=enum.StrEnum)


def named(kind: type[E], text: str, what: str) -> E:
    """The member with this name, in capital or small letters. Raises ConfigError, which lists the names there are."""
    for member in kind:
        if member.value.lower() == text.strip().lower():
            return member
    raise ConfigError(f"{what} is {shown(text)}; write {', '.join(member.value for member in kind)}")


@dataclass(frozen=True, slots=True)
class Resource:
    """Topics, groups or clusters, as a policy names them: ``Topic:orders``, ``Group:app-*``, ``Topic:*``, ``*``."""

    kind: ResourceKind
    pattern: Pattern
    name: str = ""
    """The whole name, or its beginning; empty for ``Pattern.ANY``."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ConfigError for a text that names no resource."""
        text = text.strip()
        if text == "*":
            return cls(ResourceKind.ANY, Pattern.ANY)
        kind_text, colon, name = text.partition(":")
        if not colon or not name:
            raise ConfigError(
                f"the resource is {shown(text)}; write for example Topic:orders, Group:app-*, Topic:* or *"
            )
        kind = named(ResourceKind, kind_text, f"the kind of the resource {shown(text)}")
        if kind is ResourceKind.ANY:
            raise ConfigError(f"the resource is {shown(text)}; write * for every resource")
        if "*" in name[:-1]:
            raise ConfigError(f"the resource is {shown(text)}; write the * as the last character only")
        if name == "*":
            return cls(kind, Pattern.ANY)
        if name.endswith("*"):
            return cls(kind, Pattern.PREFIXED, name[:-1])
        return cls(kind, Pattern.LITERAL, name)

    @property
    def text(self) -> str:
        """As ``parse`` reads it."""
        if self.kind is ResourceKind.ANY:
            return "*"
        star = "" if self.pattern is Pattern.LITERAL else "*"
        return f"{self.kind.value}:{self.name}{star}"

    def covers(self, kind: ResourceKind, name: str) -> bool:
        """Whether it names this topic, group or cluster."""
        if self.kind is ResourceKind.ANY:
            return True
        if self.kind is not kind:
            return False
        if self.pattern is Pattern.ANY:
            return True
        return name.startswith(self.name) if self.pattern is Pattern.PREFIXED else name == self.name


@dataclass(frozen=True, slots=True)
class Policy:
    """What a user may, or may not, do with some resources."""

    resource: Resource
    actions: frozenset[Action]
    decision: PolicyDecision
    sources: tuple[str, ...] = ()
    """IP addresses and ranges (10.0.0.0/8) from which it counts; none: from everywhere."""

    def check(self) -> None:
        """Raises ConfigError for a policy that cannot be."""
        if not self.actions:
            raise ConfigError(f"the policy for {self.resource.text} has no actions; write for example Pub,Sub")
        if Action.ANY in self.actions:
            raise ConfigError(f"the policy for {self.resource.text} has the action Any; write All for every action")
        for source in self.sources:
            check_range(source)


@dataclass(frozen=True, slots=True)
class Grants:
    """All policies of a user. Those of ``default`` count where none of ``custom`` fits."""

    custom: tuple[Policy, ...] = ()
    default: tuple[Policy, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.custom or self.default)


NO_GRANTS: Final = Grants()


@dataclass(frozen=True, slots=True)
class User:
    """Who signs requests. The secret makes the signature and checks it, so a server needs it as it is."""

    name: str
    secret: str = field(repr=False)
    kind: UserKind = UserKind.NORMAL
    enabled: bool = True

    @property
    def is_super(self) -> bool:
        return self.kind is UserKind.SUPER


class Need(NamedTuple):
    """What a request needs: one of ``actions`` on a resource. A tuple, since one is made and looked up per request."""

    kind: ResourceKind
    name: str
    actions: tuple[Action, ...]

    @property
    def text(self) -> str:
        """For people: ``Pub on Topic:orders``."""
        return f"{' or '.join(action.value for action in self.actions)} on {self.kind.value}:{self.name}"


def sharer_of(user: User) -> str:
    """Under which name the requests of a user are counted, whatever door and address they come from."""
    return f"user {user.name}"


def topic_need(topic: str, actions: tuple[Action, ...]) -> Need:
    """A retry topic belongs to its group."""
    if topic.startswith(RETRY_PREFIX):
        return Need(ResourceKind.GROUP, topic.removeprefix(RETRY_PREFIX), actions)
    return Need(ResourceKind.TOPIC, topic, actions)


def send_need(topic: str) -> Need:
    """What it takes to send to a topic. Consumers send what failed to the retry topic of their group, so that needs the
    right of a consumer. Source: DefaultAuthorizationContextBuilder, which believes the group in the request."""
    return topic_need(topic, (Action.SUB,) if topic.startswith(RETRY_PREFIX) else (Action.PUB,))


def group_need(group: str, actions: tuple[Action, ...]) -> Need:
    return Need(ResourceKind.GROUP, group.removeprefix(RETRY_PREFIX), actions)
