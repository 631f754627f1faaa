"""One declaration is enough for an option: it is read, checked, and written into the page."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

import pytest

from gantrymq.errors import ConfigError
from gantrymq.spark.option_pages import Side, tables
from gantrymq.spark.options.names import OptionNames
from gantrymq.spark.options.option import Option, Query, options_of, setting, values_in
from gantrymq.spark.options.table import SourceSettings
from gantrymq.spark.options.values import duration_ms
from gantrymq.spark.sink.options import SinkSettings


@dataclass(frozen=True, slots=True)
class WithAge(SourceSettings):
    """The settings of the source with one more option."""

    most_age_ms: int = setting(
        duration_ms,
        Option("mostAge", "leaves out older messages", default="1h", query=Query.STREAM, aliases=("maximum.age",)),
    )


def read(**options: str) -> WithAge:
    names = OptionNames("the format", options_of(WithAge), {})
    found = names.canonical({"nameServers": "h:1", **options}, lambda name: False)
    return WithAge(**values_in(found, WithAge), given=frozenset(found))


def test_it_is_read_under_each_of_its_names() -> None:
    assert read().most_age_ms == 3_600_000
    assert read(MOSTAGE="2s").most_age_ms == read(**{"maximum.age": "2000"}).most_age_ms == 2_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mostAge": "old"}, "option mostAge is 'old'; allowed are times like 500ms"),
        ({"mostAges": "2s"}, "did you mean mostAge?"),
        ({"mostAge": "2s", "maximum.age": "3s"}, "option mostAge is given twice, as '2s' and as '3s'"),
    ],
)
def test_a_wrong_name_or_value_is_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        read(**options)


def test_it_stands_in_the_table_of_the_page() -> None:
    row = "| `mostAge` | stream: leaves out older messages | 1h |  | `maximum.age` |"
    assert row in tables(Side("here", "source", options_of(WithAge), {}))


@pytest.mark.parametrize("settings", [SourceSettings, SinkSettings])
def test_a_default_in_the_page_is_the_one_that_holds(settings: type) -> None:
    """Each default that is the text of a value gives the value of its field."""
    texts = {option.name: option.default for option in options_of(settings) if option.default}
    described = {"startingOffsets", "requestTimeout", "subExpressionType", "includeProperties", "tls"}
    given = values_in({name: text for name, text in texts.items() if name not in described}, settings)
    defaults = {one.name: one.default for one in fields(settings)}
    assert len(given) > 5
    assert given == {name: defaults[name] for name in given}
