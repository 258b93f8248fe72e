"""The container image, as an archive of an OCI image layout (image-spec 1.1) that `docker load` reads, too.

It contains the program, the libraries it is linked to, certificates, and no shell. Nothing runs while it is built: files of
Debian packages are copied, so it needs neither a daemon nor root.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path

import debian
import sbom
from release import NAME, ROOT, SUMMARY, Failure, Release

PACKAGES = ["base-files", "ca-certificates", "libc6", "libgcc-s1"]
USER = 10001
DATA = f"/var/lib/{NAME}"
# Of base-files, only what tells scanners which distribution this is.
BASE_FILES = ("usr/lib/os-release", "etc/os-release", "etc/debian_version", "usr/share/doc/base-files/copyright")
UNUSED = re.compile(r"usr/share/(man|locale|lintian)/|usr/share/doc/.*(changelog|NEWS|README|examples)|.*/gconv/|usr/sbin/|sbin/|usr/bin/")
NAME_SERVICES = "passwd: files\ngroup: files\nhosts: files dns\n"


@dataclass
class Entry:
    mode: int
    data: bytes = b""
    link: str = ""
    kind: bytes = tarfile.REGTYPE
    owner: int = 0


def unpack(release: Release, folder: Path) -> None:
    """The files of the image, for a build of an image from a Dockerfile, which sets their owner."""
    for data in (layer(release, system(debian.packages(PACKAGES))), layer(release, program(release))):
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            archive.extractall(folder, filter="fully_trusted")


def build(release: Release, out: Path) -> list[Path]:
    packages = debian.packages(PACKAGES)
    release.packages = [
        {
            "name": it.name, "uri": f"pkg:deb/debian/{it.name}@{it.version}?arch={it.architecture}",
            "digest": {"sha256": it.sha256},
        }
        for it in packages
    ]
    blobs: dict[str, bytes] = {}

    def blob(media_type: str, data: bytes) -> dict:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    layers = [
        ("libraries and certificates of Debian packages", layer(release, system(packages))),
        (f"{NAME} {release.version}", layer(release, program(release))),
    ]
    descriptors = [blob("application/vnd.oci.image.layer.v1.tar+gzip", release.gzip(data)) for _, data in layers]
    configuration = blob("application/vnd.oci.image.config.v1+json", encoded(config(release, layers)))
    manifest = blob("application/vnd.oci.image.manifest.v1+json", encoded({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": configuration,
        "layers": descriptors, "annotations": labels(release),
    }))
    index = {
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{**manifest, "platform": {"architecture": "amd64", "os": "linux"}, "annotations": {
            "org.opencontainers.image.ref.name": release.version,
            "io.containerd.image.name": f"docker.io/library/{NAME}:{release.version}",
        }}],
    }
    # What `docker load` read before it knew the OCI layout.
    docker = [{
        "Config": path_of(configuration), "RepoTags": [f"{NAME}:{release.version}"],
        "Layers": [path_of(descriptor) for descriptor in descriptors],
    }]
    files = {
        **blobs, "index.json": encoded(index), "manifest.json": encoded(docker),
        "oci-layout": encoded({"imageLayoutVersion": "1.0.0"}),
    }
    file = out / f"{NAME}-{release.version}-oci.tar"
    file.write_bytes(release.tar(files, set()))
    return [file]


def encoded(document: object) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


def path_of(descriptor: dict) -> str:
    return "blobs/" + descriptor["digest"].replace(":", "/")


def labels(release: Release) -> dict[str, str]:
    return {
        "org.opencontainers.image.title": NAME, "org.opencontainers.image.description": SUMMARY,
        "org.opencontainers.image.version": release.version, "org.opencontainers.image.licenses": release.license,
        "org.opencontainers.image.revision": release.commit, "org.opencontainers.image.created": release.date,
    }


def config(release: Release, layers: list[tuple[str, bytes]]) -> dict:
    second = 1_000_000_000
    return {
        "architecture": "amd64", "os": "linux", "created": release.date,
        "config": {
            "User": f"{USER}:{USER}",
            "Env": ["PATH=/usr/bin", f"TOUCHSTONE_DATA={DATA}", "TOUCHSTONE_LISTEN=0.0.0.0:7800"],
            "Entrypoint": [f"/usr/bin/{NAME}"],
            "Cmd": ["serve", "--log-format", "json"],
            "WorkingDir": DATA,
            "ExposedPorts": {"7800/tcp": {}},
            "Volumes": {DATA: {}},
            "StopSignal": "SIGTERM",
            "Labels": labels(release),
            # Not part of the OCI specification; Docker and Podman carry it out.
            "Healthcheck": {
                "Test": ["CMD", f"/usr/bin/{NAME}", "health"],
                "Interval": 30 * second, "Timeout": 10 * second, "StartPeriod": 20 * second, "Retries": 3,
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(data).hexdigest()}" for _, data in layers]},
        "history": [{"created": release.date, "created_by": "dist/build", "comment": text} for text, _ in layers],
    }


def system(packages: list[debian.Package]) -> dict[str, Entry]:
    """What the program needs of the operating system."""
    entries: dict[str, Entry] = {}
    certificates: dict[str, bytes] = {}
    for package in packages:
        for path, entry in unpacked(package):
            if path.startswith("usr/share/ca-certificates/"):
                if path.endswith(".crt"):
                    certificates[path] = entry.data
            elif package.name != "base-files" or path in BASE_FILES:
                if not UNUSED.match(path):
                    entries[path] = entry
        # Where scanners look for packages of images without a package manager.
        entries[f"var/lib/dpkg/status.d/{package.name}"] = Entry(0o644, package.control.encode())
    if not certificates:
        raise Failure("the package ca-certificates contains no certificates")
    # What update-ca-certificates writes.
    bundle = b"".join(data.rstrip(b"\n") + b"\n" for _, data in sorted(certificates.items()))
    entries["etc/ssl/certs/ca-certificates.crt"] = Entry(0o644, bundle)
    accounts = {"etc/passwd": f"root:x:0:0:root:/root:/usr/sbin/nologin\n{NAME}:x:{USER}:{USER}::{DATA}:/usr/sbin/nologin\n",
                "etc/group": f"root:x:0:\n{NAME}:x:{USER}:\n", "etc/nsswitch.conf": NAME_SERVICES}
    entries |= {path: Entry(0o644, text.encode()) for path, text in accounts.items()}
    entries["tmp"] = Entry(0o1777, kind=tarfile.DIRTYPE)
    return entries


def unpacked(package: debian.Package) -> list[tuple[str, Entry]]:
    found = []
    with package.tar() as archive:
        for member in archive:
            path = member.name.removeprefix("./").rstrip("/")
            if member.issym():
                found.append((path, Entry(0o777, link=member.linkname, kind=tarfile.SYMTYPE)))
            elif member.isfile() or member.islnk():
                content = archive.extractfile(member)
                found.append((path, Entry(member.mode, content.read() if content else b"")))
    return found


def program(release: Release) -> dict[str, Entry]:
    doc = f"usr/share/doc/{NAME}"
    return {
        f"usr/bin/{NAME}": Entry(0o755, release.binary),
        **{f"usr/{path}": Entry(0o644, data) for path, data in release.shared.items()},
        f"{doc}/LICENSE": Entry(0o644, (ROOT / "LICENSE").read_bytes()),
        f"{doc}/{NAME}.cdx.json": Entry(0o644, sbom.text(release).encode()),
        # A new volume gets the owner and mode of this folder.
        DATA.removeprefix("/"): Entry(0o700, kind=tarfile.DIRTYPE, owner=USER),
    }


def layer(release: Release, entries: dict[str, Entry]) -> bytes:
    folders = {str(parent) for path in entries for parent in Path(path).parents if str(parent) != "."}
    entries = {**{path: Entry(0o755, kind=tarfile.DIRTYPE) for path in folders}, **entries}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, entry in sorted(entries.items()):
            info = tarfile.TarInfo(path)
            info.type, info.mode, info.linkname, info.size = entry.kind, entry.mode, entry.link, len(entry.data)
            info.mtime, info.uid, info.gid = release.epoch, entry.owner, entry.owner
            archive.addfile(info, io.BytesIO(entry.data))
    return buffer.getvalue()
