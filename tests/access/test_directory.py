"""Users and policies: what can be changed, by whom, and that a change is on the disk before it counts."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gantrymq.access.directory import ChangeRefused, Content, Directory
from gantrymq.access.file import NAME, open_directory
from gantrymq.access.limits import POLICIES_MAX, SECRET_MAX, SOURCES_MAX, USERS_MAX, check_sizes
from gantrymq.access.values import Action, Policy, PolicyDecision, Resource, User, UserKind
from gantrymq.errors import ConfigError, StoreError
from gantrymq.protocol.bodies.access import AclBody, EntryBody, PolicyBody
from gantrymq.runtime.disk import OsDisk
from gantrymq.simulation.world.disk import PowerCut, SimDisk

ADMIN = User("admin", "secret-a", UserKind.SUPER)
APP = User("app", "secret-b")


def policy(resource: str, *actions: Action, decision: PolicyDecision = PolicyDecision.ALLOW) -> Policy:
    return Policy(Resource.parse(resource), frozenset(actions), decision, ("10.0.0.0/8",))


def directory() -> Directory:
    made = Directory(Content(), lambda content: None)
    made.create(ADMIN, None)
    made.create(APP, ADMIN)
    return made


def test_users_come_and_go() -> None:
    users = directory()
    users.grant("app", [policy("Topic:orders", Action.PUB)])
    users.update("app", ADMIN, secret="other", enabled=False)
    assert users.user("app") == User("app", "other", UserKind.NORMAL, False)
    assert [user.name for user in users.users()] == ["admin", "app"] and users.users("adm") == [ADMIN]
    users.delete("app", ADMIN)
    users.delete("app", ADMIN)
    assert users.user("app") is None and not users.grants("app")


@pytest.mark.parametrize("name", ["", " ", "a b", "a/b", "a:b", "x" * 200, "a\nb"])
def test_a_name_that_no_user_can_have_is_refused(name: str) -> None:
    with pytest.raises(ChangeRefused, match="name"):
        directory().create(User(name, "secret"), None)


def test_what_cannot_be_changed_is_refused_and_changes_nothing() -> None:
    users = directory()
    with pytest.raises(ChangeRefused, match="exists already"):
        users.create(APP, ADMIN)
    with pytest.raises(ChangeRefused, match="password"):
        users.create(User("new", " "), ADMIN)
    with pytest.raises(ChangeRefused, match="no user"):
        users.update("nobody", ADMIN, enabled=True)
    with pytest.raises(ChangeRefused, match="no user"):
        users.grant("nobody", [policy("*", Action.ALL)])
    with pytest.raises(ChangeRefused, match="no policies"):
        users.revoke("app")
    assert users.users() == [ADMIN, APP]


def test_only_a_super_user_makes_changes_and_deletes_super_users() -> None:
    users = directory()
    for change in (
        lambda: users.create(User("boss", "secret", UserKind.SUPER), APP),
        lambda: users.update("app", APP, kind=UserKind.SUPER),
        lambda: users.update("admin", APP, secret="mine"),
        lambda: users.delete("admin", APP),
    ):
        with pytest.raises(ChangeRefused, match="only a super user"):
            change()


def test_the_last_super_user_stays() -> None:
    users = directory()
    for change in (
        lambda: users.delete("admin", ADMIN),
        lambda: users.update("admin", ADMIN, enabled=False),
        lambda: users.update("admin", ADMIN, kind=UserKind.NORMAL),
    ):
        with pytest.raises(ChangeRefused, match="only super user"):
            change()
    users.create(User("second", "secret", UserKind.SUPER), ADMIN)
    users.delete("admin", ADMIN)


def test_a_policy_for_the_same_resource_takes_the_place_of_the_old_one() -> None:
    users = directory()
    users.grant("app", [policy("Topic:a", Action.PUB), policy("Topic:b", Action.PUB)])
    users.grant("app", [policy("Topic:a", Action.SUB)], [policy("*", Action.GET)])
    assert [(one.resource.text, set(one.actions)) for one in users.grants("app").custom] == [
        ("Topic:a", {Action.SUB}), ("Topic:b", {Action.PUB}),
    ]  # fmt: skip
    users.revoke("app", Resource.parse("Topic:a"))
    users.revoke("app", Resource.parse("*"), default=True)
    assert [one.resource.text for one in users.grants("app").custom] == ["Topic:b"] and not users.grants("app").default
    users.revoke("app")
    assert users.subjects() == []


def test_everything_is_there_again_after_a_restart_and_nobody_else_can_read_it(tmp_path: Path) -> None:
    users = open_directory(OsDisk(), str(tmp_path / "auth"))
    users.create(ADMIN, None)
    users.create(APP, ADMIN)
    users.grant("app", [policy("Topic:a*", Action.PUB)], [policy("*", Action.ALL, decision=PolicyDecision.DENY)])
    path = tmp_path / "auth" / NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = open_directory(OsDisk(), str(tmp_path / "auth"))
    assert again.users() == users.users() and again.subjects() == users.subjects()


def test_a_change_that_cannot_be_written_does_not_count() -> None:
    disk = SimDisk()
    users = open_directory(disk, "/auth")
    users.create(ADMIN, None)
    disk.fail_next_write(NAME)
    with pytest.raises(StoreError):
        users.create(APP, ADMIN)
    assert users.users() == [ADMIN] == open_directory(disk, "/auth").users()


@pytest.mark.parametrize("text", ["", "{", '{"users":[{"username":"a","userType":"Boss"}]}', '{"acls":[{}]}'])
def test_a_file_that_cannot_be_used_stops_the_start(text: str, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(ConfigError, match="cannot be used"):
        open_directory(OsDisk(), str(tmp_path))


@pytest.mark.parametrize("seed", range(5))
def test_a_power_cut_leaves_the_users_before_or_after_a_change(seed: int) -> None:
    for operations in range(12):
        disk = SimDisk(seed)
        users = open_directory(disk, "/config/auth")
        users.create(ADMIN, None)
        disk.operations_left = operations
        done = False
        try:
            users.create(APP, ADMIN)
            done = True
        except PowerCut:
            pass
        disk.operations_left = None
        found = open_directory(disk.power_cut(), "/config/auth").users()
        assert found == [ADMIN, APP] or (found == [ADMIN] and not done), (seed, operations)
        if done:
            return
    raise AssertionError("the change was never made")


def test_there_are_at_most_so_many_users_and_policies() -> None:
    """Each change writes all of them, and each request looks through those of its user."""
    users = directory()
    with pytest.raises(ChangeRefused, match="at most 1024"):
        users.create(User("long", "x" * (SECRET_MAX + 1)), ADMIN)
    with pytest.raises(ChangeRefused, match="at most 1024"):
        users.update("app", ADMIN, secret="x" * (SECRET_MAX + 1))
    many = [policy(f"Topic:t{number}", Action.PUB) for number in range(POLICIES_MAX)]
    users.grant("app", many)
    with pytest.raises(ChangeRefused, match="'app' would have 1001 policies"):
        users.grant("app", [policy("Topic:more", Action.PUB)])
    users.grant("app", many[:3])  # in the place of what is there
    full = Content({f"u{number}": User(f"u{number}", "s") for number in range(USERS_MAX)})
    with pytest.raises(ChangeRefused, match="no more are possible"):
        Directory(full, lambda content: None).create(User("more", "s"), None)


def test_a_request_with_too_much_is_not_even_read() -> None:
    def body(count: int, resource: str = "Topic:t", sources: int = 1) -> AclBody:
        entry = EntryBody(resource=resource, actions=["Pub"], decision="Allow", source_ips=["10.0.0.1"] * sources)
        return AclBody(policies=[PolicyBody(entries=[entry] * count)])

    check_sizes(body(POLICIES_MAX, sources=SOURCES_MAX))
    for wrong, why in (
        (body(POLICIES_MAX + 1), "1001 policies"), (body(1, sources=SOURCES_MAX + 1), "101 addresses"),
        (body(1, "Topic:" + "x" * 300), "300 characters"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=why):
            check_sizes(wrong)
