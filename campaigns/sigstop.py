#!/usr/bin/env python3
"""Stops (SIGSTOP) the replica that executes a run for longer than its lease, and continues it (SIGCONT).

A process can be stopped in the middle of a transaction. On the embedded database it then keeps the write lock of SQLite, which
/proc/locks shows, and no other process can write or take over its run; the script stops a replica in both states in turn.

Invariants:
  - a replica that was stopped without the write lock is replaced within its lease plus a few seconds, and once it continues it makes
    no request for the run
  - one that was stopped with the write lock is not replaced (two writers would be a fault), and the run continues afterwards
  - every task is scored once, and each stop repeats at most twice as many requests as the concurrency
On PostgreSQL a stopped replica is replaced in any state.

Linux only.
"""

import argparse
import os
import re
import signal
import sys
import time
from pathlib import Path

from rig import Failure, Site, campaign, conclude, faults

LEASE_S = 3
CONCURRENCY = 6
# The lease, one poll of the queue, and reading the log of a large run in a debug build.
TAKEN_OVER_WITHIN_S = LEASE_S + 12
# Requests within this time after SIGCONT come from a replica that has not yet noticed its lost lease, in seconds.
WAKING_S = 1.0
# Attempts to stop a replica in the wanted state.
TRIES = 200
# The byte of the -shm file that a writer locks (SQLite, "WAL-mode file format", 2.3.2): the first of the locks at 120.
WRITE_LOCK = 120
LOCK = re.compile(r"\d+: (?:POSIX|OFDLCK) +\S+ +WRITE +(-?\d+) +\S+:(\d+) +(\d+) +(\d+|EOF)")


def holds_write_lock(pid: int, shared_memory: Path) -> bool:
    """Whether a process holds the write lock of the embedded database."""
    inode = shared_memory.stat().st_ino
    for line in Path("/proc/locks").read_text().splitlines():
        if "->" in line or not (found := LOCK.match(line)):
            continue
        holder, of, first, last = found.groups()
        last = float("inf") if last == "EOF" else int(last)
        if int(holder) == pid and int(of) == inode and int(first) <= WRITE_LOCK <= last:
            return True
    return False


def stop(pid: int, shared_memory: Path | None, locked: bool) -> bool:
    """Stops a process with or without the write lock; returns whether it succeeded."""
    for _ in range(TRIES if shared_memory else 1):
        os.kill(pid, signal.SIGSTOP)
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.001)
        if shared_memory is None or holds_write_lock(pid, shared_memory) == locked:
            return True
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.013)
    return False


def main() -> int:
    parser = argparse.ArgumentParser(prog="campaigns/sigstop.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stops", type=int, default=10, help="number of stops (default: 10)")
    parser.add_argument("--database-url", metavar="URL", help="PostgreSQL instead of the embedded database")
    options = parser.parse_args()
    return campaign(parser.prog, lambda: run(parser.prog, options))


def run(name: str, options) -> int:
    tasks = options.stops * 800
    site = Site(tasks=tasks, latency_s=0.03, concurrency=CONCURRENCY, lease_s=LEASE_S, database_url=options.database_url)
    shared_memory = None if options.database_url else site.folder / "data" / "touchstone.db-shm"
    zombies, replaced, locked_out, continued, violations = 0, 0, 0, 0, []
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
            pid = replicas[working][0].pid
            locked = shared_memory is not None and stops % 2 == 1
            if not stop(pid, shared_memory, locked):
                raise Failure(f"in {TRIES} tries no process was stopped {'with' if locked else 'without'} the write lock")
            stops += 1
            time.sleep(0.1)
            stopped = site.endpoint.mark()
            taken_over, late = False, time.monotonic() + (LEASE_S * 2 if locked else TAKEN_OVER_WITHIN_S)
            while not taken_over and time.monotonic() < late:
                time.sleep(0.1)
                taken_over = any(tag == other for _, tag, _ in site.endpoint.since(stopped))
            still = shared_memory is not None and holds_write_lock(pid, shared_memory)
            time.sleep(0.5)
            woken = site.endpoint.mark()
            os.kill(pid, signal.SIGCONT)
            if locked:
                locked_out += 1
                if not still:
                    violations.append(f"stop {stops}: a stopped process lost its write lock")
                if taken_over:
                    violations.append(f"stop {stops}: the run was taken over while the stopped process held the write lock")
                end = time.monotonic() + TAKEN_OVER_WITHIN_S
                while site.endpoint.mark() == woken and time.monotonic() < end:
                    time.sleep(0.05)
                if site.endpoint.mark() == woken:
                    violations.append(f"stop {stops}: the run did not continue within {TAKEN_OVER_WITHIN_S} s of SIGCONT")
                else:
                    continued += 1
                continue
            if not taken_over:
                violations.append(f"stop {stops}: no replica took the run over within {TAKEN_OVER_WITHIN_S} s, although no lock prevented it")
                continue
            replaced += 1
            time.sleep(WAKING_S)
            zombies += sum(tag == working for _, tag, _ in site.endpoint.since(woken))
            api = replicas[other][1]
        if stops < options.stops:
            violations.append(f"the run ended after {stops} of {options.stops} stops")
        if not api.wait(created, 600):
            violations.append("the run did not end within 600 s")
        violations += faults(site.check(api, created))
        asked = site.endpoint.counts()
        again = sum(count - 1 for count in asked.values())
        if zombies:
            violations.append(f"{zombies} requests by a replica that had lost its lease")
        if again > stops * 2 * CONCURRENCY:
            violations.append(f"{again} requests repeated, more than twice the concurrency for each stop")
        return conclude(name, {
            "stops": stops, "tasks": tasks,
            "stops without the write lock, and runs taken over": f"{stops - locked_out}, {replaced}",
            "stops with SQLite's write lock, and runs continued after SIGCONT": f"{locked_out}, {continued}",
            "requests by a replica that had lost its lease": zombies,
            "requests repeated": again, "maximum requests per task": max(asked.values()),
        }, violations)
    finally:
        site.close()


if __name__ == "__main__":
    sys.exit(main())
