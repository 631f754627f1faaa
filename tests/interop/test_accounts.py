"""Our client signs its requests: Apache's brokers with access control let it in, and nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gantrymq import (
    LocalTransactionState,
    Message,
    Producer,
    PullConsumer,
    TransactionProducer,
)
from gantrymq.errors import GantryError
from tests.interop.apache import ApacheCluster

ME: dict[str, Any] = {"access_key": "gantry", "secret_key": "very-secret"}
GUARDED = {
    "authenticationEnabled": "true",
    "authenticationProvider": "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider":
        "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider",
    "initAuthenticationUser": json.dumps({"username": "gantry", "password": "very-secret"}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": "gantry", "secretKey": "very-secret"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def guarded(jdk: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name servers of a cluster whose broker asks for an account. (4.9.7 ends with a ClassCastException in
    ``BrokerController.initialAcl`` when it is started with ``aclEnable=true`` from the jars of Maven.)"""
    directory = tmp_path_factory.mktemp("apache-accounts")
    cluster = ApacheCluster("5.5.0", directory)
    try:
        cluster.start_name_server()
        cluster.start_broker(**GUARDED, authConfigPath=str(directory / "auth"))
        yield cluster.name_servers
    finally:
        cluster.close()


class Commits:
    def execute_local_transaction(self, message: Any, argument: Any) -> LocalTransactionState:
        return LocalTransactionState.COMMIT

    def check_local_transaction(self, message: Any) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


def test_a_client_with_an_account_does_its_work(guarded: str) -> None:
    with Producer("GSigned", name_servers=guarded, **ME) as producer:
        places = [producer.send(Message("Signed", "größer".encode(), keys=["k"], tags="t"))]
        places += [producer.send_batch([Message("Signed", b"one"), Message("Signed", b"two")])]
    with TransactionProducer("GSignedT", name_servers=guarded, listener=Commits(), **ME) as producer:
        ended = producer.send_in_transaction(Message("Signed", b"paid"))
        assert ended.decided
    with PullConsumer(name_servers=guarded, **ME) as consumer:
        bodies = set()
        for queue in consumer.queues("Signed"):
            bodies |= {message.body for message in consumer.pull(queue, 0, 32).messages}
    assert bodies == {"größer".encode(), b"one", b"two", b"paid"}


@pytest.mark.parametrize(
    "account", [{}, {**ME, "secret_key": "another-one"}, {"access_key": "nobody", "secret_key": "very-secret"}]
)
def test_others_are_refused(guarded: str, account: dict[str, Any]) -> None:
    with Producer("GStranger", name_servers=guarded, **account) as producer, pytest.raises(GantryError) as refused:
        producer.send(Message("Signed", b"false"))
    assert "very-secret" not in str(refused.value) and "another-one" not in str(refused.value)
