#!/usr/bin/env python3
"""Sets the wall clock of a host (libfaketime) while a run executes, and between a kill and the next start.

No jump may fail, delay or repeat a run. Needs libfaketime (Debian: libfaketime).
"""

import argparse
import datetime
import re
import sys
import time
from pathlib import Path

from rig import Api, Failure, Serving, Site, campaign, conclude, faults

LIBRARIES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib/faketime/libfaketimeMT.so.1", "/usr/local/lib/faketime/libfaketimeMT.so.1")
JUMPS = {"-1 h": -3600, "+2 h": 7200, "+1 d": 86400}
TASKS, CONCURRENCY, LATENCY_S = 600, 4, 0.03


def main() -> int:
    parser = argparse.ArgumentParser(prog="campaigns/clock_jumps.py", description=__doc__)
    parser.add_argument("--library", metavar="FILE", help="path of libfaketimeMT.so.1 (default: Debian's path)")
    options = parser.parse_args()
    return campaign(parser.prog, lambda: run(parser.prog, options))


def library(given: str | None) -> str:
    found = [given] if given else [str(path) for pattern in LIBRARIES for path in Path("/").glob(pattern.lstrip("/"))]
    if not found:
        raise Failure("libfaketime is not installed; install it or give --library")
    return found[0]


def run(name: str, options) -> int:
    preload, counts, violations = library(options.library), {}, []
    for label, seconds in {"none": 0, **JUMPS}.items():
        for interrupted in (False, True):
            case = f"{'kill, then ' if interrupted else ''}jump {label}"
            site = Site(tasks=TASKS, latency_s=LATENCY_S, concurrency=CONCURRENCY, lease_s=15)
            try:
                outcome = jump(site, preload, seconds, interrupted)
            finally:
                site.close()
            counts[case] = (f"{outcome['wallS']:.1f} s, {outcome['again']} requests repeated, "
                            f"resumed after {outcome['resumedMs']:.0f} ms")
            print(f"{case}: done", file=sys.stderr, flush=True)
            violations += [f"{case}: {fault}" for fault in outcome["faults"]]
            # Without an interruption, no request is repeated; with one, those in flight or not yet written to disk are.
            most = 2 * CONCURRENCY if interrupted else 0
            if outcome["again"] > most:
                violations.append(f"{case}: {outcome['again']} requests repeated, more than {most}")
            if outcome["resumedMs"] > 2000:
                violations.append(f"{case}: the run paused for {outcome['resumedMs']:.0f} ms")
            if outcome["wallS"] > TASKS * LATENCY_S / CONCURRENCY * 2 + 5:
                violations.append(f"{case}: the run took {outcome['wallS']:.1f} s")
    return conclude(name, counts, violations)


def clock_of(serving: Serving, api: Api, run: str) -> float:
    """The wall clock of the host, taken from its log. The `Date` header of its responses is cached and does not change when the
    clock is set back."""
    api.call("GET", f"/v1/runs/{run}")
    moments = re.findall(r"(?m)^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.?\d*Z", serving.log.read_text())
    if not moments:
        raise Failure(f"no line of {serving.log} begins with a time")
    return datetime.datetime.fromisoformat(moments[-1] + "+00:00").timestamp()


def jump(site: Site, preload: str, seconds: int, interrupted: bool) -> dict:
    clock = site.folder / "clock"
    clock.write_text("+0")
    variables = {
        "LD_PRELOAD": preload, "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_CACHE_DURATION": "1", "FAKETIME_DISABLE_SHM": "1",
    }
    serving, api = site.serve(**variables)
    began = time.monotonic()
    created = site.start(api)
    while site.endpoint.mark() < TASKS // 4:
        time.sleep(0.01)
    if interrupted:
        site.kill(serving)
        time.sleep(0.1)
    mark, changed = site.endpoint.mark(), time.monotonic()
    clock.write_text(f"{seconds:+d}")
    if interrupted:
        serving, api = site.serve(**variables)
    ended = api.wait(created, 90)
    shown = clock_of(serving, api, created)
    moved = abs(shown - time.time() - seconds) < 60
    wall = time.monotonic() - began
    moments = [changed] + [at for at, _, _ in site.endpoint.since(mark)]
    pauses = [after - before for before, after in zip(moments, moments[1:])]
    return {
        "wallS": wall, "again": site.endpoint.mark() - TASKS, "resumedMs": max(pauses, default=99) * 1000,
        "faults": faults(site.check(api, created)) + ([] if ended else ["the run did not end within 90 s"])
        + ([] if moved else [f"the host's clock was not set: it differs by {shown - time.time():.0f} s"]),
    }


if __name__ == "__main__":
    sys.exit(main())
