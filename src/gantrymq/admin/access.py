"""Users and policies of servers. Source: CreateUserSubCommand, CreateAclSubCommand and their neighbours.

Every broker has users of its own, and so may a name server: a change is made at all of them, one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from gantrymq.admin.asking import Asking, refusal
from gantrymq.errors import ConfigError, GantryError
from gantrymq.protocol.bodies.access import AclBody, EntryBody, PolicyBody, UserBody
from gantrymq.protocol.bodies.heartbeat import HeartbeatData
from gantrymq.protocol.body import decode_list
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Header
from gantrymq.protocol.headers.access import DeleteAcl, ListAcls, ListUsers, SubjectOnly, UserOnly

_B = TypeVar("_B", UserBody, AclBody)
ACL_EXCEPTION: Final = "AclException"
NAME_SERVER: Final = "name server "
"""Before the address of a name server, where a server is named."""


class Access:
    """Questions and commands about users and policies."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def users(self, part: str = "", cluster: str | None = None) -> dict[str, list[UserBody]]:
        """The users whose names contain ``part``, by server."""
        found: dict[str, list[UserBody]] = {}
        for server, address in (await self._servers(cluster)).items():
            body = await self._ask(server, address, RequestCode.AUTH_LIST_USER, ListUsers(filter=part or None))
            if body is not None:
                found[server] = decode_list(body, UserBody)
        return found

    async def policies(
        self, user: str = "", resource: str = "", cluster: str | None = None
    ) -> dict[str, list[AclBody]]:
        """Policies of users whose names contain ``user``, for resources whose texts contain ``resource``, by server."""
        header = ListAcls(subject_filter=user or None, resource_filter=resource or None)
        found: dict[str, list[AclBody]] = {}
        for server, address in (await self._servers(cluster)).items():
            body = await self._ask(server, address, RequestCode.AUTH_LIST_ACL, header)
            if body is not None:
                found[server] = decode_list(body, AclBody)
        return found

    async def create_user(self, user: UserBody, cluster: str | None = None) -> list[str]:
        """Make a user at every server. Returns their names."""
        header = UserOnly(username=user.username)
        return await self._everywhere(RequestCode.AUTH_CREATE_USER, header, user.encode(), cluster)

    async def update_user(self, user: UserBody, cluster: str | None = None) -> list[str]:
        """Change what is not None, at every server. Returns their names."""
        header = UserOnly(username=user.username)
        return await self._everywhere(RequestCode.AUTH_UPDATE_USER, header, user.encode(), cluster)

    async def delete_user(self, name: str, cluster: str | None = None) -> list[str]:
        """Delete a user with its policies. Returns the names of the servers."""
        return await self._everywhere(RequestCode.AUTH_DELETE_USER, UserOnly(username=name), b"", cluster)

    async def put_policies(self, user: str, entries: Sequence[EntryBody], cluster: str | None = None) -> list[str]:
        """Give policies to a user; one for the same resource is replaced. Returns the names of the servers."""
        acl = AclBody(subject=f"User:{user}", policies=[PolicyBody(policy_type="Custom", entries=list(entries))])
        header = SubjectOnly(subject=acl.subject)
        return await self._everywhere(RequestCode.AUTH_UPDATE_ACL, header, acl.encode(), cluster)

    async def delete_policy(self, user: str, resource: str | None = None, cluster: str | None = None) -> list[str]:
        """Take the policy for one resource from a user, or all. Returns the names of the servers."""
        header = DeleteAcl(subject=f"User:{user}", policy_type="Custom", resource=resource)
        return await self._everywhere(RequestCode.AUTH_DELETE_ACL, header, b"", cluster)

    async def recognises(self, address: str) -> bool:
        """Whether the broker at this address accepts the signature of this client: a request without any need.

        Raises RequestRejected for an answer that says neither.
        """
        beat = HeartbeatData(client_id=self._asking.endpoint.client_id or "gantry-console").encode()
        answer = await self._asking.endpoint.call(address, RequestCode.HEART_BEAT, body=beat)
        if answer.code == ResponseCode.SUCCESS:
            return True
        # 4.x brokers answer with the name of the exception.
        if answer.code == ResponseCode.NO_PERMISSION or ACL_EXCEPTION in (answer.remark or ""):
            return False
        raise refusal(answer, "log-in", address)

    async def _everywhere(self, code: RequestCode, header: Header, body: bytes, cluster: str | None) -> list[str]:
        done: list[str] = []
        for server, address in (await self._servers(cluster)).items():
            try:
                answer = await self._ask(server, address, code, header, body)
            except GantryError as error:
                if done:
                    raise PartlyDone(f"it is done at {', '.join(done)}, and not at {server}: {error}") from error
                raise
            if answer is not None:
                done.append(server)
        return done

    async def _servers(self, cluster: str | None) -> dict[str, str]:
        names = {f"{NAME_SERVER}{address}": address for address in self._asking.endpoint.config.name_servers}
        return {**await self._asking.masters(cluster), **names}

    async def _ask(
        self, server: str, address: str, code: RequestCode, header: Header, body: bytes = b""
    ) -> bytes | None:
        """The body of the answer; None: it is a name server without users of its own."""
        what = code.name.removeprefix("AUTH_").replace("_", " ").lower()
        answer = await self._asking.endpoint.call(address, code, header, body)
        if answer.code == ResponseCode.SUCCESS:
            return answer.body
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            if server.startswith(NAME_SERVER):
                return None
            raise NoUsers(f"{server} ({address}) has no users: {answer.remark or 'it does not know the request'}")
        raise refusal(answer, what, address)


class NoUsers(ConfigError):
    """A broker has no users that tools could change."""

    what_to_do = "Switch users on at that server: [permissions](docs/permissions.md)."


class PartlyDone(GantryError):
    """A change was made at some servers and refused by another one."""

    what_to_do = "Remove the reason that the message names, and make the same change again: it is not made twice."
