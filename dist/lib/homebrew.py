"""The Homebrew formula for the archive that was built."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from release import NAME, ROOT, Failure, Release

TEMPLATE = ROOT / "deploy" / "homebrew" / f"{NAME}.rb"


def build(release: Release, out: Path) -> list[Path]:
    archives = sorted(out.glob(f"{NAME}-{release.version}-linux-x86_64.tar*"))
    if len(archives) != 1:
        raise Failure(f"the formula needs exactly one archive in {out}, found {len(archives)}; build both: --only archive,homebrew")
    archive = archives[0]
    values = {
        "url": f"{release.download_url}/{archive.name}", "version": release.version,
        "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
    }
    text = TEMPLATE.read_text()
    for name, value in values.items():
        text, count = re.subn(rf'^  {name} ".*"$', f'  {name} "{value}"', text, flags=re.MULTILINE)
        if count != 1:
            raise Failure(f"{TEMPLATE} must have one line `{name}`, found {count}")
    file = out / f"{NAME}.rb"
    file.write_text(text)
    return [file]
