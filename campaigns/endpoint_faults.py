#!/usr/bin/env python3
"""Runs evaluations against a model endpoint with every kind of fault in FAULTS, and checks the results.

Invariants, for every kind of fault:
  - the run ends, and the host answers meanwhile
  - no task is requested more than three times
  - a fault in the reported usage alone does not discard an answer
  - after a restart the log can be read to its end, and the snapshot and the report are served
  - a run with the fault can be cancelled
and over the whole campaign, the peak resident memory (VmHWM) of the host stays below --memory-mib.

The program under test is TOUCHSTONE_BIN, or the binary that cargo builds. Only the standard library is needed.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import gzip
import json
import re
import shutil
import socket
import socketserver
import struct
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).absolute().parent.parent
sys.path[:0] = [str(ROOT / "conformance"), str(ROOT / "bench")]

import rig  # noqa: E402
from harness import AGENT_ID  # noqa: E402
from hosting import Failure, Serving, Touchstone, binary  # noqa: E402

SUITE_ID = "private.touchstone.evals.faults"
TENANT = "default"
ATTEMPTS = 3
ASKED = re.compile(rb'fault-([a-z0-9-]+)-n-(\d+)')
MIB = 1 << 20

CONFIGURATION = """
[limits]
max_tasks_per_suite = 1000
max_cost_usd_per_suite = 1000000.0

[[models]]
class = "*"
provider = "openai"
base_url = "{base_url}/v1"
model = "faulty"
max_concurrency = 64
timeout_s = {timeout_s}
stream = {stream}
input_usd_per_mtok = 0.60
output_usd_per_mtok = 0.60
"""


# -------------------------------------------------------------------------------------------------------------- answers

def completion(content: str = "word", usage: str = '{"prompt_tokens": 3, "completion_tokens": 1}') -> bytes:
    message = json.dumps({"role": "assistant", "content": content})
    return f'{{"choices": [{{"index": 0, "finish_reason": "stop", "message": {message}}}], "usage": {usage}}}'.encode()


def whole(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(kind: str = "application/json") -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def endless(connection: socket.socket, head: bytes, piece: bytes, most: int = 1 << 30) -> None:
    connection.sendall(head)
    for _ in range(most // len(piece)):
        connection.sendall(chunk(piece))


def usage(numbers: str):
    text = f'{{"prompt_tokens": {numbers}, "completion_tokens": {numbers}, "total_tokens": {numbers}}}'
    return lambda connection: connection.sendall(whole(completion(usage=text)))


def send(*parts: bytes):
    return lambda connection: connection.sendall(b"".join(parts))


def slowly(connection: socket.socket, data: bytes, pause: float) -> None:
    for at in range(len(data)):
        connection.sendall(data[at:at + 1])
        time.sleep(pause)


def reset(connection: socket.socket, sent: bytes = b"") -> None:
    connection.sendall(sent)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def later(status: str, *headers: str):
    return lambda connection: connection.sendall(whole(b"{}", status, *headers))


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


ENORMOUS = completion("x" * (7 * MIB))
NO_END = b"data: " + b"x" * (1 << 16)
# Faults that leave a good answer: the task must pass.
HARMLESS = {
    "none": lambda c: c.sendall(whole(completion())),
    "usage-negative": usage("-3"),
    "usage-fractional": usage("2.5"),
    "usage-nan": usage("NaN"),
    "usage-infinite": usage("Infinity"),
    "usage-out-of-range": usage("1e999"),
    "usage-63-bits": usage("9223372036854775808"),
    "usage-64-bits": usage("18446744073709551615"),
    "usage-above-64-bits": usage("18446744073709551616"),
    "usage-1e17": usage("100000000000000000"),
    "usage-text": usage('"many"'),
    "usage-list": lambda c: c.sendall(whole(completion(usage="[1, 2]"))),
    "usage-word": lambda c: c.sendall(whole(completion(usage='"none"'))),
    "no-length": lambda c: c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + completion()),
    "one-byte-chunks": lambda c: c.sendall(chunked() + b"".join(chunk(completion()[n:n + 1]) for n in range(len(completion()))) + b"0\r\n\r\n"),
}
# Faults without a good answer.
HARMFUL = {
    "large-answer": lambda c: c.sendall(whole(ENORMOUS)),
    "large-chunked": lambda c: c.sendall(chunked() + chunk(ENORMOUS) + b"0\r\n\r\n"),
    "large-many-values": lambda c: c.sendall(whole(b'{"choices": [' + b'{},' * (2 * MIB) + b'{}]}')),
    "large-usage": lambda c: c.sendall(whole(completion(usage="[" + "{}," * (2 * MIB) + "1]"))),
    "above-the-limit": lambda c: c.sendall(whole(completion("x" * (9 * MIB)))),
    "endless-body": lambda c: endless(c, chunked(), b" " * (1 << 16)),
    "endless-line": lambda c: endless(c, chunked("text/event-stream"), NO_END),
    "endless-events": lambda c: endless(c, chunked("text/event-stream"), b'data: {"choices": []}\n\n' * 100),
    "gzip": lambda c: c.sendall(whole(gzip.compress(completion()), "200 OK", "Content-Encoding: gzip")),
    "gzip-bomb": lambda c: c.sendall(whole(gzip.compress(bytes(64 * MIB)), "200 OK", "Content-Encoding: gzip")),
    "retry-after-overflow": later("429 Too Many Requests", "Retry-After: 0"),
    "two-lengths": lambda c: c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 9\r\n\r\nhello"),
    "short-of-length": lambda c: c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n" + completion()[:20]),
    "reset-at-once": lambda c: reset(c),
    "reset-in-body": lambda c: reset(c, whole(completion())[:-20]),
    "no-answer": lambda c: time.sleep(30),
    "slow-head": lambda c: slowly(c, whole(completion()), 0.2),
    "slow-body": lambda c: (c.sendall(chunked()), slowly(c, chunk(completion()), 0.2)),
    "no-http": send(b"hello there\r\n\r\n"),
    "huge-head": lambda c: c.sendall(b"HTTP/1.1 200 OK\r\n" + b"".join(b"x-%d: %s\r\n" % (n, b"y" * 8000) for n in range(200)) + b"\r\n"),
    "html": lambda c: c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi"),
    "empty": send(whole(b"")),
    "not-json": send(whole(b'{"choices": [')),
    "deep-json": send(whole(nested(100_000).encode())),
    "no-choices": send(whole(b'{"choices": []}')),
    "redirect": later("302 Found", "Location: http://169.254.169.254/latest/"),
    "status-500": later("500 Internal Server Error"),
    "status-429": later("429 Too Many Requests"),
    "status-418": later("418 I'm a teapot"),
}
# `Retry-After` far beyond the cap of 30 s: one task each, or the campaign would take minutes.
WAITING = {
    "wait-overflow": later("503 Service Unavailable", "Retry-After: 99999999999999999999999"),
    "wait-year-9999": later("503 Service Unavailable", "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT"),
}
FAULTS = {**HARMLESS, **HARMFUL, **WAITING}


class Endpoint(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(self):
        self.seen: collections.Counter = collections.Counter()
        self.at: dict = collections.defaultdict(list)
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), Answering)
        self.base_url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def forget(self, kind: str) -> None:
        with self.lock:
            for asked in [asked for asked in self.seen if asked[0] == kind]:
                del self.seen[asked]

    def handle_error(self, *_):
        """The host hangs up on most of these answers."""


class Answering(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.settimeout(60)
        received = b""
        while b"\r\n\r\n" not in received:
            piece = self.request.recv(1 << 16)
            if not piece:
                return
            received += piece
        head, _, body = received.partition(b"\r\n\r\n")
        length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
        while len(body) < length:
            body += self.request.recv(1 << 16)
        kind, task = ASKED.findall(body)[-1]
        kind = kind.decode()
        with self.server.lock:
            self.server.seen[kind, int(task)] += 1
            self.server.at[kind, int(task)].append(time.monotonic())
        with contextlib.suppress(OSError):
            FAULTS[kind](self.request)


# ------------------------------------------------------------------------------------------------------------------ host

def ask(base_url: str, key: str, method: str, path: str, body=None) -> tuple[int, dict]:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(base_url + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=90) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as cause:
        return cause.code, json.loads(cause.read() or b"{}")


def peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024


def write_suite(kind: str, tasks: int, folder: Path) -> Path:
    value = {"kind": "golden", "match": {"strategy": "exact", "value": "word"}}
    suite = {
        "suiteId": SUITE_ID, "version": f"1.0.{list(FAULTS).index(kind)}", "modes": ["golden"],
        "tasks": [{"taskId": f"task-{n}", "input": f"fault-{kind}-n-{n}", "expected": value} for n in range(tasks)],
    }
    file = folder / f"{kind}.json"
    file.write_text(json.dumps(suite))
    return file


class Campaign:
    def __init__(self, folder: Path, stream: bool, options: argparse.Namespace):
        self.endpoint, self.options, self.problems = Endpoint(), options, []
        config = folder / "touchstone.toml"
        config.write_text(CONFIGURATION.format(
            base_url=self.endpoint.base_url, timeout_s=options.timeout, stream=str(stream).lower()))
        self.folder = folder
        self.touchstone = Touchstone(binary(), folder, options.database_url, config=config)
        archive = self.touchstone.signed_pack(ROOT / "bench" / "agent")
        self.touchstone.run("pack", "install", str(archive))
        for kind in {"none", *options.kinds}:
            tasks = 1 if kind in WAITING else options.tasks
            self.touchstone.run("suite", "import", str(write_suite(kind, tasks, folder)))
        self.key = self.touchstone.key(TENANT)
        self.serving = Serving(self.touchstone, folder / "host.log")
        self.runs: dict[str, str] = {}
        self.requests: collections.Counter = collections.Counter()
        self.peaks: list[float] = []
        # The results of the runs to be cancelled; a run with a quick fault may have completed before.
        self.ended: collections.Counter = collections.Counter()

    def call(self, method: str, path: str, body=None) -> tuple[int, dict]:
        return ask(self.serving.base_url, self.key, method, path, body)

    def problem(self, kind: str, what: str) -> None:
        self.problems.append(f"{kind}: {what}")
        print(f"  VIOLATED {kind}: {what}", flush=True)

    def start(self, kind: str) -> str:
        status, created = self.call("POST", "/v1/runs", {
            "mode": "eval", "evalSuiteRef": f"{SUITE_ID}@1.0.{list(FAULTS).index(kind)}", "agentId": AGENT_ID,
            "configurable": {"evalConcurrency": 16}})
        if status != 201:
            raise Failure(f"a run of {kind} was not created: {status} {created}")
        return created["runId"]

    def wait(self, run: str, within: float) -> str | None:
        ends = time.monotonic() + within
        while time.monotonic() < ends:
            status, snapshot = self.call("GET", f"/v1/runs/{run}")
            if status == 200 and snapshot["status"] in ("completed", "failed", "cancelled"):
                return snapshot["status"]
            time.sleep(0.1)
        return None

    def recover(self) -> None:
        """Waits until the host calls the endpoint again: after many failures the circuit breaker pauses calls."""
        ends = time.monotonic() + 150
        while time.monotonic() < ends:
            run = self.start("none")
            self.wait(run, 60)
            _, summary = self.call("GET", f"/v1/runs/{run}/eval-summary")
            if summary.get("passedCount") == self.options.tasks:
                return
            time.sleep(0.5)
        self.problem("none", "the host does not call the endpoint again")

    def evaluate(self, kind: str) -> None:
        self.recover()
        self.endpoint.forget(kind)
        started, run = time.monotonic(), self.start(kind)
        self.runs[kind] = run
        ended = self.wait(run, self.options.within)
        if ended != "completed":
            return self.problem(kind, f"the run is {ended or 'still running'} after {time.monotonic() - started:.0f} s")
        _, summary = self.call("GET", f"/v1/runs/{run}/eval-summary")
        asked = [count for (found, _), count in self.endpoint.seen.items() if found == kind]
        self.requests[kind] = sum(asked)
        if not asked:
            self.problem(kind, "the endpoint was not called")
        elif max(asked) > ATTEMPTS:
            self.problem(kind, f"a task was requested {max(asked)} times")
        if kind in HARMLESS and summary["passedCount"] != summary["taskCount"]:
            self.problem(kind, f"{summary['passedCount']} of {summary['taskCount']} tasks passed, although the answers are good")
        if kind in WAITING:
            at = self.endpoint.at[kind, 0]
            gaps = [later - earlier for earlier, later in zip(at, at[1:])]
            if not gaps or not all(25 <= gap <= 40 for gap in gaps):
                self.problem(kind, f"waited {gaps} s, and not 30 s")
        peak = peak_mib(self.serving.pid)
        print(f"  {kind:22} {sum(asked):4} requests for {len(asked):3} tasks, {summary['passedCount']:3} passed, "
              f"{time.monotonic() - started:5.1f} s, peak {peak:4.0f} MiB", flush=True)

    def cancel(self, kind: str) -> None:
        self.recover()
        run = self.start(kind)
        time.sleep(0.3)
        status, answer = self.call("POST", f"/v1/runs/{run}/cancel", {})
        ended = self.wait(run, 30)
        if status not in (200, 202, 409) or ended is None or (status == 409 and ended != "completed"):
            self.problem(kind, f"the run cannot be cancelled: {status} {answer}, the run is {ended}")
        self.ended[ended] += 1

    def read(self, kind: str, run: str) -> None:
        last = 0
        while True:
            status, page = self.call("GET", f"/v1/runs/{run}/events/poll?lastSequence={last}&timeout=1")
            if status != 200:
                return self.problem(kind, f"the log cannot be read after event {last}: {status}")
            for event in page["events"]:
                if event["sequence"] != last + 1:
                    return self.problem(kind, f"event {event['sequence']} follows {last}")
                last += 1
            if page["isComplete"]:
                break
        for path in (f"/v1/runs/{run}", f"/v1/runs/{run}/eval-summary", f"/v1/host/touchstone/runs/{run}/report"):
            status, answer = self.call("GET", path)
            if status != 200:
                self.problem(kind, f"GET {path} is answered {status} {answer}")

    def restart(self) -> None:
        self.peaks.append(peak_mib(self.serving.pid))
        self.serving.stop()
        self.serving = Serving(self.touchstone, self.folder / "host.log")

    def carry_out(self) -> float:
        for kind in self.options.kinds:
            self.evaluate(kind)
        for kind in self.options.kinds:
            self.cancel(kind)
        self.restart()
        for kind, run in self.runs.items():
            self.read(kind, run)
        self.peaks.append(peak_mib(self.serving.pid))
        self.serving.stop()
        self.endpoint.shutdown()
        if max(self.peaks) > self.options.memory_mib:
            self.problem("all", f"the host took {max(self.peaks):.0f} MiB")
        return max(self.peaks)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=16, help="tasks of each run, all in flight at once (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=5.0, help="timeout of one attempt in seconds (default: %(default)s)")
    parser.add_argument("--within", type=float, default=240.0, help="time limit of a run in seconds (default: %(default)s)")
    parser.add_argument("--memory-mib", type=float, default=300.0, help="limit of the host's resident memory in MiB (default: %(default)s)")
    parser.add_argument("--database-url", help="PostgreSQL instead of SQLite")
    parser.add_argument("--only", dest="kinds", nargs="+", choices=sorted(FAULTS), default=list(FAULTS), metavar="KIND", help="only these kinds of faults")
    options = parser.parse_args()
    problems = []
    for stream in (False, True):
        print(f"{len(options.kinds)} kinds of faults, answers {'in pieces' if stream else 'in one'}")
        folder = Path(tempfile.mkdtemp(prefix="touchstone-faults-"))
        try:
            campaign = Campaign(folder, stream, options)
            try:
                peak = campaign.carry_out()
            finally:
                campaign.serving.stop()
            requests = sum(campaign.requests.values())
            print(f"  {requests} requests of {len(campaign.runs)} runs; of as many that were to be cancelled {dict(campaign.ended)}; "
                  f"peak {peak:.0f} MiB, {len(campaign.problems)} violations")
            problems += campaign.problems
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(rig.campaign("endpoint_faults", main))
