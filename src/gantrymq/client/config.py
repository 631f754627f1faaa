"""The settings of the clients. There is one frozen class for each client, and each field has a rule (which values are
possible), a default and an explanation. ``keywords`` is written from them, by ``python -m tools.settings_types``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Final, TypeVar

from gantrymq.client import settings_rules as rules
from gantrymq.client.settings_rules import MAX_INT, Whole
from gantrymq.errors import ConfigError
from gantrymq.message import system_topics
from gantrymq.message.sizes import LARGEST_BODY_BYTES, LARGEST_READ_BODY_BYTES, MAX_BODY_BYTES
from gantrymq.runtime.tls.settings import ClientTls

C = TypeVar("C", bound="ClientConfig")

MAX_HEARTBEAT_MS: Final = 100_000
"""Brokers forget a client after 120 s of silence; one heartbeat may be 20 s late."""
MAX_LOCK_INTERVAL_MS: Final = 28_000
"""A client trusts a lock for 30 s (brokers keep it for 60 s), and renewing it may take 1 s."""
_SILENCE: Final = "brokers forget a client after 120 s of silence"
_LOCKS: Final = "a lock is trusted for 30 s after it was renewed"
MAX_THREADS: Final = 1_000
"""As Java's clients (DefaultMQPushConsumerImpl.checkConfig)."""
MAX_BATCH: Final = 1_024
"""Messages at once; as Java's clients."""
MAX_RETRIES: Final = 1_000
BROADCASTING_INSTANCE: Final = "DEFAULT"

Timeout = Annotated[int, rules.TIMEOUT]
"""How long something may take at most."""
Interval = Annotated[int, rules.TIMEOUT]
"""How long from one time to the next."""
Wait = Annotated[int, rules.WAIT]
"""How long to wait; 0: not at all."""
Instant = Annotated[int, Whole(0, rules.LATEST_MS, "milliseconds since 1970")]
Retries = Annotated[int, Whole(0, MAX_RETRIES, "further attempts")]
Batch = Annotated[int, Whole(1, MAX_BATCH, "messages")]
Threads = Annotated[int, Whole(1, MAX_THREADS, "threads")]
BodyBytes = Annotated[int, Whole(1, LARGEST_BODY_BYTES, "bytes")]
LargestRead = Annotated[int, Whole(65_536, 2**30, "bytes")]
Messages = Annotated[int, Whole(1, MAX_INT, "messages")]
Switch = Annotated[bool, rules.Flag()]
File = Annotated[str | None, rules.File()]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """The settings that every client has."""

    name_servers: Annotated[tuple[str, ...], rules.Addresses()]
    """Addresses; the first that answers is used until it fails."""
    instance_name: Annotated[str | None, rules.INSTANCE] = None
    """Last part of the client id. Default: process id and a random word, so that no two clients have the same id."""
    call_timeout_ms: Timeout = 3_000
    """How long a request other than a send or a pull may take. Apache's value."""
    route_refresh_ms: Interval = 30_000
    """How often the client asks the name servers for new routes (pollNameServerInterval)."""
    heartbeat_interval_ms: Annotated[int, Whole(1, MAX_HEARTBEAT_MS, "milliseconds", _SILENCE)] = 30_000
    """Brokers forget a client after 120 s of silence (heartbeatBrokerInterval)."""
    close_timeout_ms: Wait = 5_000
    """How long ``close`` waits for calls and listeners in flight before it gives them up."""
    namespace: Annotated[str | None, rules.NAMESPACE] = None
    """Put before topics and groups on the wire (``ns%topic``) and taken off again; queues keep the name they have on
    the wire. Default: none."""
    access_key: Annotated[str | None, rules.ACCOUNT] = None
    """Name of the account that signs every request, for brokers with access control. Default: the environment variables
    GANTRY_ACCESS_KEY and GANTRY_SECRET_KEY; without them, requests are not signed."""
    secret_key: Annotated[str | None, rules.Password()] = field(default=None, repr=False)
    """Its secret key, which never leaves this process."""
    tls: Annotated[bool | None, rules.FlagOrNone()] = None
    """Connect with TLS (tls.enable). Default: as the file says that the environment variable GANTRY_TLS_CONFIG names;
    without it, no TLS."""
    tls_trust_cert_path: File = None
    """PEM file with the authorities whose servers are trusted (tls.client.trustCertPath). Default: those of the
    operating system; only then the certificate must also have the name or address of the server."""
    tls_cert_path: File = None
    """PEM file with this client's certificate, for servers that ask for one (tls.client.certPath)."""
    tls_key_path: File = None
    """PEM file with its private key (tls.client.keyPath)."""
    tls_key_password: Annotated[str | None, rules.Password()] = field(default=None, repr=False)
    """Password of that key, if it is encrypted (tls.client.keyPassword)."""
    tls_verify: Switch = True
    """False: accept any certificate, so that anybody on the way can read and change everything. Only for experiments
    (tls.client.authServer)."""

    def __post_init__(self) -> None:
        for name, rule in rules.rules_of(type(self)).items():
            object.__setattr__(self, name, rules.read_setting(name, getattr(self, name), rule))
        self.tls_settings()
        if (self.access_key is None) != (self.secret_key is None):
            given, missing = ("access_key", "secret_key") if self.access_key else ("secret_key", "access_key")
            raise ConfigError(f"{given} is given without {missing}; give both, or neither")

    def tls_settings(self) -> ClientTls | None:
        """How connections use TLS; None: not at all, or as the environment says (``tls`` is None then). Raises
        ConfigError for a setting that has no effect, and for half a certificate."""
        if self.tls:
            return ClientTls(
                trust_cert_path=self.tls_trust_cert_path or "",
                cert_path=self.tls_cert_path or "",
                key_path=self.tls_key_path or "",
                key_password=self.tls_key_password or "",
                verify=self.tls_verify,
            )
        for name in ("tls_trust_cert_path", "tls_cert_path", "tls_key_path", "tls_key_password"):
            if getattr(self, name) is not None:
                raise ConfigError(f"{name} is given, and tls is {self.tls}: set tls=True to connect with TLS")
        if not self.tls_verify:
            raise ConfigError(f"tls_verify is False, and tls is {self.tls}: set tls=True to connect with TLS")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """Source of the defaults: DefaultMQProducer; docs/protocol.md#slow-brokers."""

    send_timeout_ms: Timeout = 3_000
    """How long one send may take, with all its retries."""
    retries: Retries = 2
    """Further attempts after a failed one, each on the next broker (retryTimesWhenSendFailed)."""
    compress_over_bytes: Annotated[int, Whole(0, 2**63 - 1, "bytes")] = 4_096
    """Bodies of this size and more are compressed if that makes them smaller (compressMsgBodyOverHowmuch)."""
    compress_level: Annotated[int, Whole(1, 9)] = 5
    """zlib level 1..9; 5 is Apache's choice between speed and size."""
    compress_type: Annotated[str, rules.Compression()] = "ZLIB"
    """``ZLIB``, or ``LZ4`` or ``ZSTD`` (``pip install gantrymq[compression]``), which readers before 4.9.4 do not know
    (rocketmq.message.compressType)."""
    max_message_bytes: BodyBytes = MAX_BODY_BYTES
    """Larger bodies are refused before they are sent; the broker has its own limit (maxMessageSize)."""
    batch_bytes: BodyBytes = 1024 * 1024
    """The largest batch that ``send_batches`` makes; never more than ``max_message_bytes``. A larger message is sent
    on its own."""
    default_topic_queue_nums: Annotated[int, Whole(1, 65_535, "queues")] = 4
    """The number of queues of a topic that the broker creates for its first message."""
    avoid_slow_brokers: Switch = True
    """Avoid brokers that failed or were slow, for a while (sendLatencyFaultEnable).

    Apache's clients have it off by default. Without it every send that is due to a hanging broker waits for its
    time-out. It has no disadvantage: a topic on a single broker is still sent there, and when all brokers are slow the
    next one in turn is used."""
    retry_when_not_stored_ok: Switch = False
    """Send again elsewhere when a message was stored less safely than asked (retryAnotherBrokerWhenNotStoreOK)."""
    trace: Switch = False
    """Record in ``trace_topic`` what happens to every message (enableMsgTrace), for ``mqadmin queryMsgTraceById``."""
    trace_topic: Annotated[str, rules.Topic()] = system_topics.TRACE
    """Where to (customizedTraceTopic)."""
    topics: Annotated[tuple[str, ...], rules.Topics()] = ()
    """Topics whose brokers get heartbeats from the start. So they can check older transactions with a restarted
    producer before it sends anything. A TransactionProducer without topics sends heartbeats to all brokers that the
    name servers know."""

    def __post_init__(self) -> None:
        ClientConfig.__post_init__(self)
        object.__setattr__(self, "batch_bytes", min(self.batch_bytes, self.max_message_bytes))


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionProducerConfig(ProducerConfig):
    """The settings of a transaction producer."""

    inline_listener: Switch = False
    """Run a listener that is not ``async def`` on the event loop instead of in a thread. This is faster, but the
    listener must never block. Only for ``gantrymq.aio``; the blocking producer runs the listener in its caller's
    thread."""
    check_threads: Threads = 4
    """Threads that answer check-backs. Apache has 1 thread, which one slow answer blocks."""
    check_queue_size: Annotated[int, Whole(1, 1_000_000, "check-backs")] = 2_000
    """Check-backs that may wait. Further ones are answered UNKNOWN, and the broker asks again (checkRequestHoldMax)."""
    end_retries: Retries = 3
    """Further attempts to deliver a commit or a rollback, which are idempotent."""
    remembered_transactions: Annotated[int, Whole(1, 10_000_000, "transactions")] = 100_000
    """Ended transactions that are remembered, to recognise orphaned half messages; about 300 bytes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullConfig(ClientConfig):
    """Source of the defaults: DefaultMQPullConsumer."""

    pull_timeout_ms: Timeout = 30_000
    """How long one pull may take with its retries, in addition to the time for which the broker may hold it."""
    max_body_bytes: LargestRead = LARGEST_READ_BODY_BYTES
    """The largest body after decompression; ``pull`` raises BodyTooLarge for a larger one."""
    reconnect: Switch = True
    """While a broker cannot be reached, repeat a request until its time is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConsumerConfig(ClientConfig):
    """What the consumers of a group share: they read ahead, queue by queue."""

    pull_timeout_ms: Timeout = 30_000
    """When a pull counts as lost (consumerTimeoutMillisWhenSuspend)."""
    max_messages_per_queue: Messages = 1_000
    """Messages of one queue that are read ahead of the program; pulling pauses above it (pullThresholdForQueue)."""
    max_bytes_per_queue: Annotated[int, Whole(1, 2**40, "bytes")] = 100 * 1024 * 1024
    """The same in bytes of bodies, decompressed (pullThresholdSizeForQueue)."""
    max_body_bytes: LargestRead = LARGEST_READ_BODY_BYTES
    """The largest body after decompression. A message with a larger one goes to the dead letters of the group, as it is
    stored, and its queue goes on; when broadcasting it is skipped."""
    rebalance_interval_ms: Interval = 20_000
    """How often queues are shared out anew when nothing has changed (rocketmq.client.rebalance.waitInterval)."""
    timestamp_ms: Instant = 0
    """For ConsumeFromWhere.TIMESTAMP, ms since 1970; 0 means half an hour before the start (consumeTimestamp)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushConfig(GroupConsumerConfig):
    """Source of the defaults: DefaultMQPushConsumer; docs/protocol.md#pulling, docs/protocol.md#groups."""

    consume_threads: Threads = 20
    """Threads (or concurrent tasks, for an async listener) that run the listener."""
    consume_batch_size: Batch = 1
    """Messages handed to the listener at once, at most (consumeMessageBatchMaxSize)."""
    pull_batch_size: Batch = 256
    """Messages asked for at once. Larger batches cost less per message; Apache's brokers return 32 at most."""
    pull_suspend_ms: Interval = 15_000
    """How long the broker may hold a pull that finds nothing (brokerSuspendMaxTimeMillis)."""
    max_span_per_queue: Messages = 2_000
    """How far the newest pulled message may be ahead of the oldest unfinished one (consumeConcurrentlyMaxSpan)."""
    max_reconsume_times: Annotated[int, Whole(-1, MAX_INT, "deliveries")] = -1
    """Deliveries after which a message goes to the dead-letter topic; -1 means 16 (maxReconsumeTimes)."""
    persist_interval_ms: Interval = 5_000
    """How often progress is stored. After a crash the messages of this time may be delivered again
    (persistConsumerOffsetInterval)."""
    orderly: Switch = False
    """Consume each queue's messages one batch after the other, across all members (MessageListenerOrderly)."""
    suspend_ms: Interval = 1_000
    """When consuming in order: how long a queue pauses after its messages failed (suspendCurrentQueueTimeMillis)."""
    lock_interval_ms: Annotated[int, Whole(1, MAX_LOCK_INTERVAL_MS, "milliseconds", _LOCKS)] = 20_000
    """When consuming in order: how often the locks of queues are renewed; brokers drop one after 60 s
    (rocketmq.client.rebalance.lockInterval)."""
    broadcasting: Switch = False
    """Every member reads all messages, and a message that fails is not delivered again (MessageModel.BROADCASTING).
    Each member stores its progress in a file that is named after its client id. ``instance_name`` is then ``DEFAULT``,
    as in Java, so give each of several members on one machine an ``instance_name`` of its own."""
    offset_dir: Annotated[str, rules.Directory()] = "~/.rocketmq_offsets"
    """The directory of the files with the progress; Java's directory (rocketmq.client.localOffsetStoreDir)."""
    trace: Switch = False
    """Record in ``trace_topic`` when each message was consumed (enableMsgTrace)."""
    trace_topic: Annotated[str, rules.Topic()] = system_topics.TRACE
    """Where to (customizedTraceTopic)."""

    def __post_init__(self) -> None:
        ClientConfig.__post_init__(self)
        _check_pulls(self)
        if self.broadcasting and self.instance_name is None:
            object.__setattr__(self, "instance_name", BROADCASTING_INSTANCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LitePullConfig(GroupConsumerConfig):
    """Source of the defaults: DefaultLitePullConsumer; docs/protocol.md#what-clients-send-and-when."""

    poll_timeout_ms: Wait = 5_000
    """How long ``poll`` waits for a message (pollTimeoutMillis)."""
    poll_batch_size: Batch = 10
    """Messages that ``poll`` returns at most (pullBatchSize)."""
    auto_commit: Switch = True
    """Store the progress automatically (autoCommit)."""
    auto_commit_interval_ms: Wait = 5_000
    """How often progress is stored automatically. After a crash the messages of this time may be delivered again
    (autoCommitIntervalMillis)."""
    pull_batch_size: Batch = 32
    """Messages asked for at once."""
    pull_suspend_ms: Interval = 20_000
    """How long the broker may hold a pull that finds nothing (brokerSuspendMaxTimeMillis)."""

    def __post_init__(self) -> None:
        ClientConfig.__post_init__(self)
        _check_pulls(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleConfig(ClientConfig):
    """The settings of a simple consumer. Source of the words: SimpleConsumerBuilder of RocketMQ 5's clients."""

    await_duration_ms: Wait = 20_000
    """How long ``receive`` waits for a message (awaitDuration)."""
    orderly: Switch = False
    """Receive the messages of a queue in order: while somebody of the group has some of them, nobody gets the next
    ones. Set it for all members of a group or for none."""
    max_body_bytes: LargestRead = LARGEST_READ_BODY_BYTES
    """The largest body after decompression. A message with a larger one goes to the dead letters of the group, as it is
    stored."""


def _check_pulls(config: PushConfig | LitePullConfig) -> None:
    rules.check_longer(
        "pull_timeout_ms", config.pull_timeout_ms, "pull_suspend_ms", config.pull_suspend_ms,
        "every pull that finds nothing counts as lost",
    )  # fmt: skip


def settings_of(kind: type[C], name_servers: str | Iterable[str], settings: Mapping[str, Any]) -> C:
    """Make a ``kind`` of ``settings``. For an unknown key raises ConfigError, which names the key and the most similar
    setting."""
    known = {field.name for field in fields(kind)}
    for name in settings:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else "known settings: " + ", ".join(sorted(known))
            raise ConfigError(f"unknown setting {name!r}; {hint}")
    return kind(**{**settings, "name_servers": name_servers})


def parse_name_servers(name_servers: str | Iterable[str]) -> tuple[str, ...]:
    """Read addresses, which may be one text or a list. Raises ConfigError, which says how to write them."""
    addresses: tuple[str, ...] = rules.read_setting("name_servers", name_servers, rules.Addresses())
    return addresses
