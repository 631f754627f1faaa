"""The cases of ``tests.fuzz.sizes`` about users and policies, which are played against a broker that has users."""

from __future__ import annotations

import asyncio

from gantrymq.protocol.bodies.access import AclBody, EntryBody, PolicyBody, UserBody
from gantrymq.protocol.codes import RequestCode as Code
from gantrymq.protocol.headers import access
from tests.fuzz.size_cases import case
from tests.fuzz.sizes import Bench, shown


def acl(name: str, *entries: EntryBody) -> bytes:
    return AclBody(subject=f"User:{name}", policies=[PolicyBody(entries=list(entries))]).encode()


def entry(resource: str, *sources: str) -> EntryBody:
    return EntryBody(resource=resource, actions=["Pub"], decision="Allow", source_ips=list(sources) or None)


@case("users: 2,000 made in one write")
async def users(on: Bench) -> str:
    found = await asyncio.gather(*(
        on.manage(Code.AUTH_CREATE_USER, access.UserOnly(username=f"u{n}"),
               UserBody(username=f"u{n}", password="secret", user_type="Normal").encode())
        for n in range(on.size(2_000))
    ))  # fmt: skip
    return f"{len(found)} answers, {shown(found[0])}, {shown(found[-1])}"


@case("users: one more of 2,000")
async def one_user(on: Bench) -> str:
    body = UserBody(username="more", password="secret", user_type="Normal").encode()
    return shown(await on.manage(Code.AUTH_CREATE_USER, access.UserOnly(username="more"), body))


@case("users: a password of 4 MB")
async def password(on: Bench) -> str:
    body = UserBody(username="long", password="x" * on.size(4_000_000), user_type="Normal").encode()
    return shown(await on.manage(Code.AUTH_CREATE_USER, access.UserOnly(username="long"), body))


@case("users: the list of all")
async def list_users(on: Bench) -> str:
    return shown(await on.manage(Code.AUTH_LIST_USER, access.ListUsers()))


@case("policies: 20,000 of one user")
async def policies(on: Bench) -> str:
    body = acl("u0", *(entry(f"Topic:t{n}") for n in range(on.size(20_000))))
    return shown(await on.manage(Code.AUTH_CREATE_ACL, access.SubjectOnly(subject="User:u0"), body))


@case("policies: 200,000 addresses in one")
async def sources(on: Bench) -> str:
    body = acl("u1", entry("Topic:t", *(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}" for n in range(on.size(200_000)))))
    return shown(await on.manage(Code.AUTH_CREATE_ACL, access.SubjectOnly(subject="User:u1"), body))


@case("policies: 50 for each of 200 users, in one write")
async def many_policies(on: Bench) -> str:
    found = await asyncio.gather(*(
        on.manage(Code.AUTH_CREATE_ACL, access.SubjectOnly(subject=f"User:u{n}"),
               acl(f"u{n}", *(entry(f"Topic:t{m}") for m in range(50))))
        for n in range(2, on.size(200))
    ))  # fmt: skip
    return f"{len(found)} answers, {shown(found[-1]) if found else ''}"


@case("policies: the list of all")
async def list_policies(on: Bench) -> str:
    return shown(await on.manage(Code.AUTH_LIST_ACL, access.ListAcls()))
