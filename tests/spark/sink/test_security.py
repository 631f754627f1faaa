"""The sink writes to a cluster that accepts nothing but TLS, with its options and not without them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gantrymq import PullConsumer
from gantrymq.errors import ConfigError
from gantrymq.spark.sink.ids import BatchId, query_digits
from gantrymq.spark.sink.processes import close_sink_processes
from tests.cli.test_tls import CLIENT, SERVER, started
from tests.runtime.tls.peers import file
from tests.spark.sink.engine import rows_of, settings_of, write_batch

TRUST = file("authority.pem")


@pytest.fixture
def name_servers(tmp_path: Path) -> Iterator[str]:
    program, address = started(tmp_path, f"tls.server.mode=enforcing{SERVER}{CLIENT}")
    yield address
    close_sink_processes()
    program.kill()


@pytest.mark.slow
def test_exactly_once_through_tls(name_servers: str) -> None:
    batch = BatchId(query_digits("secret"), 0)
    with pytest.raises(ConfigError, match="set the option tls to true"):
        write_batch(settings_of(name_servers, "Secret", writeTimeout="1s"), batch, "secret", "")
    settings = settings_of(name_servers, "Secret", tls="true", tlsTrustCertPath=TRUST)
    write_batch(settings, batch, "secret", "")
    with PullConsumer(name_servers=name_servers, tls=True, tls_trust_cert_path=TRUST) as consumer:
        bodies = [message.body.decode() for queue in consumer.queues("Secret")
                  for message in consumer.pull(queue, 0, 1000).messages]  # fmt: skip
    assert sorted(bodies) == sorted(rows_of(0))
