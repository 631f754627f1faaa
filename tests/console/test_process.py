"""The command as a process: it listens, with TLS too, ends when it is told to, and says what is in its way."""

from __future__ import annotations

import re
import signal
import ssl
import sys
from pathlib import Path

import httpx
import pytest

from tests.cli.test_serve import Program, program
from tests.console.site import HASH, PASSWORD
from tests.runtime.tls.peers import file

pytestmark = pytest.mark.slow

NOBODY = "127.0.0.1:1"
"""Where no name server is: the console starts all the same, and says so on its pages."""


def console(*arguments: str, settings: str = "", directory: Path) -> Program:
    given = ("console", "--port", "0", "--name-servers", NOBODY, "--audit", str(directory / "audit.jsonl"), *arguments)
    if settings:
        path = directory / "console.toml"
        path.write_text(settings)
        given += ("--settings", str(path))
    return Program(*given)


def test_it_serves_without_a_cluster_and_says_so(tmp_path: Path) -> None:
    running = console(directory=tmp_path)
    try:
        address = running.ready().split()[0]
        assert httpx.get(f"{address}/health", timeout=30).json() == {"status": "ok"}
        page = httpx.get(f"{address}/", timeout=30)
        assert page.status_code == 200 and NOBODY in page.text
        answer = httpx.get(f"{address}/transactions", timeout=30)
        assert answer.status_code == 502 and "The cluster did not do it" in answer.text
        with httpx.Client(timeout=30) as browser, browser.stream("GET", f"{address}/live/overview") as live:
            assert next(live.iter_text()).startswith("retry:")
            running.process.send_signal(signal.SIGTERM)  # a page that is open does not keep it from ending
            status, _, said = running.ended()
        assert status == 0 and "Traceback" not in said, said
    finally:
        running.kill()


def test_tls_and_the_cookie_that_needs_it(tmp_path: Path) -> None:
    users = f'[users.otto]\nrole = "operator"\npassword = "{HASH}"\n'
    running = console(
        "--tls-cert", file("server.pem"), "--tls-key", file("server.key"), settings=users, directory=tmp_path
    )
    try:
        address = running.ready().split()[0]
        assert address.startswith("https://")
        trust = ssl.create_default_context(cafile=file("authority.pem"))
        trust.check_hostname = False
        with httpx.Client(verify=trust, timeout=30) as browser:
            answer = browser.post(
                f"{address}/login", data={"name": "otto", "password": PASSWORD}, headers={"Origin": address}
            )
            assert answer.status_code == 303, answer.text
            cookie = answer.headers["set-cookie"]
            assert cookie.startswith("__Host-gantry_console=") and "; secure" in cookie.lower()
            assert "max-age" in answer.headers["strict-transport-security"]
    finally:
        running.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="ports are shared there")
def test_a_port_that_is_in_use(tmp_path: Path) -> None:
    with program("console", "--port", "0", "--name-servers", NOBODY, cwd=tmp_path) as first:
        found = re.search(r":(\d+) ", first.ready())
        assert found is not None
        with program("console", "--port", found[1], "--name-servers", NOBODY, cwd=tmp_path) as second:
            status, _, said = second.ended()
            assert status == 1 and "is the port in use?" in said and "Traceback" not in said
