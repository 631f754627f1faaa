"""Questions to the brokers of a cluster, one at a time and by address: what all the areas of the admin client use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.consuming.pulling import ANSWERS, pull_answer, pull_request
from gantrymq.client.results import RawPull
from gantrymq.errors import ConfigError, GantryError, RequestRejected, Unreachable
from gantrymq.message import system_topics
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.route import MASTER_ID, ClusterInfo
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, Header

PULL_MAX_BYTES: Final = 1024 * 1024
ACCEPT_SUCCESS: Final = (ResponseCode.SUCCESS,)
Failed = Callable[[GantryError], None]
"""Called with the error of each question that was not answered as it should be."""


class Asking:
    """Finds brokers and asks them. Every method raises Unreachable, TimedOut or RequestRejected."""

    def __init__(self, endpoint: Endpoint, failed: Failed | None = None) -> None:
        self.endpoint = endpoint
        self._failed = failed

    async def ask(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: bytes = b"",
        *,
        what: str,
        accept: Iterable[int] = ACCEPT_SUCCESS,
        timeout_ms: int | None = None,
        remark: str | None = None,
    ) -> Command:
        """The answer, when its code is one of ``accept``. ``what``: for the message of the error."""
        with self._telling():
            answer = await self.endpoint.call(address, code, header, body, timeout_ms=timeout_ms, remark=remark)
            self.endpoint.heard(address, answer)
            if answer.code not in accept:
                raise refusal(answer, what, address)
            return answer

    async def ask_name_server(self, code: RequestCode, header: Header | None = None, *, what: str) -> Command:
        """The answer of the first name server that can be reached."""
        self.endpoint.check_usable()
        with self._telling():
            answer = await self.endpoint.name_servers.ask(code, header)
            if answer.code != ResponseCode.SUCCESS:
                raise refusal(answer, what)
            return answer

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except GantryError as error:
            if self._failed is not None:
                self._failed(error)
            raise

    async def cluster(self) -> ClusterInfo:
        """Clusters, their brokers, and where those are."""
        answer = await self.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO, what="cluster table")
        return ClusterInfo.decode(answer.body)

    async def masters(self, cluster: str | None = None) -> dict[str, str]:
        """Broker name to address of its master, by name. Raises ConfigError for a cluster nobody knows."""
        info = await self.cluster()
        if cluster is not None and cluster not in info.cluster_addr_table:
            known = ", ".join(sorted(info.cluster_addr_table)) or "none"
            raise ConfigError(f"there is no cluster {cluster!r}; the name servers know: {known}")
        names = set(info.broker_addr_table) if cluster is None else set(info.cluster_addr_table[cluster])
        masters = {
            name: broker.broker_addrs[MASTER_ID]
            for name, broker in sorted(info.broker_addr_table.items())
            if name in names and MASTER_ID in broker.broker_addrs
        }
        if not masters:
            raise self.without_brokers()
        return masters

    def without_brokers(self) -> Unreachable:
        """The error of a question that no broker is there for. An empty list would say that the cluster has nothing."""
        places = ", ".join(self.endpoint.config.name_servers)
        return Unreachable(places, "the name server knows no broker; start one (`gantry server` or `gantry broker`)")

    async def chosen(self, broker: str | None, cluster: str | None = None) -> dict[str, str]:
        """The masters, or the one with this name or address. Raises ConfigError naming those there are."""
        masters = await self.masters(cluster)
        if broker is None:
            return masters
        found = {name: address for name, address in masters.items() if broker in (name, address)}
        if not found:
            known = ", ".join(f"{name} ({address})" for name, address in masters.items())
            raise ConfigError(f"there is no broker {broker!r}; the name servers know: {known}")
        return found

    async def pull(self, address: str, queue: MessageQueue, offset: int, count: int) -> RawPull:
        """Up to ``count`` messages, as the owner's tool: it may read system topics, too."""
        header = pull_request(system_topics.TOOLS_CONSUMER, queue, offset, count, PULL_MAX_BYTES)
        answer = await self.ask(
            address, RequestCode.PULL_MESSAGE, header, what=f"pull from {queue}", accept=ANSWERS, timeout_ms=10_000
        )
        return pull_answer(answer, queue, address)


def refusal(answer: Command, what: str, address: str = "") -> RequestRejected:
    """The error that an answer means. Brokers of another version may not know a request at all; it says so."""
    remark = answer.remark
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        remark = "the peer does not know this request; its version has no such function"
    return RequestRejected(answer.code, remark, request=what, address=address)
