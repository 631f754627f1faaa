"""Plays the steps of the image without a container engine, and starts the image as an engine would.

``python -m tests.deploy.image DIR`` makes a root file system of Debian's packages in DIR (mmdebstrap), carries out each
step of deploy/image/Containerfile in it, and starts it: as process 1 of a namespace of its own, with a read-only root,
as the image's user, without capabilities. Then it asks the health check, leaves orphans, sends a message and stops it
with SIGTERM. It needs root, Debian's ``mmdebstrap``, and minutes. ``--again`` uses the file system of the last time.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from tests.deploy.containerfile import FILE, stages

ROOT = Path(__file__).parents[2]
DEADLINE_S = 120
STOP_LIMIT_S = 30
"""What compose and Kubernetes give it here; an orderly stop takes 15 s at most."""
SLIM = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
"""What Debian's slim images leave out."""
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def make(directory: Path) -> Path:
    """The root file system of the image."""
    made: dict[str, Path] = {}
    base = directory / "base"
    for number, stage in enumerate(stages()):
        root = directory / (stage.name or "image")
        if not base.exists():
            debian(stage.base, base)
        subprocess.run(["cp", "-a", str(base), str(root)], check=True)
        made[stage.name or str(number)] = root
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        for instruction, rest in stage.steps:
            if instruction in ("ENV", "ARG"):
                environment |= dict(word.split("=", 1) for word in rest.split())
            elif instruction == "RUN":
                print(f"RUN {rest}", flush=True)
                run(environment, root, rest)
            elif instruction == "COPY":
                copy(rest, root, made)
    return directory / "image"


def debian(base: str, root: Path) -> None:
    """What the image ``debian:SUITE-slim`` has: the essential packages, apt, and no documentation."""
    name, _, tag = base.partition(":")
    assert name == "debian" and tag.endswith("-slim"), base
    left_out = [f"--dpkgopt=path-exclude={pattern}" for pattern in SLIM]
    subprocess.run(["mmdebstrap", "--variant=minbase", *left_out, tag.removesuffix("-slim"), str(root)], check=True)


def run(environment: dict[str, str], root: Path, command: str) -> None:
    """A step of the build. How this machine reaches registries is lent to it, and is not part of the image."""
    lent = {name: value for name, value in os.environ.items() if name.startswith("PIP_") and "FIND" not in name}
    copies = [path for path in (CERTIFICATES, Path("/etc/resolv.conf")) if path.exists()]
    new = [root / str(path).lstrip("/") for path in copies if not (root / str(path).lstrip("/")).exists()]
    for path in copies:
        (root / str(path).lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / str(path).lstrip("/"))
    values = {"DEBIAN_FRONTEND": "noninteractive", **lent, **environment}
    variables = shlex.join(f"{name}={value}" for name, value in values.items())
    chroot = f"chroot {root} /usr/bin/env -i {variables} /bin/sh -c {shlex.quote(command)}"
    inside = f"mount -t proc proc {root}/proc && exec {chroot}"
    subprocess.run(["unshare", "--mount", "--pid", "--fork", "sh", "-c", inside], check=True)
    for path in new:
        path.unlink()


def copy(rest: str, root: Path, made: dict[str, Path]) -> None:
    words = rest.split()
    source = ROOT
    if words[0].startswith("--from="):
        source = made[words.pop(0).removeprefix("--from=")]
    *files, target = words
    place = root / target.lstrip("/")
    for name in files:
        found = source / name.lstrip("/")
        if found.is_dir():
            shutil.copytree(
                found, place, symlinks=True, dirs_exist_ok=True,
                ignore=shutil.ignore_patterns("*.egg-info", "*.so") if source == ROOT else None,
            )  # fmt: skip
        else:
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(found, place)


class Container:
    """The image, started as an engine starts it."""

    def __init__(
        self, root: Path, store: Path, words: Sequence[str] | None = None, mounts: Mapping[str, Path] | None = None
    ) -> None:
        """``words``: instead of those of CMD. ``mounts``: path inside to what is mounted there, read only."""
        self.stage = stages()[-1]
        store.mkdir(parents=True, exist_ok=True)
        user = self.stage.last("USER").split(":")
        os.chown(store, int(user[0]), int(user[1]))
        self._user = user
        volume = root / self.stage.last("VOLUME").lstrip("/")
        command = [*self.stage.words("ENTRYPOINT"), *(self.stage.words("CMD") if words is None else words)]
        binds = []
        for inside, outside in (mounts or {}).items():
            place = root / inside.lstrip("/")
            place.mkdir(parents=True, exist_ok=True) if outside.is_dir() else place.touch()
            binds.append(f"mount --bind -o ro {outside} {place}")
        steps = [
            "ip link set lo up", f"mount --bind {root} {root}", f"mount --bind {store} {volume}",
            *binds, f"mount -t proc proc {root}/proc", f"mount -t tmpfs none {root}/tmp",
            f"mount -t tmpfs none {root}/dev", f"touch {root}/dev/null {root}/dev/urandom",
            f"mount --bind /dev/null {root}/dev/null",
            f"mount --bind /dev/urandom {root}/dev/urandom",
            f"mount -o remount,bind,ro {root}",
        ]  # fmt: skip
        # setpriv drops what chroot needs, so the root is changed before it.
        variables = shlex.join(f"{name}={value}" for name, value in self._environment().items())
        started = f"cd {self.stage.last('WORKDIR')} && exec {shlex.join(command)}"
        steps.append(
            f"exec chroot {root} /usr/bin/setpriv --reuid {user[0]} --regid {user[1]} --clear-groups --no-new-privs "
            f"--bounding-set -all --inh-caps -all /usr/bin/env -i {variables} /bin/sh -c {shlex.quote(started)}"
        )
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-c", " && ".join(steps)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def _environment(self) -> dict[str, str]:
        return self.stage.environment

    def ready(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            print(f"  {line.rstrip()}", flush=True)
            if " is ready: " in line:
                return line
        raise SystemExit(f"it ended with status {self.process.wait()}")

    @property
    def first(self) -> int:
        """Process 1 of the container, by the number that it has outside."""
        return int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0])

    def execute(self, *words: str) -> subprocess.CompletedProcess[str]:
        """As ``docker exec`` does."""
        inside = ["nsenter", "--target", str(self.first), "--mount", "--pid", "--net", "--root", "--wd"]
        inside += ["--setuid", self._user[0], "--setgid", self._user[1], "env", "-i"]
        inside += [f"{name}={value}" for name, value in self._environment().items()]
        return subprocess.run([*inside, *words], capture_output=True, text=True, check=False, timeout=DEADLINE_S)


def status_of(process: int) -> dict[str, str]:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def zombies(container: Container) -> list[str]:
    found = container.execute("sh", "-c", "grep -l '^State:.Z' /proc/[0-9]*/status; true")
    return found.stdout.split()


SEND = """
from gantrymq import Message, Producer
with Producer("PG", name_servers="127.0.0.1:9876") as producer:
    print(producer.send(Message("Orders", b"kept")).message_id)
"""


def check(holds: bool, what: str) -> None:
    print(f"{'ok' if holds else 'WRONG'}  {what}", flush=True)
    if not holds:
        raise SystemExit(1)


def live(root: Path, store: Path) -> None:
    """Start it, look at it from inside and outside, and stop it."""
    container = Container(root, store)
    try:
        container.ready()
        seen = status_of(container.first)
        check(seen["NSpid"].split()[-1] == "1", "the entry point is process 1")
        check(
            seen["Uid"].split()[0] == container.stage.last("USER").split(":")[0], f"it is user {seen['Uid'].split()[0]}"
        )
        check(int(seen["CapEff"], 16) == 0 == int(seen["CapBnd"], 16), "it has no capabilities")
        check("Read-only" in container.execute("touch", "/new").stderr, "its root is read only")
        health = container.execute(*container.stage.words("HEALTHCHECK"))
        check(health.returncode == 0, f"the health check passes {health.stderr}")
        for _ in range(5):  # each leaves a process whose parent ends first
            container.execute("sh", "-c", "(sleep 0.1 &)")
        deadline = time.monotonic() + DEADLINE_S
        while "sleep" in container.execute("sh", "-c", "cat /proc/[0-9]*/comm").stdout.split():
            check(time.monotonic() < deadline, "the orphans end")
        check(not zombies(container), "orphans are reaped")
        sent = container.execute("python3", "-c", SEND)
        check(sent.returncode == 0, f"a message is sent and stored {sent.stderr}")
        doctor = container.execute("gantry", "doctor", "--json")
        check(
            doctor.returncode == 0,
            f"gantry doctor finds nothing wrong inside {doctor.stdout if doctor.returncode else ''}",
        )
        began = time.monotonic()
        os.kill(container.first, signal.SIGTERM)
        status = container.process.wait(STOP_LIMIT_S)
        check(status == 0, f"SIGTERM stops it in order, in {time.monotonic() - began:.1f} s")
        check(not (store / "store" / "abort").exists(), "its store was closed")
    finally:
        container.process.kill()
        container.process.wait()


def live_as_composed(root: Path, directory: Path) -> None:
    """Services of the compose file that are made of the image: the server, started as it is there, and the example."""
    whole = yaml.safe_load(FILE.with_name("compose.yaml").read_text("utf-8"))
    services, settings = whole["services"], directory / "settings"
    settings.mkdir(exist_ok=True)
    (settings / "broker.conf").write_text(whole["configs"]["broker"]["content"])
    (settings / "hosts").write_text("127.0.0.1 localhost server\n")
    mounts = {"/etc/gantry": settings, "/etc/hosts": settings / "hosts", "/examples": ROOT / "examples"}
    container = Container(root, directory / "composed", services["server"]["command"], mounts)
    try:
        check("broker broker-a server:10911" in container.ready(), "the server of the compose file advertises its name")
        health = container.execute(*container.stage.words("HEALTHCHECK"))
        check(health.returncode == 0, f"its health check passes {health.stderr}")
        example = services["example"]
        done = container.execute(*example["entrypoint"][2:], *example["command"])
        check(done.returncode == 0, f"the example pays its orders {done.stderr}")
        os.kill(container.first, signal.SIGTERM)
        check(container.process.wait(STOP_LIMIT_S) == 0, "it stops in order")
    finally:
        container.process.kill()
        container.process.wait()


def size_mb(path: Path) -> tuple[float, float]:
    """On the disk, and as a registry keeps it: a compressed archive."""
    plain = int(subprocess.run(["du", "-sxb", str(path)], capture_output=True, text=True, check=True).stdout.split()[0])
    packed = subprocess.run(
        ["sh", "-c", f"tar -C {path} -c . | gzip -6 | wc -c"], capture_output=True, text=True, check=True
    )
    return plain / 1e6, int(packed.stdout) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--again", action="store_true", help="use the root file system that is there")
    options = parser.parse_args()
    directory = options.directory.resolve()
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        sys.exit("this needs root, and mmdebstrap: apt-get install mmdebstrap")
    directory.mkdir(parents=True, exist_ok=True)
    image = directory / "image"
    if not options.again:
        for old in (image, directory / "build"):
            shutil.rmtree(old, ignore_errors=True)
        image = make(directory)
    for volume in ("volume", "composed"):
        shutil.rmtree(directory / volume, ignore_errors=True)
    live(image, directory / "volume")
    live_as_composed(image, directory)
    plain, packed = size_mb(image)
    base, base_packed = size_mb(directory / "base")
    print(
        json.dumps(
            {
                "image_mb": round(plain),
                "packed_mb": round(packed),
                "base_mb": round(base),
                "base_packed_mb": round(base_packed),
            }
        )
    )


if __name__ == "__main__":
    main()
