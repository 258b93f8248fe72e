"""A client for a Touchstone host: runs, results, events and signed verdicts.

    client = touchstone.Client("https://touchstone.example", key="tsk_…")
    run = client.create_run("vendor.acme.evals.triage@1.0.0", "vendor.acme.triage.default")
    for event in client.events(run):
        print(event["type"])
    print(client.report(run)["verdict"])

Methods return the JSON documents of the HTTP API (openapi.yaml).
"""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

from ._errors import InvalidArguments, TouchstoneError
from ._version import __version__

Document = dict[str, Any]
_MAX_RECONNECTS = 5
_ENDED = ("completed", "failed", "cancelled")
_LAST = tuple(f"run.{status}" for status in _ENDED)


class HostError(TouchstoneError):
    """The host answered with an error. ``status`` is that of HTTP, ``details`` what the host added."""

    #: The version of OpenWOP that the answer has.
    version: str | None = None

    def __init__(self, status: int, code: str | None, message: str, details: Mapping[str, Any]) -> None:
        remedy = "pass key=…, or set TOUCHSTONE_KEY" if status == 401 else None
        super().__init__(f"{message} (HTTP {status})", remedy=remedy, code=code)
        self.status = status
        self.details = details


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: they would send the key to another host."""

    def redirect_request(self, *arguments: Any, **options: Any) -> None:
        return None


class Client:
    """A host by its URL and an API key [default: ``TOUCHSTONE_SERVER`` and ``TOUCHSTONE_KEY``]."""

    def __init__(self, url: str | None = None, key: str | None = None, *, timeout: float = 60) -> None:
        url = url or os.environ.get("TOUCHSTONE_SERVER")
        if not url or not url.startswith(("http://", "https://")):
            raise InvalidArguments("the client needs the URL of a host", remedy="pass url=…, or set TOUCHSTONE_SERVER")
        self.url = url.rstrip("/")
        self._key = key or os.environ.get("TOUCHSTONE_KEY")
        self._timeout = timeout
        self._opener = urllib.request.build_opener(_SameHost())
        self._has_v1 = True

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def create_run(self, suite: str, agent: str, *, idempotency_key: str | None = None, **configurable: Any) -> str:
        """Creates an eval run of ``SUITE@VERSION`` and returns its id. Other arguments are members of
        ``configurable``, such as ``evalConcurrency``."""
        body = {"mode": "eval", "evalSuiteRef": suite, "agentId": agent, "configurable": configurable}
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        return str(self._send("POST", "/v1/runs", body, headers)["runId"])

    def runs(self, **conditions: str | int) -> Iterator[Document]:
        """The runs of the tenant, newest first, such as ``runs(verdict="fail", tag="nightly")``."""
        query: dict[str, str | int] = dict(conditions)
        while True:
            page = self._get("/v1/host/touchstone/runs", query)
            yield from page["runs"]
            cursor = page.get("nextCursor")
            if cursor is None:
                return
            query["cursor"] = cursor

    def run(self, run: str) -> Document:
        """The status of a run."""
        return self._get(f"/v1/runs/{_part(run)}")

    def report(self, run: str) -> Document:
        return self._get(f"/v1/host/touchstone/runs/{_part(run)}/report")

    def statistics(self, run: str) -> Document:
        return self._get(f"/v1/host/touchstone/runs/{_part(run)}/statistics")

    def task(self, run: str, task: str) -> Document:
        """Input, expected and actual answer, and transcript of a task. Needs the scope ``runs:content``."""
        return self._get(f"/v1/host/touchstone/runs/{_part(run)}/tasks/{_part(task)}")

    def attestation(self, run: str, channel: str | None = None) -> list[Document]:
        """The signed verdict, as DSSE envelopes."""
        query = {} if channel is None else {"channel": channel}
        found: list[Document] = self._get(f"/v1/host/touchstone/runs/{_part(run)}/attestation", query)["attestations"]
        return found

    def cancel(self, run: str, reason: str | None = None) -> Document:
        return self._send("POST", f"/v1/runs/{_part(run)}/cancel", {} if reason is None else {"reason": reason})

    def wait(self, run: str) -> Document:
        """Waits for the end of a run and returns its report."""
        for _ in self.events(run):
            pass
        return self.report(run)

    def events(self, run: str, *, mode: str = "updates") -> Iterator[Document]:
        """The events of a run so far, then new ones until it ends.

        A connection that is lost is opened again after the last event.
        """
        last: str | None = None
        failures = 0
        while True:
            headers = {"Accept": "text/event-stream"}
            if last is not None:
                headers["Last-Event-ID"] = last
            path = f"/v1/runs/{_part(run)}/events?{urllib.parse.urlencode({'streamMode': mode})}"
            try:
                with self._open("GET", path, None, headers) as stream:
                    for identifier, event in _events(stream):
                        last, failures = identifier or last, 0
                        yield event
                        if event.get("type") in _LAST:
                            return
            except (TimeoutError, ConnectionError, http.client.HTTPException) as cause:
                lost: Exception | None = cause
            else:
                lost = None
            # A host that stops closes its streams too.
            if self.run(run)["status"] in _ENDED:
                return
            failures += 1
            if failures > _MAX_RECONNECTS:
                raise TouchstoneError(
                    f"the stream of {run} was lost {failures} times", remedy="read the events again later"
                ) from lost
            time.sleep(failures)

    def _get(self, path: str, query: Mapping[str, str | int] | None = None) -> Document:
        text = f"{path}?{urllib.parse.urlencode(query)}" if query else path
        return self._send("GET", text)

    def _send(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Document:
        with self._open(method, path, body, headers or {}) as answer:
            found: Document = json.load(answer)
            return found

    def _open(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Any:
        """Sends a request. A host that no longer serves OpenWOP v1 has its operations below ``/host/touchstone``."""
        if not path.startswith("/v1/runs"):
            return self._open_at(method, path, body, headers)
        if self._has_v1:
            try:
                return self._open_at(method, path, body, headers)
            except HostError as error:
                if error.version is None or not error.version.startswith("2."):
                    raise
                self._has_v1 = False
        return self._open_at(method, f"/host/touchstone{path}", body, headers)

    def _open_at(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        request.add_header("User-Agent", f"touchstone-evals/{__version__}")
        request.add_header("Accept", "application/json")
        if data is not None:
            request.add_header("Content-Type", "application/json")
        if self._key is not None:
            request.add_unredirected_header("Authorization", f"Bearer {self._key}")
        for name, value in headers.items():
            request.add_header(name, value)
        try:
            return self._opener.open(request, timeout=self._timeout)
        except urllib.error.HTTPError as answered:
            raise _host_error(answered) from None
        except urllib.error.URLError as cause:
            raise TouchstoneError(
                f"{self.url} cannot be reached: {cause.reason}", remedy="check the URL and that the host runs"
            ) from cause


def _part(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def _host_error(answered: urllib.error.HTTPError) -> HostError:
    with answered:
        try:
            found = json.load(answered)
            error = HostError(answered.code, found["error"], found["message"], found.get("details", {}))
        except (ValueError, KeyError, TypeError):
            error = HostError(answered.code, None, f"the host answered {answered.reason}", {})
        error.version = answered.headers.get("OpenWOP-Version")
        return error


def _events(stream: Any) -> Iterator[tuple[str | None, Document]]:
    """The events of a stream of server-sent events, each with its id."""
    identifier: str | None = None
    data: list[str] = []
    for raw in stream:
        line = raw.decode("utf-8").rstrip("\r\n")
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                data.append(value)
            elif name == "id":
                identifier = value
            continue
        if data:
            found = json.loads("\n".join(data))
            if isinstance(found, dict):
                yield identifier, found
            data = []
