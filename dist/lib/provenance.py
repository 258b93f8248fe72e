"""The provenance of the artefacts: an in-toto statement (SLSA provenance 1) in a DSSE envelope."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import tempfile
from pathlib import Path

from release import NAME, ROOT, Failure, Release, run

PAYLOAD_TYPE = "application/vnd.in-toto+json"
BUILD_TYPE = "https://touchstone.invalid/build/dist/v1"
# What precedes the 32 bytes of an Ed25519 key in its SPKI encoding.
ED25519 = bytes.fromhex("302a300506032b6570032100")

# OpenSSL 3.0 does not read the keys of `touchstone pack keygen`, whose files contain the public key, too.
REMEDY = "create one: openssl genpkey -algorithm ed25519 -out release.pem"


class Signer:
    """An Ed25519 key in PEM. OpenSSL reads it from standard input, so it is never written to a file."""

    def __init__(self, pem: bytes) -> None:
        self.pem = pem
        spki = self.openssl("pkey", "-pubout", "-outform", "DER")
        if not spki.startswith(ED25519):
            raise Failure(f"the release key is not an Ed25519 key; {REMEDY}")
        self.keyid = hashlib.sha256(spki).hexdigest()

    def openssl(self, *arguments: str) -> bytes:
        try:
            done = subprocess.run(["openssl", *arguments, "-in" if arguments[0] == "pkey" else "-inkey", "/dev/stdin"],
                                  input=self.pem, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        except OSError as cause:
            raise Failure(f"cannot sign the provenance: openssl: {cause.strerror}") from None
        if done.returncode != 0:
            raise Failure(f"OpenSSL cannot use the release key, which must be a private key in PEM without a passphrase; {REMEDY}")
        return done.stdout

    def sign(self, message: bytes) -> bytes:
        with tempfile.NamedTemporaryFile() as file:
            file.write(message)
            file.flush()
            return self.openssl("pkeyutl", "-sign", "-rawin", "-in", file.name)


def signer(file: Path | None) -> Signer | None:
    """The key in the file, or else in the environment."""
    given = os.environ.get("TOUCHSTONE_RELEASE_KEY")
    if file is not None:
        return Signer(file.read_bytes())
    return Signer(given.encode()) if given else None


def build(release: Release, out: Path, artefacts: list[Path], key: Signer | None, builder: str) -> Path:
    payload = json.dumps(statement(release, artefacts, builder), indent=1, sort_keys=True).encode()
    signatures = []
    if key is not None:
        signed = b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)
        signatures.append({"keyid": key.keyid, "sig": base64.b64encode(key.sign(signed)).decode()})
    envelope = {"payloadType": PAYLOAD_TYPE, "payload": base64.b64encode(payload).decode(), "signatures": signatures}
    file = out / f"{NAME}-{release.version}.provenance.json"
    file.write_text(json.dumps(envelope) + "\n")
    return file


def statement(release: Release, artefacts: list[Path], builder: str) -> dict:
    """Without times: the same input gives the same statement."""
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [described(NAME, release.binary), *(described(file.name, file.read_bytes()) for file in sorted(artefacts))],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "source": {"digest": {"gitCommit": release.commit}, "modified": release.modified},
                    "program": "compiled" if release.compiled else "given",
                    "compressed": not release.fast,
                },
                "internalParameters": {"sourceDateEpoch": release.epoch},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": release.commit}},
                    described("Cargo.lock", (ROOT / "Cargo.lock").read_bytes()),
                    *toolchain(release),
                    *release.packages,
                ],
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }


def described(name: str, data: bytes) -> dict:
    return {"name": name, "digest": {"sha256": hashlib.sha256(data).hexdigest()}}


def toolchain(release: Release) -> list[dict]:
    if not release.compiled:
        return []
    facts = dict(line.split(": ", 1) for line in run("rustc", "--version", "--verbose").decode().splitlines() if ": " in line)
    annotations = {name: facts[name] for name in ("commit-hash", "host", "LLVM version") if name in facts}
    return [{"name": "rustc", "uri": f"pkg:generic/rustc@{facts['release']}", "annotations": annotations}]
