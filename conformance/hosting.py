"""Starts and stops throw-away Touchstone hosts for the conformance kit and the benchmark.

Everything goes through the public command line: keys, packs and suites are added the same way as by a user. Only the
standard library is needed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
READY = re.compile(r"listening on (http://\S+)")
READY_WITHIN_S = 120
STOPPED_WITHIN_S = 30

AGENT_ID = "private.touchstone.echo.default"
SIGNING_KEY_ID = "throw-away-key"
# The first one is in service. The last one, the one that runs where none is named, and the one between are drafts: a checker
# walks the last through its whole life, and the seams move the one between.
VERSIONS = ("1.0.0", "1.1.0", "1.2.0")
CHANNEL = "stable"
# What only the second tenant has.
OTHER_PACK = "private.touchstone.other"


class Failure(Exception):
    """The host could not be started; the message says what to do."""


def binary() -> str:
    """The program under test: TOUCHSTONE_BIN, or what cargo builds (`TOUCHSTONE_PROFILE`, default `dev`)."""
    given = os.environ.get("TOUCHSTONE_BIN")
    if given:
        if not os.access(given, os.X_OK):
            raise Failure(f"TOUCHSTONE_BIN names {given}, which is not a program")
        return str(Path(given).resolve())
    return built("--bin", "touchstone")


def built(*target: str, profile: str | None = None) -> str:
    """Builds one target of the package and returns the path of its binary."""
    profile = profile or os.environ.get("TOUCHSTONE_PROFILE", "dev")
    # With the allocator of the builds that users get.
    features = [] if profile == "dev" else ["--features", "jemalloc"]
    command = ["cargo", "build", "--quiet", "--profile", profile, *features, *target]
    command += ["--message-format", "json-render-diagnostics"]
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    except FileNotFoundError as cause:
        raise Failure("cargo is not installed; install Rust or set TOUCHSTONE_BIN") from cause
    except subprocess.CalledProcessError as cause:
        raise Failure("the program does not build; see the compiler's output above") from cause
    found = [json.loads(line).get("executable") for line in done.stdout.splitlines() if line.startswith("{")]
    found = [path for path in found if path]
    if not found:
        raise Failure(f"cargo built no binary for {' '.join(target)}")
    return found[-1]


def scoring_documents(folder: Path, suites: list[Path]) -> dict[Path, Path]:
    """The scoring document of each suite that has one: NAME.scoring.json for NAME.json."""
    by_name = {f"{suite.stem}.scoring.json": suite for suite in suites}
    documents = sorted(folder.glob("*.scoring.json"))
    if not documents:
        raise Failure(f"{folder} contains no scoring document (*.scoring.json)")
    alone = [document.name for document in documents if document.name not in by_name]
    if alone:
        raise Failure(f"no suite belongs to {', '.join(alone)}")
    return {by_name[document.name]: document for document in documents}


class Touchstone:
    """The command line over one data folder (and database)."""

    def __init__(self, program: str, folder: Path, database_url: str | None, *, config: Path):
        self.program = program
        self.folder = folder
        self.database_url = database_url
        self.config = config

    def environment(self) -> dict[str, str]:
        # Settings of the caller's shell must not affect a fresh host.
        return {name: value for name, value in os.environ.items() if not name.startswith("TOUCHSTONE_")}

    def arguments(self, *arguments: str) -> list[str]:
        command = [self.program, *arguments, "--config", str(self.config), "--data", str(self.folder / "data")]
        if self.database_url:
            command += ["--database-url", self.database_url]
        return command

    def run(self, *arguments: str) -> str:
        """Runs a command on the data folder and returns its standard output."""
        return self._done(self.arguments(*arguments), arguments)

    def run_on_files(self, *arguments: str) -> str:
        """The same for a command that only reads files and takes neither data folder nor configuration."""
        return self._done([self.program, *arguments], arguments)

    def run_at(self, server: str, key: str, *arguments: str) -> str:
        """The same against a running host."""
        return self._done([self.program, *arguments, "--server", server, "--key", key], arguments)

    def _done(self, command: list[str], arguments: tuple[str, ...]) -> str:
        done = subprocess.run(command, cwd=self.folder, env=self.environment(), capture_output=True, text=True)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()
            raise Failure(f"`touchstone {' '.join(arguments)}` ended with {done.returncode}: {said}")
        return done.stdout

    def key(self, tenant: str, *scopes: str, test: bool = False) -> str:
        """A fresh API key; without scopes, one that evaluates but does not deploy. Mock providers and seams take a test key."""
        asked = [word for scope in scopes for word in ("--scope", scope)] + (["--test"] if test else [])
        return self.run("key", "create", "--tenant", tenant, *asked).strip()

    def signed_pack(self, source: Path) -> Path:
        """Builds and signs a pack folder with a fresh key, and trusts that key for that pack only in the configuration."""
        return self.signed_packs(source, [json.loads((source / "pack.json").read_text())])[0]

    def signed_packs(self, source: Path, manifests: list[dict]) -> list[Path]:
        """The same for several packs with the same prompts, all signed with one key."""
        key, archives = self.folder / "signing.pem", []
        self.run_on_files("pack", "keygen", "--out", str(key), "--key-id", SIGNING_KEY_ID)
        public = key.with_suffix(".pub").read_text()
        names = json.dumps(sorted({manifest["name"] for manifest in manifests}))
        with self.config.open("a") as config:
            config.write(f'\n[[packs.keys]]\nkey_id = "{SIGNING_KEY_ID}"\nnamespaces = {names}\npublic_key = """\n{public}"""\n')
        for manifest in manifests:
            folder = self.folder / f"{manifest['name']}-{manifest['version']}"
            archive = folder.with_name(folder.name + ".tgz")
            shutil.copytree(source, folder)
            (folder / "pack.json").write_text(json.dumps(manifest))
            self.run_on_files("pack", "build", str(folder), "--out", str(archive))
            self.run_on_files("pack", "sign", str(archive), "--key", str(key), "--key-id", SIGNING_KEY_ID)
            archives.append(archive)
        return archives


class Serving:
    """A running `touchstone serve`."""

    def __init__(self, touchstone: Touchstone, log: Path):
        self.log = log
        self._log = log.open("wb")
        self.started_at = time.monotonic()
        self.process = subprocess.Popen(
            touchstone.arguments("serve", "--listen", "127.0.0.1:0"),
            cwd=touchstone.folder,
            env=touchstone.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            # An interrupt at the terminal goes to the whole process group; this process stops the host once.
            start_new_session=True,
        )
        try:
            self.base_url = self._ready()
        except BaseException:
            self.stop()
            raise

    def _ready(self) -> str:
        signal.alarm(READY_WITHIN_S)
        previous = signal.signal(signal.SIGALRM, self._late)
        try:
            for line in self.process.stdout:
                found = READY.search(line)
                if found:
                    return found[1].rstrip("/")
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, previous)
        self.process.wait()
        raise Failure(f"the host ended with {self.process.returncode} before it was ready: {self.last_words()}")

    def _late(self, *_):
        raise Failure(f"the host was not ready within {READY_WITHIN_S} s: {self.last_words()}")

    def last_words(self) -> str:
        self._log.flush()
        return self.log.read_text(errors="replace")[-2000:].strip() or "it said nothing"

    @property
    def pid(self) -> int:
        return self.process.pid

    def stop(self) -> int:
        """Terminates the host; kills it after half a minute."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOPPED_WITHIN_S)
            except subprocess.TimeoutExpired:
                print(f"the host did not end within {STOPPED_WITHIN_S} s and was killed", file=sys.stderr)
                self.process.kill()
                self.process.wait()
        self._log.close()
        return self.process.returncode


class Worker:
    """A running `touchstone worker`, with the NATS servers that its configuration names."""

    def __init__(self, touchstone: Touchstone, name: str, concurrency: int, log: Path):
        # It takes neither data folder nor database.
        command = [touchstone.program, "worker", "--name", name, "--concurrency", str(concurrency), "--config", str(touchstone.config)]
        with log.open("ab") as sink:
            self.process = subprocess.Popen(
                command, cwd=touchstone.folder, env=touchstone.environment(), stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
                start_new_session=True)

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class ConformanceHost:
    """A fresh host with the stub agent, the suites of a folder, two tenants and a key without deploy scopes."""

    def __init__(self, suites: Path, database_url: str | None, *, changes: dict[str, str] | None = None, scoring: Path | None = None):
        """`changes` maps lines of the configuration to their replacements; `scoring` is a folder of scoring documents."""
        files = sorted(suites.glob("*.json"))
        if not files:
            raise Failure(f"{suites} contains no suite (*.json)")
        scored = scoring_documents(scoring, files) if scoring else {}
        program = binary()
        self.folder = Path(tempfile.mkdtemp(prefix="touchstone-conformance-"))
        self.serving: Serving | None = None
        try:
            here = Path(__file__).resolve().parent
            for name in ("touchstone.toml", "echo.json", "judge.json"):
                shutil.copy(here / name, self.folder / name)
            config = self.folder / "touchstone.toml"
            for line, instead in (changes or {}).items():
                if f"\n{line}\n" not in config.read_text():
                    raise Failure(f"touchstone.toml has no line `{line}`")
                config.write_text(config.read_text().replace(f"\n{line}\n", f"\n{instead}\n"))
            touchstone = Touchstone(program, self.folder, database_url, config=self.folder / "touchstone.toml")
            # The database may have been used before; fresh tenants make the host fresh anyway.
            mark = secrets.token_hex(4)
            first, second = f"first-{mark}", f"second-{mark}"
            keys = {
                "apiKey": touchstone.key(first, "all", test=True),
                "secondTenantKey": touchstone.key(second, "all", test=True),
                "limitedKey": touchstone.key(first, test=True),
            }
            echo = json.loads((here / "agent" / "pack.json").read_text())
            other = {**echo, "name": OTHER_PACK, "agents": [{**echo["agents"][0], "agentId": f"{OTHER_PACK}.default"}]}
            versions = [{**echo, "version": version} for version in VERSIONS]
            first_archive, *archives, other_archive = touchstone.signed_packs(here / "agent", [*versions, other])
            # The registry scenarios read only the agent of the first tenant.
            with touchstone.config.open("a") as config:
                config.write(f'\n[packs.registry]\ntenant = "{first}"\nnamespaces = ["{echo["name"]}"]\n')
            self.serving = Serving(touchstone, self.folder / "host.log")
            self._install(touchstone, keys["apiKey"], first_archive)
            self._into_service(keys["apiKey"], VERSIONS[0])
            for archive in archives:
                self._install(touchstone, keys["apiKey"], archive)
            self._install(touchstone, keys["secondTenantKey"], other_archive)
            for file in files:
                with_scoring = ("--scoring", str(scored[file])) if file in scored else ()
                touchstone.run_at(self.serving.base_url, keys["apiKey"], "suite", "import", str(file), *with_scoring)
            self.facts = {"baseUrl": self.serving.base_url, **keys, "agentId": AGENT_ID, "draftVersion": VERSIONS[-1], "pid": self.serving.pid}
        except BaseException:
            self.close()
            raise

    def _install(self, touchstone: Touchstone, key: str, archive: Path) -> None:
        touchstone.run_at(self.serving.base_url, key, "pack", "install", str(archive))

    def _into_service(self, key: str, version: str) -> None:
        """Promotes a version, the only one so far, step by step, with an eval run that it passes as evidence."""
        # A checker's suites are unsigned and too small for significant results.
        self._post(key, "/v1/host/touchstone/gates", {"policy": {"eval": {"requireSignedSuite": False, "confidence": "lenient", "minTasks": 1}}})
        evidence = self._post(key, "/v1/host/sample/agents/eval-run", {})["runId"]
        for more in ({}, {}, {"channel": CHANNEL, "evalRunId": evidence}):
            self._post(key, f"/v1/agents/{AGENT_ID}/deployments", {"version": version, "transition": "promote", **more})

    def _post(self, key: str, path: str, body: dict) -> dict:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.serving.base_url + path, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=READY_WITHIN_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as cause:
            raise Failure(f"POST {path} was answered {cause.code}: {cause.read().decode(errors='replace')[:500]}") from cause

    def close(self) -> int:
        """Stops the host and removes its folder; keeps the log if TOUCHSTONE_KEEP_LOG names a file."""
        code = self.serving.stop() if self.serving else 0
        kept = os.environ.get("TOUCHSTONE_KEEP_LOG")
        if kept and self.serving:
            shutil.copy(self.serving.log, kept)
        shutil.rmtree(self.folder, ignore_errors=True)
        return code
