"""Names of POP's topics."""

from __future__ import annotations

import pytest

from gantrymq.broker.pop.names import kind_of, pop_retry_topic, real_topic, revive_topic
from gantrymq.message.system_topics import normal_topic


def test_names_are_apaches() -> None:
    assert revive_topic("DefaultCluster") == "rmq_sys_REVIVE_LOG_DefaultCluster"
    assert pop_retry_topic("T", "G") == "%RETRY%G_T"
    assert pop_retry_topic("T", "G", v2=True) == "%RETRY%G+T"


@pytest.mark.parametrize("v2", [False, True])
def test_a_retry_topic_tells_its_topic(v2: bool) -> None:
    topic = pop_retry_topic("my_topic", "my_group", v2=v2)
    assert normal_topic(topic, "my_group") == "my_topic"
    assert real_topic("my_topic", "my_group", kind_of(topic)) == topic


def test_a_normal_topic_is_its_own() -> None:
    assert (normal_topic("T", "G"), kind_of("T"), real_topic("T", "G", "0")) == ("T", "0", "T")
    assert real_topic("T", "G", "3") is None
