"""A real broker with users, asked over sockets by clients without, with wrong, with partial and with full rights."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gantrymq.access.guard import GUESSES
from gantrymq.demo.ports import free_port
from gantrymq.message.heartbeat import ConsumerData, ProducerData, SubscriptionData
from gantrymq.message.system_topics import HALF, TOOLS_CONSUMER
from gantrymq.message.transaction import OPERATOR_REMARK, HalfEnd
from gantrymq.protocol.bodies.access import AclBody, EntryBody, PolicyBody, UserBody
from gantrymq.protocol.bodies.heartbeat import HeartbeatData
from gantrymq.protocol.codes import RequestCode as Code
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, Header
from gantrymq.protocol.halves import decode_codes, encode_ends
from gantrymq.protocol.headers import access, transaction
from gantrymq.protocol.headers.consumer import SendBack
from gantrymq.protocol.headers.pull import ViewMessage
from gantrymq.protocol.headers.send import SendMessageAnswer
from gantrymq.protocol.headers.tools import ConsumeDirectly, ResumeCheck
from gantrymq.protocol.message_ids import offset_message_id, parse_offset_message_id
from gantrymq.protocol.signature import Account
from gantrymq.remoting.channel import ClientChannel
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.network import TcpNetwork
from gantrymq.runtime.rng import SystemRng
from tests.support.brokers import TIMEOUT_MS, Cluster, cluster, pull_header, send_header, until
from tests.support.doors import remoting

ADMIN = Account("admin", "admin-secret")
SETTINGS: dict[str, object] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": json.dumps({"username": "admin", "password": "admin-secret"}),
}
DENIED, FINE = ResponseCode.NO_PERMISSION, ResponseCode.SUCCESS


class Caller:
    """A client of one user, or of nobody."""

    def __init__(self, address: str, account: Account | None) -> None:
        self.pushed: list[Command] = []
        self._address = address
        self.client = RemotingClient(
            TcpNetwork(), SystemClock(), SystemRng(), account=account, requests=self._push
        )  # fmt: skip

    def _push(self, channel: ClientChannel, command: Command) -> None:
        self.pushed.append(command)

    async def ask(
        self, code: int, header: Header | None = None, body: bytes = b"", remark: str | None = None
    ) -> Command:
        return await self.client.call(self._address, code, header, body, timeout_ms=TIMEOUT_MS, remark=remark)

    async def fine(
        self, code: int, header: Header | None = None, body: bytes = b"", remark: str | None = None
    ) -> Command:
        answer = await self.ask(code, header, body, remark)
        assert answer.code == FINE, answer.remark
        return answer

    async def denied(
        self, code: int, header: Header | None = None, body: bytes = b"", remark: str | None = None
    ) -> str:
        answer = await self.ask(code, header, body, remark)
        assert answer.code == DENIED, (answer.code, answer.remark)
        return answer.remark or ""

    async def make_user(self, name: str, *policies: str, kind: str = "Normal") -> Account:
        """A user with policies such as ``Topic:orders=Pub,Sub``."""
        body = UserBody(username=name, password=f"{name}-secret", user_type=kind)
        await self.fine(Code.AUTH_CREATE_USER, access.UserOnly(username=name), body.encode())
        if policies:
            await self.fine(Code.AUTH_CREATE_ACL, access.SubjectOnly(subject=f"User:{name}"), acl(name, *policies))
        return Account(name, f"{name}-secret")


def acl(name: str, *policies: str, decision: str = "Allow", sources: list[str] | None = None) -> bytes:
    entries = [
        EntryBody(resource=resource, actions=actions.split(","), decision=decision, source_ips=sources)
        for resource, actions in (policy.split("=") for policy in policies)
    ]
    return AclBody(subject=f"User:{name}", policies=[PolicyBody(entries=entries)]).encode()


class Guarded:
    """A broker with users, and its callers."""

    def __init__(self, running: Cluster, stack: contextlib.AsyncExitStack) -> None:
        self.running = running
        self._stack = stack

    def caller(self, account: Account | None) -> Caller:
        made = Caller(self.running.broker.address, account)
        self._stack.push_async_callback(made.client.close)
        return made


@contextlib.asynccontextmanager
async def guarded(root: Path, **settings: object) -> AsyncIterator[Guarded]:
    async with contextlib.AsyncExitStack() as stack:
        running = await stack.enter_async_context(cluster(root, **{**SETTINGS, **settings}))  # type: ignore[arg-type]
        yield Guarded(running, stack)


def play(work: Callable[[Guarded], Awaitable[None]], root: Path, **settings: object) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60), guarded(root, **settings) as broker:
            await work(broker)

    asyncio.run(bounded())


def heartbeat(group: str, topic: str | None = None) -> bytes:
    if topic is None:
        return HeartbeatData(client_id=f"c-{group}", producer_data_set=[ProducerData(group_name=group)]).encode()
    consumer = ConsumerData(group_name=group, subscription_data_set=[SubscriptionData(topic=topic)])
    return HeartbeatData(client_id=f"c-{group}", consumer_data_set=[consumer]).encode()


def test_only_signed_requests_of_enabled_users_are_served(tmp_path: Path) -> None:
    async def work(broker: Guarded) -> None:
        admin = broker.caller(ADMIN)
        app = await admin.make_user("app", "Topic:orders=Pub")
        assert "not signed" in await broker.caller(None).denied(Code.SEND_MESSAGE_V2, send_header("orders"))
        assert "no user" in await broker.caller(Account("nobody", "x")).denied(Code.HEART_BEAT, None, heartbeat("G"))
        wrong = await broker.caller(Account("app", "wrong")).denied(Code.SEND_MESSAGE_V2, send_header("orders"))
        assert "signature" in wrong and "app-secret" not in wrong and "wrong-" not in wrong
        caller = broker.caller(app)
        await caller.fine(Code.SEND_MESSAGE_V2, send_header("orders"), b"hello")
        off = UserBody(user_status="disable").encode()
        await admin.fine(Code.AUTH_UPDATE_USER, access.UserOnly(username="app"), off)
        assert "disabled" in await caller.denied(Code.SEND_MESSAGE_V2, send_header("orders"))
        assert broker.running.broker.metrics.total("gantry_permission_refusals_total") == 4

    play(work, tmp_path)


def test_a_user_does_what_policies_allow_and_the_refusal_says_what_is_missing(tmp_path: Path) -> None:
    async def work(broker: Guarded) -> None:
        admin = broker.caller(ADMIN)
        app = broker.caller(await admin.make_user("app", "Topic:orders=Pub,Sub", "Group:app-*=Sub"))
        await app.fine(Code.SEND_MESSAGE_V2, send_header("orders"), b"hello")
        remark = await app.denied(Code.SEND_MESSAGE_V2, send_header("payments"), b"hello")
        assert remark == "the user app needs Pub on Topic:payments (from 127.0.0.1): no policy allows it"
        pulled = await app.ask(Code.PULL_MESSAGE, pull_header("orders", consumer_group="app-one"))
        assert pulled.code == FINE and pulled.body
        assert "Sub on Group:other" in await app.denied(
            Code.PULL_MESSAGE, pull_header("orders", consumer_group="other")
        )
        await app.fine(Code.HEART_BEAT, None, heartbeat("app-one", "orders"))
        assert "Topic:payments" in await app.denied(Code.HEART_BEAT, None, heartbeat("app-one", "payments"))
        # The retry topic of a group belongs to the group.
        assert "Group:other" in await app.denied(
            Code.PULL_MESSAGE, pull_header("%RETRY%other", consumer_group="app-one")
        )
        assert "Cluster:DefaultCluster" in await app.denied(Code.UPDATE_BROKER_CONFIG, None, b"fileReservedTime=1\n")
        # What changes counts for the next request.
        await admin.fine(
            Code.AUTH_UPDATE_ACL,
            access.SubjectOnly(subject="User:app"),
            acl("app", "Topic:orders=Pub", decision="Deny"),
        )
        assert "denies it" in await app.denied(Code.SEND_MESSAGE_V2, send_header("orders"), b"hello")

    play(work, tmp_path)


def half_header(topic: str) -> Header:
    return send_header(topic, "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01K1\x02", sys_flag=4)


def end_header(sent: SendMessageAnswer, topic: str | None = None, **fields: object) -> transaction.EndTransaction:
    values: dict[str, Any] = {
        "producer_group": "PG", "tran_state_table_offset": sent.queue_offset,
        "commit_log_offset": parse_offset_message_id(sent.msg_id)[1], "commit_or_rollback": 8, "msg_id": "K1",
        "transaction_id": "K1", "topic": topic,
    }  # fmt: skip
    return transaction.EndTransaction(**{**values, **fields})


def test_a_transaction_is_ended_by_the_right_on_its_real_topic(tmp_path: Path) -> None:
    """Hole 22: what the client says about the topic does not count, and the half topic plays no part."""

    async def work(broker: Guarded) -> None:
        admin = broker.caller(ADMIN)
        owner = broker.caller(await admin.make_user("owner", "Topic:orders=Pub"))
        other = broker.caller(await admin.make_user("other", "Topic:payments=Pub", "Topic:*=Sub,Get"))
        operator = broker.caller(await admin.make_user("operator", "Topic:orders=Update"))
        await owner.fine(Code.HEART_BEAT, None, heartbeat("PG"))
        await other.fine(Code.HEART_BEAT, None, heartbeat("PG"))
        answer = await owner.fine(Code.SEND_MESSAGE_V2, half_header("orders"), b"paid")
        sent = answer.header(SendMessageAnswer)
        for named in (None, "payments", HALF):
            assert "Pub on Topic:orders" in await other.denied(Code.END_TRANSACTION, end_header(sent, named))
        # A person needs another right than the program.
        note = "gantry operator: because"
        by_operator = end_header(sent, "orders", from_transaction_check=True)
        remark = await owner.denied(Code.END_TRANSACTION, by_operator, remark=OPERATOR_REMARK + note)
        assert "Update on Topic:orders" in remark
        await operator.fine(Code.HEART_BEAT, None, heartbeat("PG"))
        assert "Pub on Topic:orders" in await operator.denied(Code.END_TRANSACTION, end_header(sent))
        # Clients copy the topic of the check, or send none, as those of 4.x.
        await owner.fine(Code.END_TRANSACTION, end_header(sent))
        assert "Topic:orders" in await other.denied(Code.END_TRANSACTION, end_header(sent, "payments"))

    play(work, tmp_path)


def test_many_ends_are_judged_one_by_one(tmp_path: Path) -> None:
    async def work(broker: Guarded) -> None:
        admin = broker.caller(ADMIN)
        owner = broker.caller(await admin.make_user("owner", "Topic:orders=Pub", "Topic:refunds=Pub"))
        other = broker.caller(await admin.make_user("other", "Topic:orders=Pub"))
        ends: list[HalfEnd] = []
        for number, topic in enumerate(("orders", "refunds")):
            text = f"TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01K{number}\x02"
            header = send_header(topic, text, sys_flag=4)
            sent = (await owner.fine(Code.SEND_MESSAGE_V2, header, b"paid")).header(SendMessageAnswer)
            ends.append(HalfEnd(sent.queue_offset, parse_offset_message_id(sent.msg_id)[1], f"K{number}"))
        for caller in (owner, other):
            await caller.fine(Code.HEART_BEAT, None, heartbeat("PG"))
        header = transaction.EndHalves(producer_group="PG", commit_or_rollback=8)
        assert "Pub on Topic:refunds" in await other.denied(Code.END_HALVES, header, encode_ends(ends))
        answer = await owner.fine(Code.END_HALVES, header, encode_ends(ends))
        assert decode_codes(answer.body) == (0, 0)
        assert "Topic:refunds" in await other.denied(Code.SEND_HALVES, send_header("refunds"), b"x")

    play(work, tmp_path)


def test_undecided_messages_are_read_by_their_owner_only(tmp_path: Path) -> None:
    async def work(broker: Guarded) -> None:
        admin = broker.caller(ADMIN)
        owner = broker.caller(await admin.make_user("owner", "Topic:orders=Pub"))
        curious = broker.caller(await admin.make_user("curious", "Topic:*=All", "Group:*=All", "Cluster:*=All"))
        answer = await owner.fine(Code.SEND_MESSAGE_V2, half_header("orders"), b"paid")
        sent = answer.header(SendMessageAnswer)
        offset = parse_offset_message_id(sent.msg_id)[1]
        pull = pull_header(HALF, consumer_group=TOOLS_CONSUMER)
        assert "Sub on Topic:RMQ_SYS_TRANS_HALF_TOPIC" in await curious.denied(Code.PULL_MESSAGE, pull)
        await curious.denied(Code.VIEW_MESSAGE_BY_ID, ViewMessage(offset=offset, topic="orders"))
        await curious.denied(Code.CONSUMER_SEND_MSG_BACK, SendBack(offset=offset, group="CG", delay_level=0))
        message_id = offset_message_id(b"\x7f\x00\x00\x01\x00\x00\x00\x01", offset)
        await curious.denied(Code.CONSUME_MESSAGE_DIRECTLY, ConsumeDirectly(consumer_group="CG", msg_id=message_id))
        assert (await admin.ask(Code.PULL_MESSAGE, pull)).code == FINE
        named = acl("curious", f"Topic:{HALF}=Sub")
        await admin.fine(Code.AUTH_CREATE_ACL, access.SubjectOnly(subject="User:curious"), named)
        assert (await curious.ask(Code.PULL_MESSAGE, pull)).code == FINE

    play(work, tmp_path)


def test_only_a_producer_that_may_send_to_the_topic_is_asked_about_a_half_message(tmp_path: Path) -> None:
    """The question carries the message."""

    async def work(broker: Guarded) -> None:
        admin = broker.caller(ADMIN)
        owner = broker.caller(await admin.make_user("owner", "Topic:orders=Pub"))
        curious = broker.caller(await admin.make_user("curious", "Topic:payments=Pub", "Topic:orders=Sub"))
        await owner.fine(Code.SEND_MESSAGE_V2, half_header("orders"), b"paid")
        await curious.fine(Code.HEART_BEAT, None, heartbeat("PG"))
        checks = broker.running.broker.coordinator.counts
        await asyncio.sleep(0.3)
        assert checks.checks_sent == 0 and not curious.pushed
        await owner.fine(Code.HEART_BEAT, None, heartbeat("PG"))
        await until(lambda: len(owner.pushed) > 0)
        assert owner.pushed[0].code == Code.CHECK_TRANSACTION_STATE and not curious.pushed
        assert owner.pushed[0].header(transaction.CheckTransactionState).topic == "orders"

    play(work, tmp_path, transaction_time_out=50, transaction_check_interval=100)


def test_resuming_needs_update_on_the_topic_of_the_message(tmp_path: Path) -> None:
    async def work(broker: Guarded) -> None:
        admin = broker.caller(ADMIN)
        app = broker.caller(await admin.make_user("app", "Topic:orders=Pub,Sub,Get", "Cluster:*=Get"))
        answer = await app.fine(Code.SEND_MESSAGE_V2, half_header("orders"), b"paid")
        message_id = answer.header(SendMessageAnswer).msg_id
        assert "Update on Topic:orders" in await app.denied(
            Code.RESUME_CHECK_HALF_MESSAGE, ResumeCheck(msg_id=message_id, topic="orders")
        )
        assert "no message" in await app.denied(Code.RESUME_CHECK_HALF_MESSAGE, ResumeCheck(msg_id="nonsense"))

    play(work, tmp_path)


def test_users_are_changed_by_tools_and_survive_a_restart(tmp_path: Path) -> None:
    async def first(broker: Guarded) -> None:
        admin = broker.caller(ADMIN)
        await admin.make_user("app", "Topic:a=Pub", "Topic:b*=Sub")
        keeper = broker.caller(await admin.make_user("keeper", "Cluster:DefaultCluster=All"))
        boss = UserBody(username="boss", password="x", user_type="Super").encode()
        assert "only a super user" in await keeper.denied(Code.AUTH_CREATE_USER, access.UserOnly(username="boss"), boss)
        users = await keeper.fine(Code.AUTH_LIST_USER, access.ListUsers(filter="a"))
        listed = msgspec.json.decode(users.body)
        assert [user["username"] for user in listed] == ["admin", "app"]
        assert "secret" not in users.body.decode() and "password" not in users.body.decode()
        got = await keeper.fine(Code.AUTH_GET_USER, access.UserOnly(username="app"))
        assert msgspec.json.decode(got.body) == {"username": "app", "userType": "Normal", "userStatus": "enable"}
        assert (await keeper.fine(Code.AUTH_GET_USER, access.UserOnly(username="none"))).body == b""
        assert (await keeper.ask(Code.AUTH_GET_USER, access.UserOnly())).code == ResponseCode.INVALID_PARAMETER
        await admin.fine(
            Code.AUTH_DELETE_ACL, access.DeleteAcl(subject="User:app", policy_type="Custom", resource="Topic:a")
        )
        config = await admin.fine(Code.GET_BROKER_CONFIG)
        assert "admin-secret" not in config.body.decode() and "initAuthenticationUser=******" in config.body.decode()

    async def second(broker: Guarded) -> None:
        admin = broker.caller(ADMIN)
        found = AclBody.decode((await admin.fine(Code.AUTH_GET_ACL, access.SubjectOnly(subject="User:app"))).body)
        assert [entry.resource for entry in found.policies[0].entries] == ["Topic:b*"]
        listed = msgspec.json.decode((await admin.fine(Code.AUTH_LIST_ACL, access.ListAcls())).body)
        assert {one["subject"] for one in listed} == {"User:app", "User:keeper"}
        await admin.fine(Code.AUTH_DELETE_USER, access.UserOnly(username="app"))
        assert (await admin.fine(Code.AUTH_LIST_ACL, access.ListAcls(resource_filter="Topic:"))).body == b""

    play(first, tmp_path)
    play(second, tmp_path)


def test_no_secret_is_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work(broker: Guarded) -> None:
        admin = broker.caller(ADMIN)
        await admin.make_user("app", "Topic:a=Pub")
        await broker.caller(Account("app", "a-guess")).denied(Code.HEART_BEAT, None, heartbeat("G"))
        await admin.ask(Code.AUTH_CREATE_USER, access.UserOnly(username="x"), b'{"password": "half-secret", ')

    with caplog.at_level(logging.DEBUG):
        play(work, tmp_path)
    assert "made the user app" in caplog.text
    assert not any(secret in caplog.text for secret in ("admin-secret", "app-secret", "a-guess", "half-secret"))


def test_requests_on_the_lists_need_no_signature_or_no_permission(tmp_path: Path) -> None:
    async def work(broker: Guarded) -> None:
        admin = broker.caller(ADMIN)
        app = broker.caller(await admin.make_user("app"))
        await broker.caller(None).fine(Code.HEART_BEAT, None, heartbeat("G", "orders"))
        await app.fine(Code.SEND_MESSAGE_V2, send_header("orders"), b"hello")
        await broker.caller(None).denied(Code.SEND_MESSAGE_V2, send_header("orders"), b"hello")

    play(work, tmp_path, authentication_whitelist="34", authorization_whitelist=f"34, {int(Code.SEND_MESSAGE_V2)}")


def test_the_requests_of_a_user_are_counted_together(tmp_path: Path) -> None:
    """``maxRequestsPerSecond`` is for each user, from wherever the requests come."""

    async def work(broker: Guarded) -> None:
        admin = broker.caller(ADMIN)
        app = await admin.make_user("app", "Topic:orders=Pub")
        for caller in (broker.caller(app), broker.caller(app)):
            await caller.fine(Code.SEND_MESSAGE_V2, send_header("orders"), b"hello")
        await broker.caller(None).denied(Code.SEND_MESSAGE_V2, send_header("orders"), b"hello")
        clients = sorted(session.client for session in remoting(broker.running.broker).server.sessions)
        assert clients == ["127.0.0.1", "user admin", "user app", "user app"]

    play(work, tmp_path)


def test_without_authorization_every_user_may_do_everything(tmp_path: Path) -> None:
    async def work(broker: Guarded) -> None:
        app = broker.caller(await broker.caller(ADMIN).make_user("app"))
        await app.fine(Code.SEND_MESSAGE_V2, send_header("orders"), b"hello")
        await broker.caller(None).denied(Code.SEND_MESSAGE_V2, send_header("orders"), b"hello")

    play(work, tmp_path, authorization_enabled=False)


def test_a_broker_without_users_has_the_bare_handlers(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path) as running:
            handlers = remoting(running.broker).handlers
            assert handlers[Code.SEND_MESSAGE_V2].__qualname__ == "SendHandler.send"
            answer = await running.ask(Code.AUTH_LIST_USER, access.ListUsers())
            assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and "authenticationEnabled" in answer.remark  # type: ignore[operator]

    asyncio.run(work())


def test_who_guesses_secrets_of_a_broker_must_wait_at_both_doors(tmp_path: Path) -> None:
    """Over one new connection for each guess, as attackers do; over HTTP, too."""
    port = free_port()

    async def status(password: str) -> tuple[int, str]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        credentials = base64.b64encode(f"app:{password}".encode()).decode()
        writer.write(f"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {credentials}\r\n"
                     "Connection: close\r\n\r\n".encode())  # fmt: skip
        answer = (await reader.read()).decode()
        writer.close()
        return int(answer.split()[1]), answer

    async def work(broker: Guarded) -> None:
        admin = broker.caller(ADMIN)
        app = await admin.make_user("app", "Topic:orders=Pub", "Cluster:DefaultCluster=Get")
        before = broker.caller(app)
        await before.fine(Code.SEND_MESSAGE_V2, send_header("orders"), b"hello")
        assert (await status("app-secret"))[0] == 200
        for number in range(GUESSES // 2):
            assert "signature" in await broker.caller(Account("app", f"wrong{number}")).denied(
                Code.SEND_MESSAGE_V2, send_header("orders")
            )
            assert (await status(f"wrong{number}"))[0] == 401
        assert "too many wrong" in await broker.caller(app).denied(Code.SEND_MESSAGE_V2, send_header("orders"))
        code, answer = await status("app-secret")
        assert code == 429 and "Retry-After: " in answer
        await before.fine(Code.SEND_MESSAGE_V2, send_header("orders"), b"hello")
        await broker.caller(ADMIN).fine(Code.GET_BROKER_CONFIG)
        counted = broker.running.broker.metrics.read("gantry_permission_refusals_total")
        assert counted[("guessed",)] == 2

    play(work, tmp_path, http_port=port)
