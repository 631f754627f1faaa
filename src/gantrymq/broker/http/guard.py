"""The same users at the HTTP endpoint: name and password (basic authentication), and what each path needs."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from math import ceil
from typing import Final

from gantrymq.access.guard import Denied, Guard, TooManyGuesses, Unknown, basic_credentials
from gantrymq.access.operations import SEE_CLUSTER
from gantrymq.access.values import User
from gantrymq.broker.http.messages import Answer, HttpError, Request
from gantrymq.broker.http.server import Handler
from gantrymq.runtime.addresses import host_of

OPEN_PATHS: Final = frozenset({("alive",), ("health",)})
"""What probes and load balancers ask; it says nothing about messages."""
_CHALLENGE: Final = (("WWW-Authenticate", 'Basic realm="GantryMQ", charset="UTF-8"'),)


def behind_guard(handle: Handler, guard: Guard) -> Handler:
    """``handle`` for users who may look at the cluster."""

    async def guarded(request: Request) -> Answer:
        if request.path not in OPEN_PATHS:
            request = replace(request, user=_admitted(request, guard))
        return await handle(request)

    return guarded


def _admitted(request: Request, guard: Guard) -> User:
    try:
        name, password = basic_credentials(request.authorization) or ("", "")
        user = guard.user_with_password(name, password, host_of(request.address))
        guard.demand_operation(user, SEE_CLUSTER, {}, host_of(request.address))
        return user
    except TooManyGuesses as many:
        raise HttpError(HTTPStatus.TOO_MANY_REQUESTS, str(many), (("Retry-After", str(ceil(many.wait_s))),)) from None
    except Unknown as unknown:
        raise HttpError(HTTPStatus.UNAUTHORIZED, str(unknown), _CHALLENGE) from None
    except Denied as denied:
        raise HttpError(HTTPStatus.FORBIDDEN, str(denied)) from None
