"""The official clients of RocketMQ 5, which speak gRPC: fetched from where their users get them, and our drivers."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.interop import golang
from tests.interop.jars import NotHere, alone, cache, java, library

DRIVERS = Path(__file__).parent / "five"
FETCH_SECONDS = 600
NODE_CLIENT, PYTHON_CLIENT, JAVA_CLIENT = "rocketmq-client-nodejs@1.0.8", "rocketmq-python-client==5.1.2", "grpc-5.2.0"


def java_client(name: str = "Five") -> list[str]:
    """The command of a driver for Java, compiled on first use. Raises NotHere."""
    jars = library(JAVA_CLIENT)
    source = DRIVERS / f"{name}.java"
    made = _made(f"{name.lower()}-java-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}", lambda where: _run(
        java("javac"), "-cp", f"{jars}/*", "-d", str(where), str(source)
    ))  # fmt: skip
    return [java(), "-cp", f"{jars}/*:{made}", name]


def node_client() -> list[str]:
    """The same for Node.js."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise NotHere("no node and npm on the PATH: these tests run the official client for Node.js")
    made = _made("five-node", lambda where: _run(
        npm, "install", "--prefix", str(where), "--no-audit", "--no-fund", "--ignore-scripts", NODE_CLIENT
    ))  # fmt: skip
    shutil.copy(DRIVERS / "five.js", made)
    return [node, str(made / "five.js")]


def python_client() -> list[str]:
    """The same for Python, in an environment of its own."""

    def make(where: Path) -> None:
        _run(sys.executable, "-m", "venv", str(where / "venv"))
        _run(str(where / "venv" / "bin" / "python"), "-m", "pip", "install", "-q", PYTHON_CLIENT)

    return [str(_made("five-python", make) / "venv" / "bin" / "python"), str(DRIVERS / "five.py")]


def go_client() -> list[str]:
    """The same for Go."""
    return [str(golang.driver("five_go"))]


def rust_client() -> list[str]:
    """The driver of the lines for Rust: its client has no push consumer, so it does not play the story."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise NotHere("no cargo on the PATH: these tests build a driver with the official Rust client")
    source, target = DRIVERS.parent / "five_rust", cache() / "five-rust-target"
    files = sorted(path for path in source.rglob("*") if path.is_file())
    state = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]

    def make(where: Path) -> None:
        build = [cargo, "build", "-q", "--locked", "--manifest-path", str(source / "Cargo.toml")]
        _run(*build, "--target-dir", str(target), seconds=golang.BUILD_SECONDS)
        shutil.copy(str(target / "debug" / "lines"), where)

    made = _made(f"five-rust-{state}", make)
    return [str(made / "lines")]


def _node_lines() -> list[str]:
    node, story = node_client()
    return [node, shutil.copy(str(DRIVERS / "lines.js"), Path(story).parent)]


LINE_DRIVERS = {
    "go": lambda: [str(golang.driver("five_go_lines"))], "java": lambda: java_client("Lines"), "node": _node_lines,
    "python": lambda: [python_client()[0], str(DRIVERS / "lines.py")], "rust": rust_client,
}  # fmt: skip
"""The drivers that obey: five_driver.py."""
CLIENTS = {"go": go_client, "java": java_client, "node": node_client, "python": python_client}


def _made(name: str, make: Callable[[Path], object]) -> Path:
    """A directory that ``make`` fills once."""
    where = cache() / name
    with alone(name):
        if not (where / "complete").exists():
            shutil.rmtree(where, ignore_errors=True)
            where.mkdir(parents=True)
            make(where)
            (where / "complete").touch()
    return where


def _run(*command: str, seconds: int = FETCH_SECONDS) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=seconds, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as late:
        raise NotHere(f"{command[0]} did not end within {seconds} s: is its registry reachable?") from late
    if done.returncode:
        raise NotHere(f"{' '.join(command[:3])} failed: {(done.stdout + done.stderr)[-400:]}")
