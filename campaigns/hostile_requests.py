#!/usr/bin/env python3
"""Sends requests that try to fill the host's memory: bodies with millions of values, and reads of logs with huge events.

Invariants:
  - every request is answered with a status and, above 399, with the protocol's envelope; no client sees a broken pipe
  - every event of a huge log is delivered, in pages of a few megabytes
  - the host serves other clients meanwhile, and its peak resident memory (VmHWM) stays below --memory-mib

The program under test is TOUCHSTONE_BIN, or the binary that cargo builds. Only the standard library is needed.
"""

from __future__ import annotations

import argparse
import collections
import http.client
import json
import shutil
import socket
import sys
import tempfile
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import rig  # noqa: E402
from endpoint_faults import MIB, Campaign, Failure, peak_mib  # noqa: E402

LARGE = "large-answer"
BODIES = {
    "empty objects": lambda size: repeated("{},", size),
    "numbers": lambda size: repeated("0,", size),
    "small objects": lambda size: repeated('{"a":0},', size),
    "empty lists": lambda size: repeated("[],", size),
    "deep lists": lambda size: "[" * size,
    "one text": lambda size: '{"text":"' + "x" * size + '"}',
    "many members": lambda size: "{" + ",".join(f'"{n}":0' for n in range(size // 10)) + "}",
    "a suite of empty tasks": lambda size: '{"suiteId":"a.b","version":"1.0.0","modes":["golden"],"tasks":' + repeated("{},", size) + "}",
    "beyond the limit": lambda size: "x" * (2 * size),
}
PLACES = (
    ("POST", "/v1/host/touchstone/suites"),
    ("POST", "/v1/runs"),
    ("POST", "/api/v1/agents"),
    ("POST", "/v1/nowhere"),
    ("DELETE", "/v1/host/touchstone/packs/none/1.0.0"),
)


def repeated(item: str, size: int) -> str:
    return "[" + item * (size // len(item)) + "0]"


def has_envelope(text: bytes) -> bool:
    try:
        return "error" in json.loads(text)
    except (ValueError, TypeError):
        return False


class Hostile:
    def __init__(self, campaign: Campaign, options: argparse.Namespace):
        self.campaign, self.options = campaign, options
        self.answers: collections.Counter = collections.Counter()
        self.netloc = urllib.parse.urlsplit(campaign.serving.base_url).netloc

    def problem(self, what: str) -> None:
        self.campaign.problem("hostile", what)

    def send(self, method: str, path: str, body: bytes, key: str) -> None:
        connection = http.client.HTTPConnection(self.netloc, timeout=90)
        try:
            connection.request(method, path, body, {"Authorization": f"Bearer {key}", "Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as cause:
            return self.problem(f"{method} {path} with {len(body)} bytes: {cause!r}")
        finally:
            connection.close()
        self.answers[answer.status] += 1
        if answer.status >= 500 and answer.status != 503:
            self.problem(f"{method} {path} is answered {answer.status}")
        if answer.status < 400:
            self.problem(f"{method} {path} is answered {answer.status}")
        elif not has_envelope(text):
            self.problem(f"{method} {path} is answered {answer.status} without the envelope")

    def bodies(self) -> None:
        keys = (self.campaign.key, "wrong-key")
        for name, make in BODIES.items():
            body = make(self.options.body_mib * MIB).encode()
            with ThreadPoolExecutor(8) as pool:
                sent = [pool.submit(self.send, method, path, body, keys[n % 4 == 3]) for method, path in PLACES for n in range(8)]
            for request in sent:
                # Raises the error of a failed request.
                request.result()
            print(f"  {name:24} peak {self.peak():4.0f} MiB, answers so far {dict(sorted(self.answers.items()))}", flush=True)

    def peak(self) -> float:
        return peak_mib(self.campaign.serving.pid)

    def polled(self, run: str) -> int:
        last = largest = 0
        while True:
            connection = http.client.HTTPConnection(self.netloc, timeout=90)
            connection.request("GET", f"/v1/runs/{run}/events/poll?lastSequence={last}&timeout=1", headers=self.authorized())
            answer = connection.getresponse()
            text = answer.read()
            connection.close()
            if answer.status == 429:
                time.sleep(1)
                continue
            largest = max(largest, len(text))
            page = json.loads(text)
            for event in page["events"]:
                if event["sequence"] != last + 1:
                    self.problem(f"event {event['sequence']} follows {last}")
                last = event["sequence"]
            if page["isComplete"]:
                break
        if largest > 12 * MIB:
            self.problem(f"one page has {largest} bytes")
        return last

    def authorized(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.campaign.key}"}

    def streamed(self, run: str, query: str) -> int:
        connection = http.client.HTTPConnection(self.netloc, timeout=90)
        connection.request("GET", f"/v1/runs/{run}/events?{query}", headers=self.authorized())
        answer, events = connection.getresponse(), 0
        while line := answer.readline():
            events += line.count(b'"eventId":')
        connection.close()
        return events

    def fetched(self, path: str) -> int:
        connection = http.client.HTTPConnection(self.netloc, timeout=90)
        connection.request("GET", path, headers=self.authorized())
        answer = connection.getresponse()
        answer.read()
        connection.close()
        if answer.status not in (200, 429):
            self.problem(f"GET {path} is answered {answer.status}")
        return answer.status

    def deaf(self, path: str) -> socket.socket:
        """A client that sends a request and never reads the response."""
        host, port = self.netloc.split(":")
        connection = socket.create_connection((host, int(port)))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.campaign.key}\r\n\r\n".encode())
        return connection

    def pages(self) -> None:
        run, other = (self.campaign.start(LARGE) for _ in range(2))
        for started in (run, other):
            if self.campaign.wait(started, 240) != "completed":
                return self.problem("a run with huge answers does not end")
        print(f"  {'two runs of 7 MiB answers':24} peak {self.peak():4.0f} MiB", flush=True)
        head = self.polled(run)
        with ThreadPoolExecutor(10) as pool:
            found = list(pool.map(lambda _: self.polled(run), range(10)))
            print(f"  {'ten polls at once':24} peak {self.peak():4.0f} MiB", flush=True)
            for query in ("streamMode=debug", "streamMode=debug&bufferMs=100"):
                found += pool.map(lambda _: self.streamed(run, query), range(10))
            print(f"  {'ten streams at once':24} peak {self.peak():4.0f} MiB", flush=True)
            if set(found) != {head}:
                self.problem(f"readers of {head} events got {sorted(set(found))}")
            paths = [f"/v1/runs/{run}/debug-bundle", f"/v1/runs/{run}:diff?against={other}"] * 5
            self.answers.update(pool.map(self.fetched, paths))
            print(f"  {'bundles and diffs':24} peak {self.peak():4.0f} MiB", flush=True)
        paths = [f"/v1/runs/{run}/events?streamMode=debug", f"/v1/runs/{run}/events/poll?lastSequence={head // 2}&timeout=1"]
        deaf = [self.deaf(paths[n % 2]) for n in range(200)]
        time.sleep(5)
        status, _ = self.campaign.call("GET", f"/v1/runs/{run}")
        if status != 200:
            self.problem(f"while other clients do not read, a snapshot is answered {status}")
        print(f"  {'200 clients that do not read':24} peak {self.peak():4.0f} MiB", flush=True)
        for connection in deaf:
            connection.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--body-mib", type=int, default=15, help="size of request bodies (default: %(default)s)")
    parser.add_argument("--tasks", type=int, default=32, help="huge answers of a run (default: %(default)s)")
    parser.add_argument("--part", choices=("bodies", "pages", "both"), default="both", help="kinds of requests (default: %(default)s)")
    parser.add_argument("--memory-mib", type=float, default=300.0, help="limit of the host's resident memory in MiB (default: %(default)s)")
    parser.add_argument("--database-url", help="PostgreSQL instead of SQLite")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="touchstone-hostile-"))
    try:
        faults = SimpleNamespace(kinds=[LARGE], tasks=options.tasks, timeout=30.0, database_url=options.database_url)
        campaign = Campaign(folder, False, faults)
        try:
            hostile = Hostile(campaign, options)
            if options.part != "bodies":
                hostile.pages()
            if options.part != "pages":
                hostile.bodies()
            peak = hostile.peak()
            if peak > options.memory_mib:
                hostile.problem(f"the host took {peak:.0f} MiB")
            print(f"answers {dict(sorted(hostile.answers.items()))}, peak {peak:.0f} MiB, {len(campaign.problems)} violations")
        finally:
            campaign.serving.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if campaign.problems else 0


if __name__ == "__main__":
    sys.exit(rig.campaign("hostile_requests", main))
