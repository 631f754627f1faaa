"""Settings that are changed while the broker runs."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from gantrymq.broker.config import CHANGEABLE, FIELDS, BrokerConfig, from_properties, key_of, parse_properties
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.operations.settings import SettingsAdministration, to_properties, with_properties
from gantrymq.broker.refusal import Refused
from gantrymq.broker.remoting.refusals import RESPONSE_CODES
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.files.topics import DataVersion
from gantrymq.protocol.headers.tools import BrokerConfigAnswer
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from tests.support.brokers import Cluster, cluster, on_broker
from tests.support.places import run

CONF = "# ours\nbrokerName=b1\nfileReservedTime = 48\n\n#fileReservedTime=1\n"


def settings_of(config: LiveConfig, file: str = "") -> SettingsAdministration:
    return SettingsAdministration(config, file, OsDisk(), SystemClock())


def test_all_settings_are_shown_and_read_back() -> None:
    config = BrokerConfig.of(broker_name="b2", auto_create_topic_enable=False, store_path_root_dir="/data")
    text = to_properties(config)
    assert "autoCreateTopicEnable=false\n" in text and "brokerIP1=127.0.0.1\n" in text
    assert list(parse_properties(text)) == sorted(FIELDS)
    assert from_properties(text) == (config, [])


def test_what_may_change_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs/settings.md").read_text()
    documented = page.partition("These settings can be changed:")[2]
    assert set(re.findall(r"`([a-zA-Z]+)`", documented)) == {key_of(name) for name in CHANGEABLE}


def test_the_file_keeps_what_it_says_otherwise() -> None:
    changed = with_properties(CONF, {"fileReservedTime": "99", "deleteWhen": "05"})
    assert changed == "# ours\nbrokerName=b1\nfileReservedTime=99\n\n#fileReservedTime=1\ndeleteWhen=05\n"


@pytest.mark.parametrize(
    ("wanted", "code", "word"),
    [
        ({"noSuchKey": "1"}, ResponseCode.INVALID_PARAMETER, "noSuchKey"),
        ({"fileReservedTime": "soon"}, ResponseCode.INVALID_PARAMETER, "fileReservedTime"),
        ({"fileReservedTime": "0"}, ResponseCode.INVALID_PARAMETER, "fileReservedTime"),
        ({"flushDiskType": "ASYNC_FLUSH"}, ResponseCode.NO_PERMISSION, "restart"),
        ({"fileReservedTime": "99", "listenPort": "1"}, ResponseCode.NO_PERMISSION, "listenPort"),
    ],
)
def test_all_or_nothing(wanted: dict[str, str], code: ResponseCode, word: str) -> None:
    config = LiveConfig(BrokerConfig())
    with pytest.raises(Refused, match=word) as refused:
        settings_of(config).update(wanted)
    assert RESPONSE_CODES[refused.value.reason] == code
    assert config.current == BrokerConfig()


def test_a_key_that_keeps_its_value_is_no_change(tmp_path: Path) -> None:
    settings = settings_of(LiveConfig(BrokerConfig()), str(tmp_path / "broker.conf"))
    version = settings.version
    settings.update({"flushDiskType": "SYNC_FLUSH", "fileReservedTime": "72"})
    assert settings.version == version and not (tmp_path / "broker.conf").exists()


def test_a_change_takes_effect_and_survives_a_restart(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(CONF)
    config = LiveConfig(from_properties(conf.read_text())[0])
    before, reported = config.current, list[int]()
    config.changed.append(lambda: reported.append(config.retention.file_reserved_time))
    settings_of(config, str(conf)).update({"fileReservedTime": "99", "deleteWhen": "05"})
    assert (config.retention.file_reserved_time, config.retention.delete_when) == (99, "05")
    assert reported == [99] and before.retention.file_reserved_time == 48, (
        "a value that was taken before stays as it was"
    )
    again = from_properties(conf.read_text())[0]
    assert again == config.current and again.identity.broker_name == "b1"


def test_tools_change_a_running_broker(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        answer = await c.ask(RequestCode.GET_BROKER_CONFIG)
        assert parse_properties(answer.body.decode())["brokerName"] == "broker-a"
        version = answer.header(BrokerConfigAnswer).version
        assert version is not None
        before = DataVersion.decode(version.encode())
        body = b"maxMessageSize=3\nautoCreateSubscriptionGroup=false\nbrokerPermission=4\ntransactionTimeOut=1\n"
        assert (await c.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body)).code == ResponseCode.SUCCESS
        assert (await c.send("T", b"four")).code == ResponseCode.MESSAGE_ILLEGAL
        assert (await c.pull("T")).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert not any(topic.perm & 2 for topic in c.broker.topics.table().topic_config_table.values())
        assert c.broker.coordinator.checks.config.timeout_ms == 1
        answer = await c.ask(RequestCode.GET_BROKER_CONFIG)
        after = answer.header(BrokerConfigAnswer).version
        assert after is not None and DataVersion.decode(after.encode()).counter == before.counter + 1
        refused = await c.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"listenPort=1\n")
        assert (refused.code, "restart" in (refused.remark or "")) == (ResponseCode.NO_PERMISSION, True)
        assert (await c.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"\xff")).code == ResponseCode.INVALID_PARAMETER

    on_broker(work, tmp_path)


def test_brokers_of_one_configuration_do_not_share_changes(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path / "a") as one, cluster(tmp_path / "b") as two:
            await one.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"maxMessageSize=3\n")
            assert (await two.send("T", b"four")).code == ResponseCode.SUCCESS

    run(work())


def test_secrets_are_hidden_and_their_file_stays_private(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text('initAuthenticationUser={"username":"a","password":"hush"}\nfileReservedTime=48\n')
    file.chmod(0o600)
    config, _ = from_properties(file.read_text(), BrokerConfig.of(store_path_root_dir="/data"))
    settings = settings_of(LiveConfig(config), str(file))
    shown = parse_properties(settings.text())
    assert shown["initAuthenticationUser"] == "******" and shown["innerClientAuthenticationCredentials"] == ""
    # Tools send back what they were shown.
    settings.update({"initAuthenticationUser": "******", "fileReservedTime": "49"})
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "hush" in file.read_text() and "fileReservedTime=49" in file.read_text()
    with pytest.raises(Refused) as caught:
        settings.update({"initAuthenticationUser": '{"username":"b","password":"other-secret"}'})
    assert "other-secret" not in str(caught.value) and "hush" not in str(caught.value)
