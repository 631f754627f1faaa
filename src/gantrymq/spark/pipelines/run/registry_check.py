"""Whether a job can read what the versions of its subject have written, asked before its first batch."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.formats.avro import AvroFormat
from gantrymq.spark.pipelines.formats.avro_types import Unfit
from gantrymq.spark.pipelines.formats.decoding import Decoder, decoder_of, written_by
from gantrymq.spark.pipelines.formats.json_schema import unreadable
from gantrymq.spark.pipelines.formats.registered import KINDS, IndexedProtobuf
from gantrymq.spark.pipelines.job import Body, Job
from gantrymq.spark.registry.client import AWAY_MS, Schema, Schemas, SchemaUnknown, SchemaUnreadable, Version

log = logging.getLogger("gantrymq.spark")


class SchemasUnreadable(ConfigError):
    """The job cannot read what versions of its subject have written."""

    what_to_do = "Change the columns of the job so that every version can be read, or start behind the old messages."


def refuse_unreadable(job: Job, *, new: bool, away_ms: int = AWAY_MS) -> None:
    """Raise SchemasUnreadable when a new job cannot read versions of its subject. Needs a Spark session for JSON.

    One that has batches goes on, with a warning: somebody who registers a schema must not stop it.
    """
    problems = list(problems_of(job.body, away_ms))
    if not problems:
        return
    text = "; ".join(problems)
    if new:
        raise SchemasUnreadable(
            f"body.subject: {text}. Give such fields a default or another type in the job's schema, or set "
            'body.compatibility to "newest" or "none": such messages are dead letters then'
        )
    log.warning("messages of these schemas will be dead letters: %s", text)


def problems_of(body: Body, away_ms: int = AWAY_MS) -> Iterator[str]:
    """What the job cannot read of the versions of its subject, with the names of the fields."""
    if body.registry is None or body.subject is None or body.compatibility == "none":
        return
    decoder = decoder_of(body, away_ms=away_ms)
    if decoder.registry is None:
        return
    schemas = Schemas(decoder.registry, away_ms)
    try:
        newest = body.compatibility == "newest"
        versions = [schemas.newest(body.subject)] if newest else schemas.versions(body.subject)
    except SchemaUnknown as error:
        yield str(error)
        return
    for version in versions:
        yield from (f"{_name(body.subject, version)} {problem}" for problem in _problems(decoder, version.schema))


def _name(subject: str, version: Version) -> str:
    return f"version {version.number} of {subject} (id {version.schema.id}) cannot be read:"


def _problems(decoder: Decoder, schema: Schema) -> list[str]:
    if schema.kind != KINDS[decoder.name]:
        return [f"it is of the kind {schema.kind}, and body.format is {decoder.name}"]
    try:
        if decoder.name == "json":
            return unreadable(schema.text, decoder.kind, any_as_text="any_as_text" in decoder.allow)
        form = written_by(decoder.name, decoder.schema, decoder.message, decoder.allow, schema)
    except (Unfit, SchemaUnreadable) as error:
        return [str(error)]
    if isinstance(form, IndexedProtobuf) and decoder.message not in form.names.values():
        return [f"it has no message {decoder.message}; it has {', '.join(form.names.values())}"]
    return list(form.problems) if isinstance(form, AvroFormat | IndexedProtobuf) else []
