"""Shared parts of the benchmarks: inputs, the model endpoint, and one measured run of each kind.

`bench/run` measures Touchstone, `bench/peers` compares it with other harnesses. Both measure complete processes.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "conformance"), str(HERE.parent / "campaigns")]

from hosting import Failure, Serving, Touchstone, Worker  # noqa: E402
from servers import NatsServers, Postgres  # noqa: E402

AGENT_ID = "private.touchstone.bench.default"
SUITE_ID = "private.touchstone.evals.items"
# The tenant of packs and runs when `touchstone` works on the data folder directly.
TENANT = "default"
WRONG_EVERY = 10
CRITERIA = 3
CONCURRENCY = 100
# `assertions` is mode golden with a scoring document.
MODES = ["golden", "rubric", "assertions"]

CONFIGURATION = """
[limits]
max_tasks_per_suite = 200000
default_concurrency = {concurrency}

[[models]]
class = "*"
provider = "openai"
base_url = "{base_url}/v1"
model = "mock"
max_concurrency = 256
input_usd_per_mtok = 0.15
output_usd_per_mtok = 0.60

[judge]
provider = "openai"
base_url = "{base_url}/v1"
model = "mock-judge"
max_concurrency = 256
"""


# ---------------------------------------------------------------------------------------------------------------- inputs

def answer(item: int) -> str:
    """The answer of examples/mock_llm.rs, unless the item is a multiple of WRONG_EVERY."""
    return f"word-{item * 40503 % 99991}"


def version_of(tasks: int, mode: str = "golden") -> str:
    return f"{MODES.index(mode) + 1}.0.{tasks}"


def expected(item: int, mode: str) -> dict:
    if mode != "rubric":
        return {"kind": "golden", "match": {"strategy": "exact", "value": answer(item)}}
    rubric = [{"criterion": f"It is right, says examiner {n}.", "weight": 1 / CRITERIA} for n in range(CRITERIA)]
    return {"kind": "rubric", "rubric": rubric}


def assertions(item: int) -> dict:
    """Five plain assertions of a task, which hold for the right answer alone."""
    right = answer(item)
    return {"assertions": [
        {"type": "equals", "anyOf": [right, f"the {right}"]},
        {"type": "contains-any", "values": [right, "no such word"]},
        {"type": "regex", "pattern": "^word-[0-9]+$"},
        {"type": "icontains", "value": "password", "not": True},
        {"type": "latency", "maxMs": 60000, "metric": "in time"},
    ]}


def write_suite(tasks: int, folder: Path, mode: str) -> Path:
    suite = {
        "suiteId": SUITE_ID,
        "version": version_of(tasks, mode),
        "modes": ["rubric" if mode == "rubric" else "golden"],
        "tasks": [
            {"taskId": f"item-{n}", "input": {"item": n}, "expected": expected(n, mode)}
            for n in range(1, tasks + 1)
        ],
    }
    file = folder / f"{mode}-{tasks}.json"
    file.write_text(json.dumps(suite, separators=(",", ":")))
    if mode == "assertions":
        scoring = {"scoringVersion": 1, "suiteId": SUITE_ID, "tasks": {f"item-{n}": assertions(n) for n in range(1, tasks + 1)}}
        scoring_file(file).write_text(json.dumps(scoring, separators=(",", ":")))
    return file


def scoring_file(suite: Path) -> Path:
    return suite.with_suffix(".scoring.json")


def expected_passed(tasks: int) -> int:
    return tasks - tasks // WRONG_EVERY


# ------------------------------------------------------------------------------------------------------------------ http

class Api:
    """One kept-alive connection to a host."""

    def __init__(self, base_url: str, key: str | None = None):
        self.key = key
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(base_url).netloc, timeout=600)

    def call(self, method: str, path: str, body=None) -> dict:
        headers = {"Accept": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        text = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            text = json.dumps(body)
        self.connection.request(method, path, text, headers)
        response = self.connection.getresponse()
        content = response.read()
        if response.status >= 300:
            raise Failure(f"{method} {path} answered {response.status}: {content[:300].decode(errors='replace')}")
        return json.loads(content)

    def start(self, tasks: int, **configurable) -> str:
        created = self.call("POST", "/v1/runs", {
            "mode": "eval",
            "evalSuiteRef": f"{SUITE_ID}@{version_of(tasks)}",
            "agentId": AGENT_ID,
            "configurable": configurable,
        })
        return created["runId"]

    def wait(self, run: str) -> None:
        """Returns when the run has ended. Polls after the last possible sequence, so that no events are sent."""
        while not self.call("GET", f"/v1/runs/{run}/events/poll?lastSequence=2000000000&timeout=60")["isComplete"]:
            pass

    def events(self, run: str):
        last = 0
        while True:
            page = self.call("GET", f"/v1/runs/{run}/events/poll?lastSequence={last}&timeout=1")
            yield from page["events"]
            if page["isComplete"] or not page["events"]:
                return
            last = page["events"][-1]["sequence"]

    def check(self, run: str, tasks: int) -> dict:
        summary = self.call("GET", f"/v1/runs/{run}/eval-summary")
        found = (summary["taskCount"], summary["passedCount"])
        if found != (tasks, expected_passed(tasks)):
            raise Failure(f"{run}: (tasks, passed) is {found}, expected {(tasks, expected_passed(tasks))}")
        return summary


class Mock:
    """The model endpoint."""

    def __init__(self, program: str):
        self.program = program
        self.process = subprocess.Popen([program, "serve", "--wrong-every", str(WRONG_EVERY)], stdout=subprocess.PIPE, text=True)
        self.base_url = self.process.stdout.readline().split()[-1]

    def behave(self, latency_ms: int = 0) -> None:
        Api(self.base_url).call("POST", "/behaviour", {"latencyMs": latency_ms, "wrongEvery": WRONG_EVERY})

    def stats(self) -> dict:
        return Api(self.base_url).call("GET", "/stats")

    def drive(self, requests: int) -> dict:
        command = [self.program, "drive", "--url", self.base_url, "--requests", str(requests), "--concurrency", str(CONCURRENCY)]
        return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


# ---------------------------------------------------------------------------------------------------------- measurements

class Bench:
    def __init__(self, folder: Path, programs: dict[str, str], database_url: str | None, nats_servers: int = 1):
        self.folder = folder
        self.nats_servers = nats_servers
        self.programs = programs
        self.mock = Mock(programs["mock_llm"])
        config = folder / "touchstone.toml"
        config.write_text(CONFIGURATION.format(base_url=self.mock.base_url, concurrency=CONCURRENCY))
        self.touchstone = Touchstone(programs["touchstone"], folder, database_url, config=config)
        archive = self.touchstone.signed_pack(HERE / "agent")
        self.touchstone.run("pack", "install", str(archive))
        self.key = self.touchstone.key(TENANT)
        self.imported: set[str] = set()

    def suite(self, tasks: int, mode: str = "golden") -> str:
        version = version_of(tasks, mode)
        if version not in self.imported:
            file = write_suite(tasks, self.folder, mode)
            scoring = scoring_file(file)
            more = ["--scoring", str(scoring)] if scoring.exists() else []
            self.touchstone.run("suite", "import", str(file), *more)
            file.unlink()
            scoring.unlink(missing_ok=True)
            self.imported.add(version)
        return f"{SUITE_ID}@{version}"

    def evaluate(self, tasks: int, mode: str = "golden", concurrency: int = CONCURRENCY) -> dict:
        """Runs `touchstone eval` and measures all its costs."""
        command = self.touchstone.arguments(
            "eval", self.suite(tasks, mode), "--agent", AGENT_ID, "--mode",
            "rubric" if mode == "rubric" else "golden", "--concurrency", str(concurrency), "--json")
        output, errors = self.folder / "eval.json", self.folder / "eval.err"
        with output.open("wb") as sink, errors.open("wb") as complaints:
            started_unix, started = time.time(), time.perf_counter()
            process = subprocess.Popen(command, cwd=self.folder, env=self.touchstone.environment(), stdout=sink, stderr=complaints)
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        # 1: every tenth answer is wrong on purpose, which may fail a suite without thresholds.
        if process.returncode not in (0, 1):
            raise Failure(f"touchstone eval ended with {process.returncode}: {errors.read_text()[-2000:]}")
        summary = find_summary(json.loads(output.read_text()))
        found = (summary["taskCount"], summary["passedCount"])
        if found != (tasks, expected_passed(tasks)):
            raise Failure(f"(tasks, passed) is {found}, expected {(tasks, expected_passed(tasks))}")
        stats = self.mock.stats()
        calls = 1 + CRITERIA if mode == "rubric" else 1
        if stats["answered"] != tasks * calls:
            raise Failure(f"the endpoint answered {stats['answered']} requests for {tasks} tasks of {calls}")
        return {
            "tasks": tasks,
            "wallS": wall,
            "cpuS": usage.ru_utime + usage.ru_stime,
            "cpuMsPerTask": (usage.ru_utime + usage.ru_stime) * 1000 / tasks,
            "maxRssMiB": usage.ru_maxrss / 1024,
            "firstRequestMs": stats["firstUnixUs"] / 1000 - started_unix * 1000,
            "lastAnswerS": stats["lastUnixUs"] / 1e6 - started_unix,
            "peakInFlight": stats["peakInFlight"],
            "connections": stats["connections"],
        }

    def latency(self) -> dict:
        tasks, latency_ms = 5000, 100
        self.suite(tasks)
        self.mock.behave(latency_ms)
        bare = self.mock.drive(tasks)
        self.mock.behave(latency_ms)
        ours = self.evaluate(tasks)
        ideal = tasks * latency_ms / 1000 / CONCURRENCY
        return {**ours, "idealS": ideal, "ratio": ours["wallS"] / ideal, "bareRatio": bare["wallS"] / ideal}

    def throughput(self) -> dict:
        tasks = 5000
        self.suite(tasks)
        self.mock.behave()
        bare = self.mock.drive(tasks)
        self.mock.behave()
        ours = self.evaluate(tasks)
        return {**ours, "tasksPerS": tasks / ours["wallS"], "barePerS": bare["perSecond"]}

    def assertions(self) -> dict:
        tasks = 5000
        self.suite(tasks, "assertions")
        self.mock.behave()
        plain = self.evaluate(tasks)
        self.mock.behave()
        ours = self.evaluate(tasks, "assertions")
        return {**ours, "tasksPerS": tasks / ours["wallS"], "overPlain": ours["wallS"] / plain["wallS"]}

    def rubric(self) -> dict:
        # A task makes one agent call, and then one judge call per criterion in parallel.
        tasks, latency_ms, concurrency = 2500, 100, 50
        self.suite(tasks, "rubric")
        self.mock.behave(latency_ms)
        ours = self.evaluate(tasks, "rubric", concurrency)
        self.mock.behave()
        unthrottled = self.evaluate(tasks, "rubric", concurrency)
        ideal = tasks * 2 * latency_ms / 1000 / concurrency
        return {
            **ours, "idealS": ideal, "ratio": ours["wallS"] / ideal,
            "tasksPerSAt0Ms": tasks / unthrottled["wallS"], "cpuMsPerCallAt0Ms": unthrottled["cpuMsPerTask"] / (1 + CRITERIA),
        }

    def first_request(self) -> dict:
        self.suite(5000)
        self.suite(20)
        rows = {}
        for tasks in (20, 5000):
            seen = []
            for _ in range(5):
                self.mock.behave()
                seen.append(self.evaluate(tasks)["firstRequestMs"])
            rows[f"medianMs{tasks}"], rows[f"worstMs{tasks}"] = sorted(seen)[2], max(seen)
        return rows

    def streams(self) -> dict:
        """The streams of major 1, and the same under major 2, in alternating order: each number is the mean."""
        # A single value varies by a quarter on a shared machine.
        tasks, consumers, rounds = 1000, 1000, 10
        self.suite(tasks)
        self.mock.behave(latency_ms=100)
        with self.serving() as (serving, api):
            by_major = {"/v1/runs": [], "/runs": []}
            # The first run of a host costs more than the others.
            self._streamed(api, [serving], tasks, consumers, at_once=20)
            order = list(by_major)
            for _ in range(rounds):
                for path in order:
                    by_major[path].append(self._streamed(api, [serving], tasks, consumers, at_once=20, path=path))
                order.reverse()
        v1, v2 = (statistics.mean(it["cpuUsPerDelivery"] for it in outcomes) for outcomes in by_major.values())
        return {**by_major["/v1/runs"][0], "cpuUsPerDelivery": v1, "cpuUsPerDeliveryOfMajor2": v2, "majorTwoOverOne": v2 / v1}

    def consumers(self) -> dict:
        """One run and many consumers of its events, over two replicas on PostgreSQL that send each other signals over NATS."""
        tasks, consumers = 200, 10_000
        folder = self.folder / "replicas"
        folder.mkdir()
        with contextlib.ExitStack() as ends:
            ends.callback(shutil.rmtree, folder, ignore_errors=True)
            postgres, nats = Postgres(), NatsServers(folder, self.nats_servers)
            ends.callback(postgres.close)
            ends.callback(nats.close)
            nats.start()
            bench = Bench(folder, self.programs, postgres.url)
            ends.callback(bench.mock.stop)
            bench.suite(tasks)
            # One tenant may have half of the open streams.
            limits = f"max_subscribers = {consumers}\nmax_connections = {consumers}\nmax_connections_per_address = {consumers}"
            config = bench.touchstone.config
            config.write_text(config.read_text().replace("[limits]", f"[limits]\n{limits}")
                              + f'\n[cluster]\nnats = "{nats.urls}"\nreplicas = {self.nats_servers}\n')
            replicas = []
            for name in ("one", "two"):
                replicas.append(Serving(bench.touchstone, folder / f"{name}.log"))
                ends.callback(replicas[-1].stop)
            # Long enough that most consumers are connected while events come.
            bench.mock.behave(latency_ms=1000)
            return bench._streamed(Api(replicas[0].base_url, bench.key), replicas, tasks, consumers, at_once=10)

    def _streamed(self, api: Api, replicas: list[Serving], tasks: int, consumers: int, at_once: int, path: str = "/v1/runs") -> dict:
        """Starts a run, and lets equally many consumers read its events from each replica; `path` selects the major."""
        before = [(memory(it.pid)["rss"], cpu(it.pid)) for it in replicas]
        run = api.start(tasks, evalConcurrency=at_once)
        each = consumers // len(replicas)
        swarms = [
            subprocess.Popen(
                [self.programs["sse_swarm"], "--url", f"{it.base_url}{path}/{run}/events?streamMode=updates",
                 "--key", self.key, "--consumers", str(each)],
                stdout=subprocess.PIPE, text=True)
            for it in replicas
        ]
        outcomes = [json.loads(it.communicate()[0].splitlines()[-1]) for it in swarms]
        for outcome in outcomes:
            if outcome["faults"]:
                raise Failure(f"consumers of {path} failed: {outcome}")
        # The host has closed the idle connection meanwhile.
        api = Api(replicas[0].base_url, self.key)
        api.check(run, tasks)
        # `updates` omits the events of the agent and of usage.
        quiet = ("agent.", "provider.", "budget.", *(() if path.startswith("/v1") else ("touchstone.",)))
        expected = sum(not event["type"].startswith(quiet) for event in api.events(run))
        for outcome in outcomes:
            if (outcome["complete"], outcome["fewestEvents"], outcome["mostEvents"]) != (each, expected, expected):
                raise Failure(f"not every consumer received all {expected} events: {outcome}")
        octets = sum(it["octets"] for it in outcomes)
        used = sum(cpu(it.pid) - cpu_before for it, (_, cpu_before) in zip(replicas, before))
        return {
            "consumers": consumers, "replicas": len(replicas), "eventsEach": expected, "octets": octets,
            "reconnects": sum(it["reconnects"] for it in outcomes),
            "wallS": max(it["wallS"] for it in outcomes), "cpuUsPerDelivery": used * 1e6 / (consumers * expected),
            "rssBeforeMiB": max(rss for rss, _ in before), "maxRssMiB": max(memory(it.pid)["peak"] for it in replicas),
        }

    def growth(self) -> dict:
        total, rows = 20_000, []
        # A run of one task costs little more than the fixed cost of each run: create, claim, start, end, two calls.
        sizes = (1, 10, 100, 1000, 10_000, 100_000)
        for tasks in sizes:
            self.suite(tasks)
        for tasks in sizes:
            self.mock.behave()
            # A separate process for each size, so that caches and data do not differ between sizes.
            with self.serving() as (serving, api):
                runs = min(2000, max(1, total // tasks))
                with ThreadPoolExecutor(max_workers=8) as pool:
                    clients = [Api(serving.base_url, self.key) for _ in range(8)]
                    before, started = cpu(serving.pid), time.perf_counter()

                    def one_after_the_other(client: Api) -> list[str]:
                        done = []
                        for _ in range(share(runs, len(clients), clients.index(client))):
                            run = client.start(tasks)
                            client.wait(run)
                            done.append(run)
                        return done

                    ended = [run for done in pool.map(one_after_the_other, clients) for run in done]
                    wall, used = time.perf_counter() - started, cpu(serving.pid) - before
                peak = memory(serving.pid)["peak"]
                for run in ended[:: max(1, len(ended) // 10)]:
                    api.check(run, tasks)
                events = sum(1 for _ in api.events(ended[0])) * len(ended)
            rows.append({
                "tasksPerRun": tasks, "runs": runs, "events": events, "wallS": wall,
                "cpuMsPerRun": used * 1e3 / runs, "cpuUsPerEvent": used * 1e6 / events, "wallUsPerEvent": wall * 1e6 / events,
                "maxRssMiB": peak,
            })
            print(f"  {rows[-1]}", file=sys.stderr)
        smallest = rows[0]
        for row in rows[1:]:
            further_ms = row["cpuMsPerRun"] - smallest["cpuMsPerRun"]
            further_events = row["events"] / row["runs"] - smallest["events"] / smallest["runs"]
            row["cpuUsPerFurtherEvent"] = further_ms * 1e3 / further_events
        costs = [row["cpuUsPerFurtherEvent"] for row in rows[1:]]
        return {"rows": rows, "dearestOverCheapest": max(costs) / min(costs)}

    def cluster(self) -> dict:
        """Four workers over NATS servers: the concurrency of all together, and the CPU time of each process."""
        at_once, tasks, few = 400, 12_000, 5000
        self.suite(tasks)
        self.suite(few)
        with self.workers(4, at_once // 4) as (host, workers, nats):
            with self.serving(host) as (serving, api):
                pids = {"host": [serving.pid], "workers": [it.pid for it in workers], "nats": [it.process.pid for it in nats.nodes]}

                def measured(tasks: int, concurrency: int, distribution: str, latency_ms: int) -> dict:
                    self.mock.behave(latency_ms)
                    before = {name: sum(map(cpu, of)) for name, of in pids.items()}
                    started = time.perf_counter()
                    run = api.start(tasks, evalConcurrency=concurrency, evalDistribution=distribution)
                    api.wait(run)
                    wall = time.perf_counter() - started
                    used = {name: (sum(map(cpu, of)) - before[name]) * 1000 / tasks for name, of in pids.items()}
                    api.check(run, tasks)
                    stats = self.mock.stats()
                    if stats["answered"] != tasks:
                        raise Failure(f"the endpoint answered {stats['answered']} requests for {tasks} tasks")
                    ideal = tasks * latency_ms / 1000 / concurrency
                    return {"wallS": wall, "tasksPerS": tasks / wall, "cpuMsPerTask": {**used, "all": sum(used.values())},
                            "peakInFlight": stats["peakInFlight"], "ratio": wall / ideal if ideal else None}

                self.mock.behave()
                # Workers connect and create their queue, which is not measured.
                api.wait(api.start(few, evalDistribution="cluster"))
                rows = {
                    "localAt0Ms": measured(few, CONCURRENCY, "local", 0),
                    "clusterAt0Ms": measured(few, CONCURRENCY, "cluster", 0),
                    "localAt100Ms": measured(tasks, at_once, "local", 100),
                    "clusterAt100Ms": measured(tasks, at_once, "cluster", 100),
                    # A tenth of the tasks per second: shows whether all places are in use where there are enough cores.
                    "clusterAt1000Ms": measured(few, at_once, "cluster", 1000),
                }
                peaks = {name: [memory(pid)["peak"] for pid in of] for name, of in pids.items()}
        return {
            **rows, "ratio": rows["clusterAt100Ms"]["ratio"],
            "overLocalAt0Ms": rows["clusterAt0Ms"]["cpuMsPerTask"]["all"] / rows["localAt0Ms"]["cpuMsPerTask"]["all"],
            "maxRssMiB": {name: max(values) for name, values in peaks.items()},
        }

    @contextlib.contextmanager
    def workers(self, count: int, at_once: int):
        """NATS servers, workers, and the command line of a host that uses them."""
        folder = self.folder / "cluster"
        folder.mkdir()
        nats, workers = NatsServers(folder, self.nats_servers), []
        config = self.folder / "cluster.toml"
        text = self.touchstone.config.read_text().replace("max_concurrency = 256", f"max_concurrency = {count * at_once}")
        text = text.replace("[limits]", f"[limits]\nmax_concurrency = {count * at_once}")
        config.write_text(f'{text}\n[cluster]\nnats = "{nats.urls}"\nreplicas = {self.nats_servers}\n')
        host = Touchstone(self.touchstone.program, self.folder, self.touchstone.database_url, config=config)
        try:
            nats.start()
            for number in range(count):
                workers.append(Worker(host, f"worker-{number}", at_once, folder / f"worker-{number}.log"))
            yield host, workers, nats
        finally:
            for worker in workers:
                worker.kill()
            nats.close()
            shutil.rmtree(folder)

    @contextlib.contextmanager
    def serving(self, touchstone: Touchstone | None = None):
        serving = Serving(touchstone or self.touchstone, self.folder / "host.log")
        try:
            yield serving, Api(serving.base_url, self.key)
        finally:
            serving.stop()


def share(whole: int, parts: int, which: int) -> int:
    return whole // parts + (which < whole % parts)


def find_summary(document) -> dict:
    """The EvalSummary, wherever `eval --json` puts it."""
    if isinstance(document, dict):
        if "passedCount" in document and "taskCount" in document:
            return document
        for value in document.values():
            found = find_summary(value)
            if found:
                return found
    return {}


def cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> dict[str, float]:
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    fields = {"rss": "VmRSS", "anonymous": "RssAnon", "peak": "VmHWM"}
    return {name: int(lines[field].split()[0]) / 1024 for name, field in fields.items()}


def machine(database_url: str | None) -> dict:
    models = [line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "cores": os.cpu_count(), "cpu": models[0] if models else platform.machine(), "kernel": platform.release(),
        "database": "PostgreSQL" if database_url else "SQLite", "loadBefore": os.getloadavg()[0],
    }
