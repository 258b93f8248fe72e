#!/usr/bin/env python3
"""Locks the embedded database (BEGIN IMMEDIATE in another process) while a run executes, and counts the requests for each task.

Three cases: the lock is released within the lease; the host is killed while the store is locked; the lock outlasts the
lease. In each case, the number of tasks requested twice is at most twice the concurrency.
"""

import argparse
import sqlite3
import sys
import time

from rig import Site, campaign, conclude, faults


def main() -> int:
    parser = argparse.ArgumentParser(prog="campaigns/stalled_store.py", description=__doc__)
    parser.add_argument("--tasks", type=int, default=3000, help="tasks of the run (default: 3000)")
    parser.add_argument("--concurrency", type=int, default=16, help="tasks in flight (default: 16)")
    parser.add_argument("--lease", type=int, default=10, help="lease in seconds (default: 10)")
    options = parser.parse_args()
    return campaign(parser.prog, lambda: run(parser.prog, options))


def run(name: str, options) -> int:
    counts, violations = {}, []
    for case, locked_s, kill in (
        ("released within the lease", options.lease * 0.6, False),
        ("killed while locked", options.lease * 0.4, True),
        ("locked for longer than the lease", options.lease * 1.7, False),
    ):
        site = Site(tasks=options.tasks, latency_s=0.02, concurrency=options.concurrency, lease_s=options.lease)
        try:
            serving, api = site.serve()
            created = site.start(api)
            while site.endpoint.mark() < options.tasks // 10:
                time.sleep(0.01)
            other = sqlite3.connect(site.folder / "data" / "touchstone.db", timeout=30, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            mark = site.endpoint.mark()
            time.sleep(locked_s)
            meanwhile = site.endpoint.mark() - mark
            if kill:
                site.kill(serving)
            other.execute("ROLLBACK")
            other.close()
            if kill:
                serving, api = site.serve()
            if not api.wait(created, 180):
                violations.append(f"{case}: the run did not end within 180 s")
            violations += [f"{case}: {fault}" for fault in faults(site.check(api, created))]
            asked = site.endpoint.counts()
            again = sum(count > 1 for count in asked.values())
            counts[case] = (f"{meanwhile} requests while locked, {again} tasks requested twice, "
                            f"at most {max(asked.values())} requests for one task")
            most = 2 * options.concurrency
            if meanwhile > most:
                violations.append(f"{case}: {meanwhile} requests while locked, more than {most}")
            if again > most:
                violations.append(f"{case}: {again} tasks requested twice, more than {most}")
        finally:
            site.close()
    return conclude(name, counts, violations)


if __name__ == "__main__":
    sys.exit(main())
