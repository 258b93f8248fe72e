"""Packages of the Debian release on which this runs, as apt authenticates them."""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from release import Failure, output_folder


@dataclass
class Package:
    name: str
    version: str
    architecture: str
    sha256: str
    control: str
    file: Path

    def tar(self) -> tarfile.TarFile:
        done = subprocess.run(["dpkg-deb", "--fsys-tarfile", self.file], check=True, stdout=subprocess.PIPE)
        return tarfile.open(fileobj=io.BytesIO(done.stdout))


def packages(names: list[str]) -> list[Package]:
    return [package(name) for name in names]


def package(name: str) -> Package:
    # The digest comes from the lists that apt verified.
    asked = apt("download", "--print-uris", name).strip()
    found = re.search(r" (\S+\.deb) \d+ SHA256:([0-9a-f]{64})$", asked)
    if not found:
        raise Failure(f"apt names no SHA-256 for {name}: {asked!r}")
    file_name, sha256 = found.groups()
    folder = output_folder().parent / "debian-packages"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / file_name
    if not file.is_file():
        apt("download", name, folder=folder)
    if hashlib.sha256(file.read_bytes()).hexdigest() != sha256:
        file.unlink()
        raise Failure(f"{file_name} is not the file that apt's lists describe; try again")
    control = subprocess.run(["dpkg-deb", "--field", file], check=True, stdout=subprocess.PIPE).stdout.decode()
    fields = dict(re.findall(r"^(Package|Version|Architecture): (.+)$", control, re.MULTILINE))
    return Package(fields["Package"], fields["Version"], fields["Architecture"], sha256, control, file)


def apt(*arguments: str, folder: Path | None = None) -> str:
    try:
        done = subprocess.run(["apt-get", "-q", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        raise Failure("the image needs apt-get of Debian or Ubuntu; leave it out with --only") from None
    if done.returncode != 0:
        raise Failure(f"apt-get {' '.join(arguments)}: {done.stderr.strip()}; run `apt-get update` and try again")
    return done.stdout
