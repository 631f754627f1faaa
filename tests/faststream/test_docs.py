"""docs/faststream.md: each test that its table of features names exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_each_row_of_the_table_of_features_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "faststream.md").read_text("utf-8")
    rows = re.findall(r"(?m)^\| .* \|$", text[text.index("| Feature |") :])
    named = {name for row in rows for name in re.findall(r"`([Tt]est\w+)`", row)}
    code = "".join(path.read_text("utf-8") for path in [
        *(ROOT / "tests" / "faststream").rglob("*.py"), ROOT / "tests" / "examples" / "test_task_recipes.py",
    ])  # fmt: skip
    assert len(named) > 30
    missing = [name for name in named - {"TestBroker"} if not re.search(rf"(?:def|class) {name}\b", code)]
    assert not missing
    without = [row for row in rows[2:] if "| yes" in row and "`" not in row.rsplit("|", 2)[1]]
    assert not without
