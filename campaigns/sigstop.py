#!/usr/bin/env python3
"""Stops (SIGSTOP) the one of two replicas that works on a run for longer than its lease, lets it go on (SIGCONT), and counts
the model requests it makes after it woke for tasks that the other replica has taken over. There may be none.
"""

import argparse
import os
import signal
import sys
import time

from rig import Site, campaign, conclude, faults

LEASE_S = 3
CONCURRENCY = 6
# The lease, a look at the queue, and reading the log of a large run in a debug build.
TAKEN_OVER_WITHIN_S = LEASE_S + 12
# How long after it woke a request of a replica is one of a process that had not noticed.
WAKING_S = 1.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="campaigns/sigstop.py", description=__doc__)
    parser.add_argument("--stops", type=int, default=10, help="number of stops (default: 10)")
    parser.add_argument("--database-url", metavar="URL", help="PostgreSQL instead of the embedded database")
    options = parser.parse_args()
    return campaign(parser.prog, lambda: run(parser.prog, options))


def run(name: str, options) -> int:
    tasks = options.stops * 800
    site = Site(tasks=tasks, latency_s=0.03, concurrency=CONCURRENCY, lease_s=LEASE_S, database_url=options.database_url)
    zombies, not_taken_over, violations = 0, 0, []
    try:
        replicas = {tag: site.serve(tag) for tag in ("a", "b")}
        api = replicas["a"][1]
        created = site.start(api)
        stops = 0
        while stops < options.stops:
            mark = site.endpoint.mark()
            time.sleep(0.4)
            asked = site.endpoint.since(mark)
            if not asked:
                if api.call("GET", f"/v1/runs/{created}")["status"] != "running":
                    break
                continue
            working = asked[-1][1]
            other = "b" if working == "a" else "a"
            stops += 1
            pid = replicas[working][0].pid
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.1)
            stopped = site.endpoint.mark()
            taken_over, late = False, time.monotonic() + TAKEN_OVER_WITHIN_S
            while not taken_over and time.monotonic() < late:
                time.sleep(0.1)
                taken_over = any(tag == other for _, tag, _ in site.endpoint.since(stopped))
            time.sleep(0.5)
            woken = site.endpoint.mark()
            os.kill(pid, signal.SIGCONT)
            time.sleep(WAKING_S)
            made = [item for _, tag, item in site.endpoint.since(woken) if tag == working]
            if taken_over:
                zombies += len(made)
            else:
                not_taken_over += 1
            api = replicas[other][1]
        if not api.wait(created, 600):
            violations.append("the run did not end within 600 s")
        violations += faults(site.check(api, created))
        asked = site.endpoint.counts()
        again = sum(count - 1 for count in asked.values())
        if zombies:
            violations.append(f"{zombies} requests by a replica that had lost its lease")
        if again > stops * 2 * CONCURRENCY:
            violations.append(f"{again} requests made again, more than twice the concurrency for each stop")
        return conclude(name, {
            "stops": stops, "tasks": tasks, "requests by a replica that had lost its lease": zombies,
            "requests made again": again, "most requests for one task": max(asked.values()),
            "stops in the middle of a transaction, which nobody could take over": not_taken_over,
        }, violations)
    finally:
        site.close()


if __name__ == "__main__":
    sys.exit(main())
