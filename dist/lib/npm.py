"""Two packages for npm: one for users, and one with the program for this kind of machine."""

from __future__ import annotations

import json
from pathlib import Path

from release import NAME, NPM_NAME, NPM_PLATFORM, ROOT, SUMMARY, Release

PACKAGE = ROOT / "clients" / "npm"


def build(release: Release, out: Path) -> list[Path]:
    program = f"package/bin/{NAME}"
    platform = {
        "name": NPM_PLATFORM, "version": release.version, "description": f"The program of {NPM_NAME} for Linux on x86-64",
        "license": release.license, "os": ["linux"], "cpu": ["x64"], "libc": ["glibc"], "preferUnplugged": True,
    }
    # Without compression npm refuses nothing, so the fast form is a gzip file that stores.
    first = write(release, out / f"{NPM_NAME}-linux-x64-{release.version}.tgz", {
        "package/package.json": text(platform), program: release.binary, "package/LICENSE": (ROOT / "LICENSE").read_bytes(),
    }, {program})
    pages = {f"package/man/{Path(path).name}": data for path, data in release.shared.items() if path.startswith("share/man/")}
    start = f"bin/{NAME}.js"
    main = {
        "name": NPM_NAME, "version": release.version, "description": SUMMARY, "license": release.license, "type": "module",
        "bin": {NAME: start}, "engines": {"node": ">=20"}, "man": sorted(f"./man/{Path(page).name}" for page in pages),
        "optionalDependencies": {NPM_PLATFORM: release.version},
    }
    second = write(release, out / f"{NPM_NAME}-{release.version}.tgz", {
        "package/package.json": text(main), f"package/{start}": (PACKAGE / start).read_bytes(),
        "package/README.md": (PACKAGE / "README.md").read_bytes(), "package/LICENSE": (ROOT / "LICENSE").read_bytes(), **pages,
    }, {f"package/{start}"})
    return [first, second]


def text(document: dict) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()


def write(release: Release, file: Path, files: dict[str, bytes], programs: set[str]) -> Path:
    file.write_bytes(release.gzip(release.tar(files, programs)))
    return file
