"""What is wrong in a job, found without Spark: a mapping in, a job or a list of problems out. No I/O."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args, get_type_hints

import msgspec

from gantrymq.errors import ConfigError
from gantrymq.spark.options.settings import parse_options
from gantrymq.spark.pipelines.describe.addresses import scheme_of, wrong_places
from gantrymq.spark.pipelines.describe.mysql_address import MysqlAddress
from gantrymq.spark.pipelines.job import (
    Allowed,
    Body,
    Changes,
    Events,
    Job,
    MysqlTarget,
    ParquetTarget,
    PostgresqlTarget,
    Run,
    TableTarget,
    Target,
    duration_ms,
)
from gantrymq.spark.registry.place import wrong_url

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_SQL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_FORMS: Final = {
    "str": "a text", "int": "a whole number", "bool": "true or false", "array": 'a list such as ["id"]',
    "object": "a table of keys", "float": "a number with a point",
}  # fmt: skip
"""What msgspec calls the values of a job file, for people."""
_PATH: Final = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?", re.DOTALL)
OF_THE_JOB: Final = ("maxOffsetsPerTrigger", "endingOffsets", "endingTimestamp")
"""Options of the source that the job sets by itself."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    key: str
    """The key of the job file, for example ``targets.shipping.path``."""
    text: str
    """What is wrong and what to do."""


class JobInvalid(ConfigError):
    """A job cannot run. ``problems`` names every key that is wrong."""

    what_to_do = "Change the keys that it names: `gantry pipeline check FILE` lists all of them with their lines."

    def __init__(self, where: str, problems: list[Problem], lines: Mapping[str, int] | None = None) -> None:
        self.where = where
        self.problems = problems
        self.lines = dict(lines or {})
        super().__init__("\n".join(self._say(problem) for problem in problems))

    def __reduce__(self) -> tuple[Any, ...]:
        return (JobInvalid, (self.where, self.problems, self.lines))

    def _say(self, problem: Problem) -> str:
        key = problem.key
        while key not in self.lines and "." in key:
            key = key.rpartition(".")[0]
        line = f", line {self.lines[key]}" if key in self.lines else ""
        return f"{self.where}{line}: {problem.key}: {problem.text}"


def job_of(tree: Mapping[str, Any], where: str = "the job") -> Job:
    """The job in a mapping, as TOML or YAML give it. Raises JobInvalid with all problems that were found."""
    problems: list[Problem] = []

    def section(kind: Any, value: Any, key: str) -> Any:
        try:
            return msgspec.convert(value, kind, strict=True)
        except msgspec.ValidationError as error:
            problems.append(_problem(key, str(error), kind))
            return None

    known = set(Job.__struct_fields__)
    for name in tree.keys() - known:
        problems.append(Problem(str(name), f"there is no such key{_hint(str(name), known)}"))
    parts: dict[str, Any] = {}
    required: dict[str, Any] = {"name": str, "checkpoint": str, "source": dict[str, str | int | bool]}
    optional: dict[str, Any] = {
        "body": Body, "events": Events, "changes": Changes, "run": Run, "dead_letters": Target,
    }  # fmt: skip
    for name, kind in required.items():
        if name in tree:
            parts[name] = section(kind, tree[name], name)
        else:
            problems.append(Problem(name, "this key is missing"))
    for name, kind in optional.items():
        if name in tree:
            parts[name] = section(kind, tree[name], name)
    targets = tree.get("targets", {})
    if not isinstance(targets, Mapping):
        problems.append(Problem("targets", "write a table for each target, for example [targets.shipping]"))
        targets = {}
    parts["targets"] = {str(name): section(TableTarget, value, f"targets.{name}") for name, value in targets.items()}
    if problems:
        raise JobInvalid(where, problems)
    parts["source"] = {key: _text(value) for key, value in parts["source"].items()}
    job = Job(**parts)
    problems = list(problems_of(job))
    if problems:
        raise JobInvalid(where, problems)
    return job


def problems_of(job: Job) -> Iterator[Problem]:
    """What is wrong in a job whose keys and types are right."""
    if not _NAME.fullmatch(job.name):
        yield Problem("name", f"{job.name!r} is not a name; use letters, digits, - and _, and begin with a letter")
    if not job.checkpoint:
        yield Problem("checkpoint", "name a directory")
    yield from _source(job)
    yield from body_problems(job.body)
    for key, text in (("events.horizon", job.events.horizon), ("run.interval", job.run.interval)):
        try:
            if duration_ms(text) == 0 and key == "events.horizon":
                yield Problem(key, "the horizon must be longer than nothing; to keep repeats, leave events.key out")
        except ConfigError as error:
            yield Problem(key, str(error))
    for key, text in problems_of_changes(job):
        yield Problem(key, text)
    if job.run.max_rows < 1:
        yield Problem("run.max_rows", "a batch must have room for one message or more")
    for name in job.run.spark:
        if not name.startswith("spark."):
            yield Problem(f"run.spark.{name}", "a setting of Spark begins with 'spark.'")
    yield from _targets(job)
    for key, text in wrong_places(job):
        yield Problem(key, text)
    every_message_counts = job.body.format == "none" and job.events.valid is None and job.changes is None
    if job.dead_letters is None and not every_message_counts:
        yield Problem(
            "dead_letters",
            "this table is missing: say where messages go that are not events, for example type = \"parquet\" and "
            "path = \"rejected\"",
        )  # fmt: skip


def _source(job: Job) -> Iterator[Problem]:
    for name in job.source:
        if name.lower() in {one.lower() for one in OF_THE_JOB}:
            yield Problem(f"source.{name}", "a job sets this option by itself; see run.max_rows and `backfill`")
            return
    try:
        parse_options(job.source).for_stream()
    except ConfigError as error:
        named = next((name for name in job.source if re.search(rf"\b{re.escape(name)}\b", str(error))), None)
        yield Problem(f"source.{named}" if named else "source", str(error))


def body_problems(body: Body) -> Iterator[Problem]:
    """What is wrong in the keys of ``body``."""
    needed = {
        "json": {"schema"},
        "avro": {"schema_file"},
        "protobuf": {"schema_file", "message"},
        "none": set(),
    }[body.format]
    if body.registry is not None and body.subject is not None:
        # The registry has the job's own schema as well.
        needed = needed - {"schema_file"} if body.schema_file is None else needed
    for name in ("schema", "schema_file", "message"):
        given = getattr(body, name) is not None
        if given and name not in needed:
            yield Problem(f"body.{name}", f"this key has no meaning for the format {body.format}; remove it")
        if not given and name in needed:
            yield Problem("body", f"the format {body.format} needs the key {name}")
    yield from _registry(body)
    meant = {"json": get_args(Allowed), "protobuf": ("rounding",)}.get(body.format, ())
    for one in body.allow:
        if one not in meant:
            yield Problem("body.allow", f"{one} has no meaning for the format {body.format}; remove it")


def _registry(body: Body) -> Iterator[Problem]:
    if body.registry is None:
        for name, given in (("subject", body.subject is not None), ("compatibility", body.compatibility != "all")):
            if given:
                yield Problem(
                    f"body.{name}", "this key has no meaning without body.registry; remove it, or add that key"
                )
        return
    if body.format == "none":
        yield Problem("body.registry", "this key has no meaning for the format none; remove it")
    if (wrong := wrong_url(body.registry)) is not None:
        yield Problem("body.registry", wrong)


def _targets(job: Job) -> Iterator[Problem]:
    if not job.targets:
        yield Problem("targets", "there is no target; add one, for example [targets.shipping] with type and path")
    used: dict[str, str] = {}
    for name, target in job.targets.items():
        key = f"targets.{name}"
        if not _NAME.fullmatch(name):
            yield Problem(key, f"{name!r} is not a name; use letters, digits, - and _, and begin with a letter")
        if not target.sql.strip():
            yield Problem(f"{key}.sql", "write a query of the view events, or leave the key out for all columns")
        if isinstance(target, MysqlTarget):
            try:
                MysqlAddress.of(target.url)
            except ConfigError as error:
                yield Problem(f"{key}.url", str(error))
        if isinstance(target, PostgresqlTarget | MysqlTarget):
            if not target.key:
                yield Problem(f"{key}.key", "name the columns by which a row is updated")
            if not _SQL_NAME.fullmatch(target.table):
                yield Problem(f"{key}.table", f"{target.table!r} is not a table name; write table or schema.table")
        if isinstance(target, ParquetTarget) and target.key and set(target.key) <= set(target.partition_by):
            yield Problem(f"{key}.key", "it names a row within its directory: add a column that is not in partition_by")
        place = _place(target)
        if place in used:
            yield Problem(key, f"targets.{used[place]} writes to the same place; one of them must go elsewhere")
        used[place] = name
    if job.dead_letters is not None and _place(job.dead_letters) in used:
        same = used[_place(job.dead_letters)]
        yield Problem("dead_letters", f"targets.{same} writes to the same place; one of them must go elsewhere")


def _place(target: Target) -> str:
    path = getattr(target, "path", None)
    if path is None:
        where = [getattr(target, name, "") for name in ("dsn", "url", "catalog", "table", "topic")]
        return f"{type(target).__name__} {where}"
    return path.rstrip("/") if scheme_of(path) else os.path.normpath(path)


def _problem(key: str, text: str, kind: Any) -> Problem:
    match = _PATH.fullmatch(text)
    text, inner = (match.group(1), match.group(2)) if match else (text, None)
    full = f"{key}.{inner}" if inner else key
    unknown = re.search(r"unknown field `(\w+)`", text)
    if unknown:
        kinds = getattr(kind, "__args__", (kind,))
        fields = {field for one in kinds for field in getattr(one, "__struct_fields__", ())}
        return Problem(f"{full}.{unknown.group(1)}", f"there is no such key{_hint(unknown.group(1), fields)}")
    missing = re.search(r"missing required field `(\w+)`", text)
    if missing:
        return Problem(full, f"the key {missing.group(1)} is missing")
    invalid = re.search(r"[Ii]nvalid (?:enum )?value '(.*)'", text)
    if invalid:
        return Problem(
            full, f"{invalid.group(1)!r} is not a valid {_last(full)}; there are {', '.join(_valid(kind, inner))}"
        )
    expected = re.fullmatch(r"Expected `(.*)`, got `(\w+)`", text)
    if expected:
        wanted = " or ".join(_FORMS.get(one, one) for one in expected.group(1).split(" | ") if one != "null")
        return Problem(full, f"write {wanted}, and not {_FORMS.get(expected.group(2), expected.group(2))}")
    return Problem(full, text[0].lower() + text[1:])


def _last(key: str) -> str:
    return re.sub(r"\[.*", "", key).rpartition(".")[2]


def _valid(kind: Any, inner: str | None) -> list[str]:
    """The values that a key can have: the types of a target, or the words of a ``Literal``."""
    if inner == "type":
        return [str(one.__struct_config__.tag) for one in getattr(kind, "__args__", ())]
    return [str(one) for one in _literals(get_type_hints(kind).get(_last(inner or ""), ()))]


def _literals(hint: Any) -> Iterator[Any]:
    for one in get_args(hint):
        if get_args(one):
            yield from _literals(one)
        elif isinstance(one, str):
            yield one


def _hint(name: str, known: set[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(sorted(known))}"


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_NO_ORDER: Final = (
    "name the columns that say which event of a key is newer, such as a version. If all events of a key are in one "
    'queue, this can be the place: see "Change data" in docs/pipelines.md'
)
ONLY_ADDED: Final = (
    "the rows of a Parquet table never change, and this job has [changes]; use delta, iceberg or postgresql. To keep "
    "all events as rows, use a job without [changes]"
)

NOT_CHANGED: Final = (
    "a job with [changes] cannot write to MySQL, because nothing remembers its deletes there; use delta, iceberg or "
    "postgresql. Without [changes], a row with a known key is updated"
)


def problems_of_changes(job: Job) -> Iterator[tuple[str, str]]:
    """The keys of the job file that are wrong, each with what to do."""
    changes = job.changes
    if changes is None:
        return
    if not changes.key:
        yield "changes.key", "name the columns that name a row"
    if not changes.order_by:
        yield "changes.order_by", _NO_ORDER
    if job.events.key:
        yield "events.key", "a job with [changes] has its key in changes.key; repeats change nothing. Remove this key"
    if not changes.upsert and not changes.delete:
        yield "changes.upsert", "name the values of changes.operation for rows that are inserted or updated"
    both = sorted(set(changes.upsert) & set(changes.delete))
    if both:
        yield "changes.delete", f"{both[0]} is in changes.upsert, too; an operation means one thing"
    try:
        if duration_ms(changes.horizon) == 0:
            yield "changes.horizon", "the horizon must be longer than nothing"
    except ConfigError as error:
        yield "changes.horizon", str(error)
    yield from _targets_of_changes(job)


def _targets_of_changes(job: Job) -> Iterator[tuple[str, str]]:
    key = () if job.changes is None else job.changes.key
    for name, target in job.targets.items():
        if isinstance(target, ParquetTarget):
            yield f"targets.{name}.type", ONLY_ADDED
        elif isinstance(target, MysqlTarget):
            yield f"targets.{name}.type", NOT_CHANGED
        elif isinstance(target, PostgresqlTarget) and set(target.key) != set(key):
            yield f"targets.{name}.key", f"in a job with [changes] it must be changes.key, so: {', '.join(key)}"
