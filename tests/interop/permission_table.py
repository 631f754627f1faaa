"""Asks a broker every request as a user without, with partial and with full rights: who is refused?

Only NO_PERMISSION for lack of rights counts as refused; what a served request is answered is not looked at, since most
name nothing that is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec

from gantrymq.access.remoting.requests import BROKER_ROWS
from gantrymq.errors import GantryError
from gantrymq.message.heartbeat import ConsumerData, SubscriptionData
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.access import AclBody, EntryBody, PolicyBody, UserBody
from gantrymq.protocol.bodies.heartbeat import HeartbeatData
from gantrymq.protocol.bodies.locks import LockBatch
from gantrymq.protocol.bodies.pop import QueryAssignment
from gantrymq.protocol.bodies.topics import TopicConfigList
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, encode_request
from gantrymq.protocol.files.groups import Group
from gantrymq.protocol.files.topics import TopicConfig
from gantrymq.protocol.headers.registry import REQUEST_HEADERS
from gantrymq.protocol.signature import Account
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.network import TcpNetwork
from gantrymq.runtime.rng import SystemRng

ADMIN = Account("admin", "admin-secret")
TOPIC, GROUP = "Table", "GTable"
NONE, PARTIAL, FULL = "none", "partial", "full"
POLICIES = {NONE: (), PARTIAL: ((f"Topic:{TOPIC}", "Pub,Sub"), (f"Group:{GROUP}", "Sub")), FULL: (("*", "All"),)}
"""What the three users may do; ``full`` has a policy and is no super user."""
ANSWER_MS = 10_000
FOR_LACK_OF_RIGHTS = ("has no permission to access", " needs ")
"""How Apache's broker and ours begin such a refusal. Both also answer NO_PERMISSION for other reasons."""
_FIELDS = {
    "topic": TOPIC, "b": TOPIC, "group": GROUP, "consumerGroup": GROUP, "groupName": GROUP, "srcGroup": GROUP,
    "destGroup": GROUP, "compareGroup": GROUP, "filterGroups": GROUP, "originTopic": TOPIC, "a": "PTable",
    "producerGroup": "PTable", "c": "TBW102", "defaultTopic": "TBW102", "username": "someone",
    "subject": "User:someone", "subscription": "*", "expressionType": "TAG", "clusterName": "DefaultCluster",
    "transactionId": "K", "msgId": "7F00000100002A9F00000000000F4240", "properties": "", "i": "", "d": "4",
    "defaultTopicQueueNums": "4", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6", "attributes": "",
    "topicFilterType": "SINGLE_TAG", "commitOrRollback": "0", "maxMsgNums": "1", "maxNum": "1", "statsName": "x",
    "topicList": "", "commitLogOffset": "1000000", "offset": "1000000", "key": "k", "filter": "",
    "policyType": "Custom", "readable": "true",
    "resource": "Topic:x", "subjectFilter": "", "resourceFilter": "", "extraInfo": "0 0 0 0 0 broker-a 0 0",
}  # fmt: skip
_ACL = b'{"policies":[{"entries":[{"resource":"Topic:x","actions":["Pub"],"decision":"Allow"}]}]}'
_BODIES = {
    RequestCode.HEART_BEAT: HeartbeatData(
        client_id="c", consumer_data_set=[
            ConsumerData(group_name=GROUP, subscription_data_set=[SubscriptionData(topic=TOPIC)])
        ],
    ).encode(),
    RequestCode.LOCK_BATCH_MQ: LockBatch(
        consumer_group=GROUP, client_id="c", mq_set=[MessageQueue(TOPIC, "broker-a", 0)]
    ).encode(),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Group(group_name=GROUP).encode(),
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: TopicConfigList(
        topic_config_list=[TopicConfig(topic_name=TOPIC)]
    ).encode(),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST:
        b'{"groupConfigList":[' + Group(group_name=GROUP).encode() + b"]}",
    RequestCode.UPDATE_BROKER_CONFIG: b"fileReservedTime=72\n",
    RequestCode.QUERY_ASSIGNMENT: QueryAssignment(topic=TOPIC, consumer_group=GROUP, client_id="c").encode(),
    RequestCode.SET_MESSAGE_REQUEST_MODE: QueryAssignment(topic=TOPIC, consumer_group=GROUP, client_id="c").encode(),
    RequestCode.CHECK_CLIENT_CONFIG: b'{"clientId":"c","group":"GTable","subscriptionData":{"topic":"Table"}}',
    RequestCode.BATCH_ACK_MESSAGE:
        b'{"brokerName":"broker-a","acks":[{"c":"GTable","t":"Table","so":0,"q":0,"rq":0,"pt":0,"it":0,"b":""}]}',
    RequestCode.AUTH_CREATE_USER: UserBody(username="someone", password="someone-secret").encode(),
    RequestCode.AUTH_UPDATE_USER: UserBody(username="someone", password="someone-secret").encode(),
    RequestCode.AUTH_CREATE_ACL: _ACL,
    RequestCode.AUTH_UPDATE_ACL: _ACL,
}  # fmt: skip
_BODIES[RequestCode.UNLOCK_BATCH_MQ] = _BODIES[RequestCode.LOCK_BATCH_MQ]
_LAST = (
    RequestCode.DELETE_SUBSCRIPTIONGROUP, RequestCode.DELETE_TOPIC_IN_BROKER, RequestCode.CLEAN_UNUSED_TOPIC,
    RequestCode.DELETE_EXPIRED_COMMITLOG,
)  # fmt: skip
"""After which the others would find nothing."""


def codes() -> Iterator[RequestCode]:
    """Requests that Apache's broker knows, too."""
    ours = {code for code in map(RequestCode, BROKER_ROWS) if 32_000 < code < 33_000}
    all_codes = sorted(set(map(RequestCode, BROKER_ROWS)) - ours - set(_LAST))
    yield from (*all_codes, *_LAST)


def fields_of(code: RequestCode) -> dict[str, str]:
    """Extension fields that a broker can read."""
    kind = REQUEST_HEADERS.get(code)
    if kind is None:
        return {}
    types = zip(kind.__struct_encode_fields__, msgspec.structs.fields(kind), strict=True)
    return {
        name: _FIELDS.get(name, "x" if "str" in str(field.type) else "false" if "bool" in str(field.type) else "0")
        for name, field in types
        if name not in ("bname", "n", "remark", "proxyFrowardClientId", "liteTopic")
    }


async def refused(address: str, account: Account, asked: list[RequestCode]) -> dict[str, str]:
    """The requests that the broker refuses this user, with the remark; what it does not answer at all counts as
    served."""
    client = RemotingClient(TcpNetwork(), SystemClock(), SystemRng(), account=account)
    found: dict[str, str] = {}
    try:
        for code in asked:
            answer = await _ask(client, address, code)
            remark = "" if answer is None or answer.code != ResponseCode.NO_PERMISSION else answer.remark or ""
            if any(words in remark for words in FOR_LACK_OF_RIGHTS):
                found[code.name] = remark
    finally:
        await client.close()
    return found


async def _ask(client: RemotingClient, address: str, code: RequestCode) -> Command | None:
    channel = await client.channel(address)
    opaque = channel.next_opaque()
    frame = encode_request(code, opaque, None, _BODIES.get(code, b"hello"), extra=fields_of(code))
    try:
        return await channel.request(opaque, frame, ANSWER_MS)
    except GantryError:
        return None


async def prepare(address: str) -> None:
    """The three users, at a broker with the super user ADMIN."""
    client = RemotingClient(TcpNetwork(), SystemClock(), SystemRng(), account=ADMIN)
    try:
        for name, policies in POLICIES.items():
            user = UserBody(username=name, password=f"{name}-secret", user_type="Normal").encode()
            await _done(client, address, RequestCode.AUTH_CREATE_USER, {"username": name}, user)
            entries = [
                EntryBody(resource=resource, actions=actions.split(","), decision="Allow")
                for resource, actions in policies
            ]
            if entries:
                acl = AclBody(subject=f"User:{name}", policies=[PolicyBody(policy_type="Custom", entries=entries)])
                await _done(client, address, RequestCode.AUTH_CREATE_ACL, {"subject": f"User:{name}"}, acl.encode())
        topic = fields_of(RequestCode.UPDATE_AND_CREATE_TOPIC)
        await _done(client, address, RequestCode.UPDATE_AND_CREATE_TOPIC, topic, b"")
    finally:
        await client.close()


async def _done(client: RemotingClient, address: str, code: RequestCode, fields: dict[str, str], body: bytes) -> None:
    channel = await client.channel(address)
    opaque = channel.next_opaque()
    answer = await channel.request(opaque, encode_request(code, opaque, None, body, extra=fields), ANSWER_MS)
    assert answer.code == ResponseCode.SUCCESS, (code.name, answer.code, answer.remark)


async def table(address: str) -> dict[str, dict[str, str]]:
    """What each of the three users is refused, by user."""
    await prepare(address)
    asked = list(codes())
    return {name: await refused(address, Account(name, f"{name}-secret"), asked) for name in POLICIES}


def run(address: str) -> dict[str, dict[str, str]]:
    return asyncio.run(table(address))
