"""Consumer groups on the brokers. Source: DefaultMQAdminExtImpl, UpdateSubGroupSubCommand."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from gantrymq.admin.asking import Asking
from gantrymq.errors import GantryError, RequestRejected
from gantrymq.message import system_topics
from gantrymq.protocol.bodies.groups import GroupList
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.files.groups import Group, GroupTable
from gantrymq.protocol.headers.topics import DeleteGroup, TopicOnly

_SYSTEM_NAMES = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "__MONITOR_CONSUMER",
    "CLIENT_INNER_PRODUCER",
)
_SYSTEM_PREFIXES = ("CID_ONS", "CID_RMQ_SYS_", "CID_SYS_RMQ_", "CID_HOUSEKEEPING", "CID_ONSAPI")


def of_system(group: str) -> bool:
    """Whether servers or tools made this group for their own use."""
    return group in _SYSTEM_NAMES or group.startswith(_SYSTEM_PREFIXES)


def _as_change(group: Group, known: Group | None) -> Group:
    """A group as a request has it: brokers take attributes with signs, and only those that change."""
    before = {} if known is None else known.attributes
    signed = {f"+{name}": value for name, value in group.attributes.items() if before.get(name) != value}
    signed |= {f"-{name}": "" for name in before if name not in group.attributes}
    return structs.replace(group, attributes=signed)


class GroupNotFound(GantryError):
    """No broker that was asked has this group."""

    what_to_do = "Look with `gantry group list`; make the group with `gantry group create`."


class Groups:
    """Questions and commands about consumer groups."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def all(self, cluster: str | None = None) -> dict[str, dict[str, Group]]:
        """Group name to (broker name to settings), sorted."""
        found: dict[str, dict[str, Group]] = {}
        for broker, address in (await self._asking.masters(cluster)).items():
            for name, group in (await self._table(address)).items():
                found.setdefault(name, {})[broker] = group
        return dict(sorted(found.items()))

    async def get(self, name: str, cluster: str | None = None) -> dict[str, Group]:
        """Broker name to settings. Raises GroupNotFound."""
        system_topics.check_group(name)
        found = (await self.all(cluster)).get(name)
        if not found:
            raise GroupNotFound(f"no broker has a group {name!r}; `gantry group list` shows those there are")
        return found

    async def on_brokers(self, name: str, cluster: str | None = None) -> dict[str, Group | None]:
        """Settings on each master (of ``cluster``), by its name; None where there is no such group."""
        system_topics.check_group(name)
        masters = await self._asking.masters(cluster)
        return {broker: (await self._table(address)).get(name) for broker, address in masters.items()}

    async def put(self, name: str, change: Callable[[Group], Group], cluster: str | None = None) -> list[str]:
        """Make or alter a group on every master: ``change`` is given its settings there, or the defaults.

        Returns the names of the brokers.
        """
        system_topics.check_group(name)
        masters = await self._asking.masters(cluster)
        for address in masters.values():
            known = (await self._table(address)).get(name)
            body = _as_change(change(known or Group(group_name=name)), known).encode()
            await self._asking.ask(
                address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body, what=f"change of group {name!r}"
            )
        return list(masters)

    async def delete(self, name: str, *, keep_offsets: bool = False, cluster: str | None = None) -> list[str]:
        """Remove a group from every master. Its retry and dead-letter topics stay; returns their names.

        Raises GroupNotFound.
        """
        header = DeleteGroup(group_name=name, clean_offset=not keep_offsets, remove_offset=not keep_offsets)
        masters = await self._asking.masters(cluster)
        for broker in await self.get(name, cluster):
            address = masters[broker]
            await self._asking.ask(
                address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header, what=f"deletion of group {name!r}"
            )
        return [system_topics.retry_topic(name), system_topics.dead_letter_topic(name)]

    async def reading(self, topic: str) -> list[str]:
        """The groups that have read a topic, or are online for it."""
        found: set[str] = set()
        for address in (await self._asking.masters()).values():
            try:
                answer = await self._asking.ask(
                    address,
                    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
                    TopicOnly(topic=topic),
                    what=f"readers of {topic!r}",
                )
            except RequestRejected as error:
                if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise
                continue  # a broker without the topic
            found.update(GroupList.decode(answer.body).group_list)
        return sorted(found)

    async def _table(self, address: str) -> dict[str, Group]:
        answer = await self._asking.ask(
            address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, what="list of consumer groups"
        )
        return GroupTable.decode(answer.body).subscription_group_table
