"""The settings of a broker by what they are about: RocketMQ's keys with RocketMQ's meaning.

A field is named after its key (``broker_ip1`` is ``brokerIP1``). Source: BrokerConfig, MessageStoreConfig.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gantrymq.errors import ConfigError
from gantrymq.message.sizes import MAX_BODY_BYTES
from gantrymq.runtime.addresses import EVERYWHERE, numeric
from gantrymq.runtime.limits.values import Limits

DEFAULT_LISTEN_PORT: Final = 10911
MASTER_ID: Final = 0
GIVEN_ID: Final = -1
"""A controller gives the id. Source: conf/controller of Apache."""
FLUSH_DISK_TYPES: Final = ("SYNC_FLUSH", "ASYNC_FLUSH")
REQUEST_MODES: Final = ("PULL", "POP")
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252})")
SLAVE: Final = "SLAVE"
SYNC_MASTER: Final = "SYNC_MASTER"
BROKER_ROLES: Final = ("ASYNC_MASTER", SYNC_MASTER, SLAVE)
_ADDRESS: Final = re.compile(r"\S+:\d{1,5}")
_URL: Final = re.compile(r"https?://[^\s/]+:\d{1,5}")
MIN_LEASE_MS: Final = 1_000
"""A shorter one is over while a machine is only busy."""
LIVE: Final[Mapping[str, bool]] = {"live": True}
"""Marks a field that may change while the broker runs."""
LIMITS: Final = (
    "max_connections",
    "max_connections_per_host",
    "max_bytes_in_flight",
    "max_bytes_in_flight_per_host",
    "max_requests_per_second",
    "slow_reader_timeout",
    "first_request_timeout",
)
"""Fields with the limits of clients. 0: no limit."""


def key_of(field: str) -> str:
    """The key of ``broker.conf`` for a field name."""
    if field == "broker_ip1":
        return "brokerIP1"
    return re.sub(r"_(.)", lambda match: match.group(1).upper(), field)


def _require_positive(section: object, *names: str) -> None:
    for name in names:
        if getattr(section, name) <= 0:
            raise ConfigError(f"{key_of(name)} is {getattr(section, name)}; it must be positive")


def urls_of(addresses: str) -> tuple[str, ...]:
    """The text of ``etcdAddr`` as URLs."""
    texts = (text.strip().rstrip("/") for text in addresses.split(";"))
    return tuple(text if "://" in text else f"http://{text}" for text in texts if text)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the broker is, and what it may do."""

    broker_cluster_name: str = "DefaultCluster"
    broker_name: str = "broker-a"
    """Apache takes the host name. Ours must not change when a container is started again on the same store."""
    broker_id: int = field(default=MASTER_ID, metadata=LIVE)
    broker_role: str = field(default="ASYNC_MASTER", metadata=LIVE)
    broker_permission: int = field(default=6, metadata=LIVE)
    """4 read, 2 write."""
    region_id: str = "DefaultRegion"
    trace_on: bool = True
    """Whether clients that trace send trace messages (``TRACE_ON`` in answers to sends)."""

    def __post_init__(self) -> None:
        if self.broker_role not in BROKER_ROLES:
            raise ConfigError(f"brokerRole is {self.broker_role!r}; write one of {', '.join(BROKER_ROLES)}")
        if (self.broker_role == SLAVE) != (self.broker_id != MASTER_ID) or self.broker_id < GIVEN_ID:
            raise ConfigError(
                f"brokerRole {self.broker_role} with brokerId {self.broker_id}: a primary has brokerId=0, and a "
                "replica (brokerRole=SLAVE) another one, as brokerId=1"
            )


@dataclass(frozen=True, slots=True)
class ReplicationSettings:
    """How the log gets to a second machine; see docs/replication.md. Source: MessageStoreConfig."""

    ha_listen_port: int = 0
    """Port from which replicas get the log; 0: there is none, which SYNC_MASTER cannot have. Apache's default is 10912,
    open to whoever reaches it."""
    ha_allowed_addresses: str = ""
    """``ip;ip``: from where replicas may come; empty: from anywhere. A broker with users lets in Apache's slaves, which
    have no account for this port, only from here. Our own key."""
    ha_master_address: str = ""
    """``host:port`` of the primary's HA port, for a replica; empty: the name servers know it."""
    ha_cut_surplus: bool = field(default=False, metadata=LIVE)
    """Whether a replica cuts from its log what its primary does not have, also what it got from a primary. It is kept
    in files. A former primary always cuts what it wrote alone. Our own key."""
    in_sync_replicas: int = 2
    """How many brokers must have a message before a SYNC_MASTER says so, itself included. Apache's default is 1."""
    slave_timeout: int = 3_000
    """ms that a sender waits for the replicas of a SYNC_MASTER."""
    etcd_addr: str = ""
    """``host:port;host:port`` of etcd, whose record says which broker of this brokerName is primary; empty: the
    settings do. ``https://`` may stand before each. Our own key."""
    etcd_user: str = ""
    """User of etcd; empty: it has no users. Our own key."""
    etcd_password_file: str = ""
    """File with the password of ``etcdUser``, read with each new token. Our own key."""
    etcd_trust_cert_path: str = ""
    """PEM file of the authorities that sign the certificates of etcd; empty: those of the operating system. Our own
    key, as those below."""
    etcd_cert_path: str = ""
    """PEM file of a certificate of this broker, for etcd with ``--client-cert-auth``."""
    etcd_key_path: str = ""
    """Its private key."""
    enable_controller_mode: bool = False
    """Whether Apache's controller elects the primary of this brokerName; see docs/election.md."""
    controller_addr: str = ""
    """``host:port;host:port`` of the controllers."""
    primary_lease: int = 3_000
    """ms without a word of the primary after which another broker of its group may take its place. Our own key."""
    min_in_sync_replicas: int = 2
    """How many brokers must be in the in-sync set of a group, or nothing is acknowledged. Apache's default is 1."""
    ha_max_time_slave_not_catchup: int = 15_000
    """ms after which a replica that does not keep up leaves the in-sync set."""

    def __post_init__(self) -> None:
        if not 0 <= self.ha_listen_port <= 65535:
            raise ConfigError(f"haListenPort is {self.ha_listen_port}; it must be between 0 and 65535")
        if self.in_sync_replicas < 1:
            raise ConfigError(f"inSyncReplicas is {self.in_sync_replicas}; it counts the primary, so write 1 or more")
        _require_positive(self, "slave_timeout", "min_in_sync_replicas", "ha_max_time_slave_not_catchup")
        if self.primary_lease < MIN_LEASE_MS:
            raise ConfigError(f"primaryLease is {self.primary_lease}; write at least {MIN_LEASE_MS} ms")
        for url in self.etcd:
            if not _URL.fullmatch(url):
                raise ConfigError(
                    f"etcdAddr has {url!r}; write host:port;host:port, each with https:// before it if it speaks TLS"
                )
        self._check_etcd()
        if self.enable_controller_mode and not self.controllers:
            raise ConfigError("enableControllerMode=true needs the controllers: set controllerAddr, as 10.0.0.5:9878")
        for address in self.controllers:
            if not _ADDRESS.fullmatch(address):
                raise ConfigError(f"controllerAddr has {address!r}; write host:port;host:port")
        for address in self.allowed:
            if numeric(address) is None:
                raise ConfigError(f"haAllowedAddresses has {address!r}; write IP addresses with ; between them")
        if self.ha_master_address and not _ADDRESS.fullmatch(self.ha_master_address):
            raise ConfigError(f"haMasterAddress is {self.ha_master_address!r}; write host:port")

    def _check_etcd(self) -> None:
        """Raises ConfigError when a setting of etcd needs another one."""
        if bool(self.etcd_user) != bool(self.etcd_password_file):
            raise ConfigError("etcdUser and etcdPasswordFile belong together: set both, or neither")
        if bool(self.etcd_cert_path) != bool(self.etcd_key_path):
            raise ConfigError("etcdCertPath and etcdKeyPath belong together: set both, or neither")
        certificates = self.etcd_trust_cert_path or self.etcd_cert_path
        if certificates and not all(url.startswith("https:") for url in self.etcd):
            raise ConfigError(
                "etcdTrustCertPath and etcdCertPath are for addresses with TLS: write https:// before each in etcdAddr"
            )

    @property
    def allowed(self) -> frozenset[str]:
        """The addresses of ``haAllowedAddresses``."""
        return frozenset(address.strip() for address in self.ha_allowed_addresses.split(";") if address.strip())

    @property
    def controllers(self) -> tuple[str, ...]:
        """The addresses of ``controllerAddr``."""
        return tuple(address.strip() for address in self.controller_addr.split(";") if address.strip())

    @property
    def etcd(self) -> tuple[str, ...]:
        """The nodes of ``etcdAddr``, as URLs."""
        return urls_of(self.etcd_addr)


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """Where the broker listens, and who knows it."""

    listen_port: int = DEFAULT_LISTEN_PORT
    bind_address: str = "0.0.0.0"  # nosec B104 # RocketMQ's default
    broker_ip1: str = "127.0.0.1"
    """Address given to clients, and part of every offset message id. ``gantry broker`` detects it when it is not
    set, as Apache does."""
    http_port: int = 0
    """Port of the HTTP endpoint; 0: there is none. Our own key."""
    http_bind_address: str = "127.0.0.1"
    """Address the HTTP endpoint listens on; whoever reaches it may read ids, groups and addresses. Our own key."""
    grpc_port: int = 0
    """Port for clients of RocketMQ 5, which speak gRPC; 0: there is none. Our own key."""
    namesrv_addr: str = ""
    """``host:port;host:port``; empty: this broker is known to nobody who does not have its address."""
    register_name_server_period: int = field(default=30_000, metadata=LIVE)
    """ms between registrations, 10 000 to 60 000."""
    register_broker_timeout_mills: int = field(default=6_000, metadata=LIVE)
    max_connections: int = field(default=20_000, metadata=LIVE)
    """Open connections of clients, on all ports together; 0: no limit. Our own key."""
    max_connections_per_host: int = field(default=2_000, metadata=LIVE)
    """The same from one IP address. Our own key."""
    max_bytes_in_flight: int = field(default=2 * 1024**3, metadata=LIVE)
    """Bytes of incomplete requests and unread answers, of all clients together. Our own key."""
    max_bytes_in_flight_per_host: int = field(default=1024**3, metadata=LIVE)
    """The same of one IP address. Our own key."""
    max_requests_per_second: int = field(default=0, metadata=LIVE)
    """Requests of one IP address; 0: no limit. Our own key."""
    slow_reader_timeout: int = field(default=60_000, metadata=LIVE)
    """ms after which a connection is ended whose peer reads nothing of what waits for it. Our own key."""
    first_request_timeout: int = field(default=120_000, metadata=LIVE)
    """ms that a new connection has for its first whole request. Our own key."""

    def __post_init__(self) -> None:
        for name in LIMITS:
            if getattr(self, name) < 0:
                raise ConfigError(f"{key_of(name)} is {getattr(self, name)}; write 0 for no limit, or a larger number")
        if self.broker_ip1 in EVERYWHERE or (
            numeric(self.broker_ip1) is None and not _HOST_NAME.fullmatch(self.broker_ip1)
        ):
            raise ConfigError(
                f"brokerIP1 is {self.broker_ip1!r}; write the IP address or the host name that clients connect to, "
                "without a port"
            )
        for name in ("listen_port", "http_port", "grpc_port"):
            if not 0 <= getattr(self, name) <= 65535:
                raise ConfigError(f"{key_of(name)} is {getattr(self, name)}; it must be between 0 and 65535")

    @property
    def name_servers(self) -> list[str]:
        """The addresses of ``namesrvAddr``."""
        return [address.strip() for address in self.namesrv_addr.split(";") if address.strip()]

    @property
    def limits(self) -> Limits:
        """What clients may take."""
        return Limits(
            connections=self.max_connections,
            connections_of_client=self.max_connections_per_host,
            bytes_in_flight=self.max_bytes_in_flight,
            bytes_in_flight_of_client=self.max_bytes_in_flight_per_host,
            requests_per_second=self.max_requests_per_second,
            slow_reader_seconds=self.slow_reader_timeout / 1000,
            first_request_seconds=self.first_request_timeout / 1000,
        )

    @property
    def register_period_seconds(self) -> float:
        """The period within the bounds that Apache keeps, in seconds."""
        return min(max(self.register_name_server_period, 10_000), 60_000) / 1000


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """Topics, and what may be sent to them."""

    auto_create_topic_enable: bool = field(default=True, metadata=LIVE)
    default_topic_queue_nums: int = 8
    trace_topic_enable: bool = False
    msg_trace_topic_name: str = "RMQ_SYS_TRACE_TOPIC"
    store_reply_message_enable: bool = True
    """Whether answers of request-reply are also stored, in ``<cluster>_REPLY_TOPIC``."""
    enable_topic_message_type_check: bool = True
    """Whether a topic with a message type refuses messages of other types. Apache's brokers leave it to their proxy."""
    max_message_size: int = field(default=MAX_BODY_BYTES, metadata=LIVE)
    """bytes of a body"""
    max_topics: int = field(default=50_000, metadata=LIVE)
    """Topics that clients and tools may make; 0: no limit."""

    def __post_init__(self) -> None:
        _require_positive(self, "default_topic_queue_nums", "max_message_size")


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Consumer groups and their members."""

    auto_create_subscription_group: bool = field(default=True, metadata=LIVE)
    notify_consumer_ids_changed_enable: bool = field(default=True, metadata=LIVE)
    use_server_side_reset_offset: bool = field(default=True, metadata=LIVE)
    """Whether the broker resets offsets itself, as since 5.2; else it tells the members of the group to."""
    enable_property_filter: bool = False
    """Whether consumers may select messages by SQL92 expressions over their properties."""
    flush_consumer_offset_interval: int = 5_000
    """ms"""
    max_consumer_groups: int = field(default=50_000, metadata=LIVE)
    """Groups that clients and tools may make; 0: no limit."""
    channel_expired_timeout: int = field(default=120_000, metadata=LIVE)
    """ms without a heartbeat after which a client is taken out of its groups."""
    orderly_lock_grace: int = 5_000
    """ms after the peer closed a member's connection until others may have the queues that it has locked; negative:
    they wait until the locks end by themselves."""

    def __post_init__(self) -> None:
        _require_positive(self, "flush_consumer_offset_interval")


@dataclass(frozen=True, slots=True)
class PullSettings:
    """Answers to pulls."""

    long_polling_enable: bool = field(default=True, metadata=LIVE)
    short_polling_time_mills: int = field(default=1_000, metadata=LIVE)
    """How long a pull may be held when long polling is off."""
    long_polling_gather_mills: int = field(default=2, metadata=LIVE)
    """ms after an answer in which a queue gathers messages for the next held pull; 0: none. Only GantryMQ has it."""
    max_transfer_count_on_message_in_memory: int = field(default=32_768, metadata=LIVE)
    """Messages of one pull answer. Apache: 32; ours asks for large pulls, Apache's clients never ask for more than
    they want."""
    max_transfer_bytes_on_message_in_memory: int = field(default=256 * 1024, metadata=LIVE)
    """Bytes of one pull answer, unless the client asks for more by ``maxMsgBytes``."""


@dataclass(frozen=True, slots=True)
class DelaySettings:
    """Messages that are delivered later: by delay level, or by a time of their own."""

    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    flush_delay_offset_interval: int = 10_000
    """ms"""
    timer_wheel_enable: bool = True
    """Whether timer messages (TIMER_DELAY_SEC and the like) are taken."""
    timer_precision_ms: int = 1_000
    """ms a timer message may be late: 100, 200, 500 or 1000; others are rounded down to one of these."""
    timer_max_delay_sec: int = 259_200
    """Seconds; the farthest delivery a timer message may ask for."""
    timer_roll_window_slot: int = 172_800
    """Slots of ``timerPrecisionMs`` after which a waiting timer message is put to the end of the log again."""
    mapped_file_size_timer_log: int = 100 * 1024 * 1024
    """bytes; a store can only be opened with the size it was made with."""
    recall_message_enable: bool = False
    """Whether senders may withdraw timer messages."""

    def __post_init__(self) -> None:
        _require_positive(self, "flush_delay_offset_interval", "timer_max_delay_sec")
        if self.mapped_file_size_timer_log < 1024:
            raise ConfigError(f"mappedFileSizeTimerLog is {self.mapped_file_size_timer_log}; it must be at least 1024")


@dataclass(frozen=True, slots=True)
class PopSettings:
    """POP consumption."""

    default_message_request_mode: str = "PULL"
    """How a group reads a topic for which nothing was set: PULL or POP."""
    default_pop_share_queue_num: int = -1
    """Members that share the queues of one member in POP mode; -1: all members pop from all queues."""
    server_load_balancer_enable: bool = True
    """Whether the broker shares out the queues of a group that asks for it; else every member gets all."""
    revive_queue_num: int = 8
    """Queues of the topic that holds check points. Not to be lowered while some are open."""
    pop_from_retry_probability: int = 20
    """Percent of pops that look for retried messages first."""
    pop_from_retry_probability_for_priority: int = 0
    """The same for pops that go by priority: 0 makes retried messages the last ones, 100 the first ones."""
    priority_order_asc: bool = True
    """Whether 0 is the lowest priority of a topic of type PRIORITY; else it is the highest."""
    enable_retry_topic_v2: bool = False
    """Retried messages go to ``%RETRY%group+topic`` instead of ``%RETRY%group_topic``."""
    retrieve_message_from_pop_retry_topic_v1: bool = True
    """With v2: look into the older topic, too."""
    pop_response_return_actual_retry_topic: bool = False
    """Retried messages keep the name of their retry topic in answers."""
    init_pop_offset_by_check_msg_in_mem: bool = True
    """A group that begins at the end of a young queue gets all of it."""
    pop_polling_size: int = 1_024
    """Pops that may wait for one queue and group."""
    max_pop_polling_size: int = 100_000
    """Pops that may wait in all."""

    def __post_init__(self) -> None:
        _require_positive(self, "revive_queue_num")
        if self.default_message_request_mode not in REQUEST_MODES:
            raise ConfigError(f"defaultMessageRequestMode is {self.default_message_request_mode!r}; write PULL or POP")


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Half messages."""

    transaction_time_out: int = field(default=6_000, metadata=LIVE)
    """ms between the half message and its first check."""
    transaction_check_interval: int = field(default=30_000, metadata=LIVE)
    """ms between two checks of one half message."""
    transaction_check_max: int = field(default=15, metadata=LIVE)
    """Checks after which a half message is parked in TRANS_CHECK_MAX_TIME_TOPIC."""
    decisive_check_grace: int = field(default=500, metadata=LIVE)
    """ms a client may be without a connection before its half messages with decisive checkers are checked early;
    negative: never."""
    decisive_check_grace_at_start: int = 5_000
    """The same in ms after the start of the broker, for clients that sent half messages before."""
    reject_transaction_message: bool = field(default=False, metadata=LIVE)
    transaction_op_msg_max_size: int = 4_096
    """bytes of an op message that settles several half messages; 1: each has its own, as 4.x brokers need it."""

    def __post_init__(self) -> None:
        _require_positive(
            self,
            "transaction_time_out",
            "transaction_check_interval",
            "transaction_check_max",
            "transaction_op_msg_max_size",
        )


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Files."""

    store_path_root_dir: str = ""
    """Required."""
    store_path_commit_log: str = ""
    """Directory of the log alone; empty: ``commitlog`` below ``storePathRootDir``."""
    mapped_file_size_commit_log: int = 1 << 30
    """bytes"""
    mapped_file_size_consume_queue: int = 6_000_000
    """bytes, a multiple of 20"""
    message_index_enable: bool = True
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000
    flush_disk_type: str = "SYNC_FLUSH"
    """Apache: ASYNC_FLUSH. An acknowledged message should be on the disk unless someone chose otherwise."""
    sync_flush_timeout: int = 0
    """ms that a sender waits for the disk with SYNC_FLUSH before it is answered FLUSH_DISK_TIMEOUT; 0: as long as it
    takes. Apache: 5,000. A disk that hangs should not make senders send again what will be stored."""
    disk_space_warning_level_ratio: int = 90
    """Percent of the disk in use at which messages are refused."""
    disk_space_reserve: int = 32 * 1024 * 1024
    """Bytes of a file that are kept for what must be written on a full disk: decisions about half messages, offsets,
    settings. At most a sixteenth of the file system is taken; 0: no reserve. Our own key."""

    def __post_init__(self) -> None:
        if self.flush_disk_type not in FLUSH_DISK_TYPES:
            raise ConfigError(f"flushDiskType is {self.flush_disk_type!r}; write SYNC_FLUSH or ASYNC_FLUSH")
        if self.mapped_file_size_consume_queue <= 0 or self.mapped_file_size_consume_queue % 20:
            raise ConfigError("mappedFileSizeConsumeQueue must be a positive multiple of 20, the size of an entry")
        if self.disk_space_reserve < 0:
            raise ConfigError(f"diskSpaceReserve is {self.disk_space_reserve}; write bytes, or 0 for no reserve")
        if self.sync_flush_timeout < 0:
            raise ConfigError(f"syncFlushTimeout is {self.sync_flush_timeout}; write milliseconds, or 0 for no limit")


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """When old log files are deleted."""

    delete_when: str = field(default="04", metadata=LIVE)
    """Hours of the day, local time, separated by ``;``, when old log files are deleted."""
    file_reserved_time: int = field(default=72, metadata=LIVE)
    """hours"""
    disk_max_used_space_ratio: int = field(default=75, metadata=LIVE)
    """Percent of the disk in use at which old log files are deleted at any hour."""
    clean_file_forcibly_enable: bool = field(default=True, metadata=LIVE)
    """Whether log files are deleted before their time when the disk gets full."""
    disk_space_clean_forcibly_ratio: int = field(default=85, metadata=LIVE)
    """Percent of the disk in use at which the oldest log files are deleted whatever their age."""

    def __post_init__(self) -> None:
        _require_positive(self, "file_reserved_time")
