"""The software bill of materials (CycloneDX 1.6): the crates that are compiled into the program."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
import uuid
from pathlib import Path
from urllib.parse import quote

from release import NAME, ROOT, Release, run

# C code that crates bring along, which cargo does not know: crate, name, URL, and the file and expression with its version.
BUNDLED = [
    ("libsqlite3-sys", "sqlite", "https://sqlite.org", "sqlite3/sqlite3.h", r'#define SQLITE_VERSION +"([0-9.]+)"'),
    ("tikv-jemalloc-sys", "jemalloc", "https://jemalloc.net", "Cargo.toml", r'^version = "[^"+]+\+([0-9.]+)'),
]


def build(release: Release, out: Path) -> list[Path]:
    file = out / f"{NAME}-{release.version}.cdx.json"
    file.write_text(text(release))
    return [file]


def text(release: Release) -> str:
    return json.dumps(document(release), indent=1, sort_keys=True) + "\n"


def document(release: Release) -> dict:
    metadata = json.loads(run("cargo", "metadata", "--format-version", "1", "--locked", "--features", "jemalloc",
                              "--filter-platform", "x86_64-unknown-linux-gnu"))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = next(identity for identity, package in packages.items() if package["name"] == NAME)
    needed = reachable(root, nodes)
    checksums = crate_checksums()
    components = [component(packages[identity], checksums) for identity in needed if identity != root]
    components += [part for identity in needed for part in bundled(packages[identity])]
    digest = hashlib.sha256(release.binary).hexdigest()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "version": 1,
        "metadata": {
            "timestamp": release.date,
            "component": {
                "type": "application", "bom-ref": purl(packages[root]), "purl": purl(packages[root]), "name": NAME,
                "version": release.version, "licenses": [{"expression": release.license}],
                "hashes": [{"alg": "SHA-256", "content": digest}],
            },
        },
        "components": sorted(components, key=lambda part: part["bom-ref"]),
        "dependencies": [
            {"ref": purl(packages[identity]), "dependsOn": sorted(purl(packages[one]) for one in dependencies(nodes[identity]))}
            for identity in sorted(needed, key=lambda identity: purl(packages[identity]))
        ],
    }


def dependencies(node: dict) -> list[str]:
    """What a crate is built from or with; crates for its tests are left out."""
    return [one["pkg"] for one in node["deps"] if any(kind["kind"] != "dev" for kind in one["dep_kinds"])]


def reachable(root: str, nodes: dict[str, dict]) -> set[str]:
    found, waiting = {root}, [root]
    while waiting:
        for one in dependencies(nodes[waiting.pop()]):
            if one not in found:
                found.add(one)
                waiting.append(one)
    return found


def crate_checksums() -> dict[tuple[str, str], str]:
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    return {(one["name"], one["version"]): one["checksum"] for one in locked if "checksum" in one}


def purl(package: dict) -> str:
    return f"pkg:cargo/{package['name']}@{quote(package['version'], safe='.-')}"


def component(package: dict, checksums: dict[tuple[str, str], str]) -> dict:
    part = {
        "type": "library", "bom-ref": purl(package), "purl": purl(package), "name": package["name"],
        "version": package["version"], "scope": "required",
    }
    if package["license"]:
        # The slash is an old form of OR.
        part["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", package["license"])}]
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        part["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["repository"]:
        part["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return part


def bundled(package: dict) -> list[dict]:
    parts = []
    for crate, name, url, file, expression in BUNDLED:
        if package["name"] != crate:
            continue
        text = (Path(package["manifest_path"]).parent / file).read_text(errors="replace")
        version = re.search(expression, text, re.MULTILINE)
        part = {"type": "library", "name": name, "scope": "required", "externalReferences": [{"type": "website", "url": url}]}
        known = version.group(1) if version else None
        reference = f"pkg:generic/{name}@{known}" if known else f"pkg:generic/{name}"
        parts.append({**part, "bom-ref": reference, "purl": reference, **({"version": known} if known else {})})
    return parts
