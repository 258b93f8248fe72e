"""The servers around a cluster of hosts and workers, on loopback: PostgreSQL, NATS servers with JetStream, and TCP proxies.

Only the standard library is needed, and the programs `initdb`, `pg_ctl` and `nats-server`.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import json
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from hosting import Failure

READY_WITHIN_S = 180
# Debian installs it outside the path of users.
NATS_FOLDERS = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])


given_ports: set[int] = set()


def free_port() -> int:
    """A port that no server uses now. A restarted server needs the port that it had.

    It is below the ports of outgoing connections, one of which would take it while the server is stopped."""
    try:
        end = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError):
        end = 0
    while True:
        with socket.socket() as probe:
            try:
                # Not the dice of a campaign, which a seed repeats.
                port = random.SystemRandom().randrange(10_000, end) if end > 20_000 else 0
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            port = probe.getsockname()[1]
        if port not in given_ports:
            given_ports.add(port)
            return port


def nats_program() -> str | None:
    return shutil.which("nats-server", path=NATS_FOLDERS)


def wait_until(holds, what: str, within_s: float = READY_WITHIN_S) -> None:
    end = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > end:
            raise Failure(f"{what} within {within_s:.0f} s")
        time.sleep(0.1)


class Postgres:
    """A PostgreSQL server of its own, which can be restarted."""

    def __init__(self):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb")) or [shutil.which("initdb")]
        if not found[-1]:
            raise Failure("PostgreSQL is not installed; install the package postgresql")
        self.programs = Path(found[-1]).parent
        # In /tmp, whatever TMPDIR says: the path of a socket must be short.
        self.folder = Path(tempfile.mkdtemp(prefix="touchstone-pg-", dir="/tmp"))
        self.user = None
        if os.geteuid() == 0:
            # Its programs refuse to run as root.
            self.user = "postgres"
            os.chown(self.folder, pwd.getpwnam(self.user).pw_uid, -1)
        self.url = f"postgres://postgres@{str(self.folder).replace('/', '%2F')}/postgres?sslmode=disable"
        self._run("initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self.programs / program), "--pgdata", str(self.folder / "data"), *arguments]
        with (self.folder / "commands.log").open("ab") as log:
            # `pg_ctl start` leaves a server that inherits the output.
            done = subprocess.run(command, user=self.user, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if done.returncode:
            raise Failure(f"{program} ended with {done.returncode}: {(self.folder / 'commands.log').read_text()[-1000:]}")

    def start(self) -> None:
        # The machine keeps running, so the server need not wait for the disk.
        options = f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c max_connections=300 -c fsync=off"
        self._run("pg_ctl", "start", "--wait", "--log", str(self.folder / "server.log"), "--options", options)

    def stop(self, mode: str) -> None:
        """`fast` ends the connections and writes a checkpoint; `immediate` is like a crash."""
        self._run("pg_ctl", "stop", "--wait", "--mode", mode)

    def close(self) -> None:
        with contextlib.suppress(Failure):
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)


class NatsNode:
    """One NATS server of a cluster, or a single one."""

    def __init__(self, name: str, folder: Path, port: int, routes: dict[str, int], program: str):
        self.name, self.folder, self.port, self.program = name, folder, port, program
        self.monitor = free_port()
        self.store = folder / name
        self.store.mkdir()
        self.process: subprocess.Popen | None = None
        self.configuration = folder / f"{name}.conf"
        lines = [
            f'server_name: "{name}"', f'listen: "127.0.0.1:{port}"', f'http: "127.0.0.1:{self.monitor}"',
            f'jetstream {{ store_dir: "{self.store}" }}',
        ]
        if len(routes) > 1:
            others = ", ".join(f'"nats://127.0.0.1:{route}"' for other, route in routes.items() if other != name)
            lines.append(f'cluster {{ name: "chaos", listen: "127.0.0.1:{routes[name]}", routes: [{others}] }}')
        self.configuration.write_text("\n".join(lines) + "\n")

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen([self.program, "-c", str(self.configuration)], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()

    def about(self, path: str) -> dict | None:
        """An answer of the monitoring endpoint; none if the server does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.monitor}/{path}", timeout=2) as answer:
                return json.load(answer)
        except (OSError, ValueError):
            return None

    def is_ready(self) -> bool:
        """Whether JetStream works and knows its leader."""
        health = self.about("healthz")
        return health is not None and health.get("status") == "ok"


class NatsServers:
    """Three NATS servers with JetStream, or one."""

    def __init__(self, folder: Path, count: int = 3):
        program = nats_program()
        if not program:
            raise Failure("there is no NATS server; install the package nats-server")
        names = [f"n{number}" for number in range(1, count + 1)]
        routes = {name: free_port() for name in names}
        self.nodes = [NatsNode(name, folder, free_port(), routes, program) for name in names]

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        wait_until(lambda: all(node.is_ready() for node in self.nodes), "the NATS servers are not ready")

    @property
    def urls(self) -> str:
        return ",".join(node.url for node in self.nodes)

    def leader(self) -> NatsNode:
        """The leader of the stream of all queues; of JetStream, as long as there is no stream. Waits for an election."""
        found: list[NatsNode] = []

        def is_known() -> bool:
            found[:] = [leader for leader in [self._leader()] if leader]
            return bool(found)
        wait_until(is_known, "the NATS servers have no leader")
        return found[0]

    def led_by(self, leader: NatsNode) -> str:
        """What one server leads: each stream and each consumer has a leader of its own."""
        for node in self.nodes:
            if node is not leader and (state := node.about("jsz?accounts=true&streams=true&consumers=true")):
                streams = [stream for account in state.get("account_details", []) for stream in account.get("stream_detail", [])]
                consumers = [consumer for stream in streams for consumer in stream.get("consumer_detail") or []]
                counts = [sum(it.get("cluster", {}).get("leader") == leader.name for it in groups) for groups in (streams, consumers)]
                return f"led {counts[0]} of {len(streams)} queues and {counts[1]} of {len(consumers)} consumers"
        return "unknown to the others"

    def _leader(self) -> NatsNode | None:
        for node in self.nodes:
            state = node.about("jsz?accounts=true&streams=true") or {}
            streams = [stream for account in state.get("account_details", []) for stream in account.get("stream_detail", [])]
            clusters = [stream.get("cluster", {}) for stream in streams] + [state.get("meta_cluster", {})]
            for name in (cluster.get("leader") for cluster in clusters):
                for found in self.nodes:
                    if found.name == name:
                        return found
        return None

    def close(self) -> None:
        for node in self.nodes:
            node.stop()


class Gate:
    """The proxies between one process and the NATS servers. A closed gate loses nothing and delivers nothing, like a broken network."""

    def __init__(self):
        self.servers: list[asyncio.Server] = []
        self.urls = ""
        self.bytes = 0
        self.open = asyncio.Event()
        self.open.set()

    async def listen(self, ports: list[int]) -> None:
        for port in ports:
            async def accept(reader, writer, port=port):
                await self._connected(reader, writer, port)
            self.servers.append(await asyncio.start_server(accept, "127.0.0.1", 0))
        addresses = [server.sockets[0].getsockname()[1] for server in self.servers]
        self.urls = ",".join(f"nats://127.0.0.1:{port}" for port in addresses)

    async def _connected(self, reader, writer, port: int) -> None:
        await self.open.wait()
        try:
            there = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._copy(reader, there[1]), self._copy(there[0], writer))

    async def _copy(self, source, sink) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(1 << 16):
                await self.open.wait()
                self.bytes += len(data)
                sink.write(data)
                await sink.drain()
        sink.close()


class Gates:
    """A thread with the gates of several processes."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def gate(self, ports: list[int]) -> Gate:
        async def start() -> Gate:
            gate = Gate()
            await gate.listen(ports)
            return gate
        return asyncio.run_coroutine_threadsafe(start(), self.loop).result(10)

    def shut(self, gate: Gate) -> None:
        self.loop.call_soon_threadsafe(gate.open.clear)

    def open(self, gate: Gate) -> None:
        self.loop.call_soon_threadsafe(gate.open.set)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
