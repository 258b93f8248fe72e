"""The wheel for PyPI: the Python package and the program (binary distribution format 1.0)."""

from __future__ import annotations

import base64
import hashlib
import tomllib
import zipfile
from pathlib import Path

import sbom
from release import NAME, PYPI_NAME, ROOT, Failure, Release

PACKAGE = ROOT / "clients" / "python"
# A zip file cannot have an earlier time.
FIRST_ZIP_TIME = (1980, 1, 1, 0, 0, 0)


def build(release: Release, out: Path) -> list[Path]:
    major, minor = release.glibc
    tag = f"py3-none-manylinux_{major}_{minor}_x86_64"
    name = f"{PYPI_NAME.replace('-', '_')}-{release.version}"
    files = content(release, name, tag)
    info = f"{name}.dist-info"
    rows = [f"{path},sha256={digest(data)},{len(data)}\n" for path, data in files.items()]
    files[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\n"]).encode()
    file = out / f"{name}-{tag}.whl"
    method = zipfile.ZIP_STORED if release.fast else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(file, "w") as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, FIRST_ZIP_TIME)
            entry.create_system, entry.compress_type = 3, method
            mode = 0o755 if f"{name}.data/scripts/" in path else 0o644
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data, compresslevel=9)
    return [file]


def content(release: Release, name: str, tag: str) -> dict[str, bytes]:
    """Every file but the record, by its path in the wheel."""
    source = PACKAGE / "src"
    modules = sorted(path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    if not modules:
        raise Failure(f"there is no Python package in {source}")
    files = {str(path.relative_to(source)): path.read_bytes() for path in modules}
    # A program, not an entry point: a start by way of Python would cost about 50 ms.
    files[f"{name}.data/scripts/{NAME}"] = release.binary
    files[f"{name}.data/scripts/{NAME}-ci"] = (ROOT / "deploy/ci/evaluate").read_bytes()
    files |= {f"{name}.data/data/{path}": data for path, data in release.shared.items()}
    info = f"{name}.dist-info"
    files[f"{info}/METADATA"] = metadata(release).encode()
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: {NAME}-dist ({release.version})\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    )
    files[f"{info}/entry_points.txt"] = entry_points().encode()
    files[f"{info}/licenses/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    files[f"{info}/sboms/{NAME}.cdx.json"] = sbom.text(release).encode()
    return files


def project() -> dict:
    """The description of the package: what `pip install` of the source reads, too."""
    return tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]


def entry_points() -> str:
    groups = project().get("entry-points", {})
    return "".join(
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in points.items()) for group, points in groups.items()
    )


def metadata(release: Release) -> str:
    about = project()
    lines = [
        "Metadata-Version: 2.4", f"Name: {about['name']}", f"Version: {release.version}", f"Summary: {about['description']}",
        f"License-Expression: {about['license']}", "License-File: LICENSE", f"Requires-Python: {about['requires-python']}",
        *(f"Classifier: {text}" for text in about.get("classifiers", [])),
    ]
    for extra, needed in about.get("optional-dependencies", {}).items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {one}; extra == "{extra}"' for one in needed]
    readme = (PACKAGE / about["readme"]).read_text()
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", readme])


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
