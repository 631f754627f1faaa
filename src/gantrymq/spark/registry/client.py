"""Asks a registry for schemas. Each answer that cannot change is kept for the life of the process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from gantrymq.errors import ConfigError, GantryError
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.patience import Patience
from gantrymq.spark.registry.place import PASSWORD, USER, Registry

AWAY_MS: Final = 120_000
"""So long a registry may be away, as a broker may (``readTimeout``)."""
CHECK_MS: Final = 5_000
"""The same for a person who waits for an answer."""
_REQUEST_S: Final = 10
_SCHEMA_UNKNOWN: Final = 40403
_SUBJECT_UNKNOWN: Final = 40401
_VERSION_UNKNOWN: Final = 40402
_LARGEST_ID: Final = (1 << 31) - 1
_PASSING: Final = frozenset({408, 429})
T = TypeVar("T")


class RegistryAway(GantryError):
    """A registry does not answer, or not now."""

    retryable = True
    what_to_do = "Start the registry, or correct its address. Run the query again then; it goes on where it was."


class RegistryRefused(GantryError):
    """A registry refuses what it is asked, or something else answers at its address."""

    what_to_do = "Correct the address, the user and the password of the registry."


class SchemaUnknown(GantryError):
    """The registry says that it has no such schema, subject or version."""

    what_to_do = "Register the schema, or correct the name of the subject."


class SchemaUnreadable(ConfigError):
    """A text that the registry gave out is no schema of its kind."""

    what_to_do = "Register a text that is a schema of its kind."


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as the registry has it."""

    id: int
    kind: str
    """AVRO, PROTOBUF or JSON."""
    text: str
    references: tuple[tuple[str, Schema], ...] = ()
    """The schemas that this one names: by the name of a type in Avro, of a file in Protobuf."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a subject."""

    number: int
    schema: Schema


@dataclass(slots=True)
class Schemas:
    """The schemas of one registry. Every method waits while the registry is away, and raises RegistryAway then."""

    registry: Registry
    away_ms: int = AWAY_MS
    _client: Any = None
    _by_id: dict[int, Schema] = field(default_factory=dict)
    _subjects: dict[int, frozenset[str]] = field(default_factory=dict)

    def schema(self, number: int) -> Schema:
        """The schema with an id. Raises SchemaUnknown when the registry says that there is none."""
        if number > _LARGEST_ID:
            # Not asked for: a server that cannot read the number answers as if its address were wrong.
            raise SchemaUnknown(f"the schema registry {self.registry.url} cannot have the schema {number}")
        if number not in self._by_id:
            found = self._ask(f"the schema {number}", lambda client: client.get_schema(number))
            self._by_id[number] = self._whole(number, found)
        return self._by_id[number]

    def is_of(self, number: int, subject: str) -> bool:
        """Whether a schema is a version of a subject, also of one that was deleted softly."""
        if subject not in self._subjects.get(number, frozenset()):
            # Asked again where it is not: a schema can become a version of another subject later.
            self._subjects[number] = self._ask(
                f"the subjects of the schema {number}",
                lambda client: frozenset(client.get_subjects_by_schema_id(number, deleted=True)),
            )
        return subject in self._subjects[number]

    def newest(self, subject: str) -> Version:
        """The newest version of a subject. Raises SchemaUnknown."""
        found = self._ask(
            f"the newest schema of the subject {subject}", lambda client: client.get_version(subject, "latest")
        )
        return Version(found.version, self._whole(found.schema_id, found.schema))

    def versions(self, subject: str) -> list[Version]:
        """All versions of a subject. Raises SchemaUnknown."""
        numbers = self._ask(f"the versions of the subject {subject}", lambda client: client.get_versions(subject))
        return [self._version(subject, number) for number in sorted(numbers)]

    def _version(self, subject: str, number: int) -> Version:
        # Also one that was deleted softly: a schema that names it is still there.
        found = self._ask(
            f"version {number} of the subject {subject}",
            lambda client: client.get_version(subject, number, deleted=True),
        )
        return Version(number, self._whole(found.schema_id, found.schema))

    def _whole(self, number: int, found: Any) -> Schema:
        """The schema with those that it names."""
        # Of JSON Schema nothing is read that is in another text.
        named = () if found.schema_type == "JSON" else found.references or ()
        references = tuple((one.name, self._version(one.subject, one.version).schema) for one in named)
        if not isinstance(found.schema_str, str):
            raise RegistryRefused(f"the schema registry {self.registry.url} answered without the text of a schema")
        return Schema(number, found.schema_type or "AVRO", found.schema_str, references)

    def _ask(self, what: str, question: Callable[[Any], T]) -> T:
        return Patience(self.away_ms, SystemClock(), SystemRng()).call(
            f"asking the schema registry {self.registry.url} for {what}", lambda: self._once(what, question)
        )

    def _once(self, what: str, question: Callable[[Any], T]) -> T:
        client = self._connected()
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            return question(client)
        except SchemaRegistryError as error:
            raise _error_of(self.registry.url, what, error) from None
        # The library has other errors for refused connections, time-outs, broken TLS and answers that are not JSON.
        except Exception as error:  # noqa: BLE001
            raise RegistryAway(
                f"the schema registry {self.registry.url} does not answer as one ({type(error).__name__}: {error}); "
                "start it, or correct body.registry"
            ) from None

    def _connected(self) -> Any:
        if self._client is None:
            try:
                from confluent_kafka.schema_registry import SchemaRegistryClient
            except ImportError as error:
                raise ConfigError(
                    "a schema registry needs Confluent's client; run: pip install 'gantrymq[registry]'"
                ) from error
            # Patience repeats what fails, and says so.
            settings: dict[str, Any] = {"url": self.registry.url, "timeout": _REQUEST_S, "max.retries": 0}
            if self.registry.user is not None and self.registry.password is not None:
                settings["basic.auth.user.info"] = f"{self.registry.user}:{self.registry.password.reveal()}"
            for name, file in (
                ("ssl.ca.location", self.registry.ca),
                ("ssl.certificate.location", self.registry.certificate),
                ("ssl.key.location", self.registry.key),
            ):
                if file is not None:
                    settings[name] = file
            try:
                self._client = SchemaRegistryClient(settings)
            except (OSError, ValueError) as error:
                raise ConfigError(f"the client of the schema registry cannot start: {error}") from error
        return self._client


def _error_of(url: str, what: str, error: Any) -> GantryError:
    """The error for an answer of the registry."""
    status, code = error.http_status_code, error.error_code
    said = f"the schema registry {url} answered {status} when it was asked for {what}"
    if status == 404 and code in (_SCHEMA_UNKNOWN, _SUBJECT_UNKNOWN, _VERSION_UNKNOWN):
        return SchemaUnknown(f"the schema registry {url} does not have {what}")
    if status in (401, 403):
        return RegistryRefused(f"{said}: set {USER} and {PASSWORD} to a user who may read it")
    if status in _PASSING or status >= 500:
        return RegistryAway(f"{said}: {error.error_message}")
    return RegistryRefused(f"{said}: {error.error_message}. Is body.registry the address of its API?")
