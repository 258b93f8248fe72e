#!/usr/bin/env python3
"""Kills a host (SIGKILL) again and again while runs execute, and checks that nothing is lost, duplicated or out of order.

At each kill, a request that creates another run is in flight. Then the host is started again, the request is repeated with the
same Idempotency-Key, and the time from listening to the first model request is measured.
"""

import argparse
import http.client
import random
import sys
import threading
import time

from rig import Api, Site, campaign, conclude, faults

CONCURRENCY = 8


def main() -> int:
    parser = argparse.ArgumentParser(prog="campaigns/kills.py", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="number of kills (default: 20)")
    parser.add_argument("--tasks", type=int, default=400, help="tasks of each run (default: 400)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random delays (default: 1)")
    parser.add_argument("--database-url", metavar="URL", help="PostgreSQL instead of the embedded database")
    options = parser.parse_args()
    return campaign(parser.prog, lambda: run(parser.prog, options))


# Far less than the lease, even on a busy machine and for a debug build.
RESUMED_WITHIN_MS = 4000


def create(api: Api, site: Site, key: str) -> None:
    """Sends a create request without waiting for the response, because the host is killed meanwhile."""
    try:
        api.ask("POST", "/v1/runs", site.request(), **{"Idempotency-Key": key})
    except (OSError, http.client.HTTPException, ValueError):
        pass


def is_open(api: Api, run: str) -> bool:
    return api.call("GET", f"/v1/runs/{run}")["status"] in ("pending", "running")


def run(name: str, options) -> int:
    dice = random.Random(options.seed)
    site = Site(tasks=options.tasks, latency_s=0.01, concurrency=CONCURRENCY,
                lease_s=3 if options.database_url else 15, database_url=options.database_url)
    runs, resumed, conflicts, at_work, most, violations = [], [], 0, 0, 0, []
    try:
        serving, api = site.serve()
        for kill in range(options.kills):
            if not runs or api.call("GET", f"/v1/runs/{runs[-1]}")["status"] != "running":
                runs.append(site.start(api))
            before, more = site.endpoint.mark(), dice.randrange(1, options.tasks // 2)
            end = time.monotonic() + 30
            while site.endpoint.mark() < before + more and time.monotonic() < end:
                time.sleep(0.002)
                if not is_open(api, runs[-1]):
                    runs.append(site.start(api))
            open_runs = sum(is_open(api, created) for created in runs)
            working = open_runs > 0
            at_work += working and site.endpoint.mark() > before
            most += (open_runs + 1) * 2 * CONCURRENCY
            creating = threading.Thread(target=create, args=(api, site, f"key-{kill}"))
            creating.start()
            time.sleep(dice.uniform(0, 0.02))
            site.kill(serving)
            creating.join()
            mark = site.endpoint.mark()
            serving, api = site.serve()
            ready = time.monotonic()
            status, answer = api.ask("POST", "/v1/runs", site.request(), **{"Idempotency-Key": f"key-{kill}"})
            conflicts += status == 409
            if status == 201:
                runs.append(answer["runId"])
            elif status != 409:
                violations.append(f"kill {kill + 1}: the repeated request was answered {status}: {answer}")
            if working:
                while site.endpoint.mark() == mark and time.monotonic() < ready + 30:
                    time.sleep(0.002)
                if asked := site.endpoint.since(mark):
                    resumed.append(max(0.0, asked[0][0] - ready) * 1000)
                elif any(is_open(api, created) for created in runs):
                    violations.append(f"kill {kill + 1}: no run was resumed within 30 s")
        for created in runs:
            if not api.wait(created, 120):
                violations.append(f"{created} did not end within 120 s")
            violations += [f"{created}: {fault}" for fault in faults(site.check(api, created))]
        asked = site.endpoint.mark()
        extra = asked - len(runs) * options.tasks
        if at_work < options.kills * 3 // 4:
            violations.append(f"only {at_work} of {options.kills} kills hit tasks in flight, which is too few: raise --tasks")
        if extra > most:
            violations.append(f"{extra} requests repeated, more than twice the concurrency of the open runs at each kill ({most})")
        if conflicts and not options.database_url:
            violations.append(f"{conflicts} repeated requests were answered 409")
        resumed.sort()
        if resumed and resumed[-1] > RESUMED_WITHIN_MS and not options.database_url:
            violations.append(f"a run was resumed after {resumed[-1]:.0f} ms, more than {RESUMED_WITHIN_MS}")
        return conclude(name, {
            "kills": options.kills, "of them while tasks were in flight": at_work,
            "runs": len(runs), "tasks": len(runs) * options.tasks,
            "requests repeated": extra, "for each kill on average": f"{extra / options.kills:.1f}",
            "repeated creates answered 409": conflicts,
            "listening to first model request, ms (median, worst)":
                f"{resumed[len(resumed) // 2]:.0f}, {resumed[-1]:.0f}" if resumed else "-",
        }, violations)
    finally:
        site.close()


if __name__ == "__main__":
    sys.exit(main())
