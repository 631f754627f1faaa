"""Reads a job from a file: TOML, YAML, or a Python function that returns it."""

from __future__ import annotations

import os
import re
import runpy
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gantrymq.errors import ConfigError
from gantrymq.runtime.disk import OsDisk, read_whole
from gantrymq.spark.options.table import BY_NAME
from gantrymq.spark.pipelines.describe.addresses import absolute
from gantrymq.spark.pipelines.describe.job_rules import JobInvalid, Problem, job_of, problems_of
from gantrymq.spark.pipelines.job import Job

DEFAULT_FUNCTION = "job"
NAME_SERVERS = {name.lower() for name in ("nameServers", *BY_NAME["nameServers"].aliases)}


@dataclass(frozen=True, slots=True)
class Text:
    """A job file as a tree, and where its keys are."""

    tree: dict[str, Any]
    lines: dict[str, int]


def read_job(path: str, changes: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> Job:
    """The job in a file: ``x.toml``, ``x.yaml``, ``x.py`` (its function ``job``) or ``x.py:function``.

    ``changes`` are texts such as ``source.subscribe=orders``, which take precedence over the file. NAMESRV_ADDR in
    ``environment`` (None: that of this process) names the name servers when the file does not. Relative paths begin at
    the directory of the file. Raises JobInvalid, which names lines and keys.
    """
    environment = os.environ if environment is None else environment
    file, function = _parts(path)
    if not os.path.isfile(file):
        raise ConfigError(f"there is no job file {file}; give a TOML, YAML or Python file")
    if file.endswith(".py"):
        if changes:
            raise ConfigError(f"{path} is a Python function, which --set cannot change; use a TOML or YAML file")
        return in_directory(_from_python(file, function or DEFAULT_FUNCTION), os.path.dirname(os.path.abspath(file)))
    text = _parsed(file)
    tree = text.tree
    for change in changes:
        _apply(tree, change)
    source = tree.get("source")
    if isinstance(source, dict) and not any(key.lower() in NAME_SERVERS for key in source):
        source["nameServers"] = environment.get("NAMESRV_ADDR") or "127.0.0.1:9876"
    try:
        job = job_of(tree, file)
    except JobInvalid as error:
        raise JobInvalid(file, error.problems, text.lines) from None
    return in_directory(job, os.path.dirname(os.path.abspath(file)))


def in_directory(job: Job, directory: str) -> Job:
    """The job with absolute paths: relative ones begin at ``directory``."""

    def in_place(section: Any) -> Any:
        if section is None or getattr(section, "path", None) is None:
            return section
        return msgspec.structs.replace(section, path=absolute(section.path, directory))

    body = job.body
    if body.schema_file is not None:
        body = msgspec.structs.replace(body, schema_file=absolute(body.schema_file, directory))
    return msgspec.structs.replace(
        job,
        checkpoint=absolute(job.checkpoint, directory),
        body=body,
        targets={name: in_place(target) for name, target in job.targets.items()},
        dead_letters=in_place(job.dead_letters),
    )


def _parts(path: str) -> tuple[str, str | None]:
    match = re.fullmatch(r"(.+\.py):(\w+)", path)
    return (match.group(1), match.group(2)) if match else (path, None)


def _parsed(file: str) -> Text:
    data = read_whole(OsDisk(), os.path.abspath(file))
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 text: {error}") from error
    if file.endswith(".toml"):
        return _from_toml(file, text)
    if file.endswith((".yaml", ".yml")):
        return _from_yaml(file, text)
    raise ConfigError(f"{file} is of an unknown kind; a job file ends with .toml, .yaml, .yml or .py")


def _from_toml(file: str, text: str) -> Text:
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file}: this is not TOML: {error}") from error
    lines: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(r"\s*\[\s*([\w.\"-]+)\s*\]", line):
            section = match.group(1).replace('"', "") + "."
            lines.setdefault(section[:-1], number)
        elif match := re.match(r"\s*([\w.\"-]+)\s*=", line):
            lines.setdefault(section + match.group(1).replace('"', ""), number)
    return Text(tree, lines)


def _from_yaml(file: str, text: str) -> Text:
    try:
        import yaml
    except ImportError as error:
        raise ConfigError(f"to read {file}, install PyYAML: pip install 'gantrymq[pipelines]' (or use TOML)") from error
    try:
        tree = yaml.safe_load(text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}: this is not YAML: {error}") from error
    if not isinstance(tree, dict):
        raise ConfigError(f"{file}: a job is a mapping with the keys name, checkpoint, source and targets")
    lines: dict[str, int] = {}

    def walk(node: Any, prefix: str) -> None:
        for key, value in node.value:
            lines[prefix + str(key.value)] = key.start_mark.line + 1
            if isinstance(value, yaml.MappingNode):
                walk(value, f"{prefix}{key.value}.")

    walk(root, "")
    return Text(tree, lines)


def _from_python(file: str, function: str) -> Job:
    names = runpy.run_path(file)
    made = names.get(function)
    if not callable(made):
        raise ConfigError(f"{file} has no function {function}(); a job is a function that returns a Job")
    job = made()
    if not isinstance(job, Job):
        raise ConfigError(f"{function}() of {file} returned {type(job).__name__}; it must return a Job")
    problems: list[Problem] = list(problems_of(job))
    if problems:
        raise JobInvalid(f"{file}:{function}", problems)
    return job


def _apply(tree: dict[str, Any], change: str) -> None:
    path, equals, value = change.partition("=")
    keys = path.split(".")
    if not equals or not all(keys):
        raise ConfigError(f"{change!r} is not a change; write key=value, for example source.subscribe=orders")
    # Of source and run.spark everything that follows is one key, because those contain points.
    depth = 1 if keys[0] == "source" else 2 if keys[:2] == ["run", "spark"] else len(keys) - 1
    for key in keys[:depth]:
        tree = tree.setdefault(key, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"{change!r} cannot be applied: {key} is a value, and not a table")
    number = re.fullmatch(r"\d+", value) and keys[0] != "source" and keys[:2] != ["run", "spark"]
    tree[".".join(keys[depth:])] = int(value) if number else value
