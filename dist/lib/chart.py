"""The Helm chart as an archive."""

from __future__ import annotations

import re
from pathlib import Path

from release import NAME, ROOT, Failure, Release

SOURCE = ROOT / "deploy" / "helm" / NAME


def build(release: Release, out: Path) -> list[Path]:
    description = (SOURCE / "Chart.yaml").read_text()
    for name in ("version", "appVersion"):
        found = re.search(rf'^{name}: "?([^"\n]+)"?$', description, re.MULTILINE)
        if not found or found.group(1) != release.version:
            raise Failure(f"{SOURCE}/Chart.yaml: {name} must be {release.version}, as in Cargo.toml")
    files = {f"{NAME}/{path.relative_to(SOURCE)}": path.read_bytes() for path in SOURCE.rglob("*") if path.is_file()}
    file = out / f"{NAME}-chart-{release.version}.tgz"
    file.write_bytes(release.gzip(release.tar(files, set())))
    return [file]
