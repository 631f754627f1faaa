"""The server of the examples: the name servers given on the command line, or a server that runs during the example."""

import argparse
import contextlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Check open transactions after 1 s instead of 6 s, so that the example ends soon.
SETTINGS = "transactionTimeOut=1000\ntransactionCheckInterval=1000\n"


@contextlib.contextmanager
def name_servers(description: str | None) -> Iterator[str]:
    """``--name-servers``, or the address of a fresh ``gantry server`` that is stopped and removed afterwards."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--name-servers", help="host:port of a running cluster; default: start one for this example")
    given: str | None = parser.parse_args().name_servers
    if given:
        yield given
        return
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "broker.conf"
        config.write_text(SETTINGS)
        command = [sys.executable, "-m", "gantrymq.cli.main", "server", "-c", str(config), "--store", directory]
        ports = ["--listen-port", "0", "--name-server-port", "0"]
        server = subprocess.Popen([*command, *ports], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            first_line = server.stdout.readline() if server.stdout else ""
            where = re.search(r"name server (\S+:\d+)", first_line)
            if where is None:
                sys.exit(f"the server did not start: {first_line}")
            print(f"Started {where[0]}, with a broker, in {directory}\n")
            yield where[1]
        finally:
            server.terminate()
            server.wait(10)
