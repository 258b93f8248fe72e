#!/usr/bin/env python3
"""Fills the disk under a serving host, again and again, and checks that nothing is lost, duplicated or requested in vain.

    campaigns/disk_full.py [--rounds N] [--size MIB] [--json FILE]

Mounts a small tmpfs for the data folder (root only; says SKIPPED and exits 0 where mounting is not possible), runs evals
against a model endpoint on loopback, fills the tmpfs with a large file, keeps it full for longer than a lease, and deletes
the file. Some rounds leave a little space, some kill the host while the disk is full. Exits 1 when an invariant is
violated: readiness, refusals, no model calls while the disk is full, recovery without a restart, complete and gapless logs,
each task scored once, at most one further request for a task in flight and outage.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import http.client
import http.server
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "conformance")]

import rig  # noqa: E402
from harness import AGENT_ID, SUITE_ID, TENANT, WRONG_EVERY, Api, answer, version_of, write_suite  # noqa: E402
from hosting import Failure, Serving, Touchstone, binary  # noqa: E402

TASKS = 200
CONCURRENCY = 8
# Long enough for a busy machine: a lease that expires without an outage repeats calls too.
LEASE_S = 6
# Calls in flight when the first write failed.
SETTLE_S = 2
RECOVERS_WITHIN_S = 15
ENDS_WITHIN_S = 300

CONFIGURATION = """
[worker]
lease_s = {lease}
[limits]
default_concurrency = {concurrency}
[[models]]
class = "*"
provider = "openai"
base_url = "{base_url}/v1"
model = "mock"
max_concurrency = 64
"""

ITEM = re.compile(r'"item\\?":\s*(\d+)')


class Endpoint:
    """A model endpoint that counts the requests for each item of each run."""

    def __init__(self, latency_s: float):
        self.lock = threading.Lock()
        self.requests = collections.Counter()
        self.keys = collections.Counter()
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                item = int(ITEM.search(body["messages"][-1]["content"])[1])
                with endpoint.lock:
                    endpoint.requests[item] += 1
                    endpoint.keys[self.headers.get("Idempotency-Key")] += 1
                time.sleep(latency_s)
                said = "miss" if item % WRONG_EVERY == 0 else answer(item)
                text = json.dumps({
                    "id": "c", "object": "chat.completion", "created": 0, "model": "mock",
                    "choices": [{"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
                }).encode()
                try:
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)
                except OSError:
                    pass  # The host abandoned the call.

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # A killed host leaves half a request.

        self.server = Server(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def total(self) -> int:
        with self.lock:
            return sum(self.requests.values())


def ask(base_url: str, key: str, method: str, path: str, body=None) -> tuple[int, dict, bytes]:
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(base_url).netloc, timeout=30)
    try:
        text = None if body is None else json.dumps(body)
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request(method, path, text, headers)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


class Campaign:
    def __init__(self, folder: Path, options: argparse.Namespace):
        self.options = options
        self.folder = folder
        self.data = folder / "data"
        self.ballast = self.data / "ballast"
        self.dice = random.Random(options.seed)
        self.counts = collections.Counter()
        self.recoveries: list[float] = []
        self.violations: list[str] = []
        self.most_outages = 0
        self.endpoint = Endpoint(0.05)
        config = folder / "touchstone.toml"
        config.write_text(CONFIGURATION.format(lease=LEASE_S, concurrency=CONCURRENCY, base_url=self.endpoint.base_url))
        self.touchstone = Touchstone(binary(), folder, None, config=config)
        self.touchstone.run("pack", "install", str(self.touchstone.signed_pack(ROOT / "bench" / "agent")))
        self.touchstone.run("suite", "import", str(write_suite(TASKS, folder, "golden")))
        self.key = self.touchstone.key(TENANT)
        self.starts = 0
        self.serving = self.serve()
        self.runs: list[str] = []

    def serve(self) -> Serving:
        self.starts += 1
        return Serving(self.touchstone, self.folder / f"host-{self.starts}.log")

    def ask(self, method: str, path: str, body=None) -> tuple[int, dict, bytes]:
        return ask(self.serving.base_url, self.key, method, path, body)

    def violated(self, what: str) -> None:
        print(f"VIOLATED: {what}", file=sys.stderr)
        self.violations.append(what)

    def start_run(self) -> None:
        self.runs.append(Api(self.serving.base_url, self.key).start(TASKS))

    def fill(self, leave: int) -> None:
        """Writes until the disk is full, then frees `leave` bytes. Repeated, because the host frees and allocates pages meanwhile."""
        with self.ballast.open("ab", buffering=0) as ballast:
            for size in (1 << 20, 1 << 12):
                try:
                    while True:
                        ballast.write(b"\0" * size)
                except OSError:
                    pass
            if leave:
                ballast.truncate(max(0, ballast.tell() - leave))

    def shorten_log(self) -> None:
        """Truncates the write-ahead log: a log that has grown is reused from its beginning, so the host would not notice a full disk."""
        with contextlib.closing(sqlite3.connect(self.data / "touchstone.db", timeout=1)) as database:
            with contextlib.suppress(sqlite3.OperationalError):
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def unready_soon(self) -> bool:
        until = time.monotonic() + RECOVERS_WITHIN_S
        while time.monotonic() < until:
            self.shorten_log()
            self.fill(0)
            if self.ask("GET", "/readyz")[0] == 503:
                return True
            time.sleep(0.2)
        return False

    def is_carried(self) -> bool:
        """Whether runs are still recorded, in space that the database allocated earlier."""
        create = {"mode": "eval", "evalSuiteRef": f"{SUITE_ID}@{version_of(TASKS)}", "agentId": AGENT_ID}
        status, _, text = self.ask("POST", "/v1/runs", create)
        if status != 201:
            return False
        self.counts["rounds carried by allocated space"] += 1
        self.runs.append(json.loads(text)["runId"])
        return True

    def ready_soon(self) -> float | None:
        started = time.monotonic()
        while time.monotonic() - started < RECOVERS_WITHIN_S:
            if self.ask("GET", "/readyz")[0] == 200:
                return time.monotonic() - started
            time.sleep(0.1)
        return None

    def check_refusals(self, number: int, kind: str) -> None:
        if self.ask("GET", "/readyz")[0] != 503:
            return
        create = {"mode": "eval", "evalSuiteRef": f"{SUITE_ID}@{version_of(TASKS)}", "agentId": AGENT_ID}
        status, headers, text = self.ask("POST", "/v1/runs", create)
        self.counts[f"POST run {status}"] += 1
        if status == 201 and kind == "tight":
            # There was space for one more row; its tasks must wait anyway.
            self.runs.append(json.loads(text)["runId"])
        elif status != 503:
            self.violated(f"round {number}: POST /v1/runs answered {status} while the disk was full")
        elif "Retry-After" not in {name.title() for name in headers}:
            self.violated(f"round {number}: POST /v1/runs answered 503 without Retry-After")
        status, _, _ = self.ask("GET", f"/v1/runs/{self.runs[-1]}")
        self.counts[f"GET run {status}"] += 1

    def round(self, number: int) -> None:
        kind = ("full", "full", "tight", "kill")[number % 4]
        self.counts[kind] += 1
        self.start_run()
        older = len(self.runs) - 1
        before = self.endpoint.total()
        until = time.monotonic() + 60
        while self.endpoint.total() < before + self.dice.randrange(20, 80):
            if time.monotonic() > until:
                raise Failure("no model is called although there is space")
            time.sleep(0.02)
        self.fill(0)
        if not self.unready_soon() and not self.is_carried():
            self.violated(f"round {number}: /readyz stays 200 although writes fail")
        if kind == "tight":
            # Space for small writes, but not for a batch of results.
            self.fill(32 << 10)
        self.check_refusals(number, kind)
        time.sleep(SETTLE_S)
        asked = self.endpoint.total()
        if kind == "kill":
            self.serving.process.kill()
            self.serving.process.wait()
            self.serving = self.serve()
        outages = self.hold(number, kind, asked)
        self.ballast.unlink()
        recovered = self.ready_soon()
        if recovered is None:
            self.violated(f"round {number} ({kind}): not ready {RECOVERS_WITHIN_S} s after space was freed")
            return
        self.recoveries.append(recovered)
        for run in self.runs[older:]:
            self.wait(run)
        repeated = self.endpoint.total() - before - TASKS * (len(self.runs) - older)
        self.counts["repeated requests"] += repeated
        # Tasks in flight, and those whose results were not yet written to disk.
        self.most_outages = max(self.most_outages, outages)
        if repeated > 4 * CONCURRENCY * outages:
            self.violated(f"round {number} ({kind}): {repeated} repeated requests with {CONCURRENCY} tasks in flight")

    def hold(self, number: int, kind: str, asked: int) -> int:
        """Keeps the disk full and returns the number of outages. Space that the database allocated earlier
        may carry it for a while: it is ready then, and works."""
        until = time.monotonic() + self.dice.uniform(1.2, 2) * LEASE_S
        unready, outages = False, 1
        while time.monotonic() < until:
            status = self.ask("GET", "/readyz")[0]
            now = self.endpoint.total()
            if status == 503 and unready and now > asked:
                self.counts["requests while full"] += now - asked
                self.violated(f"round {number} ({kind}): {now - asked} model requests while /readyz answered 503")
            outages += int(status == 503 and not unready and now > asked)
            unready, asked = status == 503, now
            time.sleep(0.3)
        self.counts["ready within an outage"] += int(not unready)
        return outages + int(kind == "kill")

    def wait(self, run: str) -> None:
        until = time.monotonic() + ENDS_WITHIN_S
        while time.monotonic() < until:
            status, _, text = self.ask("GET", f"/v1/runs/{run}/events/poll?lastSequence=2000000000&timeout=5")
            if status == 200 and json.loads(text)["isComplete"]:
                return
        self.violated(f"{run} does not end")

    def check(self) -> None:
        api = Api(self.serving.base_url, self.key)
        for run in self.runs:
            events = list(api.events(run))
            if [event["sequence"] for event in events] != list(range(1, len(events) + 1)):
                self.violated(f"{run}: the log has gaps")
            if len({event["eventId"] for event in events}) != len(events):
                self.violated(f"{run}: an event id occurs twice")
            scored = collections.Counter(event["payload"]["taskId"] for event in events if event["type"] == "eval.scored")
            if len(scored) != TASKS or set(scored.values()) != {1}:
                self.violated(f"{run}: {len(scored)} tasks scored, most often {max(scored.values(), default=0)} times")
            try:
                api.check(run, TASKS)
            except Failure as cause:
                self.violated(str(cause))
            self.counts["events"] += len(events)
            self.counts["tasks"] += TASKS
        most = max(self.endpoint.keys.values())
        self.counts["requests"] = self.endpoint.total()
        self.counts["maximum requests per task"] = most
        if most > 1 + self.most_outages:
            self.violated(f"a task was asked {most} times in {self.most_outages} outages")

    def finish(self) -> None:
        if self.serving.stop() != 0:
            self.violated("the host did not shut down cleanly")
        with contextlib.closing(sqlite3.connect(self.data / "touchstone.db")) as database:
            (integrity,) = database.execute("PRAGMA integrity_check").fetchone()
        if integrity != "ok":
            self.violated(f"integrity_check: {integrity}")


def mounted(folder: Path, size: int) -> bool:
    folder.mkdir(mode=0o700)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}m,mode=0700", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        return False
    if done.returncode != 0:
        print(done.stderr.strip(), file=sys.stderr)
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], epilog=__doc__.split("\n\n", 2)[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8, help="number of times the disk is filled (default 8)")
    parser.add_argument("--size", type=int, default=48, help="size of the tmpfs in MiB (default 48)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random delays (default 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts to this file")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="touchstone-disk-full-"))
    if not mounted(folder / "data", options.size):
        print("not carried out: a tmpfs cannot be mounted here; run this campaign as root on Linux", file=sys.stderr)
        shutil.rmtree(folder)
        return 3
    campaign = None
    try:
        campaign = Campaign(folder, options)
        for number in range(options.rounds):
            campaign.round(number)
            print(f"round {number + 1} of {options.rounds}: {dict(campaign.counts)}", file=sys.stderr)
        campaign.check()
        campaign.finish()
        counts = {"rounds": options.rounds, "hostStarts": campaign.starts, **campaign.counts,
                  "slowestRecoveryS": round(max(campaign.recoveries, default=0), 2), "violations": campaign.violations}
        print(json.dumps(counts, indent=1))
        if options.json:
            options.json.write_text(json.dumps(counts, indent=1))
        return 1 if campaign.violations else 0
    finally:
        if campaign and campaign.serving.process.poll() is None:
            campaign.serving.stop()
        subprocess.run(["umount", str(folder / "data")], check=False)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(rig.campaign("disk_full", main))
