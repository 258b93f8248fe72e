"""Shared parts of the reliability campaigns: a model endpoint that counts requests, hosts over one database, and the check of a run.

Only the standard library is needed. The program under test is TOUCHSTONE_BIN, or the binary that cargo builds.
"""

from __future__ import annotations

import collections
import contextlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "conformance"), str(ROOT / "bench")]

from harness import AGENT_ID  # noqa: E402
from hosting import Failure, Serving, Touchstone, binary  # noqa: E402

SUITE_ID = "private.touchstone.evals.campaign"
TENANT = "default"
ITEM = re.compile(r'item\D{0,3}(\d+)')

CONFIGURATION = """
[limits]
max_tasks_per_suite = 200000
default_concurrency = {concurrency}
max_run_duration_s = {max_run_duration_s}

[worker]
lease_s = {lease_s}

[[models]]
class = "*"
provider = "openai"
base_url = "{base_url}/v1"
api_key_env = "CAMPAIGN_MODEL_KEY"
model = "mock"
max_concurrency = 256
"""


class Endpoint:
    """An OpenAI-compatible model that answers `word N` for item N. The API key identifies the calling host: a run is
    bound to the address of its endpoint, but not to the key, so each host has its own key."""

    def __init__(self, latency_s: float, jitter_s: float = 0):
        self.latency_s, self.jitter_s = latency_s, jitter_s
        self.lock = threading.Lock()
        self.seen: list[tuple[float, str, int]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                item = int(ITEM.findall(body["messages"][-1]["content"])[-1])
                with endpoint.lock:
                    endpoint.seen.append((time.monotonic(), self.headers["Authorization"].split()[-1], item))
                time.sleep(endpoint.latency_s + random.uniform(0, endpoint.jitter_s))
                answer = json.dumps({
                    "id": "x", "object": "chat.completion", "model": "mock",
                    "choices": [{"index": 0, "finish_reason": "stop",
                                 "message": {"role": "assistant", "content": f"word {item}"}}],
                    "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
                }).encode()
                with contextlib.suppress(OSError):
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(answer)))
                    self.end_headers()
                    self.wfile.write(answer)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 512

            def handle_error(self, *_):
                # A host was killed while its request was being answered.
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def mark(self) -> int:
        """The number of requests so far; for `since`."""
        with self.lock:
            return len(self.seen)

    def since(self, mark: int = 0) -> list[tuple[float, str, int]]:
        """Requests after a mark: when (monotonic), by which host, for which item."""
        with self.lock:
            return self.seen[mark:]

    def counts(self, mark: int = 0) -> collections.Counter:
        """Requests for each item."""
        return collections.Counter(item for _, _, item in self.since(mark))


class Api:
    """Requests to a host, each over a new connection, so that a killed host does not break later ones."""

    def __init__(self, base_url: str, key: str):
        self.netloc, self.key = urllib.parse.urlsplit(base_url).netloc, key

    def ask(self, method: str, path: str, body=None, **headers: str) -> tuple[int, dict]:
        connection = http.client.HTTPConnection(self.netloc, timeout=90)
        with contextlib.closing(connection):
            headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json", **headers}
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read() or b"{}")

    def call(self, method: str, path: str, body=None, **headers: str) -> dict:
        status, answer = self.ask(method, path, body, **headers)
        if status >= 300:
            raise Failure(f"{method} {path} was answered {status}: {json.dumps(answer)[:300]}")
        return answer

    def events(self, run: str) -> list[dict]:
        found, last = [], 0
        while True:
            page = self.call("GET", f"/v1/runs/{run}/events/poll?lastSequence={last}&timeout=1")
            found += page["events"]
            if page["isComplete"] or not page["events"]:
                return found
            last = found[-1]["sequence"]

    def wait(self, run: str, within_s: float) -> bool:
        """Whether the run ends in time."""
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            # Polls after the last possible sequence, so that no events are sent.
            if self.call("GET", f"/v1/runs/{run}/events/poll?lastSequence=2000000000&timeout=5")["isComplete"]:
                return True
        return False


class Host(Touchstone):
    """The command line with environment variables for the process."""

    variables: dict[str, str] = {}

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **self.variables}


class Site:
    """A data folder (or database) with an agent and a suite, and a model endpoint; hosts are started over it."""

    def __init__(self, *, tasks: int, latency_s: float, concurrency: int = 16, lease_s: int = 3,
                 max_run_duration_s: int = 3600, database_url: str | None = None, jitter_s: float = 0):
        self.folder = Path(tempfile.mkdtemp(prefix="touchstone-campaign-"))
        self.endpoint = Endpoint(latency_s, jitter_s)
        self.tasks, self.database_url, self.program = tasks, database_url, binary()
        self.running: list[Serving] = []
        (self.folder / "touchstone.toml").write_text(CONFIGURATION.format(
            base_url=self.endpoint.base_url, concurrency=concurrency, lease_s=lease_s, max_run_duration_s=max_run_duration_s))
        try:
            self._furnish(self.host("a"))
        except BaseException:
            self.close()
            raise

    def _furnish(self, command: Host) -> None:
        archive = command.signed_pack(ROOT / "bench" / "agent")
        command.run("pack", "install", str(archive))
        self.key = command.key(TENANT)
        command.run("suite", "import", str(self._suite()))

    def _suite(self) -> Path:
        file = self.folder / "suite.json"
        file.write_text(json.dumps({
            "suiteId": SUITE_ID, "version": "1.0.0", "modes": ["golden"],
            "tasks": [{"taskId": f"item-{n}", "input": {"item": n},
                       "expected": {"kind": "golden", "match": {"strategy": "exact", "value": f"word {n}"}}}
                      for n in range(1, self.tasks + 1)],
        }))
        return file

    def host(self, name: str, **variables: str) -> Host:
        host = Host(self.program, self.folder, self.database_url, config=self.folder / "touchstone.toml")
        host.variables = {"CAMPAIGN_MODEL_KEY": name, **variables}
        return host

    def serve(self, name: str = "a", **variables: str) -> tuple[Serving, Api]:
        log = self.folder / f"{name}-{len(self.running)}.log"
        serving = Serving(self.host(name, **variables), log)
        self.running.append(serving)
        return serving, Api(serving.base_url, self.key)

    def kill(self, serving: Serving) -> None:
        """Kills the process, like a power failure."""
        serving.process.kill()
        serving.process.wait()

    def start(self, api: Api, **headers: str) -> str:
        return api.call("POST", "/v1/runs", self.request(), **headers)["runId"]

    def request(self) -> dict:
        return {"mode": "eval", "evalSuiteRef": f"{SUITE_ID}@1.0.0", "agentId": AGENT_ID, "configurable": {}}

    def check(self, api: Api, run: str) -> dict:
        """Counts the errors in the log of a run that has to be complete."""
        events = api.events(run)
        scored = collections.Counter(event["payload"]["taskId"] for event in events if event["type"] == "eval.scored")
        passed = sum(event["payload"]["passed"] for event in events if event["type"] == "eval.scored")
        ids = {event["eventId"] for event in events}
        return {
            "events": len(events),
            "lost": self.tasks - len(scored),
            "scored twice": sum(count - 1 for count in scored.values()),
            "gaps": sum(event["sequence"] != n for n, event in enumerate(events, 1)),
            "duplicate ids": len(events) - len(ids),
            "wrong": self.tasks - passed,
            "not completed": int(not events or events[-1]["type"] != "run.completed"),
        }

    def close(self) -> None:
        for serving in self.running:
            with contextlib.suppress(ProcessLookupError):
                # A stopped process does not receive SIGTERM.
                os.kill(serving.pid, signal.SIGCONT)
            serving.stop()
        self.endpoint.server.shutdown()
        shutil.rmtree(self.folder, ignore_errors=True)


def faults(check: dict) -> list[str]:
    return [f"{value} {name}" for name, value in check.items() if name != "events" and value]


def conclude(name: str, counts: dict, violations: list[str]) -> int:
    """Prints the counts and every violated invariant; returns the exit code."""
    for label, value in counts.items():
        print(f"{label}: {value}")
    for violation in violations:
        print(f"VIOLATED: {violation}")
    print(f"{name}: {'failed' if violations else 'passed'}")
    return 1 if violations else 0


def campaign(name: str, run) -> int:
    """Runs a campaign; returns 3 if it could not be carried out."""
    # A terminated campaign also stops its hosts.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return run()
    except Failure as cause:
        print(f"{name}: {cause}", file=sys.stderr)
        return 3
