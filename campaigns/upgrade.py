#!/usr/bin/env python3
"""Upgrades two replicas one after the other under load, and goes back to the old version afterwards.

    campaigns/upgrade.py OLD NEW [--database-url URL]

OLD and NEW are two builds of the program. Both replicas start with OLD. One after the other is terminated (SIGTERM) and replaced by
one with NEW, then both by OLD again. Meanwhile requests arrive through a simple load balancer: it asks the replicas in turn, and the
next one only if nobody listens.

Invariants:
  - every request is answered with 2xx
  - every run is completed; no task is lost or scored twice, and no event has a gap or a duplicate
  - a replacement repeats at most twice as many model requests as the concurrency, per open run
"""

import argparse
import collections
import os
import sys
import threading
import time
from pathlib import Path

from rig import Api, Failure, Site, campaign, conclude, faults

CONCURRENCY = 8
# Between two replacements.
PAUSE_S = 2.0
# A run is started this often.
EVERY_S = 1.0


class Balancer:
    """Sends each request to a replica that listens, and counts the answers."""

    def __init__(self):
        self.lock = threading.Lock()
        self.replicas: list[Api] = []
        self.turn = 0
        self.refusals: list[str] = []
        self.answers = 0

    def set(self, replicas: list[Api]) -> None:
        with self.lock:
            self.replicas = replicas

    def ask(self, method: str, path: str, body=None) -> dict | None:
        with self.lock:
            self.turn += 1
            start, replicas = self.turn, list(self.replicas)
        for n in range(len(replicas)):
            try:
                status, answer = replicas[(start + n) % len(replicas)].ask(method, path, body)
            except ConnectionRefusedError:
                continue
            except OSError as cause:
                self._refuse(f"{method} {path}: {cause!r}")
                return None
            with self.lock:
                self.answers += 1
            if status >= 300:
                self._refuse(f"{method} {path} was answered {status}")
                return None
            return answer
        self._refuse(f"{method} {path}: no replica listens")
        return None

    def _refuse(self, what: str) -> None:
        with self.lock:
            self.refusals.append(what)


class Load:
    """Starts runs and reads, until it is stopped."""

    def __init__(self, balancer: Balancer, site: Site):
        self.balancer, self.site = balancer, site
        self.runs: list[str] = []
        self.over = threading.Event()
        self.threads = [threading.Thread(target=work) for work in (self._start, self._read)]
        for thread in self.threads:
            thread.start()

    def _start(self) -> None:
        while not self.over.wait(EVERY_S):
            answer = self.balancer.ask("POST", "/v1/runs", self.site.request())
            if answer:
                self.runs.append(answer["runId"])

    def _read(self) -> None:
        while not self.over.wait(0.02):
            paths = ["/v1/host/touchstone/runs?limit=5"] + [f"/v1/runs/{run}" for run in self.runs[-1:]]
            for path in paths:
                self.balancer.ask("GET", path)

    def stop(self) -> list[str]:
        self.over.set()
        for thread in self.threads:
            thread.join()
        return self.runs


def main() -> int:
    parser = argparse.ArgumentParser(prog="campaigns/upgrade.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, metavar="OLD", help="the program before the upgrade")
    parser.add_argument("new", type=Path, metavar="NEW", help="the program after it")
    parser.add_argument("--tasks", type=int, default=400, help="tasks of each run (default: 400)")
    parser.add_argument("--database-url", metavar="URL", help="PostgreSQL instead of the embedded database")
    options = parser.parse_args()
    return campaign(parser.prog, lambda: run(parser.prog, options))


def run(name: str, options) -> int:
    old, new = (str(program.resolve()) for program in (options.old, options.new))
    for program in (old, new):
        if not os.access(program, os.X_OK):
            raise Failure(f"{program} is not a program")
    os.environ["TOUCHSTONE_BIN"] = old
    site = Site(tasks=options.tasks, latency_s=0.05, concurrency=CONCURRENCY, database_url=options.database_url)
    balancer, load, open_runs, violations = Balancer(), None, [], []
    try:
        replicas = {tag: site.serve(tag) for tag in ("a", "b")}
        balancer.set([api for _, api in replicas.values()])
        load = Load(balancer, site)
        for program in (new, old):
            site.program = program
            for tag in replicas:
                time.sleep(PAUSE_S)
                api = next(api for other, (_, api) in replicas.items() if other != tag)
                open_runs.append(sum(api.call("GET", f"/v1/runs/{run}")["status"] in ("pending", "running") for run in load.runs[-8:]))
                code = replicas[tag][0].stop()
                if code != 0:
                    violations.append(f"replica {tag} ended with {code}")
                replicas[tag] = site.serve(tag)
                balancer.set([api for _, api in replicas.values()])
        time.sleep(PAUSE_S)
        runs = load.stop()
        api = replicas["a"][1]
        for started in runs:
            if not api.wait(started, 120):
                violations.append(f"run {started} did not end within 120 s")
            violations += [f"run {started}: {fault}" for fault in faults(site.check(api, started))]
        asked = site.endpoint.counts()
        again = sum(asked.values()) - len(runs) * options.tasks
        bound = sum(2 * CONCURRENCY * most for most in open_runs)
        if again > bound:
            violations.append(f"{again} model requests repeated, more than {bound}")
        violations += [f"{count} times: {what}" for what, count in collections.Counter(balancer.refusals).items()]
        return conclude(name, {
            "replacements": len(open_runs), "open runs at each": open_runs, "runs": len(runs), "tasks": len(runs) * options.tasks,
            "requests answered": balancer.answers, "requests refused": len(balancer.refusals),
            "model requests repeated": f"{again} (bound: {bound})",
        }, violations)
    finally:
        if load:
            load.stop()
        site.close()


if __name__ == "__main__":
    sys.exit(main())
