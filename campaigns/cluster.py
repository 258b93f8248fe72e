"""A cluster on loopback: replicas and workers as processes, over a PostgreSQL server and three NATS servers of their own."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import subprocess
import threading
import time
import urllib.parse
from pathlib import Path

from hosting import Worker
from rig import AGENT_ID, SUITE_ID, Failure, Host, Serving, Site
from servers import Gate, Gates, NatsServers, Postgres

CLUSTER = """
[cluster]
nats = "{nats}"
replicas = {copies}
hold_s = {hold_s}
"""
# A replica that was stopped or has no database does not answer.
ANSWERED_WITHIN_S = 4


class Cluster(Site):
    """Replicas and workers. Each replica reaches the NATS servers through a gate of its own."""

    def __init__(self, *, tasks: int, suites: int, concurrency: int, lease_s: int, hold_s: int, latency_s: float, jitter_s: float,
                 replicas: int = 3, workers: int = 4, at_once: int = 8):
        self.postgres, self.gates = Postgres(), Gates()
        self.nats: NatsServers | None = None
        self.suites, self.hold_s, self.at_once = suites, hold_s, at_once
        self.replicas: dict[str, Serving] = {}
        self.workers: dict[str, Worker] = {}
        self.gate_of: dict[str, Gate] = {}
        # What replaces a process; those without an entry run `self.program`.
        self.program_of: dict[str, str] = {}
        self.mounted: Path | None = None
        super().__init__(tasks=tasks, latency_s=latency_s, jitter_s=jitter_s, concurrency=concurrency, lease_s=lease_s,
                         database_url=self.postgres.url)
        try:
            self.nats = NatsServers(self.folder)
            self._mount(self.nats.nodes[-1].store)
            self.nats.start()
            for number in range(1, replicas + 1):
                self.start_replica(f"replica-{number}")
            for number in range(1, workers + 1):
                self.start_worker(f"worker-{number}")
        except BaseException:
            self.close()
            raise

    def _furnish(self, command: Host) -> None:
        super()._furnish(command)
        for number in range(1, self.suites):
            command.run("suite", "import", str(self._suite(number)))

    def items(self, number: int) -> range:
        """The items of a suite. No other suite has them, so a request shows which run it is for."""
        return range(number * 10_000 + 1, number * 10_000 + self.tasks + 1)

    def _suite(self, number: int = 0) -> Path:
        file = self.folder / f"suite-{number}.json"
        file.write_text(json.dumps({
            "suiteId": SUITE_ID, "version": f"1.0.{number}", "modes": ["golden"],
            "tasks": [{"taskId": f"item-{n}", "input": {"item": n},
                       "expected": {"kind": "golden", "match": {"strategy": "exact", "value": f"word {n}"}}}
                      for n in self.items(number)],
        }))
        return file

    def _mount(self, store: Path) -> None:
        """Puts the store of one NATS server on a small file system of its own, where that is permitted."""
        with contextlib.suppress(FileNotFoundError):
            command = ["mount", "-t", "tmpfs", "-o", "size=64m,mode=0700", "tmpfs", str(store)]
            if subprocess.run(command, capture_output=True).returncode == 0:
                self.mounted = store

    def start_replica(self, name: str) -> None:
        if name not in self.gate_of:
            self.gate_of[name] = self.gates.gate([node.port for node in self.nats.nodes])
        config = self.folder / f"{name}.toml"
        section = CLUSTER.format(nats=self.gate_of[name].urls, copies=len(self.nats.nodes), hold_s=self.hold_s)
        config.write_text((self.folder / "touchstone.toml").read_text() + section)
        host = Host(self.program_of.get(name, self.program), self.folder, self.database_url, config=config)
        host.variables = {"CAMPAIGN_MODEL_KEY": name}
        serving = Serving(host, self.folder / f"{name}-{len(self.running)}.log")
        self.running.append(serving)
        self.replicas[name] = serving

    def start_worker(self, name: str) -> None:
        config = self.folder / "worker.toml"
        if not config.exists():
            section = CLUSTER.format(nats=self.nats.urls, copies=len(self.nats.nodes), hold_s=self.hold_s)
            text = (self.folder / "touchstone.toml").read_text()
            config.write_text(text + section)
        host = Host(self.program_of.get(name, self.program), self.folder, None, config=config)
        host.variables = {"CAMPAIGN_MODEL_KEY": name}
        self.workers[name] = Worker(host, name, self.at_once, self.folder / f"{name}.log")

    def ask(self, method: str, path: str, body=None, within_s: float = 60, **headers: str) -> dict:
        """The answer of any replica that answers."""
        end, said = time.monotonic() + within_s, "no replica answers"
        while time.monotonic() < end:
            for serving in list(self.replicas.values()):
                connection = http.client.HTTPConnection(urllib.parse.urlsplit(serving.base_url).netloc, timeout=ANSWERED_WITHIN_S)
                try:
                    fields = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json", **headers}
                    connection.request(method, path, json.dumps(body) if body is not None else None, fields)
                    response = connection.getresponse()
                    content = response.read()
                    if response.status < 300:
                        return json.loads(content)
                    said = f"{response.status} {content[:200].decode(errors='replace')}"
                except (OSError, http.client.HTTPException) as cause:
                    said = repr(cause)
                finally:
                    connection.close()
            time.sleep(0.2)
        raise Failure(f"{method} {path}: {said}")

    def start_run(self, number: int, suite: int, concurrency: int) -> str:
        body = {"mode": "eval", "evalSuiteRef": f"{SUITE_ID}@1.0.{suite}", "agentId": AGENT_ID,
                "configurable": {"evalDistribution": "cluster", "evalConcurrency": concurrency}}
        return self.ask("POST", "/v1/runs", body, **{"Idempotency-Key": f"run-{number}"})["runId"]

    def log(self, run: str) -> list[dict]:
        found, last, complete = [], 0, False
        while not complete:
            page = self.ask("GET", f"/v1/runs/{run}/events/poll?lastSequence={last}&timeout=1")
            found += page["events"]
            complete = page["isComplete"] or not page["events"]
            last = found[-1]["sequence"] if found else 0
        return found

    def owner(self) -> str:
        """The replica that executes the open run: the one that exchanges most with its workers."""
        before = {name: gate.bytes for name, gate in self.gate_of.items()}
        time.sleep(0.3)
        return max(before, key=lambda name: self.gate_of[name].bytes - before[name])

    def close(self) -> None:
        for worker in self.workers.values():
            worker.kill()
        for serving in self.running:
            if serving.process.poll() is None:
                self.kill(serving)
        if self.nats:
            self.nats.close()
        if self.mounted:
            subprocess.run(["umount", str(self.mounted)], check=False)
        if kept := os.environ.get("TOUCHSTONE_KEEP_LOG"):
            Path(kept).mkdir(parents=True, exist_ok=True)
            for log in self.folder.glob("*.log"):
                shutil.copy(log, kept)
        super().close()
        self.gates.close()
        self.postgres.close()


class Consumer:
    """Reads the events of a run as a stream, and goes to another replica whenever its connection breaks, and now and then."""

    def __init__(self, cluster: Cluster, run: str, events_each: int = 150):
        self.cluster, self.run, self.events_each = cluster, run, events_each
        self.events: list[dict] = []
        self.connections, self.faults = 0, []
        self.scored_at: list[float] = []
        self.ended = threading.Event()
        self.given_up = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while not self.ended.is_set() and not self.given_up.is_set():
            replicas = list(self.cluster.replicas.values())
            serving = replicas[self.connections % len(replicas)]
            self.connections += 1
            try:
                self._connected(serving.base_url)
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.2)

    def _connected(self, base_url: str) -> None:
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(base_url).netloc, timeout=ANSWERED_WITHIN_S)
        with contextlib.closing(connection):
            headers = {"Authorization": f"Bearer {self.cluster.key}", "Accept": "text/event-stream"}
            if self.events:
                headers["Last-Event-ID"] = str(self.events[-1]["sequence"])
            connection.request("GET", f"/v1/runs/{self.run}/events?streamMode=debug", None, headers)
            response = connection.getresponse()
            if response.status != 200:
                raise ValueError(response.status)
            received = 0
            while received < self.events_each:
                line = response.readline()
                if not line:
                    return
                if line.startswith(b"data:"):
                    self._received(json.loads(line[5:]))
                    received += 1
                    if self.ended.is_set():
                        return

    def _received(self, event: dict) -> None:
        expected = len(self.events) + 1
        if event["sequence"] != expected:
            self.faults.append(f"the stream sent event {event['sequence']} instead of {expected}")
        self.events.append(event)
        if event["type"] == "eval.scored":
            self.scored_at.append(time.monotonic())
        if event["type"] in ("run.completed", "run.failed", "run.cancelled"):
            self.ended.set()

    @property
    def scored(self) -> int:
        return len(self.scored_at)
