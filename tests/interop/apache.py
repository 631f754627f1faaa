"""Apache RocketMQ's own name server, brokers and tools as child processes."""

from __future__ import annotations

from pathlib import Path

from gantrymq.demo.ports import free_port
from tests.interop import guarded, secured
from tests.interop.jars import drivers, java, library
from tests.interop.places import await_route
from tests.interop.process import Process

JVM = [
    "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.net.preferIPv4Stack=true",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED", "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true", "-Dcom.rocketmq.remoting.client.connect.timeout=30000",
]  # fmt: skip
"""Small and quick to start; the openings are what Apache's servers need on a JDK 17. The time to connect: twenty
clients that start in one cold JVM on two cores keep its event loops from seeing within the usual 3 s that a connection
to the same machine is there, and ``start`` fails with "connect to  failed"."""

SMALL_STORE = {
    "mappedFileSizeCommitLog": "4194304", "mappedFileSizeConsumeQueue": "20000", "maxIndexNum": "2000",
    "maxHashSlotNum": "500",
}  # fmt: skip
PATIENT = {"brokerFastFailureEnable": "false", "osPageCacheBusyTimeOutMills": "60000"}
"""So that a slow machine is not taken for an overloaded broker."""

OPS_AT_ONCE = {"transactionOpMsgMaxSize": "1", "transactionOpBatchInterval": "3600000"}
"""For brokers of 5.x. Op messages are written when they come, so that checks see them. And the thread that writes them
is kept from a busy loop: with nothing to write it sleeps until *last write + interval*, which is in the past as soon as
a broker that has ended one transaction is idle for longer than the interval (3 s by default; a core burns)."""


IDLE = {"transactionMetricFlushInterval": "500", "timerFlushIntervalMs": "5000"}
"""For brokers of 5.x, which take a core from what runs beside them. The thread that writes the metrics of transactions
does not wait for its first turn: until the interval is over, 10 s by default, it asks for the time without a pause. And
each flush of the timers copies their whole wheel, which is a tenth of a core with a flush each second."""


REBALANCE_MS = "3000"
"""Instead of 20 s: a client of 4.x that found a queue locked tries again with the next rebalance only, and that is also
when it learns at the latest that a member of its group came or went."""


class JavaProcess(Process):
    """A ``java`` with some directories of jars; ``properties`` are system properties."""

    def __init__(
        self,
        name: str,
        classpath: list[Path],
        main: str,
        arguments: list[str],
        directory: Path,
        *,
        heap_mb: int = 256,
        properties: dict[str, str] | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        jars = ":".join(f"{path}:{path}/*" for path in classpath)
        home = {"user.home": str(directory), "rocketmq.home.dir": str(directory)}
        given = {**home, **secured.java_properties(), **guarded.java_properties(), **(properties or {})}
        defines = [f"-D{key}={value}" for key, value in given.items()]
        command = [java(), f"-Xmx{heap_mb}m", *JVM, *defines, "-cp", jars, main, *arguments]
        super().__init__(name, command, directory, {"ROCKETMQ_HOME": str(directory), **(environment or {})})


class JavaClient:
    """An official client library of one version, used through our drivers (``java/*.java``)."""

    def __init__(self, version: str, directory: Path) -> None:
        self.version = version
        self._directory = directory
        self._classpath = [drivers(f"client-{version}"), library(f"client-{version}"), *guarded.java_classpath(version)]
        self._count = 0

    def play(self, driver: str, name_servers: str, *arguments: object, **properties: str) -> JavaProcess:
        """Run ``driver.main(name_servers, *arguments)``; properties: system properties with ``_`` for ``.``."""
        self._count += 1
        given = {key.replace("_", "."): value for key, value in properties.items()}
        return JavaProcess(
            f"{self._count:02}-{driver}", self._classpath, driver, [name_servers, *map(str, arguments)],
            self._directory / f"client-{self.version}",
            properties={"rocketmq.client.rebalance.waitInterval": REBALANCE_MS, **given},
        )  # fmt: skip


class ApacheCluster:
    """A name server and any number of brokers of one version, all on 127.0.0.1."""

    kind = "Apache"

    def __init__(self, version: str, directory: Path) -> None:
        self.version = version
        self.directory = directory
        self.name_servers = ""
        self.broker_address = ""
        """Of the broker that was started last."""
        self.controller = ""
        """Address of the controller."""
        self.metrics_port = free_port()
        """Where a broker of 5.x that exports metrics (``metricsExporterType=PROM``) shows them."""
        self._library = library(f"server-{version}")
        self._running: list[Process] = []
        self._count = 0

    @property
    def label(self) -> str:
        """As results name it."""
        return f"Apache {self.version}"

    def start_name_server(self) -> Process:
        port = free_port()
        conf = self._conf("namesrv", {"listenPort": str(port)})
        started = self._start("namesrv", "org.apache.rocketmq.namesrv.NamesrvStartup", ["-c", str(conf)], heap_mb=128)
        started.await_line("boot success")
        self.name_servers = f"127.0.0.1:{port}"
        return started

    def start_broker(
        self, store: Path | None = None, *, name: str = "broker-a", name_servers: str | None = None, **conf: object
    ) -> Process:
        """A broker that is registered when this returns; ``conf`` goes into its broker.conf."""
        port = free_port()
        settings = {
            "brokerClusterName": "DefaultCluster", "brokerName": name, "brokerId": "0", "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1", "listenPort": str(port), "haListenPort": str(port + 1),
            "namesrvAddr": name_servers or self.name_servers, "autoCreateTopicEnable": "true",
            "metricsPromExporterPort": str(self.metrics_port), "metricsPromExporterHost": "127.0.0.1",
            **stores_of(store or self.directory / f"store-{name}"), **SMALL_STORE, **PATIENT, **IDLE,
            **{key: str(value) for key, value in conf.items()},
        }  # fmt: skip
        path = self._conf(f"{name}-{port}", settings)
        main = "org.apache.rocketmq.broker.BrokerStartup"
        started = self._start(name, main, ["-c", str(path)], jvm={"MaxDirectMemorySize": "256m"})
        started.await_line("boot success")
        self.broker_address = f"127.0.0.1:{port}"
        for name_server in settings["namesrvAddr"].split(";"):
            await_route(name_server, name)
        return started

    def start_controller(self, **conf: object) -> Process:
        """A controller of 5.x, alone in its group; it is leader when this returns. ``conf``: its settings."""
        port = free_port()
        settings = {
            "controllerDLegerGroup": "group", "controllerDLegerPeers": f"n0-127.0.0.1:{port}",
            "controllerDLegerSelfId": "n0", "controllerStorePath": str(self.directory / f"controller-{port}"),
            **{key: str(value) for key, value in conf.items()},
        }  # fmt: skip
        path = self._conf(f"controller-{port}", settings)
        started = self._start("controller", "org.apache.rocketmq.controller.ControllerStartup", ["-c", str(path)])
        started.await_line("boot success")
        self.controller = f"127.0.0.1:{port}"
        return started

    def mqadmin(self, *arguments: str, name_servers: str | None = None) -> str:
        """What ``mqadmin <command> ...`` of this version prints, errors included. ``-n`` is added.

        Its JVM has run another command before: a cold one may need all of the 3 s that mqadmin gives each request.
        """
        servers = name_servers or self.name_servers
        where = [drivers(f"server-{self.version}"), self._library]
        guarded.write_mqadmin_account(self._home())
        tool = JavaProcess(f"mqadmin-{self._next()}", where, "Mqadmin", [servers], self._home())
        tool.await_step("ready")
        for number, command in enumerate((("clusterList",), arguments), start=1):
            tool.write_line("\t".join([*command, "-n", servers]))
            tool.await_that(lambda number=number: tool.text().count("\n@end\n") >= number, " ".join(command))
        tool.kill()
        return tool.text().split("\n@end\n")[1]

    def close(self) -> None:
        """End everything at once: the stores of tests are thrown away, and an orderly stop of a JVM takes long."""
        for process in reversed(self._running):
            process.kill()

    def _start(
        self, name: str, main: str, arguments: list[str], *, heap_mb: int = 320, jvm: dict[str, str] | None = None
    ) -> Process:
        options = " ".join(f"-XX:{key}={value}" for key, value in (jvm or {}).items())
        started = JavaProcess(
            f"{name}-{self._next()}", [self._library], main, arguments, self._home(), heap_mb=heap_mb,
            environment={"JDK_JAVA_OPTIONS": options, "NAMESRV_ADDR": ""},
        )  # fmt: skip
        self._running.append(started)
        return started

    def _home(self) -> Path:
        conf = self.directory / "conf"
        if not conf.exists():
            conf.mkdir(parents=True)
            for program in ("broker", "namesrv", "tools"):  # 4.x does not start without these files
                (conf / f"logback_{program}.xml").write_text('<configuration><root level="OFF"/></configuration>\n')
        return self.directory

    def _conf(self, name: str, settings: dict[str, str]) -> Path:
        path = self._home() / "conf" / f"{name}.conf"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def _next(self) -> int:
        self._count += 1
        return self._count


def stores_of(root: Path) -> dict[str, str]:
    """The settings that put a store under a directory."""
    return {"storePathRootDir": str(root), "storePathCommitLog": str(root / "commitlog")}
