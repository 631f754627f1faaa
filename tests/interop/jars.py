"""Official jars, fetched once by Maven into a directory that is not part of the repository."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).parent / "java"
FETCH_SECONDS = 900
OLDEST_JAVA = 11

ARTEFACTS = {
    "server-4.9.7": ["rocketmq-namesrv:4.9.7", "rocketmq-broker:4.9.7", "rocketmq-tools:4.9.7"],
    "server-5.5.0": ["rocketmq-namesrv:5.5.0", "rocketmq-broker:5.5.0", "rocketmq-tools:5.5.0"],
    "proxy-5.5.0": ["rocketmq-namesrv:5.5.0", "rocketmq-broker:5.5.0", "rocketmq-proxy:5.5.0"],
    "client-4.9.8": ["rocketmq-client:4.9.8"],
    "client-5.5.0": ["rocketmq-client:5.5.0"],
    "example-5.5.0": ["rocketmq-example:5.5.0"],
    "grpc-5.2.0": ["rocketmq-client-java:5.2.0"],
    "acl-4.9.8": ["rocketmq-acl:4.9.8"],
}
"""Sets of artefacts (with all they need) by the name of their directory. Not every module exists in every version."""


class NotHere(Exception):
    """These tests cannot run on this machine; the text says why and what would help."""


def cache() -> Path:
    """Where jars and compiled drivers are kept: ``GANTRY_INTEROP_DIR``, else ``.interop`` in the repository."""
    return Path(os.environ.get("GANTRY_INTEROP_DIR") or ROOT / ".interop")


def java(program: str = "java") -> str:
    """Path of ``java``, ``javac`` or ``jar`` of a JDK. Raises NotHere."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(program, path=str(Path(home) / "bin")) if home else None
    found = found or shutil.which(program)
    if found is None:
        raise NotHere(f"no {program} on the PATH: the interop tests need a JDK {OLDEST_JAVA} or newer, and Maven")
    return found


def check_jdk() -> None:
    """Raises NotHere when there is no JDK that is new enough."""
    text = subprocess.run([java("javac"), "-version"], capture_output=True, text=True, check=False)
    version = re.search(r"javac (\d+)", text.stdout + text.stderr)
    if version is None or int(version[1]) < OLDEST_JAVA:
        raise NotHere(f"the JDK is {text.stdout.strip()!r}: the interop tests need {OLDEST_JAVA} or newer")


def library(name: str) -> Path:
    """Directory with the jars of one of ARTEFACTS, fetched on first use. Raises NotHere."""
    where = cache() / name
    with alone(name):
        if not (where / "complete").exists():
            shutil.rmtree(where, ignore_errors=True)
            where.mkdir(parents=True)
            _fetch(name, where)
            (where / "complete").touch()
    return where


def drivers(client: str) -> Path:
    """Directory with our Java drivers, compiled against that client (or server) library. Raises NotHere."""
    lib = library(client)
    five = client.split("-")[1].startswith("5")
    sources = [path for path in sorted(SOURCES.glob("*.java")) if five or not path.stem.endswith("Five")]
    state = hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in sources)).hexdigest()[:16]
    where = cache() / f"drivers-{client}-{state}"
    with alone(f"drivers-{client}"):
        if not (where / "complete").exists():
            shutil.rmtree(where, ignore_errors=True)
            where.mkdir(parents=True)
            command = [java("javac"), "-nowarn", "-Xlint:none", "-cp", f"{lib}/*", "-d", str(where)]
            done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"a driver does not compile against {client}:\n{done.stderr}"
            (where / "complete").touch()
    return where


def fetch_all() -> None:
    """Fetch all libraries that are missing with one Maven: each start of it costs seconds, and most of their jars are
    the same. Where that fails nothing is here, and ``library`` says why for the one that a test needs."""
    with ExitStack() as locks:
        missing = []
        for name in ARTEFACTS:
            locks.enter_context(alone(name))
            if not (cache() / name / "complete").exists():
                missing.append(name)
                shutil.rmtree(cache() / name, ignore_errors=True)
                (cache() / name).mkdir(parents=True)
                (cache() / name / "pom.xml").write_text(_pom(name))
        if len(missing) < 2:
            return
        modules = "".join(f"<module>{name}</module>" for name in missing)
        together = cache() / "pom.xml"
        together.write_text(_project("all", f"<packaging>pom</packaging><modules>{modules}</modules>"))
        with suppress(NotHere):
            _copy_jars(together, "${project.basedir}", "all libraries")
            for name in missing:
                if any((cache() / name).glob("*.jar")):
                    (cache() / name / "complete").touch()


def _fetch(name: str, where: Path) -> None:
    pom = where / "pom.xml"
    pom.write_text(_pom(name))
    _copy_jars(pom, str(where), name)


def _copy_jars(pom: Path, directory: str, what: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NotHere("no mvn on the PATH: the interop tests fetch the official jars with Maven")
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    try:
        done = subprocess.run(
            [*command, f"-DoutputDirectory={directory}"],
            capture_output=True, text=True, check=False, timeout=FETCH_SECONDS, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        raise NotHere(f"Maven did not fetch {what} within {FETCH_SECONDS} s: is Maven Central reachable?") from late
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        raise NotHere(f"Maven could not fetch {what}; is Maven Central reachable? {' '.join(lines[:2])[:400]}")


def _pom(name: str) -> str:
    wanted = "".join(
        f"<dependency><groupId>org.apache.rocketmq</groupId><artifactId>{artefact}</artifactId>"
        f"<version>{version}</version></dependency>"
        for artefact, version in (entry.split(":") for entry in ARTEFACTS[name])
    )
    return _project(name, f"<dependencies>{wanted}</dependencies>")


def _project(name: str, content: str) -> str:
    return (
        "<project><modelVersion>4.0.0</modelVersion>"
        f"<groupId>gantrymq.interop</groupId><artifactId>{name}</artifactId><version>1</version>{content}</project>\n"
    )


@contextmanager
def alone(name: str) -> Iterator[None]:
    """One process at a time: test runs of several checkouts may share the directory."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
