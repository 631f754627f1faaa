"""Settings as text. The questions themselves are asked of real brokers in ``tests/cli`` and ``tests/interop``."""

from __future__ import annotations

from gantrymq.admin.brokers import parse


def test_settings_are_lines_of_key_and_value() -> None:
    text = "b=2\na=1=one\n# a comment\n\nempty=\nno mark\npath=c:\\x\n"
    assert parse(text) == {"a": "1=one", "b": "2", "empty": "", "path": "c:\\x"}
    assert list(parse(text)) == sorted(parse(text))
