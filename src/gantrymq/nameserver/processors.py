"""The requests that a name server answers. Source: DefaultRequestProcessor, ClientRequestProcessor;
docs/protocol.md#name-server.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NoReturn
from zlib import crc32

from gantrymq.errors import ConfigError, GantryError, RequestRejected
from gantrymq.nameserver.config import NameServerConfig, changed, shown
from gantrymq.nameserver.kv_config import KVConfig
from gantrymq.nameserver.route_table import EXPIRY_SECONDS, Registration, RouteTable
from gantrymq.protocol.bodies.register import topics_of_compressed, topics_of_json
from gantrymq.protocol.bodies.route import TopicRoute
from gantrymq.protocol.bodies.topics import ORDER_TOPIC_NAMESPACE, KVTable, TopicList
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.files.topics import DataVersion, TopicConfig
from gantrymq.protocol.headers import nameserver as headers
from gantrymq.remoting.server import Handler
from gantrymq.remoting.session import Session
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.gathering import Gathering
from gantrymq.runtime.properties import SETTINGS_BYTES
from gantrymq.runtime.stepwise import gather

log = logging.getLogger("gantrymq.nameserver")

REFUSED_LOG_SECONDS: Final = 60.0
"""The time between two warnings about the same refused broker, which keeps trying."""
_CRC_MASK: Final = 0x7FFFFFFF
UNIT: Final = 1
UNIT_SUB: Final = 2
"""Bits of a topic's system flag. Source: TopicSysFlag."""


def _topic_list(command: Command, topics: list[str]) -> bytes:
    return encode_response(command, ResponseCode.SUCCESS, body=TopicList(topic_list=topics).encode())


class Processors:
    """The request handlers of a name server. They use the route table and the key-values."""

    def __init__(
        self,
        config: NameServerConfig,
        routes: RouteTable,
        kv: KVConfig,
        clock: Clock,
        changed: Callable[[NameServerConfig], None] = lambda config: None,
    ) -> None:
        """``changed``: called with the settings that count from now on."""
        self._config = config
        self._changed = changed
        self._routes = routes
        self._kv = kv
        self._clock = clock
        self._kv_changes: Gathering[tuple[Session, Command]] = Gathering(clock, self._save_kv)
        self._refused: dict[tuple[str, int, str, str], float] = {}
        """When the refusal of a broker was last logged, by its name, id, address and rival."""

    def table(self) -> Mapping[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.PUT_KV_CONFIG: self.put_kv,
            RequestCode.GET_KV_CONFIG: self.get_kv,
            RequestCode.DELETE_KV_CONFIG: self.delete_kv,
            RequestCode.REGISTER_BROKER: self.register,
            RequestCode.UNREGISTER_BROKER: self.unregister,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self.route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self.clusters,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self.wipe_write_perm,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self.add_write_perm,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self.topics,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self.delete_topic,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self.list_kv,
            RequestCode.GET_TOPICS_BY_CLUSTER: self.topics_of_cluster,
            RequestCode.QUERY_DATA_VERSION: self.query_data_version,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: self.register_topic,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self.system_topics,
            RequestCode.GET_UNIT_TOPIC_LIST: self.unit_topics,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self.unit_sub_topics,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self.unit_sub_only_topics,
            RequestCode.UPDATE_NAMESRV_CONFIG: self.update_config,
            RequestCode.GET_NAMESRV_CONFIG: self.show_config,
        }

    # Brokers.

    def register(self, session: Session, command: Command) -> bytes | None:
        """The topics of a large broker are read, and then declared, in steps. A small one is answered at once."""
        answers: list[bytes] = []
        waits = False

        def answer(frame: bytes) -> None:
            if waits:
                session.answer(command, frame)
            else:
                answers.append(frame)

        def refuse(error: GantryError) -> None:
            if not waits:
                raise error
            code = error.code if isinstance(error, RequestRejected) else ResponseCode.SYSTEM_ERROR
            remark = error.remark if isinstance(error, RequestRejected) else str(error)
            answer(encode_response(command, code, remark=remark))

        def read(topics: list[TopicConfig]) -> None:
            if session.left:  # meanwhile; nothing would end its registration but its age
                return
            registration = self._registration(header, version, topics)
            try:
                steps = self._entered(session, registration)
            except RequestRejected as error:
                refuse(error)
                return
            gather(self._clock, steps, lambda _: answer(self._registered(command, registration)), refuse)

        header = command.header(headers.RegisterBroker)
        version, topics = self._announced(header, command.body)
        gather(self._clock, topics, read, refuse)
        waits = True
        return answers[0] if answers else None

    def _entered(self, session: Session, registration: Registration) -> Iterator[None]:
        """The steps of a registration, of which the first is done. Raises RequestRejected."""
        now = self._clock.monotonic()
        rival = self._routes.rival(registration, session.id, now)
        if rival is not None:
            self._refuse(registration, rival, now)
        if self._routes.data_version(registration.address) is None:
            log.info(
                "broker %s (%s, id %d) registered with %d topics",
                registration.broker_name, registration.address, registration.broker_id, len(registration.topics),
            )  # fmt: skip
        return self._routes.registering(registration, session.id, now)

    def _registered(self, command: Command, registration: Registration) -> bytes:
        master = self._routes.master_of(registration)
        answer = headers.RegisterBrokerAnswer(
            master_addr=master, ha_server_addr=self._routes.ha_address(master) if master else None
        )
        ordered = self._kv.namespace(ORDER_TOPIC_NAMESPACE)
        body = KVTable(table=ordered).encode() if ordered and self._config.return_order_topic_config_to_broker else b""
        return encode_response(command, ResponseCode.SUCCESS, answer, body)

    def _refuse(self, registration: Registration, rival: str, now: float) -> NoReturn:
        """Refuse a broker whose name and id belong to another living broker."""
        name, number, address = registration.broker_name, registration.broker_id, registration.address
        refused = (name, number, address, rival)
        if now - self._refused.get(refused, -REFUSED_LOG_SECONDS) >= REFUSED_LOG_SECONDS:
            self._refused = {key: at for key, at in self._refused.items() if now - at < REFUSED_LOG_SECONDS}
            self._refused[refused] = now
            log.warning(
                "broker %s with id %d at %s is refused: a broker with that name and id is alive at %s. Give one "
                "of them "
                "another brokerName or brokerId", name, number, address, rival,
            )  # fmt: skip
        raise RequestRejected(
            ResponseCode.SYSTEM_ERROR,
            f"register broker failed: a broker {name} with id {number} is alive at {rival}, and {address} does not "
            "take its place. Give one of them another brokerName or brokerId; to replace that one, stop it first",
        )

    def _announced(
        self, header: headers.RegisterBroker, body: bytes
    ) -> tuple[DataVersion, Iterator[TopicConfig]]:  # fmt: skip
        """What a broker says of its topics, which are still to be read."""
        if header.body_crc32 and crc32(body) & _CRC_MASK != header.body_crc32:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        if not body:
            return DataVersion(), iter(())
        if header.compressed:
            return topics_of_compressed(body)
        return topics_of_json(body)

    def _registration(
        self, header: headers.RegisterBroker, version: DataVersion, topics: list[TopicConfig]
    ) -> Registration:
        timeout_ms = header.heartbeat_timeout_millis
        return Registration(
            cluster=header.cluster_name,
            broker_name=header.broker_name,
            broker_id=header.broker_id,
            address=header.broker_addr,
            ha_address=header.ha_server_addr,
            data_version=version,
            topics={topic.topic_name: topic for topic in topics},
            timeout_s=timeout_ms / 1000 if timeout_ms else EXPIRY_SECONDS,
            acting_master=header.enable_acting_master,
        )

    def unregister(self, session: Session, command: Command) -> bytes:
        header = command.header(headers.UnregisterBroker)
        if self._routes.unregister(header.broker_addr, header.broker_name, header.broker_id):
            log.info("broker %s (%s) unregistered", header.broker_name, header.broker_addr)
        return encode_response(command, ResponseCode.SUCCESS)

    def query_data_version(self, session: Session, command: Command) -> bytes:
        header = command.header(headers.QueryDataVersion)
        known = self._routes.data_version(header.broker_addr)
        changed = known is None or known != DataVersion.of_request(command.body)
        if not changed:
            self._routes.touch(header.broker_addr, self._clock.monotonic())
        body = known.encode() if known is not None else b""
        return encode_response(command, ResponseCode.SUCCESS, headers.QueryDataVersionAnswer(changed=changed), body)

    def wipe_write_perm(self, session: Session, command: Command) -> bytes:
        name = command.header(headers.BrokerNameOnly).broker_name
        count = self._routes.set_writable(name, False)
        return encode_response(command, ResponseCode.SUCCESS, headers.WipedAnswer(wipe_topic_count=count))

    def add_write_perm(self, session: Session, command: Command) -> bytes:
        name = command.header(headers.BrokerNameOnly).broker_name
        count = self._routes.set_writable(name, True)
        return encode_response(command, ResponseCode.SUCCESS, headers.AddedAnswer(add_topic_count=count))

    # Routes.

    def route(self, session: Session, command: Command) -> bytes:
        topic = command.header(headers.GetRoute).topic
        ordered = self._kv.get(ORDER_TOPIC_NAMESPACE, topic) if self._config.order_message_enable else None
        route = self._routes.lookup(topic, ordered)
        if route is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {topic}"
            )
        # Integer keys are always quoted: the JSON readers of all clients accept that, including the old ones.
        return encode_response(command, ResponseCode.SUCCESS, body=route.encode())

    def clusters(self, session: Session, command: Command) -> bytes:
        return encode_response(command, ResponseCode.SUCCESS, body=self._routes.clusters().encode())

    def topics(self, session: Session, command: Command) -> bytes:
        return encode_response(command, ResponseCode.SUCCESS, body=TopicList(topic_list=self._routes.topics()).encode())

    def topics_of_cluster(self, session: Session, command: Command) -> bytes:
        cluster = command.header(headers.ClusterOnly).cluster
        topics = self._routes.topics_of_cluster(cluster)
        return encode_response(command, ResponseCode.SUCCESS, body=TopicList(topic_list=topics).encode())

    def delete_topic(self, session: Session, command: Command) -> bytes:
        header = command.header(headers.DeleteTopicInNameServer)
        self._routes.delete_topic(header.topic, header.cluster_name)
        return encode_response(command, ResponseCode.SUCCESS)

    def register_topic(self, session: Session, command: Command) -> bytes:
        """REGISTER_TOPIC_IN_NAMESRV: a tool declares the queues of a topic."""
        topic = command.header(headers.TopicInNameServer).topic
        self._routes.declare(topic, TopicRoute.of_request(command.body).queue_datas)
        return encode_response(command, ResponseCode.SUCCESS)

    def system_topics(self, session: Session, command: Command) -> bytes:
        """GET_SYSTEM_TOPIC_LIST_FROM_NS."""
        topics, address = self._routes.system_topics()
        body = TopicList(topic_list=topics, broker_addr=address)
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())

    def unit_topics(self, session: Session, command: Command) -> bytes:
        return _topic_list(command, self._routes.topics_with(UNIT))

    def unit_sub_topics(self, session: Session, command: Command) -> bytes:
        return _topic_list(command, self._routes.topics_with(UNIT_SUB))

    def unit_sub_only_topics(self, session: Session, command: Command) -> bytes:
        return _topic_list(command, self._routes.topics_with(UNIT_SUB, UNIT))

    # Settings.

    def show_config(self, session: Session, command: Command) -> bytes:
        """GET_NAMESRV_CONFIG."""
        text = "".join(f"{key}={value}\n" for key, value in shown(self._config).items())
        return encode_response(command, ResponseCode.SUCCESS, body=text.encode())

    def update_config(self, session: Session, command: Command) -> bytes:
        """UPDATE_NAMESRV_CONFIG. When one setting cannot be changed, none is. Changes are lost when the process
        ends."""
        if len(command.body) > SETTINGS_BYTES:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"the body has {len(command.body)} bytes; at most {SETTINGS_BYTES} are read as settings",
            )
        lines = command.body.decode(errors="replace").splitlines()
        wanted = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
        try:
            self._config = changed(self._config, wanted)
        except ConfigError as error:
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error
        self._changed(self._config)
        return encode_response(command, ResponseCode.SUCCESS)

    # Key-values.

    def put_kv(self, session: Session, command: Command) -> None:
        header = command.header(headers.PutKVConfig)
        self._kv.put(header.namespace, header.key, header.value)
        self._kv_changes.add((session, command))

    def get_kv(self, session: Session, command: Command) -> bytes:
        header = command.header(headers.NamespacedKey)
        value = self._kv.get(header.namespace, header.key)
        if value is None:
            return encode_response(
                command, ResponseCode.QUERY_NOT_FOUND, headers.GetKVConfigAnswer(),
                remark=f"No config item, Namespace: {header.namespace} Key: {header.key}",
            )  # fmt: skip
        return encode_response(command, ResponseCode.SUCCESS, headers.GetKVConfigAnswer(value=value))

    def delete_kv(self, session: Session, command: Command) -> None:
        header = command.header(headers.NamespacedKey)
        self._kv.delete(header.namespace, header.key)
        self._kv_changes.add((session, command))

    def _save_kv(self, changes: list[tuple[Session, Command]]) -> None:
        """One write for the changes of a turn; then they are answered."""
        problem: Exception | None = None
        try:
            self._kv.save()
        except (GantryError, OSError) as error:
            log.error("the key-values could not be saved: %s", error)
            problem = error
        code = ResponseCode.SUCCESS if problem is None else ResponseCode.SYSTEM_ERROR
        for session, command in changes:
            remark = None if problem is None else f"the change is not on the disk: {problem}"
            session.answer(command, encode_response(command, code, remark=remark))

    def list_kv(self, session: Session, command: Command) -> bytes:
        namespace = command.header(headers.NamespaceOnly).namespace
        table = self._kv.namespace(namespace)
        if not table:
            raise RequestRejected(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}")
        return encode_response(command, ResponseCode.SUCCESS, body=KVTable(table=table).encode())
