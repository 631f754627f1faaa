"""``python -m tools.setting_texts``: writes what the console says about the settings of a broker.

docs/settings.md says what each setting means, and the settings themselves their types and defaults. The console of an
installed package has neither at hand, so both are written into one file; a test compares them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

from gantrymq.broker.config import CHANGEABLE, FIELDS, BrokerConfig
from gantrymq.console.setting_texts import FILE, SettingText

ROOT: Final = Path(__file__).resolve().parent.parent
TARGET: Final = ROOT / "src" / "gantrymq" / "console" / FILE
_ROW: Final = re.compile(r"\| `(\w+)` \|(.*?)\|(.*?)\|(.*)\|$")
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def page() -> str:
    """The documentation of the settings."""
    return (ROOT / "docs/settings.md").read_text(encoding="utf-8")


def plain(text: str) -> str:
    """A cell without the marks of Markdown."""
    return _LINK.sub(r"\1", text).replace("`", "").strip()


def documented(text: str) -> dict[str, tuple[str, str]]:
    """Key to meaning and difference: of the first table, the one of brokers."""
    table = text.partition("## Settings of the name server")[0]
    rows = (_ROW.match(line) for line in table.splitlines())
    return {row[1]: (plain(row[3]), plain(row[4])) for row in rows if row is not None}


def written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def text_of() -> bytes:
    """What the file shall contain."""
    defaults, pages = BrokerConfig(), documented(page())
    found = []
    for key in [*(key for key in pages if key in FIELDS), *sorted(FIELDS.keys() - pages.keys())]:
        field = FIELDS[key]
        meaning, difference = pages.get(key, ("", ""))
        found.append(
            SettingText(
                key=key, kind=str(field.type), default=written(defaults.value(field.name)),
                live=field.name in CHANGEABLE, meaning=meaning, difference=difference,
            )
        )  # fmt: skip
    return msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n"


if __name__ == "__main__":
    TARGET.write_bytes(text_of())
