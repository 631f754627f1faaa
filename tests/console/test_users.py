"""Users and policies in the console: shown, made, changed, deleted; a password is nowhere."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from gantrymq.console.access_changes import change_of, grants_rows, user_rows
from gantrymq.errors import ConfigError
from gantrymq.protocol.bodies.access import AclBody, EntryBody, PolicyBody, UserBody
from tests.access.test_broker import ADMIN
from tests.access.test_broker import SETTINGS as GUARDED
from tests.console.site import SETTINGS, Browser, Site, browsers, on_site
from tests.support.brokers import cluster

SECRET = "a very secret word"


def test_users_and_policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_ACCESS_KEY", ADMIN.access_key)
    monkeypatch.setenv("GANTRY_SECRET_KEY", ADMIN.secret_key)

    async def work() -> None:
        async with asyncio.timeout(120), cluster(tmp_path / "store", with_name_server=True, **GUARDED) as running:
            assert running.name_server is not None
            audit = tmp_path / "audit.jsonl"
            async with browsers(running.name_server.address, audit, SETTINGS) as new_browser:
                ada, vera = new_browser(), new_browser()
                await ada.log_in("ada")
                await vera.log_in("vera")
                pages = await steps(ada)
                assert not any(SECRET in page for page in pages) and SECRET not in audit.read_text()
                assert "needs the role admin" in await vera.get("/users", 403)
                assert 'href="/users"' not in await vera.get("/") and 'href="/users"' in await ada.get("/")
                done = [json.loads(line) for line in audit.read_text().splitlines()]
                assert [line["action"] for line in done if line["phase"] == "done"] == [
                    "create user", "put policy", "update user", "remove policy", "delete user",
                ]  # fmt: skip
                shown = await vera.get("/audit")
                assert "put policy" in shown and "ada (console)" in shown and "ticket 31" in shown
                assert "delete user" not in await vera.get("/audit?q=ticket+31")
                assert "No entry fits" in await vera.get("/audit?q=nothing+of+it")

    asyncio.run(work())


async def steps(ada: Browser) -> list[str]:
    """Everything once, with what goes wrong by accident; returns all pages."""
    seen = [await ada.get("/users")]
    assert 'href="/users/admin"' in seen[-1] and "Super" in seen[-1]
    new = {"action": "create", "user": "ann", "kind": "Normal"}
    seen.append(await ada.post("/users/plan", **new))
    assert "Create the user ann?" in seen[-1] and 'type="password"' in seen[-1]
    seen.append(await ada.post("/users/carry-out", 400, **new, why="ticket 30", password=SECRET, again="other"))
    assert "two passwords differ" in seen[-1]
    seen.append(await ada.post("/users/carry-out", 400, **new, why="ticket 30"))
    assert "type a password" in seen[-1]
    assert "give a reason" in await ada.post("/users/carry-out", 400, **new, password=SECRET, again=SECRET)
    seen.append(await ada.post("/users/carry-out", **new, why="ticket 30", password=SECRET, again=SECRET))
    assert "was created" in seen[-1]
    assert "is a user" in await ada.post("/users/plan", 400, **new)
    policy = {"action": "policy", "user": "ann", "resource": "Topic:orders", "actions": ["Pub", "Sub"],
              "decision": "Allow", "sources": "10.0.0.0/8"}  # fmt: skip
    seen.append(await ada.post("/users/plan", **policy))
    assert "Put a policy of ann?" in seen[-1] and "Pub, Sub" in seen[-1]
    seen.append(await ada.post("/users/carry-out", **policy, why="ticket 31"))
    seen.append(await ada.get("/users/ann"))
    assert ">Topic:orders<" in seen[-1] and "10.0.0.0/8" in seen[-1]
    off = {"action": "change", "user": "ann", "user_status": "disable"}
    seen.append(await ada.post("/users/carry-out", **off, why="ticket 32"))
    assert "disabled" in await ada.get("/users/ann")
    remove = {"action": "remove", "user": "ann", "resource": "Topic:orders"}
    seen.append(await ada.post("/users/plan", **remove))
    seen.append(await ada.post("/users/carry-out", **remove, why="ticket 33"))
    assert ">Topic:orders<" not in await ada.get("/users/ann")
    gone = {"action": "delete", "user": "ann"}
    assert "nothing was deleted" in await ada.post("/users/carry-out", 400, **gone, why="x", name="an")
    seen.append(await ada.post("/users/carry-out", **gone, why="ticket 34", name="ann"))
    await ada.get("/users/ann", 400)
    assert "no server has a user" in await ada.post("/users/plan", 400, **gone)
    return seen


def test_a_cluster_without_users_says_so(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await there.browser.log_in("ada")
        assert "The brokers have no users" in await there.browser.get("/users")

    on_site(work, tmp_path)


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"action": "x"}, "not a valid change"), ({"action": "create"}, "name of the user"),
        ({"action": "create", "user": "a" * 129}, "1 to 128"),
        ({"action": "create", "user": "a\nb"}, "name of the user"),
        ({"action": "create", "user": "a", "kind": "Root"}, "type of the user"),
        ({"action": "change", "user": "a"}, "what to change"),
        ({"action": "change", "user": "a", "user_status": "maybe"}, "status of the user"),
        ({"action": "policy", "user": "a"}, "give a resource"),
        ({"action": "policy", "user": "a", "resource": "Topic:x"}, "at least one action"),
        ({"action": "policy", "user": "a", "resource": "Topic:x", "actions": "Fly"}, "the action"),
        ({"action": "policy", "user": "a", "resource": "Planet:x", "actions": "Pub"}, "resource"),
        ({"action": "policy", "user": "a", "resource": "Topic:x", "actions": "Pub", "sources": "here"}, "here"),
        ({"action": "policy", "user": "a", "resource": "Topic:x", "actions": "Pub", "decision": "Perhaps"}, "decision"),
    ],
)  # fmt: skip
def test_forms_that_are_wrong(form: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        change_of({name: [value] for name, value in form.items()})


def test_rows_of_several_servers() -> None:
    ann = UserBody(username="ann", user_type="Normal", user_status="enable")
    off = UserBody(username="ann", user_type="Normal", user_status="disable")
    rows = user_rows({"a": [ann], "b": [ann], "c": [off]})
    assert [(row.status, row.servers) for row in rows] == [("disable", ("c",)), ("enable", ("a", "b"))]
    entry = EntryBody(resource="Topic:x", actions=["Pub"], decision="Allow")
    acl = AclBody(subject="User:ann", policies=[PolicyBody(policy_type=None, entries=[entry])])
    (grant,) = grants_rows({"a": [acl], "b": [acl]})
    assert (grant.user, grant.policy_type, grant.servers, grant.sources) == ("ann", "Custom", ("a", "b"), "")
