"""A schema registry in this process: the part of Confluent's HTTP API that our client uses, kept in memory.

It is not the real one. ``contract.py`` asks it and a real one (Apicurio Registry) the same questions, and compares the
answers.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import unquote, urlsplit


class NotThere(Exception):
    """The code of Confluent's API, and the message."""


class RegistryServer:
    """Serves from ``with`` on. ``questions`` counts what was asked."""

    def __init__(self, user: str | None = None, password: str = "", tls: ssl.SSLContext | None = None) -> None:
        self.schemas: list[dict[str, Any]] = []
        """Those with the ids 1, 2 and so on."""
        self.subjects: dict[str, list[int]] = {}
        self.questions: Counter[str] = Counter()
        self.away = False
        """Whether every question is answered with 503."""
        self._account = base64.b64encode(f"{user}:{password}".encode()).decode() if user is not None else None
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer(None)

            def do_POST(self) -> None:
                self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def _answer(self, body: Any) -> None:
                status, answer = server.answer(self.path, body, self.headers.get("Authorization"))
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *given: Any) -> None:
                """Nothing is printed."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        port = self._server.server_address[1]
        self.url = f"https://localhost:{port}" if tls is not None else f"http://127.0.0.1:{port}"

    def __enter__(self) -> RegistryServer:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def register(self, subject: str, schema: Any, kind: str = "AVRO", references: Any = ()) -> int:
        """The id of a schema, which is a version of this subject from now on."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        content = {"schema": text, "schemaType": kind, "references": list(references)}
        if content not in self.schemas:
            self.schemas.append(content)
        number = self.schemas.index(content) + 1
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def answer(self, path: str, body: Any, authorization: str | None) -> tuple[int, Any]:
        path = unquote(urlsplit(path).path)
        self.questions[path] += 1
        if self.away:
            return 503, {"error_code": 50301, "message": "not now"}
        if self._account is not None and authorization != f"Basic {self._account}":
            return 401, {"error_code": 401, "message": "Unauthorized"}
        try:
            if body is not None:
                match = re.fullmatch(r"/subjects/([^/]+)/versions", path)
                assert match is not None, path
                kind = body.get("schemaType", "AVRO")
                return 200, {"id": self.register(match[1], body["schema"], kind, body.get("references", ()))}
            return 200, self._found(path)
        except NotThere as error:
            code, message = error.args
            return 404, {"error_code": code, "message": message}

    def _found(self, path: str) -> Any:
        if match := re.fullmatch(r"/schemas/ids/(\d+)(/subjects)?", path):
            number = int(match[1])
            if not 0 < number <= len(self.schemas):
                raise NotThere(40403, f"Schema {number} not found")
            if match[2]:
                return sorted(name for name, versions in self.subjects.items() if number in versions)
            return self._shown(number)
        if path == "/subjects":
            return sorted(self.subjects)
        if match := re.fullmatch(r"/subjects/([^/]+)/versions(?:/(\d+|latest))?", path):
            subject = match[1]
            if subject not in self.subjects:
                raise NotThere(40401, f"Subject '{subject}' not found.")
            versions = self.subjects[subject]
            if match[2] is None:
                return list(range(1, len(versions) + 1))
            version = len(versions) if match[2] == "latest" else int(match[2])
            if not 0 < version <= len(versions):
                raise NotThere(40402, f"Version {version} not found.")
            number = versions[version - 1]
            return {"subject": subject, "version": version, "id": number, **self._shown(number)}
        raise NotThere(404, "HTTP 404 Not Found")

    def _shown(self, number: int) -> dict[str, Any]:
        content = self.schemas[number - 1]
        shown = {"schema": content["schema"]}
        if content["schemaType"] != "AVRO":
            shown["schemaType"] = content["schemaType"]
        if content["references"]:
            shown["references"] = content["references"]
        return shown
