"""What every artefact contains, and how its files are written."""

from __future__ import annotations

import gzip
import io
import os
import re
import subprocess
import tarfile
import tempfile
import time
import tomllib
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAME = "touchstone"
# The names under which registries know the packages: `touchstone` is taken on PyPI.
PYPI_NAME = "touchstone-evals"
NPM_NAME = "touchstone-evals"
NPM_PLATFORM = "@touchstone-evals/linux-x64"
SUMMARY = "Is this agent good enough to deploy? Evaluates AI agents, compares versions and serves the evidence."


class Failure(Exception):
    """An artefact that cannot be built; the text says why."""


def output_folder() -> Path:
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "artefacts"


def manifest() -> dict:
    return tomllib.loads((ROOT / "Cargo.toml").read_text())


def run(*command: str | Path) -> bytes:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout


class Release:
    """One program, and the files that accompany it."""

    def __init__(self, binary: Path, fast: bool, compiled: bool, download_url: str) -> None:
        if not os.access(binary, os.X_OK):
            raise Failure(f"{binary} is not a program")
        self.path = binary.resolve()
        self.fast = fast
        # Whether this build made the program from its source.
        self.compiled = compiled
        self.download_url = download_url.rstrip("/")
        # Further packages that are in an artefact, as the provenance lists them.
        self.packages: list[dict] = []
        self.version: str = manifest()["workspace"]["package"]["version"]
        self.license: str = manifest()["workspace"]["package"]["license"]

    @cached_property
    def binary(self) -> bytes:
        return self.path.read_bytes()

    @cached_property
    def epoch(self) -> int:
        """Seconds since 1970 that all entries have as their time."""
        given = os.environ.get("SOURCE_DATE_EPOCH")
        return int(given) if given else int(run("git", "log", "-1", "--format=%ct"))

    @cached_property
    def commit(self) -> str:
        return run("git", "rev-parse", "HEAD").decode().strip()

    @cached_property
    def modified(self) -> bool:
        """Whether the source is not exactly that of the commit."""
        return bool(run("git", "status", "--porcelain").strip())

    @cached_property
    def date(self) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.epoch))

    @cached_property
    def glibc(self) -> tuple[int, int]:
        """The version of the C library that the program needs."""
        symbols = run("objdump", "-T", self.path).decode()
        versions = [(int(major), int(minor)) for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols)]
        if not versions:
            raise Failure(f"{self.path} is not linked to the GNU C library")
        return max(versions)

    @cached_property
    def shared(self) -> dict[str, bytes]:
        """Manual pages and completions by their path below a prefix such as /usr."""
        with tempfile.TemporaryDirectory() as folder:
            run(self.path, "man", "--out", folder)
            pages = {f"share/man/man1/{page.name}": page.read_bytes() for page in Path(folder).iterdir()}
        places = {
            "bash": f"share/bash-completion/completions/{NAME}",
            "zsh": f"share/zsh/site-functions/_{NAME}",
            "fish": f"share/fish/vendor_completions.d/{NAME}.fish",
        }
        scripts = {path: run(self.path, "completions", shell) for shell, path in places.items()}
        return dict(sorted({**pages, **scripts}.items()))

    def tar(self, files: dict[str, bytes], programs: set[str]) -> bytes:
        """An archive of these files with their folders; the same input gives the same bytes."""
        buffer = io.BytesIO()
        folders = {str(parent) for path in files for parent in Path(path).parents if str(parent) != "."}
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path in sorted({*files, *folders}):
                entry = tarfile.TarInfo(path)
                entry.mtime = self.epoch
                if path in folders:
                    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                    archive.addfile(entry)
                    continue
                entry.size, entry.mode = len(files[path]), 0o755 if path in programs else 0o644
                archive.addfile(entry, io.BytesIO(files[path]))
        return buffer.getvalue()

    def gzip(self, data: bytes) -> bytes:
        return gzip.compress(data, 0 if self.fast else 9, mtime=0)
