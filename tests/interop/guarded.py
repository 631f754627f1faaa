"""The interop tests once more, with users: ``pytest tests/interop --guarded``, also together with ``--tls``.

Then every server of ours has authentication and authorization switched on, and whatever it is asked must be signed. The
official Java and Go clients sign as a normal user who may do with every topic and group what clients do, and nothing
else. Our own client, our command line and mqadmin sign as the super user: their tests make and change topics, too.
Left out are the tests with servers of Apache, and those that have users of their own anyway.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from gantrymq.admin import Admin
from gantrymq.protocol.bodies.access import EntryBody, UserBody
from gantrymq.protocol.signature import Account, signed_frame
from tests.interop.jars import library

ADMIN = Account("admin", "admin-secret")
APP = Account("app", "app-secret")
USERS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": ADMIN.access_key, "password": ADMIN.secret_key}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": "broker", "secretKey": "broker-secret"}),
}
"""What a server needs to have users."""
RIGHTS = {"Topic:*": ["Pub", "Sub"], "Group:*": ["Sub"]}
"""Of the normal user."""
WITH_OWN_USERS = {"test_accounts.py", "test_permissions.py", "test_tls.py"}
OPERATORS_WORK = {"test_resets.py"}
"""Its driver moves the offsets of groups, for which the normal user has no right."""
UNSIGNED = {"test_pulls_by_hand_and_polls", "test_administers"}
"""Of the Go client (v2.1.2) only the producer and the push consumer sign what they ask name servers
(``SetCredentials``). The pull consumer does not, and the admin client signs one request only (``RegisterACL``)."""

_SWITCH = "GANTRY_INTEROP_GUARDED"


def switch_on() -> None:
    """For this process and all that it starts."""
    os.environ |= {
        _SWITCH: "1", "GANTRY_ACCESS_KEY": ADMIN.access_key, "GANTRY_SECRET_KEY": ADMIN.secret_key,
        "LAB_USER": APP.access_key, "LAB_SECRET": APP.secret_key,
    }  # fmt: skip


def is_on() -> bool:
    return _SWITCH in os.environ


def server_settings(directory: Path) -> dict[str, str]:
    """For every server of ours; it keeps its users in the directory."""
    return {**USERS, "authConfigPath": str(directory)} if is_on() else {}


def java_properties() -> dict[str, str]:
    """For every Java process."""
    return {"lab.user": APP.access_key, "lab.secret": APP.secret_key} if is_on() else {}


def java_classpath(version: str) -> list[Path]:
    """What a client of 4.x needs beside its library to sign."""
    return [library("acl-4.9.8")] if is_on() and version.startswith("4") else []


def signed(frame: bytes) -> bytes:
    """A request of the tests themselves."""
    return signed_frame(frame, ADMIN) if is_on() else frame


def write_mqadmin_account(home: Path) -> None:
    """mqadmin reads this file with each command."""
    if is_on():
        text = f"accessKey: {ADMIN.access_key}\nsecretKey: {ADMIN.secret_key}\n"
        (home / "conf" / "tools.yml").write_text(text)


def take_in(name_servers: str) -> None:
    """Make the normal user, if the tests have users."""
    if is_on():
        asyncio.run(make_normal_user(name_servers))


async def make_normal_user(name_servers: str) -> None:
    """At the name server and at the brokers that it knows by now."""
    async with Admin(name_servers, access_key=ADMIN.access_key, secret_key=ADMIN.secret_key) as admin:
        everywhere = await admin.access.users(APP.access_key)
        if any(not users for users in everywhere.values()):
            body = UserBody(username=APP.access_key, password=APP.secret_key, user_type="Normal")
            await admin.access.create_user(body)
        entries = [EntryBody(resource=resource, actions=actions, decision="Allow")
                   for resource, actions in RIGHTS.items()]  # fmt: skip
        await admin.access.put_policies(APP.access_key, entries)


def takes_part(item: pytest.Item) -> bool:
    """Whether a test about our servers has no users of its own."""
    return item.path.name not in WITH_OWN_USERS | OPERATORS_WORK and item.name.partition("[")[0] not in UNSIGNED
