"""The Debian package: the program as a service of its own user."""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import tempfile
import time
from pathlib import Path

import sbom
from release import NAME, ROOT, Release

SOURCE = ROOT / "dist" / "debian"
MAINTAINER = "Touchstone maintainers <maintainers@touchstone.invalid>"
CONFIGURATION = {"etc/touchstone/touchstone.toml": "touchstone.toml", "etc/default/touchstone": "touchstone.default"}
DOC = f"usr/share/doc/{NAME}"


def build(release: Release, out: Path) -> list[Path]:
    version = f"{release.version}-1"
    file = out / f"{NAME}_{version}_amd64.deb"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        files = content(release, version)
        for path, data in files.items():
            write(root / path, data, 0o755 if path.startswith("usr/bin/") else 0o644)
        size = sum(len(data) for data in files.values()) // 1024
        write(root / "DEBIAN/control", control(release, version, size).encode(), 0o644)
        write(root / "DEBIAN/conffiles", "".join(f"/{path}\n" for path in CONFIGURATION).encode(), 0o644)
        sums = [f"{hashlib.md5(data).hexdigest()}  {path}\n" for path, data in sorted(files.items()) if path not in CONFIGURATION]
        write(root / "DEBIAN/md5sums", "".join(sums).encode(), 0o644)
        for script in ("postinst", "prerm", "postrm"):
            write(root / f"DEBIAN/{script}", (SOURCE / script).read_bytes(), 0o755)
        # Not stored: lintian refuses packages without compression.
        compression = ["-Zgzip", "-z1"] if release.fast else ["-Zxz"]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(release.epoch)}
        command = ["dpkg-deb", "--root-owner-group", *compression, "--build", str(root), str(file)]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return [file]


def content(release: Release, version: str) -> dict[str, bytes]:
    files = {f"usr/bin/{NAME}": release.binary, f"lib/systemd/system/{NAME}.service": (SOURCE / f"{NAME}.service").read_bytes()}
    for path, data in release.shared.items():
        if path.startswith("share/man/"):
            files[f"usr/{path}.gz"] = packed(data)
        else:
            files["usr/" + path.replace("zsh/site-functions", "zsh/vendor-completions")] = data
    files |= {path: (SOURCE / name).read_bytes() for path, name in CONFIGURATION.items()}
    files[f"{DOC}/copyright"] = copyright_file(release).encode()
    files[f"{DOC}/changelog.Debian.gz"] = packed(changelog(release, version).encode())
    files[f"{DOC}/changelog.gz"] = packed((ROOT / "CHANGELOG.md").read_bytes())
    files[f"{DOC}/configuration.md.gz"] = packed((ROOT / "docs/configuration.md").read_bytes())
    files[f"{DOC}/{NAME}.cdx.json.gz"] = packed(sbom.text(release).encode())
    files[f"usr/share/lintian/overrides/{NAME}"] = (SOURCE / "lintian-overrides").read_bytes()
    return files


def packed(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)


def write(path: Path, data: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    for folder in path.parents:
        if folder.name == "root":
            break
        folder.chmod(0o755)
    path.write_bytes(data)
    path.chmod(mode)


def control(release: Release, version: str, size: int) -> str:
    major, minor = release.glibc
    return f"""Package: {NAME}
Version: {version}
Architecture: amd64
Maintainer: {MAINTAINER}
Installed-Size: {size}
Depends: libc6 (>= {major}.{minor}), libgcc-s1 (>= 4.2), adduser, ca-certificates, init-system-helpers (>= 1.54~)
Suggests: postgresql-client
Section: utils
Priority: optional
Description: evaluation host for AI agents
 Touchstone runs signed suites of tasks against AI agents, scores the answers,
 and keeps the evidence that deployment gates check: verdicts with confidence
 intervals, comparisons of versions, ratings and reports.
 .
 This package contains the command and a service that serves the API and the
 web console on the loopback address.
"""


def changelog(release: Release, version: str) -> str:
    date = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(release.epoch))
    text = f"  * Version {release.version}; /{DOC}/changelog.gz lists the changes."
    return f"{NAME} ({version}) unstable; urgency=medium\n\n{text}\n\n -- {MAINTAINER}  {date}\n"


def copyright_file(release: Release) -> str:
    """All parts have free licences; the bill of materials names the licence of each."""
    year = time.gmtime(release.epoch).tm_year
    return f"""Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: {NAME}
Comment: The program contains the crates that {NAME}.cdx.json lists, each with
 its licence.

Files: *
Copyright: {year} The Touchstone authors
License: Apache-2.0

License: Apache-2.0
 On Debian systems, the text of the Apache License 2.0 is in
 /usr/share/common-licenses/Apache-2.0.
"""
