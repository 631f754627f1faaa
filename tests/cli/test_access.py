"""Servers with users as a person starts them, and the commands that change users: real processes."""

from __future__ import annotations

import base64
import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gantrymq import LocalTransactionState, Message, Producer, PullConsumer, TransactionProducer
from gantrymq.demo.ports import free_port
from gantrymq.errors import GantryError, RequestRejected
from gantrymq.message.system_topics import TRANSACTION_TOPICS
from tests.cli.test_serve import Program, address, program
from tests.cli.tool import Tool, Undecided, eventually

USERS = """
authenticationEnabled=true
authorizationEnabled=true
initAuthenticationUser={"username":"admin","password":"admin-secret"}
innerClientAuthenticationCredentials={"accessKey":"broker","secretKey":"broker-secret"}
flushDiskType=ASYNC_FLUSH
"""
ADMIN: dict[str, Any] = {"access_key": "admin", "secret_key": "admin-secret"}


@contextlib.contextmanager
def server(root: Path, conf: str, *options: str) -> Iterator[tuple[Program, str]]:
    """``gantry server`` with a broker.conf, and what its ready line says."""
    (root / "broker.conf").write_text(conf)
    arguments = ("-c", str(root / "broker.conf"), "--store", str(root / "store"), "--name-server-port", "0")
    with program("server", *arguments, "--listen-port", "0", "--log-level", "error", *options) as running:
        yield running, running.ready()


@pytest.fixture
def as_admin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_ACCESS_KEY", "admin")
    monkeypatch.setenv("GANTRY_SECRET_KEY", "admin-secret")


def make(tool: Tool, name: str, *policies: str) -> dict[str, Any]:
    """A user with policies such as ``Topic:orders=Pub``; its settings of a client."""
    status, out, err = tool.run(
        "user", "create", name, "--password-file", "-", "--yes", "--why", "a test", input=f"{name}-secret\n"
    )
    assert status == 0, (out, err)
    for policy in policies:
        resource, _, actions = policy.partition("=")
        tool.text("acl", "allow", name, "-r", resource, "-a", actions, "--yes", "--why", "a test")
    return {"access_key": name, "secret_key": f"{name}-secret"}


class Commits:
    def execute_local_transaction(self, message: Any, argument: Any) -> LocalTransactionState:
        return LocalTransactionState.COMMIT

    def check_local_transaction(self, message: Any) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


@pytest.mark.slow
@pytest.mark.usefixtures("as_admin")
def test_a_server_with_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    with server(tmp_path, USERS, "--http-port", str(port)) as (_, ready):
        names = address(ready, "name server")
        tool = Tool(names, tmp_path / "audit.jsonl")
        tool.text("topic", "create", "orders")
        app = make(tool, "app", "Topic:orders=Pub")
        reader = make(tool, "reader", "Topic:orders=Sub", "Group:reader*=Sub")
        with TransactionProducer("GApp", name_servers=names, listener=Commits(), **app) as producer:
            assert producer.send_in_transaction(Message("orders", b"paid")).decided
        with Producer("GApp", name_servers=names, **app) as producer:
            producer.send(Message("orders", b"sent"))
            with pytest.raises(GantryError):
                producer.send(Message("payments", b"no"))
        with PullConsumer("reader-1", name_servers=names, **reader) as consumer:
            bodies = {m.body for queue in consumer.queues("orders") for m in consumer.pull(queue, 0, 32).messages}
            assert bodies == {b"paid", b"sent"}
        for nobody in ({"access_key": "app", "secret_key": "guess"}, {"access_key": "who", "secret_key": "x"}):
            with pytest.raises(GantryError), Producer("GNo", name_servers=names, **nobody) as producer:
                producer.send(Message("orders", b"no"))
        _operator(tool, app, monkeypatch)
        _commands(tool, monkeypatch)
        _over_http(port)


OPERATOR = (
    "Cluster:*=Get,List", "Group:TOOLS_CONSUMER=Sub", "Group:CID_RMQ_SYS_TRANS=Get",
    "Topic:orders=Update,Get",
    *(f"Topic:{topic}=Sub,Get" for topic in sorted(TRANSACTION_TOPICS)),
)  # fmt: skip
"""What docs/permissions.md says that a person needs to decide transactions."""


def _operator(tool: Tool, app: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A person who is no super user finds a transaction, explains it and commits it."""
    make(tool, "operator", *OPERATOR)
    with TransactionProducer("GOpen", name_servers=tool.name_servers, listener=Undecided(), **app) as producer:
        open_one = producer.send_in_transaction(Message("orders", b"by the operator"))
    with monkeypatch.context() as environment:
        environment.setenv("GANTRY_ACCESS_KEY", "operator")
        environment.setenv("GANTRY_SECRET_KEY", "operator-secret")
        (row,) = tool.json("transactions", "list", "--group", "GOpen")
        assert row["id"] == open_one.message_id
        assert tool.json("transactions", "explain", row["id"])[0]["state"] == "open"
        tool.text("transactions", "commit", row["id"], "--yes", "--why", "a test")
    tool.text("user", "delete", "operator", "--yes", "--why", "a test")


def _commands(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    users = {row["user"]: row for row in tool.json("user", "list")}
    assert set(users) == {"admin", "broker", "app", "reader"} and users["admin"]["type"] == "Super"
    shown = tool.json("user", "show", "reader")
    assert {row["resource"] for row in shown["policies"]} == {"Topic:orders", "Group:reader*"}
    tool.text("acl", "deny", "app", "-r", "Topic:x", "-a", "All", "--from", "10.0.0.0/8", "--yes", "--why", "a test")
    rows = tool.json("acl", "list", "--user", "app")
    assert {(row["resource"], row["decision"], row["from"]) for row in rows} == {
        ("Topic:orders", "Allow", ""), ("Topic:x", "Deny", "10.0.0.0/8"),
    }  # fmt: skip
    tool.text("acl", "remove", "app", "-r", "Topic:x", "--yes", "--why", "a test")
    tool.text("user", "update", "app", "--disable", "--yes", "--why", "a test")
    assert "nothing was done" in tool.text("user", "delete", "app", "--dry-run")
    tool.text("user", "delete", "app", "--yes", "--why", "a test")
    assert "write for example" in tool.fails("acl", "allow", "reader", "-r", "orders", "-a", "Pub", "--yes", status=2)
    assert "the action is" in tool.fails("acl", "allow", "reader", "-r", "*", "-a", "Fly", "--yes", status=2)
    assert "no user" in tool.fails("user", "show", "app")
    assert "give the reason" in tool.fails("user", "delete", "reader", "--yes", status=2)
    lines = tool.decisions()
    assert {line["phase"] for line in lines} == {"intended", "done", "dry run"} and lines[0]["action"] == "create user"
    assert "secret" not in json.dumps(lines)
    numbers = [line["decision"] for line in lines if line["phase"] == "intended"]
    assert len(set(numbers)) == len(numbers) and {line["decision"] for line in lines} >= set(numbers)
    # Another user by options; its secret comes from a file.
    key = tool.audit.parent / "key"
    key.write_text("reader-secret\n")
    error = tool.fails("--access-key", "reader", "--secret-key-file", str(key), "user", "list")
    assert "the user reader needs List or Get on Cluster:DefaultCluster" in error


def _over_http(port: int) -> None:
    def ask(path: str, user: str | None = None, password: str = "") -> int:
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
        if user is not None:
            request.add_header("Authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            if error.code == 401:
                assert error.headers["WWW-Authenticate"].startswith("Basic")
            return error.code

    assert ask("/health") == 200
    assert ask("/metrics") == ask("/metrics", "admin", "guess") == ask("/metrics", "who", "x") == 401
    assert ask("/metrics", "reader", "reader-secret") == 403
    assert ask("/metrics", "admin", "admin-secret") == ask("/transactions", "admin", "admin-secret") == 200


@pytest.mark.slow
@pytest.mark.usefixtures("as_admin")
def test_a_name_server_and_brokers_with_users_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "namesrv.conf").write_text(f"{USERS}authConfigPath={tmp_path / 'names'}\nlistenPort=0\n")
    (tmp_path / "broker.conf").write_text(f"{USERS}brokerIP1=127.0.0.1\nlistenPort=0\n")
    with program("nameserver", "-c", str(tmp_path / "namesrv.conf"), "--host", "127.0.0.1") as first:
        names = address(first.ready(), "name server")
        options = ("-c", str(tmp_path / "broker.conf"), "-n", names, "--store", str(tmp_path / "store"))
        with program("broker", *options) as second:
            second.ready()
            tool = Tool(names, tmp_path / "audit.jsonl")
            # Registered: the broker signs.
            assert [row["broker"] for row in tool.json("cluster", "list")] == ["broker-a"]
            app = make(tool, "app", "Topic:orders=Pub")
            (row,) = [row for row in tool.json("user", "list") if row["user"] == "app"]
            assert row["servers"] == f"broker-a, name server {names}"
            tool.text("topic", "create", "orders")
            with Producer("GApp", name_servers=names, **app) as producer:
                producer.send(Message("orders", b"sent"))
            with pytest.raises(GantryError), Producer("GNo", name_servers=names, access_key="x", secret_key="y") as no:
                no.send(Message("orders", b"no"))


@pytest.mark.parametrize(
    ("conf", "says"),
    [
        ("authenticationEnabled=true\n", "innerClientAuthenticationCredentials="),
        ("authorizationEnabled=true\n", "set both"),
        ("authenticationEnabled=true\naclEnable=true\n", "choose one"),
        ('initAuthenticationUser={"username":"a","password":"hush"\n', "write it as"),
        ("authenticationWhitelist=SEND\n", "request codes"),
        ('aclEnable=true\ninnerClientAuthenticationCredentials={"accessKey":"b","secretKey":"s"}\n', "no file"),
    ],
)
def test_settings_that_cannot_be_end_the_start_with_what_to_do(conf: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text(conf)
    options = ("-c", str(tmp_path / "broker.conf"), "--store", str(tmp_path / "store"), "--name-server-port", "0")
    with program("server", *options, "--listen-port", "0") as running:
        status, _, err = running.ended()
    assert status == 1 and says in err and "Traceback" not in err and "hush" not in err


ACCOUNTS = """
accounts:
  - accessKey: rocketmq-admin
    secretKey: admin-secret
    admin: true
  - accessKey: orders-app
    secretKey: app-secret
    defaultTopicPerm: DENY
    topicPerms:
      - orders={permission}
"""


@pytest.mark.slow
def test_accounts_of_4x_are_read_again_when_the_file_changes(tmp_path: Path) -> None:
    (tmp_path / "plain_acl.yml").write_text(ACCOUNTS.format(permission="SUB"))
    inner = 'innerClientAuthenticationCredentials={"accessKey":"rocketmq-admin","secretKey":"admin-secret"}\n'
    app: dict[str, Any] = {"access_key": "orders-app", "secret_key": "app-secret"}
    with server(tmp_path, f"aclEnable=true\n{inner}") as (_, ready):
        names = address(ready, "name server")
        with Producer("GAdmin", name_servers=names, access_key="rocketmq-admin", secret_key="admin-secret") as admin:
            admin.send(Message("orders", b"by the administrator"))
        with Producer("GApp", name_servers=names, **app) as producer:
            with pytest.raises(RequestRejected, match="needs Pub on Topic:orders"):
                producer.send(Message("orders", b"no"))
            (tmp_path / "plain_acl.yml").write_text("accounts: nonsense")
            (tmp_path / "plain_acl.yml").write_text(ACCOUNTS.format(permission="PUB|SUB"))

            def sent() -> bool:
                try:
                    producer.send(Message("orders", b"now"))
                except RequestRejected:
                    return False
                return True

            eventually(sent)
