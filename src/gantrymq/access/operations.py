"""What each operation of a server needs, said once and as values. No protocol is known here.

A door says which operation a request is, and which topics, groups or clusters it names in which role; what that needs
stands in this table. Source: DefaultAuthorizationContextBuilder, the annotations RocketMQAction and RocketMQResource.
Many requests of tools need nothing in Apache's servers but a signature (UPDATE_BROKER_CONFIG is one of them); here they
need an action on the cluster.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gantrymq.access.values import Action, Need, ResourceKind, group_need
from gantrymq.message.system_topics import RETRY_PREFIX

_PUB: Final = (Action.PUB,)
_SUB: Final = (Action.SUB,)
_GET: Final = (Action.GET,)
_UPDATE: Final = (Action.UPDATE,)
_CREATE: Final = (Action.CREATE,)
_DELETE: Final = (Action.DELETE,)
_READ: Final = (Action.SUB, Action.GET)
_LIST: Final = (Action.LIST, Action.GET)
_MAKE: Final = (Action.CREATE, Action.UPDATE)
_WRITE_POSITION: Final = (Action.SUB, Action.UPDATE)


class Role(enum.Enum):
    """As what a request names something."""

    TOPIC = ResourceKind.TOPIC
    """Also the topic of a message that is named by its place."""
    GROUP = ResourceKind.GROUP
    CLUSTER = ResourceKind.CLUSTER
    OTHER_GROUP = "the group that is compared with, or written to"

    @property
    def kind(self) -> ResourceKind:
        return self.value if isinstance(self.value, ResourceKind) else ResourceKind.GROUP


Names = Mapping[Role, Iterable[str]]
"""What one request names. A door leaves out what a request may leave out; see ``Field`` of the remoting door."""


@dataclass(frozen=True, slots=True)
class Right:
    """One of some actions on everything that a request names in a role."""

    role: Role
    actions: tuple[Action, ...]
    of_retry: tuple[Action, ...] = ()
    """On the group, where a topic is a retry topic; none: the same actions."""

    @property
    def text(self) -> str:
        """For documents, without what is named."""
        return f"{words(self.actions)} on {self.role.kind.value}"

    def needs(self, names: Names) -> Iterator[Need]:
        """A retry topic belongs to its group."""
        kind = self.role.kind
        for name in names.get(self.role, ()):
            if kind is ResourceKind.TOPIC and name.startswith(RETRY_PREFIX):
                yield Need(ResourceKind.GROUP, name.removeprefix(RETRY_PREFIX), self.of_retry or self.actions)
            elif kind is ResourceKind.GROUP:
                yield group_need(name, self.actions)
            else:
                yield Need(kind, name, self.actions)


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that a server does for a user."""

    name: str
    rights: tuple[Right, ...] = ()
    on_cluster: tuple[Action, ...] = ()
    """Needed on the cluster of the server."""
    writes: bool = False
    """Whether it changes messages, transactions, topics, groups or positions: a broker that is a replica refuses it."""

    def needs(self, names: Names, cluster: str) -> Iterator[Need]:
        """Everything that ``names`` needs. ``cluster``: the one of the server."""
        if self.on_cluster:
            yield Need(ResourceKind.CLUSTER, cluster, self.on_cluster)
        for right in self.rights:
            yield from right.needs(names)


def words(actions: tuple[Action, ...]) -> str:
    return " or ".join(action.value for action in actions)


def _topic(*actions: Action) -> Right:
    return Right(Role.TOPIC, actions)


def _group(*actions: Action) -> Right:
    return Right(Role.GROUP, actions)


def _both(name: str, *actions: Action, writes: bool = False) -> Operation:
    return Operation(name, (_topic(*actions), _group(*actions)), writes=writes)


# Messages. Consumers send what failed to the retry topic of their group, so that needs the right of a consumer.
SEND: Final = Operation("send", (Right(Role.TOPIC, _PUB, of_retry=_SUB),), writes=True)
REPLY: Final = Operation("send a reply", (_topic(*_PUB),), writes=True)
SEND_BACK: Final = Operation("send back", (_group(*_SUB), _topic(*_SUB)), writes=True)
RECALL: Final = Operation("recall", (_topic(*_PUB),), writes=True)
CONSUME: Final = _both("consume", *_SUB)
"""Pull messages for a group, or look what there is to pop."""
POP: Final = _both("pop", *_SUB, writes=True)
"""Pop messages for a group, and acknowledge them or change how long they are invisible."""
QUERY: Final = Operation("query messages", (_topic(*_READ),))
VIEW: Final = Operation("view a message", (_topic(*_READ),))
CONSUME_DIRECTLY: Final = Operation("have a member consume a message", (_group(*_SUB), _topic(*_SUB)))

# Transactions. An end is judged by the topic that consumers would get the message under (hole 22).
END: Final = Operation("end a transaction", (Right(Role.TOPIC, _PUB, of_retry=_SUB),), writes=True)
DECIDE: Final = Operation("decide a transaction in place of its program", (_topic(*_UPDATE),), writes=True)
RESUME: Final = Operation("resume a parked transaction", (_topic(*_UPDATE),), writes=True)

# Members of groups, and their positions.
JOIN: Final = Operation("join groups", (_group(*_SUB), _topic(*_SUB)))
LEAVE: Final = Operation("leave a group", (_group(*_SUB),))
LOCK: Final = Operation("lock queues", (_group(*_SUB), _topic(*_SUB)))
LIST_MEMBERS: Final = Operation("list the members of a group", (_group(*_READ),))
READ_POSITION: Final = _both("read a position", *_READ)
WRITE_POSITION: Final = _both("write a position", *_WRITE_POSITION, writes=True)
READ_OFFSETS: Final = Operation("read the offsets of a queue", (_topic(*_READ),))
ASSIGN: Final = _both("assign queues", *_READ)
SET_REQUEST_MODE: Final = _both("set how a group gets messages", *_UPDATE, writes=True)
POLLING: Final = _both("see who waits for messages", *_GET)

# Topics and groups.
CREATE_TOPIC: Final = Operation("create or change a topic", (_topic(*_CREATE),), writes=True)
DELETE_TOPIC: Final = Operation("delete a topic", (_topic(*_DELETE),), writes=True)
GET_TOPIC: Final = Operation("get a topic", (_topic(*_GET),))
CREATE_GROUP: Final = Operation("create or change a group", (_group(*_MAKE),), writes=True)
DELETE_GROUP: Final = Operation("delete a group", (_group(*_DELETE),), writes=True)
GET_GROUP: Final = Operation("get a group", (_group(*_GET),))
GET_BOTH: Final = _both("get a group of a topic", *_GET)
COMPARE_GROUPS: Final = Operation(
    "compare the positions of groups", (_topic(*_GET), Right(Role.OTHER_GROUP, _GET), _group(*_GET))
)
CLONE_POSITIONS: Final = Operation(
    "clone the positions of a group", (_group(*_LIST), Right(Role.OTHER_GROUP, _UPDATE), _topic(*_UPDATE)), writes=True
)
FORBID: Final = Operation("forbid a group to read a topic", (_group(*_UPDATE), _topic(*_UPDATE)), writes=True)
RESET: Final = Operation("reset the positions of a group", (_topic(*_UPDATE), _group(*_UPDATE)), writes=True)

# The server and its cluster.
SEE_CLUSTER: Final = Operation("see figures, settings, users or transactions", on_cluster=_GET)
LIST_CLUSTER: Final = Operation("list everything of a kind", on_cluster=_LIST)
CHANGE_CLUSTER: Final = Operation("change settings", on_cluster=_UPDATE)
CHANGE_USERS: Final = Operation("change users or policies", on_cluster=_UPDATE, writes=True)
COPY_TABLES: Final = Operation("copy the tables of a broker", on_cluster=_UPDATE, writes=True)
"""With the secrets of users. A replica refuses it as it refuses writes: copies are made of the primary."""
CHANGE_MESSAGES: Final = Operation("roll back pops, or delete what has no topic", on_cluster=_UPDATE, writes=True)

# Name servers. The cluster of the name server, too: a broker of any cluster could say that it has all topics of others.
ROUTE: Final = Operation("find a topic", (Right(Role.TOPIC, (Action.PUB, Action.SUB, Action.GET), of_retry=_READ),))
REGISTER: Final = Operation("register a broker", (Right(Role.CLUSTER, _UPDATE),), on_cluster=_UPDATE)
LIST_TOPICS_OF_CLUSTER: Final = Operation("list the topics of a cluster", (Right(Role.CLUSTER, _LIST),))
