"""How each block of the documents is tried, as a table. The first rule that fits a block counts.

A block is run by the test that its rule names, or it is read: its names, options and keys are compared with what there
is (``reading.py``, ``commands.py``), and its rule says why it is not run.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from .blocks import Block


class Why(enum.Enum):
    """Why a block is only read."""

    CLUSTER = "it is typed at a cluster of yours, changes it, or runs until Ctrl-C"
    PART = "it is a part of a program, and the rest of the program is the reader's"
    DATABASE = "it needs a database of yours"
    SPARK = "it needs Spark and a cluster; the tests of the marker spark run programs like it"
    WORLD = "it needs a package or a service that CI does not have"
    SECRETS = "it needs certificates or users of a real cluster"
    SETTINGS = "it is a file that something else reads; the real reader reads it, where there is one"
    TEXT = "it is output or a drawing"


@dataclass(frozen=True, slots=True)
class Rule:
    """Blocks of ``language`` on ``pages`` (a pattern) that have ``text``: the test that runs them, or why none does."""

    pages: str
    language: str
    how: str | Why
    text: str = ""

    def fits(self, block: Block) -> bool:
        return fnmatchcase(block.page, self.pages) and block.language == self.language and self.text in block.text


RUNNING = "tests/docs/test_running.py::"
FIRST = "tests/examples/test_examples.py::test_the_classic_listener_does_what_the_first_message_does"
DJANGO = "tests/django/test_recipe.py::test_a_task_starts_if_and_only_if_the_row_committed"

PYTHON = (
    Rule("README.md", "python", FIRST),
    Rule("docs/start.md", "python", FIRST, "SERVER ="),
    Rule("docs/start.md", "python", RUNNING + "test_the_tests_of_the_pages_pass", "def test_"),
    Rule("docs/start.md", "python", Why.SPARK),
    Rule("docs/client.md", "python", RUNNING + "test_the_first_program_of_the_client", "send_ordered"),
    Rule("docs/client.md", "python", RUNNING + "test_lite_pull_polls_and_commits", "LitePullConsumer"),
    Rule("docs/client.md", "python", RUNNING + "test_a_simple_consumer_receives_and_acknowledges", "SimpleConsumer"),
    Rule("docs/client.md", "python", RUNNING + "test_the_listener_with_a_table_of_outcomes", "class Orders"),
    Rule("docs/django.md", "python", Why.PART),
    Rule("docs/doctor.md", "python", RUNNING + "test_doctor_as_a_library"),
    Rule("docs/faststream.md", "python", RUNNING + "test_the_first_program_of_faststream", "app.after_startup"),
    Rule("docs/faststream.md", "python", RUNNING + "test_the_test_client_of_faststream", "TestGantryBroker"),
    Rule("docs/faststream.md", "python", RUNNING + "test_the_router_of_fastapi", "GantryRouter"),
    Rule("docs/faststream.md", "python", Why.DATABASE, "create_async_engine"),
    Rule("docs/inbox.md", "python", Why.PART, "tx.session.execute(...)"),
    Rule("docs/inbox.md", "python", "tests/sql/inbox/test_docs.py::test_the_examples_of_the_page_run"),
    Rule("docs/internals/one-transaction-message.md", "python", Why.PART),
    Rule("docs/permissions.md", "python", Why.SECRETS),
    Rule("docs/pipelines.md", "python", "tests/docs/test_snippets.py::test_jobs_are_read_by_the_real_reader", "def or"),
    Rule("docs/pipelines.md", "python", Why.SPARK),
    Rule("docs/recipes.md", "python", RUNNING + "test_the_progress_of_a_group", "Admin("),
    Rule("docs/recipes.md", "python", DJANGO, "Inbox("),
    Rule("docs/schema-registry.md", "python", Why.WORLD),
    Rule("docs/security.md", "python", Why.SECRETS),
    Rule("docs/spark-sink.md", "python", "tests/spark/sink/test_docs.py::test_the_first_programs_work_as_written"),
    Rule("docs/spark.md", "python", Why.SPARK),
    Rule("docs/sql.md", "python", Why.PART, "alembic"),
    Rule("docs/sql.md", "python", Why.PART, "topics=["),
    Rule("docs/sql.md", "python", "tests/sql/test_docs.py::test_the_examples_of_the_page_run_one_after_the_other"),
    Rule("docs/testing.md", "python", RUNNING + "test_the_tests_of_the_pages_pass", "def test_"),
    Rule("docs/testing.md", "python", RUNNING + "test_a_cluster_without_pytest", "with LocalCluster("),
    Rule("docs/testing.md", "python", RUNNING + "test_the_door_of_a_test", "gantry.door("),
    Rule("docs/tracing.md", "python", Why.WORLD, "ConsoleSpanExporter"),
    Rule("docs/tracing.md", "python", Why.CLUSTER),
)  # fmt: skip

BY_LANGUAGE = (
    Rule("docs/sql.md", "sh", RUNNING + "test_the_statements_for_a_migration", "gantry sql ddl"),
    Rule("*", "sh", Why.CLUSTER),
    Rule("docs/pipelines.md", "toml", "tests/docs/test_snippets.py::test_jobs_are_read_by_the_real_reader"),
    Rule("docs/schema-registry.md", "toml", "tests/docs/test_snippets.py::test_jobs_are_read_by_the_real_reader"),
    Rule("docs/console.md", "toml", "tests/docs/test_snippets.py::test_settings_of_the_console_are_read_by_its_reader"),
    Rule("*", "toml", Why.SETTINGS),
    Rule("*", "yaml", Why.SETTINGS),
    Rule("*", "json", Why.SETTINGS),
    Rule("*", "ini", Why.SETTINGS),
    Rule("*", "properties", Why.SETTINGS),
    Rule("docs/console.md", "nginx", Why.WORLD),
    Rule("*", "sql", Why.SPARK),
    Rule("*", "text", Why.TEXT),
)

RULES = (*PYTHON, *BY_LANGUAGE)


def rule_of(block: Block) -> Rule | None:
    return next((rule for rule in RULES if rule.fits(block)), None)


def what_to_do(block: Block) -> str:
    """The message about a block that no rule covers."""
    if not block.language:
        return f"{block}: give it a language; `text` is for output and drawings"
    return (
        f"{block}: no rule of tests/docs/snippets.py covers it. Run it in tests/docs/test_running.py and name the test "
        f"in a Rule, or say in a Rule why it is only read ({', '.join(f'Why.{why.name}' for why in Why)})"
    )


def without_a_rule(found: tuple[Block, ...]) -> Iterator[str]:
    yield from (what_to_do(block) for block in found if rule_of(block) is None)
