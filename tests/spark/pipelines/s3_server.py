"""Servers of object stores as processes, each with an empty bucket: S3 by ``moto``, and Google's by
``gcp-storage-emulator``."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from gantrymq.demo.ports import free_port
from tests.support.tied import tied

BUCKET = "lake"
START_SECONDS = 60


@contextmanager
def s3_server(log_file: Path) -> Iterator[dict[str, str]]:
    """While it runs: the environment in which jobs find it."""
    address = f"127.0.0.1:{free_port()}"
    host, _, port = address.partition(":")
    command = [sys.executable, "-m", "moto.server", "-H", host, "-p", port]
    with (
        log_file.open("wb") as log,
        subprocess.Popen(tied(command), stdout=log, stderr=log, start_new_session=True) as running,
    ):
        try:
            end = time.monotonic() + START_SECONDS
            while not _made_bucket(address):
                assert time.monotonic() < end, f"the S3 server did not start; see {log_file}"
                time.sleep(0.05)
            yield {
                "AWS_ENDPOINT_URL": f"http://{address}", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
            }  # fmt: skip
        finally:
            running.kill()


@contextmanager
def googles_server(log_file: Path) -> Iterator[dict[str, str]]:
    """While it runs: the environment in which jobs find it. Its bucket is in memory."""
    port = free_port()
    program = str(Path(sys.executable).with_name("gcp-storage-emulator"))
    command = [program, "start", "--host=127.0.0.1", f"--port={port}", "--in-memory", f"--default-bucket={BUCKET}"]
    with (
        log_file.open("wb") as log,
        subprocess.Popen(tied(command), stdout=log, stderr=log, start_new_session=True) as running,
    ):
        try:
            end = time.monotonic() + START_SECONDS
            while "All services started" not in log_file.read_text():
                assert running.poll() is None, f"the server of Google's API did not start; see {log_file}"
                assert time.monotonic() < end, f"the server of Google's API did not start; see {log_file}"
                time.sleep(0.05)
            yield {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}"}
        finally:
            running.kill()


def _made_bucket(address: str) -> bool:
    try:
        urlopen(Request(f"http://{address}/{BUCKET}", method="PUT")).close()
    except (URLError, ConnectionError):
        return False
    return True
