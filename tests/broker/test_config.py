"""A broker's settings, and broker.conf."""

from __future__ import annotations

import pytest

from gantrymq.broker.config import FIELDS, SECTION_OF, BrokerConfig, from_properties, key_of, parse_properties
from gantrymq.errors import ConfigError

ROCKETMQ_SAMPLE = """\
# Licensed to somebody
brokerClusterName = DefaultCluster
brokerName = broker-b
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = ASYNC_FLUSH
storePathRootDir=/data/store
namesrvAddr=10.0.0.1:9876;10.0.0.2:9876
! another comment
brokerIP1: 10.0.0.3
autoCreateTopicEnable false
sendMessageThreadPoolNums=16
messageDelayLevel=1s 5s \\
   10s
"""


def test_a_file_of_rocketmq_is_understood_and_what_has_no_effect_is_named() -> None:
    config, unknown = from_properties(ROCKETMQ_SAMPLE)
    assert unknown == ["sendMessageThreadPoolNums"]
    assert (config.identity.broker_name, config.store.flush_disk_type) == ("broker-b", "ASYNC_FLUSH")
    assert config.retention.file_reserved_time == 48
    assert config.network.name_servers == ["10.0.0.1:9876", "10.0.0.2:9876"]
    assert (config.network.broker_ip1, config.topics.auto_create_topic_enable) == ("10.0.0.3", False)
    assert config.delay.message_delay_level == "1s 5s 10s"


def test_what_a_file_does_not_say_stays() -> None:
    base = BrokerConfig.of(broker_name="mine", listen_port=1)
    config, _ = from_properties("listenPort=2", base)
    assert (config.identity.broker_name, config.network.listen_port) == ("mine", 2)


def test_an_acknowledged_message_is_on_the_disk_by_default() -> None:
    assert BrokerConfig().store.flush_disk_type == "SYNC_FLUSH"


@pytest.mark.parametrize(
    "line",
    [
        "listenPort=x",
        "listenPort=70000",
        "autoCreateTopicEnable=maybe",
        "flushDiskType=NEVER",
        "brokerRole=SLAVE",
        "brokerId=1",
        "brokerIP1=0.0.0.0",
        "transactionTimeOut=-1",
        "mappedFileSizeConsumeQueue=30",
        "fileReservedTime=0",
    ],
)
def test_an_impossible_value_is_named(line: str) -> None:
    with pytest.raises(ConfigError, match=line.partition("=")[0]):
        from_properties(line)


def test_keys_are_rocketmqs() -> None:
    assert key_of("transaction_check_interval") == "transactionCheckInterval"
    assert "brokerIP1" in FIELDS and "brokerIp1" not in FIELDS
    assert set(SECTION_OF) == {field.name for field in FIELDS.values()} and len(FIELDS) == 114


def test_properties_syntax() -> None:
    assert parse_properties("a=1\n\n b : 2 \n#c=3\nd\ne=x=y\nlast=\\") == {
        "a": "1", "b": "2", "d": "", "e": "x=y", "last": "",
    }  # fmt: skip


def test_the_period_of_registration_keeps_apaches_bounds() -> None:
    assert BrokerConfig.of(register_name_server_period=1).network.register_period_seconds == 10
    assert BrokerConfig.of(register_name_server_period=10**6).network.register_period_seconds == 60


CONTROLLED = (
    "brokerRole=SLAVE\nbrokerId=-1\nhaListenPort=10912\nenableControllerMode=true\ncontrollerAddr=a:9878;b:9878\n"
)


def test_a_broker_under_a_controller_is_set_up_with_apaches_keys() -> None:
    config, unknown = from_properties(CONTROLLED)
    assert config.replication.controllers == ("a:9878", "b:9878") and not unknown


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("controllerAddr=", "set controllerAddr"),
        ("controllerAddr=a", "write host:port"),
        ("haListenPort=0", "needs haListenPort"),
        ("etcdAddr=c:2379", "remove one of them"),
        ("haMasterAddress=c:10912", "remove haMasterAddress"),
        ("brokerRole=ASYNC_MASTER\nbrokerId=0", "write brokerRole=SLAVE"),
        ("enableControllerMode=false", "brokerId=-1 is for enableControllerMode=true"),
        ("brokerId=-2", "brokerId"),
        ("authenticationEnabled=true", "innerClientAuthenticationCredentials"),
    ],
)
def test_a_broker_under_a_controller_that_cannot_work_says_what_to_do(line: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        from_properties(f"{CONTROLLED}{line}\n")
