"""Runs of very many tasks: memory of each process, CPU time a task, and latencies of the views of a run.

The suite is imported as lines and a scripted model answers at once, so that only Touchstone takes time and memory.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path

from harness import AGENT_ID, HERE, SUITE_ID, TENANT, Api, cpu, expected_passed, memory, version_of
from hosting import Failure, Serving, Touchstone

CONFIGURATION = """
[limits]
max_tasks_per_suite = 3000000
default_concurrency = 100
max_run_duration_s = 86400
max_cost_usd_per_suite = 1000

[[models]]
class = "*"
provider = "scripted"
file = "{answers}"
max_concurrency = 256
input_usd_per_mtok = 0.15
output_usd_per_mtok = 0.60
"""

SIZES = (1000, 10_000, 100_000)
WARM_REPEATS = 3
# Of the views of the largest run. `{run}` has a baseline of the same size, `{before}`.
VIEWS = {
    "summary": "/v1/runs/{run}/eval-summary",
    "report without tasks": "/v1/host/touchstone/runs/{run}/report?tasks=none",
    "first page of results": "/v1/host/touchstone/runs/{run}/results?limit=100",
    "page of results in the middle": "/v1/host/touchstone/runs/{run}/results?limit=100&cursor=item-{half}",
    "failed results": "/v1/host/touchstone/runs/{run}/results?limit=100&outcome=failed",
    "statistics of the run": "/v1/host/touchstone/runs/{run}/statistics?pool=none",
    "page of the comparison": "/v1/host/touchstone/runs/{run}/comparison?baseline={before}&limit=100",
    "console: run": "/console/runs/{run}",
    "console: comparison": "/console/compare?runs={before},{run}",
}
COMMANDS = {
    "run show": ("run", "show", "{run}"),
    "run show --json": ("run", "show", "{run}", "--json"),
}


def measure(folder: Path, program: str, database_url: str | None, largest: int) -> dict:
    folder.mkdir()
    answers = folder / "answers.json"
    answers.write_text(json.dumps({"rules": [{"echo": {"output": "/say"}}]}))
    config = folder / "touchstone.toml"
    config.write_text(CONFIGURATION.format(answers=answers))
    touchstone = Touchstone(program, folder, database_url, config=config)
    touchstone.run("pack", "install", str(touchstone.signed_pack(HERE / "agent")))
    key = touchstone.key(TENANT, "all")
    sizes = [*[it for it in SIZES if it < largest], largest]
    rows = []
    for tasks in sizes:
        row = {"tasks": tasks, "import": imported(touchstone, tasks)}
        with Sampled(touchstone, "host") as host:
            api = Api(host.base_url, key)
            before, started = cpu(host.pid), time.perf_counter()
            run = api.start(tasks)
            api.wait(run)
            row |= {"wallS": time.perf_counter() - started, "cpuMsPerTask": (cpu(host.pid) - before) * 1000 / tasks}
            check(api, run, tasks)
        row["host"] = host.peaks
        rows.append(row)
        print(f"  {row}", file=sys.stderr, flush=True)
    resumed, killed = interrupted(touchstone, key, largest)
    print(f"  {killed}", file=sys.stderr, flush=True)
    names = {"run": resumed, "before": run, "half": largest // 2}
    views = {}
    for name, path in VIEWS.items():
        views[name] = viewed(touchstone, key, path.format(**names))
        print(f"  {name}: {views[name]}", file=sys.stderr, flush=True)
    commands = {}
    for name, words in COMMANDS.items():
        commands[name] = command(touchstone, [word.format(**names) for word in words])
        print(f"  {name}: {commands[name]}", file=sys.stderr, flush=True)
    hosts = [*(row["host"] for row in rows), killed["killed"], killed["resumed"], *views.values()]
    return {
        "rows": rows, "killed": killed, "views": views, "commands": commands,
        "maxRssMiB": max(it["peakMiB"] for it in [*hosts, *commands.values()]), "slowestMs": max(view["coldFirstByteMs"] for view in views.values()),
    }


def imported(touchstone: Touchstone, tasks: int) -> dict:
    file = touchstone.folder / f"suite-{tasks}.jsonl"
    with file.open("w") as lines:
        lines.write(json.dumps({"suiteId": SUITE_ID, "version": version_of(tasks), "modes": ["golden"]}) + "\n")
        for n in range(1, tasks + 1):
            answer = f"word-{n * 40503 % 99991}"
            said = "nothing" if n % 10 == 0 else answer
            lines.write(json.dumps({
                "taskId": f"item-{n}", "input": {"item": n, "say": said},
                "expected": {"kind": "golden", "match": {"strategy": "exact", "value": answer}},
            }, separators=(",", ":")) + "\n")
    taken = command(touchstone, ["suite", "import", str(file)])
    file.unlink()
    return taken


def command(touchstone: Touchstone, words: list[str]) -> dict:
    """The time and peak memory of a command that works on the data folder itself."""
    errors = touchstone.folder / "command.err"
    with errors.open("wb") as sink:
        started = time.perf_counter()
        process = subprocess.Popen(touchstone.arguments(*words), cwd=touchstone.folder, env=touchstone.environment(),
                                   stdout=subprocess.DEVNULL, stderr=sink)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    # 1: every tenth answer is wrong, which may fail a suite without thresholds.
    if process.returncode not in (0, 1):
        raise Failure(f"`touchstone {' '.join(words)}` ended with {process.returncode}: {errors.read_text()[-2000:]}")
    return {"wallS": time.perf_counter() - started, "peakMiB": usage.ru_maxrss / 1024}


class Sampled:
    """A host whose memory is sampled. The kernel keeps the peak of all pages; the peak of those without file pages is sampled."""

    def __init__(self, touchstone: Touchstone, name: str):
        self.serving = Serving(touchstone, touchstone.folder / f"{name}.log")
        self.base_url, self.pid = self.serving.base_url, self.serving.pid
        self.peaks = {"peakMiB": 0.0, "peakAnonymousMiB": 0.0}
        self.has_ended = threading.Event()
        self.sampler = threading.Thread(target=self._sample, daemon=True)
        self.sampler.start()

    def _sample(self) -> None:
        while not self.has_ended.wait(0.1):
            self.sample()

    def sample(self) -> None:
        try:
            found = memory(self.pid)
        except (FileNotFoundError, KeyError):
            return
        self.peaks["peakMiB"] = max(self.peaks["peakMiB"], found["peak"])
        self.peaks["peakAnonymousMiB"] = max(self.peaks["peakAnonymousMiB"], found["anonymous"])

    def __enter__(self) -> Sampled:
        return self

    def __exit__(self, *_) -> None:
        self.sample()
        self.has_ended.set()
        self.sampler.join()
        self.serving.stop()


def check(api: Api, run: str, tasks: int) -> None:
    report = api.call("GET", f"/v1/host/touchstone/runs/{run}/report?tasks=none")["summary"]
    found = (report["taskCount"], report["passedCount"])
    if found != (tasks, expected_passed(tasks)):
        raise Failure(f"{run}: (tasks, passed) is {found}, expected {(tasks, expected_passed(tasks))}")


def interrupted(touchstone: Touchstone, key: str, tasks: int) -> tuple[str, dict]:
    """A run whose host is killed when half of its tasks are scored, and the host that resumes it."""
    with Sampled(touchstone, "killed") as host:
        run = Api(host.base_url, key).start(tasks)
        # About five events a task.
        half = tasks * 5 // 2
        api = Api(host.base_url, key)
        while not api.call("GET", f"/v1/runs/{run}/events/poll?lastSequence={half}&timeout=30")["events"]:
            pass
        os.kill(host.pid, 9)
        host.serving.process.wait()
    started = time.perf_counter()
    with Sampled(touchstone, "resumed") as resumed:
        api = Api(resumed.base_url, key)
        api.call("GET", f"/v1/runs/{run}")
        first = time.perf_counter() - started
        api.wait(run)
        wall = time.perf_counter() - started
        check(api, run, tasks)
    return run, {"killed": host.peaks, "resumed": resumed.peaks, "firstViewS": first, "restS": wall}


def viewed(touchstone: Touchstone, key: str, path: str) -> dict:
    """The first request for a view after a start, its CPU time, and the fastest of some further ones."""
    with Sampled(touchstone, "view") as host:
        request = Request(host.base_url, key, path)
        before = cpu(host.pid)
        cold = request.send()
        used = cpu(host.pid) - before
        warm = [request.send() for _ in range(WARM_REPEATS)]
    best = min(warm, key=lambda it: it["allMs"])
    return {"coldFirstByteMs": cold["firstByteMs"], "coldMs": cold["allMs"], "coldCpuMs": used * 1000, "warmMs": best["allMs"], "bytes": cold["bytes"], **host.peaks}


class Request:
    """A request, repeated over one connection. Pages of the console need a session."""

    def __init__(self, base_url: str, key: str, path: str):
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(base_url).netloc, timeout=600)
        self.path = path
        self.headers = {"Authorization": f"Bearer {key}"}
        if path.startswith("/console"):
            body = urllib.parse.urlencode({"key": key})
            self.connection.request("POST", "/console/sign-in", body, {"Content-Type": "application/x-www-form-urlencoded"})
            response = self.connection.getresponse()
            response.read()
            self.headers = {"Cookie": (response.getheader("Set-Cookie") or "").split(";")[0], "Accept": "text/html"}

    def send(self) -> dict:
        started = time.perf_counter()
        self.connection.request("GET", self.path, headers=self.headers)
        response = self.connection.getresponse()
        size = len(response.read(1))
        first = time.perf_counter() - started
        while part := response.read(1 << 20):
            size += len(part)
        if response.status != 200:
            raise Failure(f"GET {self.path} answered {response.status}")
        return {"firstByteMs": first * 1000, "allMs": (time.perf_counter() - started) * 1000, "bytes": size}


def table(found: dict) -> str:
    """The result as Markdown."""
    lines = ["| tasks | CPU a task | wall | host: peak (without file pages) | import: peak |", "| ---: | ---: | ---: | ---: | ---: |"]
    for row in found["rows"]:
        host = row["host"]
        lines.append(f"| {row['tasks']:,} | {row['cpuMsPerTask']:.3f} ms | {row['wallS']:.1f} s "
                     f"| {host['peakMiB']:.0f} ({host['peakAnonymousMiB']:.0f}) MiB | {row['import']['peakMiB']:.0f} MiB |")
    killed = found["killed"]
    lines += ["", "| killed at half | host until then | host that resumed | first view after the start |", "| --- | ---: | ---: | ---: |",
              f"| | {killed['killed']['peakMiB']:.0f} MiB | {killed['resumed']['peakMiB']:.0f} MiB | {killed['firstViewS']:.2f} s |"]
    lines += ["", "| view | cold, first byte | cold | CPU of it | warm | host: peak (without file pages) |", "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for name, view in found["views"].items():
        lines.append(f"| {name} | {view['coldFirstByteMs']:.0f} ms | {view['coldMs']:.0f} ms | {view['coldCpuMs']:.0f} ms | {view['warmMs']:.0f} ms "
                     f"| {view['peakMiB']:.0f} ({view['peakAnonymousMiB']:.0f}) MiB |")
    lines += ["", "| command | wall | peak |", "| --- | ---: | ---: |"]
    for name, taken in found["commands"].items():
        lines.append(f"| `{name}` | {taken['wallS']:.1f} s | {taken['peakMiB']:.0f} MiB |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit("run `bench/run size`")
