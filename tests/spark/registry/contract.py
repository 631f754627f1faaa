"""Ask a real registry and the one of the tests the same questions: ``python -m tests.spark.registry.contract``.

The real one is Apicurio Registry. Exit status 1 when an answer differs, or when our client decodes otherwise.
"""

from __future__ import annotations

import json
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.interop.jars import NotHere
from tests.spark.registry.apicurio import apicurio
from tests.spark.registry.server import RegistryServer

ORDER: Any = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "string"}]}
WIDER = {**ORDER, "fields": [*ORDER["fields"], {"name": "n", "type": "int", "default": 0}]}
PAYMENT = {
    "type": "record", "name": "Payment", "namespace": "shop", "fields": [{"name": "order", "type": "shop.Order"}]
}  # fmt: skip
PROTO = 'syntax = "proto3"; package shop; message Other { int32 x = 1; } message Order { string id = 1; }'
IMPORTING = 'syntax = "proto3"; package shop; import "order.proto"; message Payment { Order order = 1; }'
JSON_SCHEMA = json.dumps({"type": "object", "properties": {"id": {"type": "string"}}})
REGISTERED: list[tuple[str, dict[str, Any]]] = [
    ("a-value", {"schema": json.dumps(ORDER)}),
    ("a-value", {"schema": json.dumps(WIDER)}),
    ("b-value", {"schema": json.dumps(ORDER)}),
    ("proto-value", {"schema": PROTO, "schemaType": "PROTOBUF"}),
    ("json-value", {"schema": JSON_SCHEMA, "schemaType": "JSON"}),
    ("payment-value", {
        "schema": json.dumps(PAYMENT), "references": [{"name": "shop.Order", "subject": "a-value", "version": 1}]}),
    ("importing-value", {
        "schema": IMPORTING, "schemaType": "PROTOBUF",
        "references": [{"name": "order.proto", "subject": "proto-value", "version": 1}]}),
    ("a-value", {"schema": json.dumps(ORDER)}),
]  # fmt: skip
"""Subjects and what is registered under them, in this order."""
QUESTIONS = (
    "subjects",
    "schemas/ids/{a-value 1}",
    "schemas/ids/{a-value 2}",
    "schemas/ids/{proto-value 1}",
    "schemas/ids/{json-value 1}",
    "schemas/ids/99",
    "schemas/ids/4294967295",
    "schemas/ids/{a-value 1}/subjects?deleted=true&offset=0&limit=-1",
    "schemas/ids/99/subjects",
    "subjects/a-value/versions",
    "subjects/a-value/versions/1",
    "subjects/a-value/versions/latest",
    "subjects/a-value/versions/9",
    "subjects/nobody/versions",
    "subjects/nobody/versions/latest",
    "subjects/payment-value/versions/latest",
    "subjects/importing-value/versions/latest",
    "no-such-path",
)
COMPARED = ("schema", "schemaType", "references", "subject", "version", "error_code")
"""What our client reads of an answer. Ids are compared by what stands under them: each registry counts on its own."""


def register(url: str) -> None:
    for subject, body in REGISTERED:
        status, answer = ask(url, f"subjects/{subject}/versions", body)
        assert status == 200, (subject, answer)


def ids_of(url: str) -> dict[str, int]:
    """The ids that a registry gave to what ``contract.register`` has registered, by subject and version."""
    found: dict[str, int] = {}
    for subject in ask(url, "subjects")[1]:
        for version in ask(url, f"subjects/{subject}/versions")[1]:
            found[f"{subject} {version}"] = ask(url, f"subjects/{subject}/versions/{version}")[1]["id"]
    return found


def ask(url: str, path: str, body: Any = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{url}/{path}", data, headers), timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text.startswith(b"{") else None


def compared(answer: Any) -> Any:
    """An answer without what differs between two registries that are right."""
    if not isinstance(answer, dict):
        return answer
    found = {name: answer[name] for name in COMPARED if answer.get(name)}
    return {name: json.loads(value) if name == "schema" and value.startswith("{") else value
            for name, value in found.items()}  # fmt: skip


def main() -> int:
    from tests.spark.registry.decoding import differences

    with tempfile.TemporaryDirectory() as directory, RegistryServer() as ours:
        try:
            with apicurio(Path(directory)) as real:
                register(ours.url)
                register(real)
                wrong = 0
                ids = {url: ids_of(url) for url in (real, ours.url)}
                for path in QUESTIONS:
                    answers = [
                        (status, compared(answer))
                        for status, answer in (ask(url, path.format(**ids[url])) for url in (real, ours.url))
                    ]
                    if path == "no-such-path":
                        answers = [(status, None) for status, _ in answers]
                    same = answers[0] == answers[1]
                    wrong += not same
                    print("same" if same else "DIFFERENT", path, "" if same else answers)
                lines = differences(real, ours.url, Path(directory))
                print(*lines, sep="\n", end="\n" if lines else "")
                print(f"{len(QUESTIONS)} questions, {wrong} answers differ, {len(lines)} bodies are decoded otherwise")
                return 1 if wrong or lines else 0
        except NotHere as error:
            print(f"not here: {error}")
            return 1


if __name__ == "__main__":
    sys.exit(main())
