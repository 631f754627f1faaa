"""What the console says about settings is what the documentation and the settings say."""

from __future__ import annotations

from gantrymq.broker.config import CHANGEABLE, FIELDS
from gantrymq.console.setting_texts import texts
from tools import setting_texts


def test_the_file_is_up_to_date() -> None:
    assert setting_texts.TARGET.read_bytes() == setting_texts.text_of(), "run: python -m tools.setting_texts"


def test_every_setting_has_a_meaning() -> None:
    assert texts().keys() == FIELDS.keys()
    assert [key for key, text in texts().items() if not text.meaning] == []
    assert {key for key, text in texts().items() if text.live} == {
        key for key, field in FIELDS.items() if field.name in CHANGEABLE
    }
