"""The archive for any Linux with a recent C library: program, manual pages, completions."""

from __future__ import annotations

import lzma
from pathlib import Path

from release import NAME, ROOT, Release


def build(release: Release, out: Path) -> list[Path]:
    top = f"{NAME}-{release.version}"
    files = {f"{top}/{path}": data for path, data in release.shared.items()}
    files[f"{top}/bin/{NAME}"] = release.binary
    files[f"{top}/bin/{NAME}-ci"] = (ROOT / "deploy/ci/evaluate").read_bytes()
    for name in ("LICENSE", "README.md", "CHANGELOG.md"):
        files[f"{top}/{name}"] = (ROOT / name).read_bytes()
    data = release.tar(files, programs={f"{top}/bin/{NAME}", f"{top}/bin/{NAME}-ci"})
    if release.fast:
        file = out / f"{top}-linux-x86_64.tar"
        file.write_bytes(data)
    else:
        file = out / f"{top}-linux-x86_64.tar.xz"
        file.write_bytes(lzma.compress(data, preset=6))
    return [file]
