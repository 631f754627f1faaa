"""Each block of the documents is run, or read: ``snippets.py`` says which of the two, and how."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from gantrymq.console.settings import parse_settings
from gantrymq.spark.pipelines.describe.job_file import read_job

from .blocks import ROOT, Block, block_with, blocks
from .commands import commands_of
from .commands import wrong_in as wrong_in_command
from .reading import READERS, wrong_in, wrong_in_programs
from .snippets import RULES, Why, rule_of, without_a_rule


def test_each_block_has_a_rule() -> None:
    assert len(blocks()) > 100
    missing = list(without_a_rule(blocks()))
    assert not missing, "\n".join(missing)


def test_each_rule_has_a_block() -> None:
    used = {rule_of(block) for block in blocks()}
    unused = [rule for rule in RULES if rule not in used and (rule.pages, rule.how) != ("*", Why.SETTINGS)]
    assert not unused, f"no block is left for these rules of tests/docs/snippets.py; remove them: {unused}"


@pytest.mark.parametrize("test", sorted({rule.how for rule in RULES if isinstance(rule.how, str)}))
def test_the_test_that_a_rule_names_exists_and_reads_the_page(test: str) -> None:
    file, _, name = test.partition("::")
    code = (ROOT / file).read_text("utf-8")
    assert re.search(rf"(?m)^(?:async )?def {name}\(", code), f"{file} has no test {name}"
    for rule in RULES:
        if rule.how == test:
            assert Path(rule.pages).name in code, f"{file} does not read {rule.pages}"


@pytest.mark.parametrize("block", [block for block in blocks() if block.language != "python"], ids=str)
def test_what_a_block_names_exists(block: Block) -> None:
    assert block.language in READERS, f"{block}: write a reader for it in tests/docs/reading.py"
    wrong = wrong_in(block)
    assert not wrong, f"{block}: {wrong}"


@pytest.mark.slow
def test_the_python_of_a_page_calls_what_exists(tmp_path: Path) -> None:
    """Parsing, imports, names and arguments. mypy reads the sources, also where the compiled core runs."""
    wrong = wrong_in_programs(blocks(), tmp_path)
    assert not wrong, "\n".join(wrong)


def with_what_is_left_out(text: str) -> dict[str, Any]:
    """A job of which a page shows a part: the parts that every job has."""
    shown = tomllib.loads(text)
    whole = tomllib.loads(block_with("docs/pipelines.md", 'subscribe = "orders-paid"').text)
    added = {key: value for key, value in whole.items() if key not in {"events", *shown}}
    return {**added, **shown} if "changes" in shown else {**added, "events": whole["events"], **shown}


JOBS = [block for block in blocks() if block.page in {"docs/pipelines.md", "docs/schema-registry.md"}]


@pytest.mark.parametrize("block", [block for block in JOBS if block.language == "toml"], ids=str)
def test_jobs_are_read_by_the_real_reader(block: Block, tmp_path: Path) -> None:
    """A part of a job is completed. The program of docs/pipelines.md says the same as the file before it."""
    job = tmp_path / "orders.yaml"
    job.write_text(yaml.safe_dump(with_what_is_left_out(block.text)))
    assert read_job(str(job), environment={}).name == "orders"
    program = tmp_path / "orders.py"
    program.write_text(block_with("docs/pipelines.md", "def orders() -> Job").text)
    assert read_job(f"{program}:orders", environment={}).source["subscribe"] == "orders-paid"


def test_settings_of_the_console_are_read_by_its_reader() -> None:
    """Those of docs/console.md, which shows them in two parts."""
    users = block_with("docs/console.md", "[users.ann]").text
    users = users.replace("scrypt$32768$8$1$...", "scrypt$32768$8$1$" + "A" * 24 + "$" + "A" * 44)
    proxy = block_with("docs/console.md", "behind_proxy").text
    settings = parse_settings(tomllib.loads(proxy + users))
    assert settings.hosts == ("tools.example.com",)
    assert set(settings.users) == {"ann"}


# ---- the checks find what is wrong


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("gantry message list", "no command 'list' of gantry message"),
        ("gantry transactions commit ID --really", "No such option: --really"),
        ("gantry sql clean --older-than", "requires an argument"),
        ("python3 run.py dance", "no command dance"),
        ("python3 run.py gantry topic paint", "no command 'paint'"),
        ("python3 run.py bench --fly", "benchmarks has no --fly"),
        ("python -m benchmarks.nothing", "no module benchmarks.nothing"),
        ("python -m pytest tests/nothing.py", "no tests/nothing.py"),
        ("pip install 'gantrymq[wings]'", "no extra wings"),
        ("frobnicate --all", "OTHERS"),
        ("A=1 gantry topic paint | psql", "no command 'paint'"),
    ],
)
def test_a_wrong_command_is_found(command: str, said: str) -> None:
    assert said in " ".join(wrong_in_command(words) for words in commands_of(command))


@pytest.mark.parametrize(
    ("language", "text"),
    [("properties", "brokerNmae=a"), ("ini", "gantry_vrtual_time = true"), ("toml", "a = "), ("json", "{"),
     ("yaml", "a: [1"), ("sql", "CREATE VIEW a USING rocketmq OPTIONS (nameserver 'a')")],
)  # fmt: skip
def test_a_wrong_setting_is_found(language: str, text: str) -> None:
    assert wrong_in(Block("docs/a.md", 1, language, text))


@pytest.mark.slow
def test_wrong_python_is_found(tmp_path: Path) -> None:
    text = (
        "from gantrymq import Producer, Produce\n"
        "import gantrymq.nothing\n"
        'producer = Producer("shop", name_server="127.0.0.1:9876")\n'
        "producer.sendd(1)\n"
    )
    wrong = wrong_in_programs((Block("docs/a.md", 3, "python", text),), tmp_path)
    assert [line.split(": ")[0] for line in wrong] == [
        "docs/a.md:3 (python)", "docs/a.md:4", "docs/a.md:5", "docs/a.md:6",
    ]  # fmt: skip


def test_a_new_page_needs_a_rule_for_its_python() -> None:
    (said,) = without_a_rule((Block("docs/new.md", 7, "python", "print(1)"),))
    assert said.startswith("docs/new.md:7 (python): no rule of tests/docs/snippets.py covers it. Run it in")
