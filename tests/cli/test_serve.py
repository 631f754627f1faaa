"""The programs as a person starts them: real processes, real signals."""

from __future__ import annotations

import os
import re
import resource
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gantrymq import Admin, Message, Producer, PullConsumer
from gantrymq.demo.ports import free_port
from gantrymq.errors import GantryError, RequestRejected, Unreachable

DEADLINE_S = 30.0
READY = re.compile(r"is ready: (.*)\. Stop with Ctrl-C\.")


class Program:
    """A running ``gantry`` command."""

    def __init__(
        self, *arguments: str, cwd: Path | None = None, before: Sequence[str] = (), **environment: str
    ) -> None:  # fmt: skip
        """``before``: a command that ends by executing its further arguments."""
        self.process = subprocess.Popen(
            [*before, sys.executable, "-m", "gantrymq.cli.main", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd,
            env={**os.environ, "COLUMNS": "200", **environment},
        )  # fmt: skip

    def ready(self) -> str:
        """Wait for the ready line and return what it says."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            assert selector.select(DEADLINE_S), "no ready line"
        line = self.process.stdout.readline()
        found = READY.search(line)
        assert found, line + self.ended()[2]
        return found.group(1)

    def ended(self) -> tuple[int, str, str]:
        """Exit status and output, once it is over."""
        out, err = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, out, err

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


@contextmanager
def program(
    *arguments: str, cwd: Path | None = None, before: Sequence[str] = (), **environment: str
) -> Iterator[Program]:  # fmt: skip
    running = Program(*arguments, cwd=cwd, before=before, **environment)
    try:
        yield running
    finally:
        running.kill()


def address(ready: str, what: str) -> str:
    found = re.search(rf"{what} (?:\S+ )?(\d+\.\d+\.\d+\.\d+:\d+)", ready)
    assert found, ready
    return found.group(1)


def server(store: Path, *more: str) -> tuple[str, ...]:
    return ("server", "--store", str(store), "--listen-port", "0", "--name-server-port", "0", *more)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_server_starts_serves_stops_and_keeps_what_it_was_sent(tmp_path: Path, number: signal.Signals) -> None:
    with program(*server(tmp_path / "store")) as first:
        name_server = address(first.ready(), "name server")
        with Admin(name_server) as admin:
            admin.create_topic("T", queues=1)
        with Producer("PG", name_servers=name_server) as producer:
            producer.send(Message("T", b"kept"))
        first.process.send_signal(number)
        assert first.ended()[::2] == (0, "")
    assert not (tmp_path / "store" / "abort").exists()
    with program(*server(tmp_path / "store")) as second:
        name_server = address(second.ready(), "name server")
        with PullConsumer(name_servers=name_server) as consumer:
            (queue,) = consumer.queues("T")
            assert [message.body for message in consumer.pull(queue, 0, 32).messages] == [b"kept"]


def test_the_end_of_its_terminal_ends_a_server_in_order_however_often_it_is_told(tmp_path: Path) -> None:
    """A kernel and a shell each send SIGHUP when a terminal is closed; nobody reads what is written then."""
    with program(*server(tmp_path / "store")) as running:
        name_server = address(running.ready(), "name server")
        with Producer("PG", name_servers=name_server) as producer:
            producer.send(Message("T", b"kept"))
        assert running.process.stderr is not None and running.process.stdout is not None
        running.process.stderr.close()
        running.process.stdout.close()
        for _ in range(20):
            running.process.send_signal(signal.SIGHUP)
        assert running.process.wait(DEADLINE_S) == 0
    assert not (tmp_path / "store" / "abort").exists()


@pytest.mark.parametrize("command", ["nameserver", "broker"])
def test_what_was_started_with_nohup_goes_on_at_sighup(tmp_path: Path, command: str) -> None:
    options = {"nameserver": (), "broker": ("--store", str(tmp_path), "--host", "127.0.0.1")}[command]
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does; a new process has it from its parent
    try:
        running = Program(command, "--listen-port", "0", *options)
    finally:
        signal.signal(signal.SIGHUP, before)
    try:
        running.ready()
        running.process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            running.process.wait(1)
        running.process.terminate()
        assert running.ended()[0] == 0
    finally:
        running.kill()


@pytest.mark.parametrize("command", ["nameserver", "broker"])
def test_sighup_ends_each_server_in_order(tmp_path: Path, command: str) -> None:
    options = {"nameserver": (), "broker": ("--store", str(tmp_path), "--host", "127.0.0.1")}[command]
    with program(command, "--listen-port", "0", *options) as running:
        running.ready()
        running.process.send_signal(signal.SIGHUP)
        assert running.ended()[0] == 0


def test_ready_means_that_the_name_server_knows_it(tmp_path: Path) -> None:
    with program(*server(tmp_path / "store")) as running:
        ready = running.ready()
        assert "waits for" not in ready
        with Admin(address(ready, "name server")) as admin:
            assert admin.route("TBW102").broker_datas, "asked at once"


def test_name_server_and_broker_apart(tmp_path: Path) -> None:
    with program("nameserver", "--listen-port", "0", "--host", "127.0.0.1") as names:
        name_server = address(names.ready(), "name server")
        conf = tmp_path / "broker.conf"
        conf.write_text(
            f"brokerName = broker-x\nstorePathRootDir={tmp_path}/store\nlistenPort=0\nbrokerIP1=127.0.0.1\n"
            f"namesrvAddr={name_server}\nflushDiskType=ASYNC_FLUSH\nsendMessageThreadPoolNums=4\nbogus=1\n"
        )
        with program("broker", "-c", str(conf)) as broker:
            ready = broker.ready()
            assert address(ready, "broker").startswith("127.0.0.1:"), "as the file says"
            assert "broker-x" in ready and "ASYNC_FLUSH" in ready
            with Producer("PG", name_servers=name_server) as producer:
                assert producer.send(Message("T", b"x")).queue.broker_name == "broker-x"
            broker.process.terminate()
            status, _, err = broker.ended()
            assert status == 0
            assert "sendMessageThreadPoolNums, bogus" in err, "unknown keys are named"


def test_a_broker_serves_without_its_name_server_and_finds_it_when_it_comes(tmp_path: Path) -> None:
    port = free_port()
    arguments = ("--store", str(tmp_path), "--listen-port", "0", "--host", "127.0.0.1", "-n", f"127.0.0.1:{port}")
    with program("broker", *arguments) as broker:
        assert f"waits for name server 127.0.0.1:{port}" in broker.ready()
        with program("nameserver", "--listen-port", str(port), "--host", "127.0.0.1") as names:
            names.ready()
            deadline = time.monotonic() + DEADLINE_S
            while True:
                with Admin(f"127.0.0.1:{port}") as admin, suppress(Unreachable):  # until the broker has registered
                    if "TBW102" in admin.topics():
                        break
                assert time.monotonic() < deadline
                time.sleep(0.05)
            broker.process.terminate()
            status, _, err = broker.ended()
        assert status == 0
        assert f"127.0.0.1:{port}" in err and "Trying again" in err


def fails(*arguments: str, cwd: Path | None = None) -> str:
    """Run a command that cannot start; one sentence and exit status 1."""
    with program(*arguments, cwd=cwd) as running:
        status, out, err = running.ended()
    assert (status, out) == (1, ""), err
    assert "Traceback" not in err
    (sentence,) = err.strip().splitlines()
    return sentence


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        common = ("--store", str(tmp_path / "store"))
        for arguments in (
            ("server", *common, "--listen-port", port, "--name-server-port", "0"),
            ("server", *common, "--listen-port", "0", "--name-server-port", port),
            ("broker", *common, "--listen-port", port, "--host", "127.0.0.1"),
            ("nameserver", "--listen-port", port, "--host", "127.0.0.1"),
        ):
            sentence = fails(*arguments)
            assert f":{port}" in sentence and "another server" in sentence


def test_a_store_in_use(tmp_path: Path) -> None:
    with program(*server(tmp_path / "store")) as first:
        first.ready()
        sentence = fails(*server(tmp_path / "store"))
        assert str(tmp_path / "store") in sentence
        assert "another process" in sentence


def test_a_directory_that_is_no_store_is_left_alone(tmp_path: Path) -> None:
    strange = tmp_path / "store" / "commitlog"
    strange.mkdir(parents=True)
    (strange / "photos.zip").write_bytes(b"not a log")
    sentence = fails(*server(tmp_path / "store"))
    assert "commitlog" in sentence
    assert sorted(path.name for path in (tmp_path / "store").rglob("*")) == ["commitlog", "photos.zip"]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("listenPort=many", "listenPort"),
        ("flushDiskType=SOMETIMES", "flushDiskType"),
        ("brokerRole=SLAVE", "brokerRole"),
        ("transactionCheckMax=0", "transactionCheckMax"),
        ("messageDelayLevel=1s soon", "messageDelayLevel"),
        ("brokerIP1=my host", "brokerIP1"),
        ("brokerIP1=10.0.0.1:10911", "brokerIP1"),
        ("brokerIP1=::", "brokerIP1"),
        ("namesrvAddr=nowhere", "namesrvAddr"),
    ],
)
def test_settings_that_cannot_be(tmp_path: Path, line: str, named: str) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(f"listenPort=0\n{line}\n")
    # Some are found when the broker starts, after its name server: that must not need a port that somebody has.
    port = [] if line.startswith("namesrvAddr") else ["--name-server-port", "0"]
    assert named in fails("server", "-c", str(conf), "--store", str(tmp_path / "store"), *port)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    assert "missing.conf" in fails("server", "-c", str(tmp_path / "missing.conf"))


def test_a_name_server_whose_name_is_not_known_yet(tmp_path: Path) -> None:
    """In Kubernetes a name server gets its name when it is ready, which may be after the broker."""
    unknown = "no-such-host.invalid:9876"
    with program("broker", "--store", str(tmp_path), "--listen-port", "0", "-n", unknown) as running:
        assert f"waits for name server {unknown}" in running.ready()


def test_a_file_where_the_store_should_be(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    assert "store" in fails(*server(tmp_path / "store"))


def test_the_configuration_alone_starts_the_same_server_again(tmp_path: Path) -> None:
    port = free_port()
    conf = tmp_path / "broker.conf"
    conf.write_text(f"listenPort=0\nnamesrvAddr=127.0.0.1:{port}\nstorePathRootDir={tmp_path}/store\n")
    with program("server", "-c", str(conf), cwd=tmp_path) as running:
        assert address(running.ready(), "name server") == f"127.0.0.1:{port}"


@pytest.mark.slow
def test_two_brokers_of_one_name_are_not_taken_for_each_other(tmp_path: Path) -> None:
    with program("nameserver", "--listen-port", "0", "--host", "127.0.0.1") as names:
        name_server = address(names.ready(), "name server")
        options = ("--listen-port", "0", "--host", "127.0.0.1", "--broker-name", "twin", "-n", name_server)
        with program("broker", "--store", str(tmp_path / "1"), *options) as first:
            where = address(first.ready(), "broker")
            with program("broker", "--store", str(tmp_path / "2"), *options) as second:
                ready = second.ready()
                assert "REFUSED" in ready and where in ready, "said at the start"
                other = address(ready, "broker")
                first.process.kill()
                deadline = time.monotonic() + DEADLINE_S
                while True:
                    with Admin(name_server) as admin:
                        table = admin.cluster_info().broker_addr_table
                    if "twin" in table and table["twin"].broker_addrs == {0: other}:
                        break
                    assert time.monotonic() < deadline, table
                    time.sleep(0.05)
                second.process.terminate()
                status, _, err = second.ended()
        assert status == 0 and where in err and "registered" in err
        names.process.terminate()
        said = names.ended()[2]
        assert any(where in line and other in line for line in said.splitlines()), "the name server names both"


@pytest.mark.parametrize("more", range(3))
def test_without_free_descriptors_no_topic_is_made_until_there_are_some(tmp_path: Path, more: int) -> None:
    """As many as it has, and a few more: wherever it runs out, the topic is there or it is not."""
    with program(*server(tmp_path / "store")) as running:
        name_server = address(running.ready(), "name server")
        with Admin(name_server) as admin, Producer("PG", name_servers=name_server) as producer:
            admin.create_topic("Before", queues=1)
            producer.send(Message("Before", b"x"))
            number = running.process.pid
            _, hard = resource.prlimit(number, resource.RLIMIT_NOFILE)
            used = set(map(int, os.listdir(f"/proc/{number}/fd")))
            first_free = next(descriptor for descriptor in range(len(used) + 1) if descriptor not in used)
            resource.prlimit(number, resource.RLIMIT_NOFILE, (first_free + more, hard))
            made = []
            for topic in ("During1", "During2"):
                try:
                    admin.create_topic(topic, queues=1)
                    made.append(topic)
                except RequestRejected as error:
                    assert "open files" in str(error) and "ulimit -n" in str(error)
            if not more:
                assert made == [], "there was no descriptor"
                with pytest.raises(GantryError, match="open files"):
                    producer.send(Message("BySending", b"x"))
            known = {name for name in admin.topics() if name.startswith("During")}
            assert known == set(made)
            config = tmp_path / "store" / "config"
            said = (config / "topics.json").read_text()
            assert {name for name in ("During1", "During2", "BySending") if name in said} == set(made)
            assert not list(config.glob("*.tmp"))
            resource.prlimit(number, resource.RLIMIT_NOFILE, (hard, hard))
            admin.create_topic("After", queues=1)
            producer.send(Message("After", b"x"))
        running.process.terminate()
        status, _, err = running.ended()
    assert status == 0 and "hit a defect" not in err and "Traceback" not in err


@pytest.mark.slow
def test_topics_from_the_command_line(tmp_path: Path) -> None:
    with program(*server(tmp_path / "store")) as running:
        name_server = address(running.ready(), "name server")

        def topic(*arguments: str) -> tuple[int, str, str]:
            with program("topic", *arguments, "-n", name_server) as command:
                return command.ended()

        assert topic("create", "Orders", "--queues", "2", "--type", "TRANSACTION")[0] == 0
        assert "Orders" in topic("list")[1].splitlines()
        assert topic("create", "bad name")[0] == 2, "not meant like that"
        assert topic("delete", "Orders", "--yes")[0] == 0
        assert "Orders" not in topic("list")[1].splitlines()


@pytest.mark.slow
def test_help_and_version() -> None:
    for arguments in (("--help",), ("server", "--help"), ("--version",)):
        with program(*arguments) as running:
            status, out, _ = running.ended()
        assert status == 0
        assert "gantry" in out.lower()
