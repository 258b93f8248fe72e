#!/usr/bin/env python3
"""Checks that commands on a shared data folder do not execute or change runs of others.

Two tenants queue eval runs over the API of a host whose endpoint answers correctly with probability P. The host is killed
before it executes them. Then commands work on the same data folder with an endpoint that is always correct and has the same
provider and model name: evals, a recording, a replay of an edited cassette, a retry of an API run, and a host configured
with the other endpoint. Finally the first host is started again and executes its runs.

Invariants: no command executes a run that it did not create; no task of an API run is answered by the other endpoint; an
edited cassette is refused, even with a recomputed chain; every run of the first host is judged with that host's endpoint.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "conformance"), str(ROOT / "bench")]

import harness  # noqa: E402
import rig  # noqa: E402
from hosting import Serving, Touchstone, binary  # noqa: E402

TENANTS = ("default", "other")
MODEL = "shared-name"
LEASE_S = 10
ENDED_WITHIN_S = 600
CONFIGURATION = """
[worker]
lease_s = {lease}

[[models]]
class = "*"
provider = "openai"
base_url = "{url}/v1"
model = "{model}"
max_concurrency = 64
"""


class Endpoint(ThreadingHTTPServer):
    """An OpenAI endpoint that answers an item correctly with a given probability. It can be closed, so that callers wait."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, probability: float):
        super().__init__(("127.0.0.1", 0), Completion)
        self.probability = probability
        self.open = threading.Event()
        self.open.set()
        self.lock = threading.Lock()
        # Another attempt at a call has the same key.
        self.answered: set[str] = set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def taken(self) -> int:
        """Calls answered since the last time this was called."""
        with self.lock:
            taken, self.answered = len(self.answered), set()
            return taken


class Completion(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        endpoint = self.server
        endpoint.open.wait(ENDED_WITHIN_S)
        item = int(re.search(r'\\*"item\\*":\s*(\d+)', body)[1])
        right = secrets.randbelow(10_000) < endpoint.probability * 10_000
        text = harness.answer(item) if right else "wrong"
        with endpoint.lock:
            endpoint.answered.add(self.headers.get("Idempotency-Key") or secrets.token_hex(8))
        reply = json.dumps({
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 2},
        }).encode()
        with contextlib.suppress(OSError):
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)


class Campaign:
    def __init__(self, options: argparse.Namespace, folder: Path):
        self.options, self.folder = options, folder
        self.counts: dict[str, int] = {}
        self.violations: list[str] = []
        self.honest, self.generous = Endpoint(options.probability), Endpoint(1.0)
        self.program = options.bin or binary()
        self.touchstone = self.configured("touchstone.toml", self.honest)
        self.suite = f"{harness.SUITE_ID}@{harness.version_of(options.tasks)}"
        archive = self.touchstone.signed_pack(ROOT / "bench" / "agent")
        self.foreign = self.configured("foreign.toml", self.generous)
        keys = self.touchstone.config.read_text().split("[[packs.keys]]", 1)[1]
        with self.foreign.config.open("a") as config:
            config.write("\n[[packs.keys]]" + keys)
        self.keys = {tenant: self.touchstone.key(tenant, "all") for tenant in TENANTS}
        suite = harness.write_suite(options.tasks, folder, "golden")
        serving = Serving(self.touchstone, folder / "setup.log")
        try:
            for key in self.keys.values():
                self.touchstone.run_at(serving.base_url, key, "pack", "install", str(archive))
                self.touchstone.run_at(serving.base_url, key, "suite", "import", str(suite))
        finally:
            serving.stop()

    def configured(self, name: str, endpoint: Endpoint) -> Touchstone:
        config = self.folder / name
        config.write_text(CONFIGURATION.format(url=endpoint.url, model=MODEL, lease=LEASE_S))
        return Touchstone(self.program, self.folder, None, config=config)

    def count(self, name: str, number: int, expected: int | None = None) -> None:
        self.counts[name] = self.counts.get(name, 0) + number
        if expected is not None and number != expected:
            self.violations.append(f"{name}: {number}, expected {expected}")

    # ------------------------------------------------------------------------------------------------------------- steps

    def queue(self) -> dict[str, str]:
        """Runs of both tenants, and a host that is killed before any of their tasks is answered."""
        self.honest.open.clear()
        serving = Serving(self.touchstone, self.folder / "killed.log")
        runs = {}
        try:
            for n in range(self.options.runs):
                tenant = TENANTS[n % len(TENANTS)]
                api = harness.Api(serving.base_url, self.keys[tenant])
                runs[api.start(self.options.tasks)] = tenant
        finally:
            serving.process.kill()
            serving.process.wait()
        self.honest.open.set()
        time.sleep(LEASE_S + 0.5)
        self.honest.taken()
        return runs

    def command(self, *arguments: str) -> subprocess.CompletedProcess:
        command = self.touchstone.arguments(*arguments)
        return subprocess.run(command, cwd=self.folder, env=self.touchstone.environment(), capture_output=True, text=True)

    def evaluate(self, *more: str) -> subprocess.CompletedProcess:
        arguments = ["eval", self.suite, "--agent", harness.AGENT_ID, "--json", *more]
        return self.command(*arguments)

    def at_generous(self) -> list[str]:
        return ["--model-url", f"{self.generous.url}/v1", "--model", MODEL]

    def foreign_commands(self, runs: dict[str, str]) -> None:
        for n in range(self.options.commands):
            tape = ["--record", f"tape-{n}.jsonl"] if n % 2 else []
            done = self.evaluate(*self.at_generous(), *tape)
            if done.returncode not in (0, 1, 4):
                self.violations.append(f"eval ended with {done.returncode}: {done.stderr[-300:]}")
            self.count("foreign commands", 1)
        self.count("calls to the foreign endpoint", self.generous.taken())
        for tape in self.folder.glob("tape-*.jsonl"):
            # A repeated call is recorded more than once, but the first call of each task only once.
            exchanges = tape.read_text().count('"nth":0')
            self.count("foreign exchanges on cassettes", exchanges - self.options.tasks, 0)
        self.retries(runs, "open API runs", "running")

    def retries(self, runs: dict[str, str], what: str, reason: str) -> None:
        """Retries with the foreign endpoint, all refused for this reason. Another tenant's run is not found."""
        for run, tenant in runs.items():
            done = self.command("run", "retry", run, "--json", *self.at_generous())
            error = json.loads(done.stdout or "{}").get("error") or {}
            found = (done.returncode, error.get("code"), (error.get("details") or {}).get("reason"))
            expected = (2, "conflict", reason) if tenant == "default" else (2, "not_found", None)
            self.count(f"retries of {what} refused: {expected[2] or expected[1]}", int(found == expected), 1)
        self.count(f"calls of retries of {what}", self.generous.taken(), 0)

    def cassettes(self) -> None:
        done = self.evaluate("--record", "honest.jsonl", "--concurrency", "4")
        if done.returncode == 2:
            self.violations.append(f"recording failed: {done.stderr[-300:]}")
        lines = (self.folder / "honest.jsonl").read_text().splitlines()
        for name, edited in self.edits(lines).items():
            file = self.folder / f"{name}.jsonl"
            file.write_text("".join(f"{line}\n" for line in edited))
            done = self.evaluate("--replay", file.name)
            refused = done.returncode == 2 and '"runId"' not in done.stdout
            self.count("edited cassettes refused", int(refused), 1)
        done = self.evaluate("--replay", "honest.jsonl")
        replayed = json.loads(done.stdout).get("replayedFrom") if done.returncode in (0, 1) else None
        self.count("replays marked as replays", int(bool(replayed)), 1)

    def edits(self, lines: list[str]) -> dict[str, list[str]]:
        """Wrong answers changed to correct ones, in all ways that someone might edit a cassette."""
        at = [n for n, line in enumerate(lines) if '"kind":"exchange"' in line]
        right = lines[:]
        for n in at:
            item = int(re.search(r'\\*"item\\*":\s*(\d+)', lines[n])[1])
            right[n] = re.sub(r'"text":"wrong"(?=[^{]*}}$)', f'"text":"{harness.answer(item)}"', lines[n])
        if right == lines:
            # By chance every answer was correct: any other change works too.
            right[at[0]] = lines[at[0]].replace('"nth":0', '"nth":1')
        swapped = lines[:]
        swapped[at[0]], swapped[at[1]] = swapped[at[1]], swapped[at[0]]
        unsigned = [line for line in right if '"kind":"end"' not in line]
        version_1 = [line.split('",', 1)[1] for line in right]
        return {
            "answers": right,
            "answers-new-chain": chained(right),
            "line-removed": lines[: at[0]] + lines[at[0] + 1:],
            "lines-swapped": swapped,
            "end-removed": unsigned,
            "without-chain": ["{" + line for line in version_1],
        }

    def other_host(self, runs: dict[str, str]) -> None:
        """A host with the same names and the other endpoint must not score any run that is queued for the first."""
        kept = sorted(runs)[: max(1, len(runs) // 4)]
        serving = Serving(self.foreign, self.folder / "foreign.log")
        try:
            for run in runs:
                self.wait(serving, runs[run], run)
            reports = {run: self.report(serving, runs[run], run) for run in runs}
        finally:
            serving.stop()
        changed = sum("model_changed" in " ".join(report["reasons"]) for report in reports.values())
        self.count("runs refused by a host with another endpoint", changed, len(runs))
        self.count("tasks scored by a host with another endpoint", self.generous.taken(), 0)
        self.count("refusals that show both identities", int(all(self.names_both(run, runs[run]) for run in kept)), 1)
        self.retries(runs, "API runs that another endpoint failed", "model_changed")

    def names_both(self, run: str, tenant: str) -> bool:
        serving = Serving(self.touchstone, self.folder / "look.log")
        try:
            snapshot = harness.Api(serving.base_url, self.keys[tenant]).call("GET", f"/v1/runs/{run}")
        finally:
            serving.stop()
        message = snapshot["error"]["message"]
        return self.honest.url in message and self.generous.url in message

    def own_host(self, runs: dict[str, str]) -> None:
        back_at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        serving = Serving(self.touchstone, self.folder / "own.log")
        try:
            for run, tenant in runs.items():
                self.wait(serving, tenant, run)
            for run, tenant in runs.items():
                report = self.report(serving, tenant, run)
                judged = report["lenientVerdict"] in ("pass", "fail")
                own = report["evaluated"]["endpoint"]["url"] == f"{self.honest.url}/v1"
                self.count("API runs judged by their own endpoint", int(judged and own))
                events = harness.Api(serving.base_url, self.keys[tenant]).events(run)
                scored = [event for event in events if event["type"] == "eval.scored"]
                early = sum(event["timestamp"] < back_at for event in scored)
                self.count("tasks of API runs scored before their host was restarted", early, 0)
                self.count("tasks of API runs scored by their host", len(scored) - early)
        finally:
            serving.stop()
        self.count("answers of the host's endpoint", self.honest.taken())
        if self.counts["API runs judged by their own endpoint"] != len(runs):
            self.violations.append("not every API run was judged by its own endpoint")
        self.count("calls to the foreign endpoint by the host of the runs", self.generous.taken(), 0)

    def wait(self, serving: Serving, tenant: str, run: str) -> None:
        harness.Api(serving.base_url, self.keys[tenant]).wait(run)

    def report(self, serving: Serving, tenant: str, run: str) -> dict:
        return harness.Api(serving.base_url, self.keys[tenant]).call("GET", f"/v1/host/touchstone/runs/{run}/report")

    def run(self) -> None:
        runs = self.queue()
        self.count("API runs queued by two tenants", len(runs))
        self.foreign_commands(runs)
        self.cassettes()
        self.honest.taken()
        self.own_host(runs)
        self.other_host(self.queue())


def chained(lines: list[str]) -> list[str]:
    """The lines with a recomputed chain and the old signature."""
    link, linked = hashlib.sha256(b"touchstone:cassette:v2").digest(), []
    for line in lines:
        rest = "{" + line.split('",', 1)[1]
        link = hashlib.sha256(link + rest.encode()).digest()
        linked.append(f'{{"chain":"{link.hex()}",{rest[1:]}')
    return linked


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", help="the program (default: TOUCHSTONE_BIN, or what cargo builds)")
    parser.add_argument("--runs", type=int, default=100, help="API runs of both tenants together (default: 100)")
    parser.add_argument("--tasks", type=int, default=20, help="tasks of each run (default: 20)")
    parser.add_argument("--commands", type=int, default=6, help="foreign evals (default: 6)")
    parser.add_argument("--probability", type=float, default=0.85, help="probability that the host's endpoint answers correctly (default: 0.85)")
    parser.add_argument("--keep", action="store_true", help="keep the working folder")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="touchstone-foreign-"))
    os.chmod(folder, 0o700)
    try:
        campaign = Campaign(options, folder)
        campaign.run()
    finally:
        if options.keep:
            print(f"kept {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    for name, number in campaign.counts.items():
        print(f"{number:>8}  {name}")
    for violation in campaign.violations:
        print(f"VIOLATED  {violation}")
    return 1 if campaign.violations else 0


if __name__ == "__main__":
    sys.exit(rig.campaign("foreign_commands", main))
