"""Two packages for npm: one for users, compiled from TypeScript, and one with the program for this kind of machine."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

from release import NAME, NPM_NAME, NPM_PLATFORM, ROOT, SUMMARY, Failure, Release

PACKAGE = ROOT / "clients" / "typescript"
# A folder with the packages that compile, such as that of the tests; else `npm ci` installs them.
MODULES = "TOUCHSTONE_TEST_NODE_MODULES"


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
    scripts = {f"package/{path}": data for path, data in release.shared.items() if not path.startswith("share/man/")}
    about = json.loads((PACKAGE / "package.json").read_text())
    main = {name: value for name, value in about.items() if name not in ("scripts", "devDependencies")} | {
        "version": release.version, "description": SUMMARY, "license": release.license,
        "man": sorted(f"./man/{Path(page).name}" for page in pages), "optionalDependencies": {NPM_PLATFORM: release.version},
    }
    second = write(release, out / f"{NPM_NAME}-{release.version}.tgz", {
        "package/package.json": text(main), **compiled(), "package/README.md": (PACKAGE / "README.md").read_bytes(),
        "package/LICENSE": (ROOT / "LICENSE").read_bytes(), **pages, **scripts,
    }, {f"package/{about['bin'][NAME]}"})
    return [first, second]


def compiled() -> dict[str, bytes]:
    """The JavaScript and the types that `tsc` makes of the package."""
    with tempfile.TemporaryDirectory() as folder:
        modules = installed()
        command = [modules / ".bin" / "tsc", "--project", PACKAGE, "--outDir", folder, "--typeRoots", modules / "@types"]
        try:
            subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        except subprocess.CalledProcessError as cause:
            raise Failure(f"{PACKAGE} does not compile:\n{cause.stdout}") from cause
        return {f"package/lib/{file.name}": file.read_bytes() for file in sorted(Path(folder).iterdir())}


def installed() -> Path:
    if given := os.environ.get(MODULES):
        return Path(given)
    subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], check=True, cwd=PACKAGE, stdout=subprocess.PIPE)
    return PACKAGE / "node_modules"


def text(document: dict) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()


def write(release: Release, file: Path, files: dict[str, bytes], programs: set[str]) -> Path:
    file.write_bytes(release.gzip(release.tar(files, programs)))
    return file
