#!/usr/bin/env python3
"""Tries to promote an agent whose true rate equals the threshold, by repeating its run and naming the luckiest one.

A stub endpoint answers each task correctly with probability p. Each campaign has its own tenant, runs the suite K times and
checks the gate after every run, with that run as the evidence. The script prints the number of promoted campaigns, with a
Wilson interval, and of those in which one run alone would have passed. Exits 1 if significantly more than 5 % are promoted.

Only the standard library is needed. The program under test is TOUCHSTONE_BIN, or the binary that cargo builds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "conformance"), str(ROOT / "bench")]

import rig  # noqa: E402
from harness import AGENT_ID, Api  # noqa: E402
from hosting import Failure, Serving, Touchstone, binary  # noqa: E402

SUITE_ID = "private.touchstone.evals.luck"
PROMISED = 0.05
Z = 1.959964
CONFIGURATION = """
[limits]
default_concurrency = 16

[[models]]
class = "*"
provider = "openai"
base_url = "{base_url}/v1"
model = "dice"
max_concurrency = 256
"""


def wilson(passed: float, n: int) -> tuple[float, float]:
    rate, scale = passed / n, 1 + Z * Z / n
    half = Z * (rate * (1 - rate) / n + Z * Z / (4 * n * n)) ** 0.5
    centre = rate + Z * Z / (2 * n)
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


class Dice:
    """An OpenAI-compatible model that answers `right` with probability `p`."""

    def __init__(self, p: float, seed: int):
        dice, lock = random.Random(seed), threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                with lock:
                    text = "right" if dice.random() < p else "wrong"
                body = json.dumps({
                    "id": "x", "object": "chat.completion", "model": "dice",
                    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
                    "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
                }).encode()
                with contextlib.suppress(OSError):
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def suite(tasks: int, bar: float) -> dict:
    golden = {"kind": "golden", "match": {"strategy": "exact", "value": "right"}}
    return {
        "suiteId": SUITE_ID, "version": "1.0.0", "modes": ["golden"], "thresholds": {"passScore": bar},
        "tasks": [{"taskId": f"task-{n}", "input": {"n": n}, "expected": golden} for n in range(tasks)],
    }


def campaign(touchstone: Touchstone, base_url: str, archive: Path, name: str, options: argparse.Namespace) -> dict:
    """One campaign: whether the gate allowed a promotion at any look, and whether one run alone would have passed."""
    key = touchstone.key(name, "all")
    touchstone.run_at(base_url, key, "pack", "install", str(archive))
    api = Api(base_url, key)
    api.call("POST", "/v1/host/touchstone/suites", suite(options.tasks, options.bar))
    api.call("POST", "/v1/host/touchstone/gates", {"policy": {"eval": {"requireSignedSuite": False}}})
    found = {"promoted": False, "lucky": False}
    for look in range(1, options.runs + 1):
        run = api.call("POST", "/v1/runs", {"mode": "eval", "evalSuiteRef": f"{SUITE_ID}@1.0.0", "agentId": AGENT_ID})["runId"]
        while not api.call("GET", f"/v1/runs/{run}/events/poll?lastSequence=2000000000&timeout=60")["isComplete"]:
            pass
        passed = api.call("GET", f"/v1/runs/{run}/eval-summary")["passedCount"]
        ask = {"agentId": AGENT_ID, "version": "1.0.0", "channel": "stable", "evalRunId": run}
        check = api.call("POST", "/v1/host/touchstone/gates/check", ask)
        attempts = check["attempts"]
        if attempts["looks"] != look or len(attempts["runIds"]) != look or attempts["runIds"][-1] != run:
            raise Failure(f"{name}: look {look} is recorded as {attempts}")
        found["promoted"] |= check["allowed"]
        found["lucky"] |= wilson(passed, options.tasks)[0] >= options.bar
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--p", type=float, default=0.8, help="true rate of the agent [default: 0.8]")
    parser.add_argument("--bar", type=float, default=0.8, help="pass score of the suite [default: 0.8]")
    parser.add_argument("--tasks", type=int, default=20, help="tasks of the suite [default: 20]")
    parser.add_argument("--runs", type=int, default=10, help="runs of a campaign [default: 10]")
    parser.add_argument("--campaigns", type=int, default=200, help="campaigns [default: 200]")
    parser.add_argument("--seed", type=int, default=2026, help="seed of the endpoint [default: 2026]")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    folder = Path(tempfile.mkdtemp(prefix="touchstone-best-of-k-"))
    serving = None
    try:
        config = folder / "touchstone.toml"
        config.write_text(CONFIGURATION.format(base_url=Dice(options.p, options.seed).base_url))
        touchstone = Touchstone(binary(), folder, None, config=config)
        archive = touchstone.signed_pack(ROOT / "bench" / "agent")
        serving = Serving(touchstone, folder / "host.log")
        with ThreadPoolExecutor(max_workers=4) as pool:
            names = [f"campaign-{n}" for n in range(options.campaigns)]
            found = list(pool.map(lambda name: campaign(touchstone, serving.base_url, archive, name, options), names))
    finally:
        if serving:
            serving.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"p = {options.p}, bar {options.bar}, {options.tasks} tasks, best of {options.runs} runs, {options.campaigns} campaigns")
    lowest = 0.0
    for what, key in (("promoted", "promoted"), ("one run alone passes", "lucky")):
        count = sum(campaign[key] for campaign in found)
        low, high = wilson(count, len(found))
        print(f"{what}: {count} of {len(found)} = {count / len(found):.1%} [{low:.1%} to {high:.1%}]")
        lowest = low if key == "promoted" else lowest
    if options.p <= options.bar and lowest > PROMISED:
        print(f"more than {PROMISED:.0%} of the agents at the threshold are promoted", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(rig.campaign("best_of_k", main))
