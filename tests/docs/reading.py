"""Blocks that are read: settings that parse, with keys that there are; Python whose names and arguments there are."""

from __future__ import annotations

import ast
import configparser
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

from gantrymq.broker.config import from_properties
from gantrymq.errors import ConfigError
from gantrymq.runtime.properties import parse_properties
from gantrymq.runtime.tls.file import tls_file_of
from gantrymq.spark.options.table import BY_NAME
from gantrymq.testing import pytest_plugin

from .blocks import ROOT, Block
from .commands import commands_of
from .commands import wrong_in as wrong_in_command

KINDS = frozenset({"call-arg", "call-overload", "arg-type", "attr-defined", "import-not-found", "syntax", "union-attr"})
"""What mypy says of a wrong name, argument or import. A block is a part without annotations: the rest is left out."""
NOT_INSTALLED = frozenset({"confluent_kafka"})
"""Packages that a block imports and that the lock file does not have."""
BESIDE = ROOT / "examples" / "shop_with_tests"
"""`shop` of docs/testing.md."""


def wrong_in(block: Block) -> list[str]:
    """What is wrong with a block that is no Python."""
    try:
        return READERS[block.language](block.text)
    except (ValueError, yaml.YAMLError, configparser.Error, ConfigError) as error:
        return [str(error)]


def _shell(text: str) -> list[str]:
    return [f"{' '.join(words)}: {said}" for words in commands_of(text) if (said := wrong_in_command(words))]


def _toml(text: str) -> list[str]:
    tomllib.loads(text)
    return []


def _yaml(text: str) -> list[str]:
    yaml.safe_load(text)
    return []


def _json(text: str) -> list[str]:
    json.loads(text)
    return []


def _properties(text: str) -> list[str]:
    """A broker.conf, or a tls.properties."""
    values = parse_properties(text)
    if any(key.startswith("tls.") for key in values):
        tls_file_of(values, "tls.properties")
        return []
    return [f"{key} is no setting of a broker" for key in from_properties(text)[1]]


def _ini(text: str) -> list[str]:
    """A pytest.ini: the settings of the plugin."""
    found = configparser.ConfigParser()
    found.read_string("[pytest]\n" + text)
    plugin = Path(pytest_plugin.__file__).read_text("utf-8")
    return [f"the pytest plugin has no setting {key}" for key in found["pytest"] if f'"{key}"' not in plugin]


def _sql(text: str) -> list[str]:
    """Statements of Spark: the options of the source."""
    named = re.findall(r"\b(\w+) (?:= )?'", text)
    return [f"the format rocketmq has no option {name}" for name in named if name not in BY_NAME]


def _nothing(_text: str) -> list[str]:
    return []


READERS = {
    "sh": _shell, "toml": _toml, "yaml": _yaml, "json": _json, "properties": _properties, "ini": _ini, "sql": _sql,
    "nginx": _nothing, "text": _nothing,
}  # fmt: skip


def program_of(page: str, found: tuple[Block, ...]) -> str:
    """All Python of a page as one program, each line where it is in the page."""
    lines = ["# mypy: allow-redefinition"]  # a name of one block may be another thing in the next one
    for block in found:
        if block.page == page and block.language == "python":
            lines += [""] * (block.line - 1 - len(lines))
            lines += block.text.splitlines()
    return "\n".join(lines) + "\n"


def _imports(text: str) -> list[str]:
    """Names of ours that are imported and do not exist: our modules load them late, so that mypy takes any name."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except SyntaxError as error:
        return [str(error)]
    wrong = []
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "gantrymq":
            module = importlib.import_module(str(node.module))
            missing = [name.name for name in node.names if not hasattr(module, name.name)]
            wrong += [
                f"{node.module} has no {name}" for name in missing
                if importlib.util.find_spec(f"{node.module}.{name}") is None
            ]  # fmt: skip
    return wrong


def wrong_in_programs(found: tuple[Block, ...], directory: Path) -> list[str]:
    """What mypy says of the Python of all pages: modules, names, and arguments that do not exist."""
    files = {}
    for page in sorted({block.page for block in found if block.language == "python"}):
        file = directory / (re.sub(r"\W", "_", page) + ".py")
        file.write_text(program_of(page, found), "utf-8")
        files[file.name] = page
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--no-pretty", "--hide-error-context", "--no-color-output",
         *map(str, (directory / name for name in files))],
        cwd=ROOT, env={**os.environ, "MYPYPATH": str(BESIDE)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1) and not done.stderr, done.stdout + done.stderr
    wrong = [f"{block}: {said}" for block in found if block.language == "python" for said in _imports(block.text)]
    for said in re.finditer(r"(?m)^(?:.*/)?(\w+\.py):(\d+): error: (.*?) +\[([a-z-]+)\]$", done.stdout):
        name, line, text, kind = said.groups()
        installed = not any(f'"{package}' in text for package in NOT_INSTALLED)
        if name in files and kind in KINDS and installed:
            wrong.append(f"{files[name]}:{line}: {text}")
    return wrong
