"""Requests about users and policies: AUTH_CREATE_USER (3001) to AUTH_LIST_ACL (3010).

Source: AdminBrokerProcessor. Secrets go in and never come out: GET and LIST answer without them, which Apache's do not.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from gantrymq.access import texts
from gantrymq.access.directory import ChangeRefused, Directory
from gantrymq.access.limits import check_sizes
from gantrymq.access.values import Resource, User
from gantrymq.errors import ConfigError, RequestRejected
from gantrymq.protocol.bodies.access import AclBody, UserBody
from gantrymq.protocol.body import Body
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.access import DeleteAcl, ListAcls, ListUsers, SubjectOnly, UserOnly
from gantrymq.remoting.server import Handler

log = logging.getLogger("gantrymq.access")

LOGGED = 20
"""Resources that the log names."""
_B = TypeVar("_B", bound=Body)


class AccessHandler:
    """Changes and shows a directory. ``session.user`` is who asks (``enforcement``)."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def table(self) -> Mapping[int, Handler]:
        """The handlers by request code."""
        handlers: dict[int, Handler] = {
            RequestCode.AUTH_CREATE_USER: self.create_user,
            RequestCode.AUTH_UPDATE_USER: self.update_user,
            RequestCode.AUTH_DELETE_USER: self.delete_user,
            RequestCode.AUTH_GET_USER: self.get_user,
            RequestCode.AUTH_LIST_USER: self.list_users,
            RequestCode.AUTH_CREATE_ACL: self.put_acl,
            RequestCode.AUTH_UPDATE_ACL: self.put_acl,
            RequestCode.AUTH_DELETE_ACL: self.delete_acl,
            RequestCode.AUTH_GET_ACL: self.get_acl,
            RequestCode.AUTH_LIST_ACL: self.list_acls,
        }
        return {code: _refusing(handler) for code, handler in handlers.items()}

    def create_user(self, session: Any, command: Command) -> bytes:
        name = _name(command)
        body = _body(command, UserBody)
        if not body.password:
            raise ChangeRefused(
                f"the user {name!r} has no password; give one. GantryMQ servers never give out passwords, which "
                "mqadmin copyUser would need: to copy users between them, copy the file users.json"
            )
        self._directory.create(texts.user_of(msgspec.structs.replace(body, username=name)), session.user)
        return _done(session, command, f"made the user {name}")

    def update_user(self, session: Any, command: Command) -> bytes:
        name = _name(command)
        body = _body(command, UserBody)
        kind, enabled = texts.kind_of(body), texts.enabled_of(body)
        self._directory.update(name, session.user, secret=body.password, kind=kind, enabled=enabled)
        return _done(session, command, f"changed the user {name}")

    def delete_user(self, session: Any, command: Command) -> bytes:
        name = _name(command)
        self._directory.delete(name, session.user)
        return _done(session, command, f"deleted the user {name}")

    def get_user(self, session: Any, command: Command) -> bytes:
        """Without a body when there is no such user."""
        user = self._directory.user(_name(command))
        body = b"" if user is None else texts.user_body(user).encode()
        return encode_response(command, ResponseCode.SUCCESS, body=body)

    def list_users(self, session: Any, command: Command) -> bytes:
        found = self._directory.users(command.header(ListUsers).filter or "")
        return _listed(command, [texts.user_body(user) for user in found])

    def put_acl(self, session: Any, command: Command) -> bytes:
        """To create and to update mean the same, as in Apache's servers."""
        body = _body(command, AclBody)
        name = texts.name_of_subject(body.subject or command.header(SubjectOnly).subject)
        check_sizes(body)
        grants = texts.grants_of(body)
        self._directory.grant(name, grants.custom, grants.default)
        resources = [policy.resource.text for policy in (*grants.custom, *grants.default)]
        what = ", ".join(resources[:LOGGED]) + (f" and {len(resources) - LOGGED} more" if resources[LOGGED:] else "")
        return _done(session, command, f"set policies of {name} for {what}")

    def delete_acl(self, session: Any, command: Command) -> bytes:
        header = command.header(DeleteAcl)
        name = texts.name_of_subject(header.subject)
        resource = Resource.parse(header.resource) if header.resource else None
        self._directory.revoke(name, resource, default=texts.is_default(header.policy_type))
        what = "all policies" if resource is None else f"the policy for {resource.text}"
        return _done(session, command, f"took {what} from {name}")

    def get_acl(self, session: Any, command: Command) -> bytes:
        """Without a body when the user has no policies."""
        name = texts.name_of_subject(command.header(SubjectOnly).subject)
        if self._directory.user(name) is None:
            raise ChangeRefused(f"there is no user {name!r}")
        grants = self._directory.grants(name)
        body = texts.grants_body(name, grants).encode() if grants else b""
        return encode_response(command, ResponseCode.SUCCESS, body=body)

    def list_acls(self, session: Any, command: Command) -> bytes:
        header = command.header(ListAcls)
        part = header.resource_filter or ""
        subject = (header.subject_filter or "").removeprefix("User:")
        bodies = [texts.grants_body(name, grants, part) for name, grants in self._directory.subjects(subject)]
        return _listed(command, [body for body in bodies if body.policies])


def _refusing(handler: Handler) -> Handler:
    """``handler``, with refusals as answers: NO_PERMISSION as Apache's servers have it, and INVALID_PARAMETER."""

    def handle(session: Any, command: Command) -> bytes | None:
        try:
            return handler(session, command)
        except ChangeRefused as error:
            raise RequestRejected(ResponseCode.NO_PERMISSION, str(error)) from error
        except ConfigError as error:
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error

    return handle


def _name(command: Command) -> str:
    name = command.header(UserOnly).username
    if not name or not name.strip():
        raise ConfigError("the request names no user; set username")
    return name


def _body(command: Command, kind: type[_B]) -> _B:
    if not command.body:
        raise ConfigError("the request has no body, so nothing says what to do")
    return kind.of_request(command.body)


def _listed(command: Command, bodies: list[_B]) -> bytes:
    """Without a body when nothing was found."""
    body = b"[" + b",".join(body.encode() for body in bodies) + b"]" if bodies else b""
    return encode_response(command, ResponseCode.SUCCESS, body=body)


def _done(session: Any, command: Command, what: str) -> bytes:
    by: User | None = session.user
    log.warning("%s %s, from %s", "somebody" if by is None else by.name, what, session.peer)
    return encode_response(command, ResponseCode.SUCCESS)
