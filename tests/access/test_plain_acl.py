"""Accounts of 4.x as users and policies."""

from __future__ import annotations

import pytest

from gantrymq.access.judge import judge
from gantrymq.access.plain_acl import parse
from gantrymq.access.values import Action, Need, ResourceKind
from gantrymq.errors import ConfigError

FILE = """
globalWhiteRemoteAddresses:
  - 10.10.103.*
accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      - groupA=DENY
      - groupC=SUB
  - accessKey: rocketmq2
    secretKey: 12345678
    whiteRemoteAddress: 192.168.1.*
    admin: true
"""


def test_the_file_that_comes_with_rocketmq() -> None:
    accounts = parse(FILE.encode(), "plain_acl.yml")
    users = accounts.content.users
    assert not users["RocketMQ"].is_super and users["rocketmq2"].is_super and users["RocketMQ"].secret == "12345678"
    assert accounts.open_to[0]("10.10.103.9") and not accounts.open_to[0]("10.10.104.9")
    assert accounts.trusted["rocketmq2"]("192.168.1.4") and "RocketMQ" not in accounts.trusted
    grants = accounts.content.grants["RocketMQ"]

    def may(kind: ResourceKind, name: str, action: Action) -> bool:
        return judge(grants, Need(kind, name, (action,)), "10.0.0.1").allowed

    topic, group = ResourceKind.TOPIC, ResourceKind.GROUP
    assert not may(topic, "topicA", Action.PUB) and not may(topic, "other", Action.SUB)
    assert may(topic, "topicB", Action.PUB) and may(topic, "topicB", Action.SUB)
    assert may(topic, "topicC", Action.SUB) and not may(topic, "topicC", Action.PUB)
    assert not may(group, "groupA", Action.SUB) and may(group, "groupC", Action.SUB) and may(group, "any", Action.SUB)
    assert may(topic, "RMQ_SYS_TRACE_TOPIC", Action.PUB)
    assert not may(ResourceKind.CLUSTER, "DefaultCluster", Action.GET) and not may(topic, "topicB", Action.CREATE)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- a", "no accounts"),
        ("a: [", "no YAML"),
        ("accounts: x", "write a list"),
        ("accounts: [1]", "account 1"),
        ("accounts:\n- accessKey: short\n  secretKey: 12345678", "at least 7"),
        ("accounts:\n- accessKey: RocketMQ\n  secretKey: 12345678\n  admin: maybe", "true or false"),
        ("accounts:\n- accessKey: RocketMQ\n  secretKey: 12345678\n  topicPerms: [orders]", "orders=PUB"),
        ("accounts:\n- accessKey: RocketMQ\n  secretKey: 12345678\n  topicPerms: [orders=READ]", "write DENY"),
        ("accounts:\n- accessKey: RocketMQ\n  secretKey: 12345678\n  topicPerm: []", "unknown keys: topicPerm"),
        (
            "accounts:\n- accessKey: RocketMQ\n  secretKey: 12345678\n- accessKey: RocketMQ\n  secretKey: 12345678",
            "twice",
        ),
        ("globalWhiteRemoteAddresses: [somewhere]", "address"),
    ],
)
def test_what_is_wrong_is_said_without_a_secret(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as error:
        parse(text.encode(), "the file")
    assert str(error.value).startswith("the file: ") and "12345678" not in str(error.value)
