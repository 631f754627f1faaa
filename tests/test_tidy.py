"""What the whole repository promises about itself, checked by reading it."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gantrymq.broker.config import FIELDS

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "gantrymq"

MAX_LINES = 600
"""A module longer than this holds more than one noun."""

NAMES_THAT_SAY_NOTHING = re.compile(r"(Manager|Utils?|Helper|Impl|Wrapper|Service|Holder|Info)$|^Abstract")
ROCKETMQ_WORDS = {"ClusterInfo"}
"""Bodies on the wire whose RocketMQ name is what a reader looks for."""

LINKED_HOSTS = {"localhost", "127.0.0.1", "github.com", "www.apache.org", "rocketmq.apache.org", "spark.apache.org",
                "www.w3.org"}  # fmt: skip
"""The hosts that a text of this repository may point at; a package index or a machine of ours is never among them."""

MACHINE_PATH = re.compile(r"(?<![\w.~}$])/(?:root|home|Users|work|opt|mnt)/\w")


def tracked_files() -> list[Path]:
    """Every file git knows, or would add; recorded bytes (tests/golden) are what they are and are left out."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    return [ROOT / name for name in listed if name and not name.startswith("tests/golden/") and (ROOT / name).is_file()]


@cache
def texts() -> dict[Path, str]:
    found = {}
    for path in tracked_files():
        try:
            found[path] = path.read_text()
        except UnicodeDecodeError:
            continue
    return found


@cache
def modules() -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text(), str(path))) for path in sorted(PACKAGE.rglob("*.py"))]


def places(pattern: re.Pattern[str], text: str) -> list[tuple[int, str]]:
    return [(number, hit) for number, line in enumerate(text.splitlines(), 1) for hit in pattern.findall(line)]


def test_the_checks_below_read_something() -> None:
    assert len(texts()) > 30
    assert len(modules()) > 20


def test_no_class_has_a_name_that_says_nothing() -> None:
    bad = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and NAMES_THAT_SAY_NOTHING.search(node.name)
        and node.name not in ROCKETMQ_WORDS
    ]
    assert not bad, "name the thing: " + ", ".join(bad)


def test_files_are_opened_by_runtime_only() -> None:
    bad = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open"
        if "runtime" not in path.relative_to(PACKAGE).parts
    ]
    assert not bad, "use a Disk (gantrymq.runtime.disk): " + ", ".join(bad)


def test_no_class_uses_its_methods_while_it_is_made() -> None:
    """Compiled, a class does not have them yet, and importing its module fails. Other names for one method are fine."""
    bad = [
        f"{path.relative_to(ROOT)}:{one.lineno}"
        for path, tree in modules()
        for made in ast.walk(tree)
        if isinstance(made, ast.ClassDef) and "spark" not in path.relative_to(PACKAGE).parts
        for one in made.body
        if isinstance(one, ast.Assign | ast.AnnAssign) and isinstance(one.value, ast.Dict | ast.List | ast.Tuple)
        if {node.id for node in ast.walk(one.value) if isinstance(node, ast.Name)} & methods_of(made)
    ]
    assert not bad, "make the table in __init__: " + ", ".join(bad)


def methods_of(made: ast.ClassDef) -> set[str]:
    return {one.name for one in made.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_nothing_runs_in_a_child_between_fork_and_program() -> None:
    """That needs a fork of a process with threads, which stood still once in a while; see tests/support/tied.py."""
    word = "preexec" + "_fn"
    explained = ROOT / "tests" / "support" / "tied.py"
    bad = [str(path.relative_to(ROOT)) for path, text in texts().items() if f"{word}=" in text and path != explained]
    assert not bad, f"start the program with tied(command), or through sh, instead of {word}: {bad}"


def test_a_port_that_is_free_has_one_home() -> None:
    """A port that the system gives away belongs to the next program that asks it for one, so that a server may not find
    it free when it starts, or when it starts again. ``demo/ports.py`` takes others."""
    taken = re.compile(r"^def (?:free|unused|open)_port\b|bind\(\(.*, 0\)\)\n +(?:port|return).*getsockname", re.M)
    homes = {ROOT / "src" / "gantrymq" / "demo" / "ports.py", ROOT / "tests" / "runtime" / "test_network.py"}
    bad = [str(path.relative_to(ROOT)) for path, text in texts().items() if taken.search(text) and path not in homes]
    assert not bad, f"use gantrymq.demo.ports.free_port: {bad}"


def test_a_program_with_listeners_writes_whole_lines() -> None:
    """Each argument of ``print`` may be a write of its own, as with PYTHONUNBUFFERED, and so is the end of the line.
    Threads of listeners mix them, and a test that reads such lines waits for one that never comes."""
    bad = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, text in texts().items()
        if path.suffix == ".py" and "PushConsumer(" in text and "print(" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if "PushConsumer(" in node.value and "print(" in node.value
    ]
    assert not bad, f"write one string, with the end of its line: {bad}"


def test_no_module_is_too_long() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path, text in texts().items()
        if path.suffix == ".py" and (lines := len(text.splitlines())) > MAX_LINES
    }
    assert not long, f"over {MAX_LINES} lines: {long}"


def test_no_text_points_at_a_host_outside_the_list() -> None:
    url = re.compile(r"[a-z]+://(?:[^/\s@]*@)?([A-Za-z0-9][A-Za-z0-9.-]*)")
    bad = [
        f"{path.relative_to(ROOT)}:{number} {host}"
        for path, text in texts().items()
        for number, host in places(url, text)
        # Apache's files are unchanged.
        if host not in LINKED_HOSTS and path.suffix != ".proto"
    ]
    assert not bad, f"hosts that must not be named (or belong into LINKED_HOSTS): {bad}"


def test_no_text_holds_a_path_of_one_machine() -> None:
    bad = [
        f"{path.relative_to(ROOT)}:{number} {hit}"
        for path, text in texts().items()
        if path != Path(__file__)
        for number, hit in places(MACHINE_PATH, text)
    ]
    assert not bad, f"paths of somebody's machine: {bad}"


def locked_versions() -> dict[str, set[str]]:
    versions: dict[str, set[str]] = {}
    for name, version in re.findall(r"(?m)^([A-Za-z0-9._-]+)==([^\s;]+)", (ROOT / "requirements.lock").read_text()):
        versions.setdefault(canonicalize_name(name), set()).add(version)
    return versions


def required() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = [
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["spark"],
        *(text for group in ("dev", "docs", "release") for text in project["dependency-groups"][group]),
        *project["build-system"]["requires"],
    ]
    return [Requirement(text) for text in listed]


@pytest.mark.parametrize("requirement", required(), ids=lambda requirement: requirement.name)
def test_the_lock_satisfies_what_the_project_asks_for(requirement: Requirement) -> None:
    versions = locked_versions().get(canonicalize_name(requirement.name), set())
    assert versions, f"{requirement.name} is not in requirements.lock; write it anew: python3 run.py lock"
    assert all(requirement.specifier.contains(version) for version in versions)


def test_every_locked_package_has_hashes_and_no_address() -> None:
    entries = re.split(r"(?m)^(?=[a-z0-9])", (ROOT / "requirements.lock").read_text())
    entries = [entry for entry in entries if re.match(r"[a-z0-9]", entry)]
    assert len(entries) > 20
    for entry in entries:
        assert "--hash=sha256:" in entry, entry.splitlines()[0]
        assert "://" not in entry and "--index" not in entry and "--find-links" not in entry, entry.splitlines()[0]


def documents() -> dict[str, str]:
    return {path.name: path.read_text() for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]}


@pytest.mark.parametrize("name", sorted(documents()))
def test_the_files_a_document_names_exist(name: str) -> None:
    for path in re.findall(r"`((?:src|tests|tools|examples|benchmarks|docs|\.ci)/[\w./-]+)`", documents()[name]):
        assert (ROOT / path).exists(), path


def test_every_setting_of_the_broker_is_documented_with_its_default() -> None:
    text = "\n".join(documents().values())
    missing = [
        key for key, field in FIELDS.items() if not re.search(rf"(?m)^\| `{key}` \| .*{re.escape(shown(field))}", text)
    ]
    assert not missing, f"a row each in the table of settings (key, default, meaning): {missing}"


def shown(field: Any) -> str:
    """A default as a ``broker.conf`` would have it."""
    return str(field.default).lower() if isinstance(field.default, bool) else str(field.default)


# ---- what a comment, a docstring or a document cites is here

CITED_PAGE = re.compile(r'(?<!/ ")(?<![\w/*{<.-])([\w./-]*\w\.md)(?:#([\w-]+))?\b')
NUMBERS = re.compile(r"\b([GX]\d+)\b")
TEST_NUMBERS = re.compile(r"\btest_(g\d+)_")
HOLES = re.compile(r"\b[Hh]oles? ((?:X?\d+(?:, | and | to )?)+)|\btest_hole_(x?\d+)_")


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    titles = re.findall(r"(?m)^#+ (.+)$", page.read_text())
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def sources() -> dict[Path, str]:
    """What people write: code and documents, without this file and what is generated."""
    kinds = {".py", ".md", ".toml", ".go", ".java", ".cfg", ".sh", ""}
    return {path: text for path, text in texts().items() if path.suffix in kinds and path != Path(__file__)}


def test_every_page_that_is_cited_is_in_the_repository() -> None:
    missing = []
    of_the_site = tuple(ROOT / place for place in ("tests/docs", "tools/website", "tools/pages"))  # paths below docs/
    for path, text in sources().items():
        if path.parent in of_the_site:
            continue
        for cited, anchor in CITED_PAGE.findall(text):
            page = next((place / cited for place in (ROOT, path.parent) if (place / cited).is_file()), None)
            if page is None or (anchor and anchor not in headings(page)):
                missing.append(f"{path.relative_to(ROOT)}: {cited}#{anchor}" if anchor else f"{path.name}: {cited}")
    assert not missing, f"cite a page of this repository by its path, or a class of RocketMQ: {missing}"


def test_every_number_that_is_cited_has_a_key() -> None:
    holes = set(re.findall(r"(?m)^\| (X?\d+) \|", (ROOT / "docs" / "holes.md").read_text()))
    guarantees = set(re.findall(r"(?m)^\| (G\d+) \|", (ROOT / "docs" / "guarantees.md").read_text()))
    assert len(holes) > 40 and len(guarantees) > 20
    unknown = []
    for path, text in sources().items():
        cited = {*NUMBERS.findall(text), *(number.upper() for number in TEST_NUMBERS.findall(text))}
        for words, number in HOLES.findall(text):
            cited |= {*re.findall(r"X?\d+", words), *([number.upper().lstrip("0")] if number else [])}
        unknown += [f"{path.relative_to(ROOT)}: {one}" for one in sorted(cited - holes - guarantees)]
    assert not unknown, f"explain them in docs/holes.md or docs/guarantees.md: {unknown}"


def test_no_text_cites_notes_outside_the_repository() -> None:
    outside = re.compile(
        r"\.\./shared|/shared/|(?:wire-protocol|transactions-and-store|grpc-v2|style-models)\.md|\bA16\b"
    )
    bad = [
        f"{path.relative_to(ROOT)}:{n} {hit}" for path, text in sources().items() for n, hit in places(outside, text)
    ]
    assert not bad, bad
