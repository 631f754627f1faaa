"""Official clients and mqadmin with TLS and users of our servers: with all they need, with a part, and with none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.tool import Tool as CommandLine
from tests.console.site import SETTINGS, Browser, browsers
from tests.interop import permission_table
from tests.interop.apache import REBALANCE_MS, ApacheCluster, JavaProcess
from tests.interop.guarded import USERS
from tests.interop.jars import drivers, library
from tests.interop.mqadmin import CLUSTER, Tool
from tests.interop.ours import GantryCluster
from tests.interop.test_tls import JAVA, OURS

_APACHE = "org.apache.rocketmq.auth."
PROVIDERS = {
    "authenticationProvider": f"{_APACHE}authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{_APACHE}authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationProvider": f"{_APACHE}authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": f"{_APACHE}authorization.provider.LocalAuthorizationMetadataProvider",
}
"""What Apache's broker needs beside ``USERS``."""
FAST = {"transactionTimeOut": "2000", "transactionCheckInterval": "3000", "flushDiskType": "ASYNC_FLUSH"}


def mqadmin_as(tool: Tool, directory: Path, name: str) -> None:
    """From now on the tool signs as this user: it reads the file with each command."""
    (directory / "conf" / "tools.yml").write_text(f"accessKey: {name}\nsecretKey: {name}-secret\n")


@pytest.fixture(scope="module")
def guarded(jdk: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GantryCluster]:
    """Our broker with users, and our name server with users of its own; both only take connections with TLS and a
    certificate of the client. The processes of official software get that from the environment."""
    directory = tmp_path_factory.mktemp("users")
    cluster = GantryCluster(directory)
    tls, conf = directory / "tls.properties", directory / "namesrv.conf"
    tls.write_text(OURS)
    own = {**USERS, "authConfigPath": directory / "names"}
    conf.write_text("".join(f"{key}={value}\n" for key, value in own.items()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GANTRY_TLS_CONFIG", str(tls))
        patch.setenv("JAVA_TOOL_OPTIONS", " ".join(f"-D{key.replace('_', '.')}={value}" for key, value in JAVA.items()))
        try:
            cluster.start_name_server("--config", str(conf))
            cluster.start_broker(**USERS, **FAST)
            yield cluster
        finally:
            cluster.close()


@pytest.fixture(scope="module")
def admin(guarded: GantryCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Tool, Path]]:
    """mqadmin 5.5.0, as the super user."""
    directory = tmp_path_factory.mktemp("mqadmin") / "home"
    tool = Tool("5.5.0", guarded, directory, "Unused")
    mqadmin_as(tool, directory, "admin")
    yield tool, directory
    tool.close()


def everywhere(guarded: GantryCluster) -> list[tuple[str, str]]:
    """What mqadmin is told so that the command goes to the broker, and then to the name server."""
    return [("-b", guarded.broker_address), ("-b", guarded.name_servers)]


def make(admin: tuple[Tool, Path], guarded: GantryCluster, name: str, *policies: str) -> None:
    """A user with policies such as ``Topic:orders=Pub,Sub``."""
    tool, _ = admin
    for where in everywhere(guarded):
        assert "success" in tool.run("createUser", *where, "-u", name, "-p", f"{name}-secret", "-t", "Normal")
        for policy in policies:
            resource, _, actions = policy.partition("=")
            done = tool.run("createAcl", *where, "-s", f"User:{name}", "-r", resource, "-a", actions, "-d", "Allow")
            assert "success" in done, done


def java(version: str, directory: Path, *arguments: str) -> JavaProcess:
    """The driver ``Accounts`` with the client of one version; in 4.x the signing hook is in a jar of its own."""
    where = [drivers(f"client-{version}"), library(f"client-{version}")]
    where += [library("acl-4.9.8")] if version == "4.9.8" else []
    directory.mkdir(parents=True, exist_ok=True)
    patient = {"rocketmq.client.rebalance.waitInterval": REBALANCE_MS}
    return JavaProcess("accounts", where, "Accounts", list(arguments), directory, properties=patient)


@pytest.mark.parametrize("version", ["4.9.8", "5.5.0"])
def test_an_official_client_does_what_its_user_may(
    version: str, guarded: GantryCluster, admin: tuple[Tool, Path], tmp_path: Path
) -> None:
    name = f"app-{version.replace('.', '')}"
    topic, group = f"Orders{name}", f"G{name}"
    make(admin, guarded, name, f"Topic:{topic}=Pub,Sub", f"Group:{group}=Sub")
    client = java(version, tmp_path, guarded.name_servers, name, f"{name}-secret", topic, "Forbidden", group)
    try:
        client.await_step("end")
        tried = {step["what"]: step["code"] for step in client.steps("tried")}
        assert tried["send"] == tried["commit"] == tried["unknown"] == 0 and tried["forbidden"] != 0
        assert {step["keys"] for step in client.steps("got")} == {"sent", "commit", "unknown"}
        (check,) = client.steps("check")
        assert check == {"step": "check", "keys": "unknown", "topic": topic}
    finally:
        client.kill()


@pytest.mark.parametrize("version", ["4.9.8", "5.5.0"])
def test_a_client_with_a_wrong_secret_or_without_rights_gets_nowhere(
    version: str, guarded: GantryCluster, admin: tuple[Tool, Path], tmp_path: Path
) -> None:
    name = f"poor-{version.replace('.', '')}"
    make(admin, guarded, name)
    for secret in (f"{name}-secret", "guess"):
        client = java(
            version, tmp_path / secret, guarded.name_servers, name, secret, "OrdersX", "Forbidden", "GX", "no wait"
        )
        try:
            client.await_step("end")
            assert {step["code"] for step in client.steps("tried")}.isdisjoint({0})
            assert not client.steps("got") and not client.steps("check")
        finally:
            client.kill()


def test_mqadmin_changes_users(guarded: GantryCluster, admin: tuple[Tool, Path]) -> None:
    tool, _ = admin
    at = ("-b", guarded.broker_address)
    assert "success" in tool.run("createUser", "-c", CLUSTER, "-u", "one", "-p", "one-secret", "-t", "Normal")
    assert "exists already" in tool.run("createUser", *at, "-u", "one", "-p", "x")
    assert "success" in tool.run("updateUser", *at, "-u", "one", "-s", "disable")
    got = tool.run("getUser", *at, "-u", "one")
    assert "disable" in got and "one-secret" not in got
    assert "one" in tool.run("listUser", *at, "-f", "on") and "admin" not in tool.run("listUser", *at, "-f", "on")
    assert "success" in tool.run("deleteUser", *at, "-u", "one")
    assert "one" not in tool.run("listUser", *at, "-f", "on").replace("None", "")


def test_mqadmin_changes_policies(guarded: GantryCluster, admin: tuple[Tool, Path]) -> None:
    tool, _ = admin
    at, subject = ("-b", guarded.broker_address), ("-s", "User:two")
    tool.run("createUser", *at, "-u", "two", "-p", "two-secret", "-t", "Normal")
    allow = ("-d", "Allow")
    assert "success" in tool.run(
        "createAcl", *at, *subject, "-r", "Topic:a,Group:b*", "-a", "Pub,Sub", "-i", "10.0.0.0/8", *allow
    )
    got = tool.run("getAcl", *at, *subject)
    assert all(word in got for word in ("Topic:a", "Group:b*", "10.0.0.0/8", "Allow", "Pub"))
    assert "success" in tool.run("updateAcl", *at, *subject, "-r", "Topic:a", "-a", "Sub", "-d", "Deny")
    assert "Deny" in tool.run("listAcl", *at, *subject)
    assert "success" in tool.run("deleteAcl", *at, *subject, "-r", "Topic:a")
    left = tool.run("listAcl", *at, *subject)
    assert "Topic:a" not in left and "Group:b*" in left


def test_mqadmin_copies_policies_and_users_without_their_secrets(
    guarded: GantryCluster, admin: tuple[Tool, Path]
) -> None:
    """From the broker to the name server. Apache's servers tell a super user the passwords, so ``copyUser`` can make
    users; ours tell nobody, so the user must be there before."""
    tool, _ = admin
    at_broker, at_names = everywhere(guarded)
    way = ("-f", guarded.broker_address, "-t", guarded.name_servers)
    for name in ("here", "both"):
        assert "success" in tool.run("createUser", *at_broker, "-u", name, "-p", f"{name}-secret", "-t", "Normal")
    assert "success" in tool.run("createUser", *at_names, "-u", "both", "-p", "both-secret", "-t", "Normal")
    tool.run("updateUser", *at_broker, "-u", "both", "-s", "disable")
    refused = tool.run("copyUser", *way, "-u", "here")
    assert "success" not in refused and "never give out" in refused and "users.json" in refused, refused
    assert "success" in tool.run("copyUser", *way, "-u", "both")
    assert "disable" in tool.run("getUser", *at_names, "-u", "both")
    for policy in (("Topic:a,Group:b*", "Pub,Sub", "Allow"), ("Topic:c", "Sub", "Deny")):
        resources, actions, decision = policy
        tool.run("createAcl", *at_broker, "-s", "User:both", "-r", resources, "-a", actions, "-d", decision)
    assert "success" in tool.run("copyAcl", *way, "-s", "User:both")
    subject = ("-s", "User:both")
    there, here = (tool.run("getAcl", *where, *subject) for where in (at_names, at_broker))
    assert there == here and all(word in there for word in ("Topic:a", "Group:b*", "Topic:c", "Deny")), there


def test_mqadmin_of_a_user_without_rights_is_refused(guarded: GantryCluster, admin: tuple[Tool, Path]) -> None:
    tool, directory = admin
    make(admin, guarded, "watcher", f"Cluster:{CLUSTER}=Get,List")
    try:
        mqadmin_as(tool, directory, "watcher")
        assert "broker-a" in tool.run("clusterList")
        at = ("-b", guarded.broker_address)
        for command in (
            ("updateBrokerConfig", *at, "-k", "fileReservedTime", "-v", "1"),
            ("createUser", *at, "-u", "boss", "-p", "boss-secret", "-t", "Super"),
            ("updateTopic", *at, "-t", "New"),
        ):
            text = tool.run(*command)
            assert "CODE: 16" in text and "watcher needs" in text, text
        mqadmin_as(tool, directory, "nobody")
        assert "CODE: 16" in tool.run("getBrokerConfig", *at)
    finally:
        mqadmin_as(tool, directory, "admin")


def test_mqadmin_of_4_9_signs_too(guarded: GantryCluster, admin: tuple[Tool, Path], tmp_path: Path) -> None:
    tool = Tool("4.9.7", guarded, tmp_path / "home", "Unused4")
    try:
        assert "broker-a" not in tool.run("clusterList")
        mqadmin_as(tool, tmp_path / "home", "admin")
        assert "broker-a" in tool.run("clusterList")
        assert "success" in tool.run("updateTopic", "-b", guarded.broker_address, "-t", "MadeBy4")
    finally:
        tool.close()


APACHE_ASKS_NOTHING = {
    "CLEAN_EXPIRED_CONSUMEQUEUE", "CLEAN_UNUSED_TOPIC", "DELETE_EXPIRED_COMMITLOG", "GET_ALL_CONSUMER_OFFSET",
    "GET_ALL_DELAY_OFFSET", "GET_ALL_MESSAGE_REQUEST_MODE", "GET_ALL_SUBSCRIPTIONGROUP_CONFIG",
    "GET_ALL_TOPIC_CONFIG", "GET_BROKER_CONFIG", "GET_BROKER_HA_STATUS", "GET_BROKER_RUNTIME_INFO",
    "GET_SYSTEM_TOPIC_LIST_FROM_BROKER",
    "GET_TIMER_CHECK_POINT", "GET_TIMER_METRICS", "POP_ROLLBACK", "SET_MESSAGE_REQUEST_MODE",
    "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST", "UPDATE_AND_CREATE_TOPIC_LIST",
    "UPDATE_BROKER_CONFIG",
    "CONTROLLER_GET_METADATA_INFO", "CONTROLLER_GET_SYNC_STATE_DATA", "GET_BROKER_EPOCH_CACHE",
}  # fmt: skip
"""Requests that 5.5.0 serves for every user who signs, or answers with an error that says nothing of permissions."""
APACHE_ASKS_NOTHING_OF_CLIENTS = {
    "BATCH_ACK_MESSAGE", "CHECK_CLIENT_CONFIG", "LITE_PULL_MESSAGE", "POP_LITE_MESSAGE", "QUERY_ASSIGNMENT",
    "SEND_REPLY_MESSAGE", "SEND_REPLY_MESSAGE_V2",
}  # fmt: skip
"""The same, of requests that need Pub or Sub here."""
SUB_IS_ENOUGH_HERE = {"GET_EARLIEST_MSG_STORETIME", "GET_MAX_OFFSET", "GET_MIN_OFFSET", "SEARCH_OFFSET_BY_TIMESTAMP"}
NOTHING_THERE = {"VIEW_MESSAGE_BY_ID"}
"""Ours judges by the message; where none is, it says that. 5.5.0 believes the topic in the request."""


def test_the_same_requests_on_apache_and_here(jdk: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is refused what: users without, with partial and with full rights ask everything that both brokers know."""
    monkeypatch.delenv("GANTRY_TLS_CONFIG", raising=False)
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)
    ours, apache = GantryCluster(tmp_path / "ours"), ApacheCluster("5.5.0", tmp_path / "apache")
    found = []
    for cluster, more in ((ours, {}), (apache, {**PROVIDERS, "authConfigPath": str(tmp_path / "apache" / "auth")})):
        cluster.directory.mkdir(parents=True, exist_ok=True)
        try:
            cluster.start_name_server()
            cluster.start_broker(**USERS, **more)
            found.append(permission_table.run(cluster.broker_address))
            _our_commands(cluster.name_servers, tmp_path / "audit.jsonl", monkeypatch)
            asyncio.run(_people_log_in(cluster.name_servers, tmp_path / "console.jsonl"))
        finally:
            cluster.close()
    here, there = ({user: set(codes) for user, codes in table.items()} for table in found)
    assert here["none"] - there["none"] == APACHE_ASKS_NOTHING | APACHE_ASKS_NOTHING_OF_CLIENTS
    assert there["none"] - here["none"] == NOTHING_THERE
    assert here["partial"] - there["partial"] == APACHE_ASKS_NOTHING
    assert there["partial"] - here["partial"] == SUB_IS_ENOUGH_HERE | NOTHING_THERE
    assert here["full"] == there["full"] == set()
    assert len(here["none"] & there["none"]) > 50


async def _people_log_in(name_servers: str, audit: Path) -> None:
    """The console knows the users of Apache's broker as it knows those of ours, and each sees what its rights allow.

    The table made the users ``full``, ``partial`` and ``none``.
    """
    async with browsers(name_servers, audit, replace(SETTINGS, broker_users=True)) as new_browser:
        stranger = new_browser()
        for name, password in (("full", "wrong"), ("nobody", "nobody-secret"), ("full", "")):
            await stranger.post("/login", 401, name=name, password=password)
        assert not stranger.http.cookies
        admin = await _entered(new_browser(), "admin")
        for path in ("/transactions", "/topics", "/brokers", "/brokers/broker-a"):
            await admin.get(path)
        full = await _entered(new_browser(), "full")
        changed = await full.post("/brokers/broker-a/change", key="fileReservedTime", value="71", why="a test")
        assert "fileReservedTime" in changed
        none = await _entered(new_browser(), "none")
        assert "The brokers do not allow this to none" in await none.get("/transactions", 403)


async def _entered(browser: Browser, name: str) -> Browser:
    await browser.post("/login", 303, name=name, password=f"{name}-secret")
    browser.csrf = (await browser.get("/")).split('name="csrf" value="')[1].split('"')[0]
    return browser


def _our_commands(name_servers: str, audit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``gantry user`` and ``gantry acl`` do with Apache's broker what they do with ours."""
    monkeypatch.setenv("GANTRY_ACCESS_KEY", "admin")
    monkeypatch.setenv("GANTRY_SECRET_KEY", "admin-secret")
    tool = CommandLine(name_servers, audit)
    said = ("--yes", "--why", "a test")
    status, out, err = tool.run("user", "create", "mine", "--password-file", "-", *said, input="mine-secret\n")
    assert status == 0, (out, err)
    tool.text("acl", "allow", "mine", "-r", "Topic:a", "-r", "Group:b*", "-a", "Pub,Sub", "--from", "10.0.0.0/8", *said)
    tool.text("user", "update", "mine", "--disable", *said)
    shown = tool.json("user", "show", "mine")
    assert [(row["type"], row["status"]) for row in shown["at"]] == [("Normal", "disable")]
    assert {(row["resource"], row["decision"], row["from"]) for row in shown["policies"]} == {
        ("Topic:a", "Allow", "10.0.0.0/8"), ("Group:b*", "Allow", "10.0.0.0/8"),
    }  # fmt: skip
    tool.text("acl", "remove", "mine", "-r", "Topic:a", *said)
    assert [row["resource"] for row in tool.json("acl", "list", "--user", "mine")] == ["Group:b*"]
    tool.text("user", "delete", "mine", *said)
    assert "mine" not in {row["user"] for row in tool.json("user", "list")}
