#!/usr/bin/env python3
"""Passes hostile pack archives to `pack verify`, to `pack install` and to the HTTP route that installs packs.

Invariants, for every kind of archive:
  - the command exits with 1 and the expected error code; the route answers 4xx with the envelope and the same code
  - nothing is installed: no data folder after the command, no pack and no suite on the host
  - no file appears, changes or disappears outside the data folder, and nothing is unpacked inside it
  - a response arrives within --seconds
  - the peak resident memory of the command and of the host (VmHWM) stays below --memory-mib
then the costliest archives are uploaded by eight clients at once, and valid archives must still install both ways, so that a
host that refuses everything fails the campaign.

Archives carry a valid `manual` signature over their pack.json, which makes the reader work before any signature is checked and
lets an attacker swap every other file of a published pack.

The program under test is TOUCHSTONE_BIN, or the binary that cargo builds. Only the standard library is needed. Linux only.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import bz2
import collections
import hashlib
import http.client
import json
import lzma
import multiprocessing
import os
import secrets
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.parse
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from endpoint_faults import MIB, peak_mib  # noqa: E402
from rig import Failure, Host, Serving, binary, campaign, conclude  # noqa: E402

NAME = "private.touchstone.hostile"
TOKEN = f"escaped-{secrets.token_hex(8)}"
ROUTE = "/v1/host/touchstone/packs"
AT_ONCE = 8
# Larger bodies do not reach the archive reader: the host refuses them by their length.
MAX_BODY = 16 * MIB

CONFIGURATION = """
[[models]]
class = "*"
provider = "openai"
base_url = "http://127.0.0.1:9/v1"
model = "none"
"""


# --------------------------------------------------------------------------------------------------------- tar and gzip

def entry(name: bytes | str, data: bytes = b"", flag: bytes = b"0", *, link: bytes = b"", size: bytes | None = None,
          prefix: bytes = b"", magic: bytes = b"ustar\x0000", checksum: bytes | None = None) -> bytes:
    """One tar entry; any field can be set to a wrong value."""
    name = name.encode() if isinstance(name, str) else name
    fields = {0: name[:100], 100: b"0000644\0", 108: b"0000000\0", 116: b"0000000\0",
              124: size if size is not None else b"%011o\0" % len(data), 136: b"00000000000\0", 148: b" " * 8,
              156: flag, 157: link[:100], 257: magic, 345: prefix[:155]}
    header = bytearray(512)
    for at, value in fields.items():
        header[at:at + len(value)] = value
    header[148:156] = checksum if checksum is not None else b"%06o\0 " % sum(header)
    return bytes(header) + data + bytes(-len(data) % 512)


def pax(records: list[tuple[str, bytes]], flag: bytes = b"x") -> bytes:
    body = b""
    for key, value in records:
        rest = b" " + key.encode() + b"=" + value + b"\n"
        length = len(rest)
        while len(str(length)) + len(rest) != length:
            length = len(str(length)) + len(rest)
        body += str(length).encode() + rest
    return entry("PaxHeaders/0", body, flag)


def long_name(name: bytes) -> bytes:
    return entry("././@LongLink", name + b"\0", b"L", magic=b"ustar  \0")


END = bytes(1024)


def gz(data: bytes, level: int = 1) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, -15)
    return GZIP + packer.compress(data) + packer.flush() + struct.pack("<II", zlib.crc32(data), len(data) & 0xffffffff)


GZIP = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"


def bomb(head: bytes, mib: int) -> bytes:
    """`head`, then this many MiB of zeros, generated without holding them in memory. The trailer is wrong, because no reader should reach it."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    zeros = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = zeros.compress(bytes(MIB)) + zeros.flush(zlib.Z_FULL_FLUSH)
    return GZIP + first + block * mib + zlib.compressobj(9, zlib.DEFLATED, -15).flush() + bytes(8)


# ---------------------------------------------------------------------------------------------------------------- packs

SCHEMA = json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}).encode()


def suite(tasks: int = 1, note: str = "x", match: dict | None = None) -> bytes:
    expected = {"kind": "golden", "match": match or {"strategy": "exact", "value": "y"}}
    return json.dumps({
        "suiteId": "private.touchstone.evals.hostile", "version": "1.0.0", "modes": ["golden"],
        "tasks": [{"taskId": f"t{n}", "input": note, "expected": expected} for n in range(tasks)],
    }, separators=(",", ":")).encode()


def filled(item: str, size: int = 5 * MIB) -> bytes:
    """A list with as many items as fit in an entry."""
    return ("[" + item * ((size - 4) // len(item)) + "0]").encode()


@dataclass
class Pack:
    """A pack with its valid signature over pack.json, and the companions of one whose whole archive is signed."""

    files: dict[str, bytes]
    whole: dict[str, bytes]
    other: dict[str, bytes]
    folder: Path

    def entries(self, **changed: bytes) -> list[bytes]:
        return [entry(name, data) for name, data in {**self.files, **changed}.items()]

    def tar(self, *more: bytes, before: bytes = b"", **changed: bytes) -> bytes:
        return before + b"".join([*self.entries(**changed), *more]) + END

    def tgz(self, *more: bytes, before: bytes = b"", **changed: bytes) -> bytes:
        return gz(self.tar(*more, before=before, **changed))


def signed(program: str, folder: Path, config: Path) -> Pack:
    source, key = folder / "source", folder / "signing.pem"
    for name, data in {"prompts/answer.md": b"Answer y.\n", "schemas/in.json": SCHEMA, "evals/main.json": suite()}.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
    manifest = {
        "name": NAME, "version": "1.0.0", "description": "x", "license": "Apache-2.0",
        "engines": {"openwop": ">=1.0.0 <2.0.0"}, "runtime": {"language": "remote", "entry": "pack.json"},
        "agents": [{
            "agentId": f"{NAME}.default", "persona": "Hostile", "modelClass": "general",
            "systemPromptRef": "prompts/answer.md", "evalSuiteRef": "evals/main.json",
            "handoff": {"taskSchemaRef": "schemas/in.json"},
        }],
    }
    (source / "pack.json").write_text(json.dumps(manifest))
    made = {}
    run_files(program, "pack", "keygen", "--out", key, "--key-id", "hostile-1")
    run_files(program, "pack", "keygen", "--out", folder / "other.pem", "--key-id", "hostile-1")
    for label, method, by in (("manual", "manual", key), ("whole", "ed25519", key), ("other", "ed25519", folder / "other.pem")):
        out = folder / f"{label}.tgz"
        run_files(program, "pack", "sign", source, "--method", method, "--key", by, "--key-id", "hostile-1", "--out", out)
        made[label] = {suffix: out.with_suffix(f".{suffix}").read_bytes()
                       for suffix in ("tgz", "sig", "json") if out.with_suffix(f".{suffix}").exists()}
    with tarfile.open(folder / "manual.tgz") as archive:
        files = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}
    if "keys/pack.json.sig" not in files:
        raise Failure("`pack sign --method manual` embeds no signature")
    public = key.with_suffix(".pub").read_text()
    config.write_text(CONFIGURATION + f'\n[[packs.keys]]\nkey_id = "hostile-1"\nnamespaces = ["{NAME}"]\n'
                      f'public_key = """\n{public}"""\n')
    return Pack(files, made["whole"], made["other"], folder)


def run_files(program: str, *arguments) -> None:
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"`touchstone {' '.join(map(str, arguments))}` ended with {done.returncode}: {done.stderr.strip()}")


# ---------------------------------------------------------------------------------------------------------------- kinds

GUNZIP, PARSE, PATH, LARGE = "tarball_gunzip_failed", "tarball_tar_parse_failed", "tarball_path_traversal", "tarball_too_large"
CONTENT, SIGNATURE = "pack_validation_failed", "pack_signature_invalid"
# An archive: its bytes, or a mapping with companion files (`tgz`, `json`, `sig`).
Make = Callable[[Pack], "bytes | dict[str, bytes]"]


def kinds(outside: Path) -> dict[str, tuple[str, Make]]:
    """The hostile archives and the expected codes. `outside` is a folder that an archive tries to write to."""
    found: dict[str, tuple[str, Make]] = {}

    def kind(name: str, code: str, make: Make) -> None:
        found[name] = code, make

    def added(name: str, code: str, *entries: bytes, before: bytes = b"") -> None:
        kind(name, code, lambda pack: pack.tgz(*entries, before=before))

    # gzip
    kind("empty file", GUNZIP, lambda _: b"")
    kind("zip", GUNZIP, lambda _: b"PK\x03\x04" + bytes(100))
    kind("xz", GUNZIP, lambda pack: lzma.compress(pack.tar()))
    kind("bzip2", GUNZIP, lambda pack: bz2.compress(pack.tar()))
    kind("tar without gzip", GUNZIP, lambda pack: pack.tar())
    kind("random bytes", GUNZIP, lambda _: os.urandom(100_000))
    kind("random deflate data", GUNZIP, lambda _: GZIP + b"\xff" * 100_000)
    kind("cut in the header", GUNZIP, lambda pack: pack.tgz()[:7])
    kind("cut in the data", GUNZIP, lambda pack: pack.tgz()[:len(pack.tgz()) // 2])
    kind("cut in the trailer", GUNZIP, lambda pack: pack.tgz()[:-3])
    kind("wrong checksum", GUNZIP, lambda pack: pack.tgz()[:-8] + b"\0\1\2\3" + pack.tgz()[-4:])
    kind("wrong length", GUNZIP, lambda pack: pack.tgz()[:-4] + b"\xff" * 4)
    kind("bytes after the stream", GUNZIP, lambda pack: pack.tgz() + b"x")
    kind("second gzip member", GUNZIP, lambda pack: pack.tgz() + gz(entry("prompts/answer.md", b"Answer z.")))
    kind("unended gzip name", GUNZIP, lambda _: b"\x1f\x8b\x08\x08" + b"\0" * 5 + b"\xff" + b"n" * MIB)
    kind("gzip in gzip", PARSE, lambda pack: gz(pack.tgz()))
    kind("gzip nested 200 times", PARSE, lambda pack: nested(pack.tgz(), 200))

    # bombs
    kind("9 GiB of zeros", LARGE, lambda _: bomb(b"", 9 * 1024))
    kind("9 GiB after the end", LARGE, lambda pack: bomb(pack.tar(), 9 * 1024))
    kind("entry of 8 GiB", "tarball_entry_too_large", lambda pack: bomb(b"".join(pack.entries()) + entry("x", size=b"77777777777\0"), 8 * 1024))
    kind("entry of 8 EiB", "tarball_entry_too_large", lambda pack: bomb(b"".join(pack.entries()) + entry("x", size=b"\x80\0\0\0\x7f" + b"\xff" * 7), 100))
    kind("51 MiB in small entries", LARGE, lambda pack: pack.tgz(*(entry(f"docs/{n}", bytes(4 * MIB)) for n in range(13))))
    kind("11 MiB of noise", LARGE, lambda _: GZIP + os.urandom(11 * MIB))
    kind("manifest of 1 MiB", "tarball_manifest_too_large", lambda pack: pack.tgz(**{"pack.json": pack.files["pack.json"] + b" " * MIB}))

    # counts
    kind("5,000 files", LARGE, lambda pack: pack.tgz(*(entry(f"docs/{n}") for n in range(5_000))))
    kind("50,000 folders", LARGE, lambda pack: pack.tgz(*(entry(f"d/{n}/", flag=b"5") for n in range(50_000))))
    kind("100,000 files of no bytes", LARGE, lambda pack: pack.tgz(*(entry(f"{n}") for n in range(100_000))))
    kind("50,000 global headers", LARGE, lambda pack: pack.tgz(before=pax([("comment", b"x")], b"g") * 50_000))
    kind("50,000 extended headers", LARGE, lambda pack: pack.tgz(before=pax([("comment", b"x")]) * 50_000))

    # names
    for name, path in {
        "parent": f"../{TOKEN}", "parent of parent": f"../../{TOKEN}", "parent inside": f"docs/../../{TOKEN}",
        "forty parents": "../" * 25 + TOKEN[:20], "absolute": f"/{TOKEN}", "absolute in a temporary folder": f"/tmp/{TOKEN}",
        "backslashes": f"..\\..\\{TOKEN}", "drive": f"C:{TOKEN}", "network share": f"\\\\host\\{TOKEN}", "two slashes": f"docs//{TOKEN}",
        "dot segment": f"docs/./{TOKEN}", "trailing dot": f"{TOKEN}.", "trailing blank": f"{TOKEN} ", "line break": f"docs/{TOKEN}\nx",
        "terminal escape": f"docs/\x1b[2J{TOKEN}", "nothing": "", "two dots": "..", "slash": "/",
    }.items():
        added(f"name: {name}", PATH, entry(path, b"x"))
    added("name: not UTF-8", PATH, entry(b"docs/\xff\xfe", b"x"))
    added("name: absolute, of this machine", PATH, pax([("path", str(outside / TOKEN).encode())]), entry("docs/x", b"x"))
    added("name: by the ustar prefix", PATH, entry(TOKEN, b"x", prefix=b"../.."))
    added("name: by GNU", PATH, long_name(f"../{TOKEN}".encode()), entry("docs/x", b"x"))
    added("name: by GNU, 64 KiB", PARSE, long_name(b"a/" * 30_000), entry("docs/x", b"x"))
    added("name: 100 KiB", PARSE, long_name(b"a" * 100_000), entry("docs/x", b"x"))
    added("name: 600 levels", PARSE, pax([("path", b"a/" * 600 + b"x")]), entry("docs/x", b"x"))

    # links and devices
    for name, flag in {"hard link": b"1", "symbolic link": b"2", "character device": b"3", "block device": b"4", "pipe": b"6",
                       "contiguous file": b"7", "long link": b"K", "sparse file": b"S", "volume": b"V", "multi-volume": b"M",
                       "unknown type": b"Z"}.items():
        added(f"type: {name}", PATH, entry("docs/x", flag=flag, link=str(outside / "present").encode()))
    kind("type: file through a link", PATH, lambda pack: pack.tgz(
        entry("out", flag=b"2", link=str(outside).encode()), entry(f"out/{TOKEN}", b"x")))
    kind("type: manifest is a link", PATH, lambda pack: gz(entry("pack.json", flag=b"2", link=b"/etc/passwd") + pack.tar()))
    added("type: folder with data", PARSE, entry("docs/", b"x", b"5"))

    # duplicates
    added("twice: prompt", PARSE, entry("prompts/answer.md", b"Answer z."))
    added("twice: dot and slash", PARSE, entry("./prompts/answer.md", b"Answer z."))
    added("twice: other case", PARSE, entry("Prompts/ANSWER.md", b"Answer z."))
    added("twice: other Unicode form", PARSE, entry("docs/\u00e9", b"1"), entry("docs/e\u0301", b"2"))
    added("twice: manifest", PARSE, entry("pack.json", b"{}"))
    added("twice: manifest first", PARSE, before=entry("pack.json", b"{}"))
    added("twice: file and folder", PARSE, entry("prompts", b"x"))
    added("twice: file below a file", PARSE, entry("prompts/answer.md/x", b"x"))

    # extended headers
    added("pax: path", PATH, pax([("path", f"../{TOKEN}".encode())]), entry("docs/x", b"x"))
    added("pax: path with NUL", PATH, pax([("path", f"docs/{TOKEN}\0x".encode())]), entry("docs/x", b"x"))
    added("pax: second manifest", PARSE, pax([("path", b"pack.json")]), entry("docs/x", b"{}"))
    added("pax: other size", PARSE, pax([("size", b"0")]), entry("docs/x", b"x"))
    added("pax: size beyond 64 bits", PARSE, pax([("size", b"9" * 40)]), entry("docs/x", b"x"))
    added("pax: sparse 1.0", PARSE, pax([("GNU.sparse.major", b"1"), ("GNU.sparse.realsize", b"8000000000")]), entry("docs/x", b"x"))
    added("pax: sparse map", PARSE, pax([("GNU.sparse.map", b"0,1,8000000000,1")]), entry("docs/x", b"x"))
    added("pax: global path", PARSE, before=pax([("path", b"pack.json")], b"g"))
    added("pax: header of 1 MiB", PARSE, pax([("comment", b"x" * MIB)]), entry("docs/x", b"x"))
    added("pax: record beyond the header", PARSE, entry("p", b"999 path=x\n", b"x"), entry("docs/x", b"x"))
    added("pax: record of length 0", PARSE, entry("p", b"0 path=x\n" * 1000, b"x"), entry("docs/x", b"x"))
    added("pax: 6,000 records in a header", PARSE, entry("p", b"9 a=bcde\n" * 6_000 + b"9", b"x"), entry("docs/x", b"x"))
    added("pax: header without a file", PARSE, pax([("comment", b"x")]))
    added("pax: two names", PARSE, long_name(b"docs/a"), pax([("path", b"docs/b")]), entry("c", b"x"))

    # tar headers
    added("header: checksum", PARSE, entry("docs/x", b"x", checksum=b"000001\0 "))
    added("header: negative size", PARSE, entry("docs/x", b"x", size=b"\xff" * 12))
    added("header: size beyond 64 bits", PARSE, entry("docs/x", b"x", size=b"\x80\0\0\x01" + bytes(7) + b"\x01"))
    added("header: size in two parts", PARSE, entry("docs/x", b"x", size=b"000001 0001\0"))
    added("header: unknown format", PARSE, entry("docs/x", b"x", magic=b"ustar\0\0\0"))
    added("header: data past the end", PARSE, entry("docs/x", b"x", size=b"00000100000\0"))
    kind("entries after the end", PARSE, lambda pack: gz(pack.tar() + entry("prompts/answer.md", b"Answer z.") + END))
    kind("entries after one zero block", PARSE, lambda pack: gz(pack.tar()[:-512] + entry("docs/x", b"x") + END))
    kind("no tar", PARSE, lambda _: gz(b"hello " * 1000))

    # contents of files
    def manifest(name: str, code: str, data: bytes) -> None:
        kind(f"manifest: {name}", code, lambda pack: pack.tgz(**{"pack.json": data}))

    kind("manifest: none", "tarball_manifest_missing",
         lambda pack: gz(b"".join(entry(name, data) for name, data in pack.files.items() if name != "pack.json") + END))
    manifest("no JSON", "tarball_manifest_not_json", b"\0\1\2")
    manifest("100,000 levels", "tarball_manifest_not_json", b"[" * 100_000 + b"]" * 100_000)
    manifest("256 KiB of objects", "invalid_manifest", filled('{"a":0},', 255 * 1024))
    manifest("same member twice", "tarball_manifest_not_json", b'{"name":"a","name":"b"}')
    manifest("number out of range", "tarball_manifest_not_json", b'{"name":1e999}')

    def file(name: str, path: str, data: Callable[[], bytes], code: str = CONTENT) -> None:
        kind(name, code, lambda pack: pack.tgz(**{path: data()}))

    items = {"objects": '{"a":0},', "empty objects": "{},", "numbers": "0,", "lists": "[[]],"}
    for name, item in items.items():
        file(f"schema: 5 MiB of {name}", "schemas/in.json", lambda item=item: filled(item))
        file(f"suite: 5 MiB of {name}", "evals/main.json", lambda item=item: filled(item))
    file("schema: long pattern", "schemas/in.json", lambda: json.dumps({"pattern": "((a{1,1000}){1,1000}){1,1000}"}).encode())
    file("schema: references that multiply", "schemas/in.json", lambda: json.dumps({"$ref": "#/$defs/a0", "$defs": {
        **{f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 10} for n in range(20)}, "a20": True}}).encode())
    file("schema: 5,000 levels", "schemas/in.json", lambda: b'{"not":' * 5_000 + b"{}" + b"}" * 5_000)
    file("suite: pattern that explodes", "evals/main.json", lambda: suite(match={"strategy": "regex", "pattern": "((a{1,1000}){1,1000}){1,1000}"}))
    file("suite: of another organisation", "evals/main.json", lambda: suite().replace(b"private.touchstone.", b"vendor.other."))
    file("suite: 40,000 tasks of one id", "evals/main.json", lambda: b"".join([
        suite()[:-2], b",", b",".join([suite()[suite().index(b'{"taskId'):-2]] * 40_000), b"]}"]))
    kind("suites: ten of 5 MiB", CONTENT, lambda pack: pack.tgz(*(
        entry(f"evals/{n}.json", filled('{"a":0},')) for n in range(9))))
    file("profile: aliases that multiply", "oasis/profile.yaml", lambda: b"a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + b"".join(
        b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 12)))
    file("profile: 5 MiB", "oasis/profile.yaml", lambda: b"a: [" + b"x," * (5 * MIB // 2 - 10) + b"]\n")
    file("adapters: 5 MiB of objects", "oasis/agents.json", lambda: filled('{"a":0},'))
    kind("prompt: not UTF-8", CONTENT, lambda pack: pack.tgz(**{"prompts/answer.md": b"\xff" * 1000}))

    # signatures
    kind("signature: manifest edited", SIGNATURE, lambda pack: pack.tgz(**{"pack.json": pack.files["pack.json"].replace(b"Hostile", b"Hostage")}))
    kind("signature: other bytes", SIGNATURE, lambda pack: pack.tgz(**{"keys/pack.json.sig": os.urandom(64)}))
    kind("signature: too short", SIGNATURE, lambda pack: pack.tgz(**{"keys/pack.json.sig": pack.files["keys/pack.json.sig"][:63]}))
    kind("signature: 5 MiB", SIGNATURE, lambda pack: pack.tgz(**{"keys/pack.json.sig": os.urandom(4 * MIB)}))
    kind("signature: none", SIGNATURE, lambda pack: gz(
        b"".join(entry(name, data) for name, data in pack.files.items() if name != "keys/pack.json.sig") + END))
    kind("whole: by another key", SIGNATURE, lambda pack: pack.other)
    kind("whole: other signature", SIGNATURE, lambda pack: {**pack.whole, "sig": os.urandom(64)})
    kind("whole: archive edited", "pack_integrity_mismatch", lambda pack: {**pack.whole, "tgz": flipped(pack.whole["tgz"])})
    kind("whole: archive and digest edited", SIGNATURE, lambda pack: redigested(pack.whole, flipped(pack.whole["tgz"])))
    kind("whole: bomb under its signature", SIGNATURE, lambda pack: redigested(pack.whole, bomb(b"", 9 * 1024)))
    kind("whole: no digest", "pack_integrity_mismatch", lambda pack: {**pack.whole, "json": without(pack.whole["json"], "integrity")})
    kind("whole: served manifest is not JSON", "invalid_manifest", lambda pack: {**pack.whole, "json": b"{"})
    kind("whole: served manifest of 1 MiB of objects", "invalid_manifest", lambda pack: {**pack.whole, "json": filled('{"a":0},', MIB - 8)})
    return found


def nested(data: bytes, times: int) -> bytes:
    for _ in range(times):
        data = gz(data)
    return data


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1:]


def redigested(parts: dict[str, bytes], tgz: bytes) -> dict[str, bytes]:
    served = json.loads(parts["json"])
    served["integrity"] = "sha256-" + base64.b64encode(hashlib.sha256(tgz).digest()).decode()
    return {**parts, "json": json.dumps(served).encode(), "tgz": tgz}


def without(document: bytes, member: str) -> bytes:
    return json.dumps({key: value for key, value in json.loads(document).items() if key != member}).encode()


# Archives that must install, so that refusing everything does not pass.
SOUND: dict[str, Make] = {
    "signed manifest": lambda pack: pack.tgz(),
    "signed archive": lambda pack: pack.whole,
    "PAX long path": lambda pack: pack.tgz(pax([("path", b"docs/" + b"long-" * 40)]), entry("docs/x", b"x")),
    "GNU long name": lambda pack: pack.tgz(long_name(b"docs/" + b"long-" * 40), entry("docs/x", b"x")),
    "nested archive as a file": lambda pack: pack.tgz(entry("docs/bomb.tgz", bomb(b"", 1024))),
    "nine files of 5 MiB": lambda pack: pack.tgz(*(entry(f"docs/{n}", bytes(5 * MIB)) for n in range(9))),
    "20,000 tasks": lambda pack: pack.tgz(**{"evals/main.json": suite(20_000)}),
}
# Uploaded by several clients at once: the most expensive archives to read.
COSTLY = ("9 GiB of zeros", "51 MiB in small entries", "100,000 files of no bytes", "schema: 5 MiB of objects",
          "suite: 5 MiB of objects", "suite: 40,000 tasks of one id", "11 MiB of noise", "twice: prompt")


# ------------------------------------------------------------------------------------------------------------- campaign

class Archives:
    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.root = Path(tempfile.mkdtemp(prefix="touchstone-archives-"))
        self.outside, self.given = self.root / "outside", self.root / "given"
        self.violations: list[str] = []
        self.codes: collections.Counter = collections.Counter()
        self.statuses: collections.Counter = collections.Counter()
        self.slowest = {"command": (0.0, ""), "route": (0.0, "")}
        self.peaks = {"command": (0.0, ""), "route": (0.0, "")}
        self.serving: Serving | None = None

    def prepare(self) -> None:
        for folder in (self.outside, self.given, self.root / "made", self.root / "temporary", self.root / "cli", self.root / "host"):
            folder.mkdir()
        (self.outside / "present").write_text("as it was")
        program, config = binary(), self.root / "touchstone.toml"
        self.pack = signed(program, self.root / "made", config)
        self.cli, self.host = (Host(program, self.root / name, None, config=config) for name in ("cli", "host"))
        for host in (self.cli, self.host):
            host.variables = {"TMPDIR": str(self.root / "temporary")}
        self.host.database_url = self.options.database_url
        self.key = self.host.key(f"hostile-{secrets.token_hex(4)}", "all")
        self.serve()
        self.before = self.surroundings()

    def problem(self, what: str) -> None:
        if what not in self.violations:
            self.violations.append(what)

    # Files that must not change.

    def surroundings(self) -> dict[str, tuple]:
        """Every file near the data folders that the program must not touch."""
        mine = (self.root / "given", *self.root.glob("host-*.log"), self.root / "cli" / "data", self.root / "host" / "data")
        found = {}
        for folder, folders, files in os.walk(self.root):
            path = Path(folder)
            folders[:] = [name for name in folders if path / name not in mine]
            for name in [*folders, *files]:
                if path / name not in mine:
                    status = os.lstat(path / name)
                    size, changed = (0, 0) if name in folders else (status.st_size, status.st_mtime_ns)
                    found[str(path / name)] = (status.st_mode, status.st_ino, size, changed)
        return found

    def untouched(self, kind: str) -> None:
        now = self.surroundings()
        for path in sorted(set(now) ^ set(self.before) | {path for path in now if now[path] != self.before.get(path)}):
            self.problem(f"{kind}: {path} appeared, changed or was deleted")
        self.before = now
        places = {Path("/"), Path("/tmp"), Path.home(), Path.cwd(), self.root.parent, Path(tempfile.gettempdir())}
        for place in places:
            if any(TOKEN[:20] in name for name in os.listdir(place)):
                self.problem(f"{kind}: a file of the archive is in {place}")
        for data in (self.root / "cli" / "data", self.root / "host" / "data"):
            for folder, folders, files in os.walk(data):
                if any(TOKEN[:20] in name for name in [*folders, *files]):
                    self.problem(f"{kind}: a file of the archive was unpacked in {folder}")

    # The two ways to install.

    def write(self, make: Make) -> Path:
        """Writes an archive with its companions, in a separate process: memory of this process would be counted as memory of
        the commands that it starts."""
        for old in self.given.iterdir():
            old.unlink()

        def work() -> None:
            made = make(self.pack)
            for suffix, data in (made if isinstance(made, dict) else {"tgz": made}).items():
                (self.given / f"pack.{suffix}").write_bytes(data)

        maker = multiprocessing.get_context("fork").Process(target=work)
        maker.start()
        maker.join()
        if maker.exitcode:
            raise Failure(f"an archive could not be created: exit {maker.exitcode}")
        return self.given / "pack.tgz"

    def command(self, kind: str, *arguments: str) -> tuple[int, dict]:
        """Runs a command and returns its exit code and output; records its time and memory."""
        # `pack verify` works on files alone and takes no data folder.
        full = self.cli.arguments(*arguments) if "install" in arguments else [
            self.cli.program, *arguments, "--config", str(self.cli.config)]
        began = time.monotonic()
        with open(self.root / "made" / "stdout", "w+b") as out, open(self.root / "made" / "stderr", "w+b") as err:
            process = subprocess.Popen([*full, "--json"], cwd=self.root / "cli", stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=err, env=self.cli.environment())
            # Ends this command only, and still collects what it used.
            ending = signal.signal(signal.SIGALRM, lambda *_: process.kill())
            signal.alarm(int(self.options.seconds) * 3)
            try:
                _, status, used = os.wait4(process.pid, 0)
            finally:
                signal.alarm(0)
                signal.signal(signal.SIGALRM, ending)
            process.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            err.seek(0)
            text, words = out.read(MIB), err.read(MIB).decode(errors="replace")
        self.note("command", kind, time.monotonic() - began)
        self.weigh("command", kind, used.ru_maxrss / 1024)
        for name in ("stdout", "stderr"):
            (self.root / "made" / name).unlink()
        if "panicked" in words:
            self.problem(f"{kind}: {' '.join(arguments[:2])} panicked: {words[:300]}")
        try:
            return process.returncode, json.loads(text)
        except ValueError:
            return process.returncode, {}

    def note(self, way: str, kind: str, seconds: float) -> None:
        self.slowest[way] = max(self.slowest[way], (seconds, kind))
        if seconds > self.options.seconds:
            self.problem(f"{kind}: the {way} took {seconds:.1f} s")

    def weigh(self, way: str, kind: str, mib: float) -> None:
        self.peaks[way] = max(self.peaks[way], (mib, kind))
        if mib > self.options.memory_mib:
            self.problem(f"{kind}: the {way} took {mib:.0f} MiB")

    def weigh_host(self, kind: str) -> None:
        """Records the host's peak since `reset_peak`. Restarts a host above the limit, so that memory it still holds is not
        attributed to the next kind."""
        peak = peak_mib(self.serving.pid)
        self.weigh("route", kind, peak)
        if peak > self.options.memory_mib:
            self.serving.stop()
            self.serve()

    def serve(self) -> None:
        self.serving = Serving(self.host, self.root / f"host-{time.monotonic_ns()}.log")
        self.netloc = urllib.parse.urlsplit(self.serving.base_url).netloc

    def call(self, method: str, path: str, body: bytes | None = None) -> tuple[int, dict]:
        connection = http.client.HTTPConnection(self.netloc, timeout=90)
        try:
            connection.request(method, path, body, {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")
        finally:
            connection.close()

    def body(self) -> bytes:
        parts = {"tarball": "tgz", "served": "json", "signature": "sig"}
        files = {name: self.given / f"pack.{suffix}" for name, suffix in parts.items()}
        fields = (b'"%s":"%s"' % (name.encode(), binascii.b2a_base64(file.read_bytes(), newline=False))
                  for name, file in files.items() if file.exists())
        return b"{" + b",".join(fields) + b"}"

    def upload(self, kind: str, body: bytes) -> tuple[int, dict]:
        began = time.monotonic()
        try:
            status, answer = self.call("POST", ROUTE, body)
        except (OSError, http.client.HTTPException, ValueError) as cause:
            self.problem(f"{kind}: the upload was answered by {cause!r}")
            return 0, {}
        self.note("route", kind, time.monotonic() - began)
        self.statuses[status] += 1
        if status >= 400 and not answer.get("error"):
            self.problem(f"{kind}: {status} without the envelope")
        return status, answer

    def reset_peak(self) -> None:
        """Resets VmHWM, so that it is the peak from now on."""
        Path(f"/proc/{self.serving.pid}/clear_refs").write_text("5")

    def nothing_installed(self, kind: str) -> None:
        if (self.root / "cli" / "data").exists():
            self.problem(f"{kind}: a refused archive left a data folder")
            shutil.rmtree(self.root / "cli" / "data")
        for path, member in ((ROUTE, "packs"), ("/v1/host/touchstone/suites", "suites")):
            status, answer = self.call("GET", path)
            if status != 200 or answer.get(member) != []:
                self.problem(f"{kind}: {path} is answered {status} with {json.dumps(answer)[:200]}")

    # The parts.

    def refused(self, kind: str, code: str, make: Make) -> None:
        file = self.write(make)
        for verb in ("verify", "install"):
            exit_code, answer = self.command(kind, "pack", verb, str(file))
            said = (answer.get("error") or {}).get("code")
            self.codes[said] += 1
            if (exit_code, said) != (1, code):
                self.problem(f"{kind}: pack {verb} exits with {exit_code} and {said}, not with 1 and {code}")
        self.reset_peak()
        body = self.body()
        status, answer = self.upload(kind, body)
        expected = {"payload_too_large"} if len(body) > MAX_BODY else {code}
        if not 400 <= status < 500 or answer.get("error") not in expected:
            self.problem(f"{kind}: the route answers {status} {answer.get('error')}, not {code}")
        if status == 201:
            self.call("DELETE", f"{ROUTE}/{NAME}/1.0.0")
        else:
            self.nothing_installed(kind)
        self.untouched(kind)
        self.weigh_host(kind)

    def together(self, kind: str, make: Make) -> None:
        self.write(make)
        self.reset_peak()
        body = self.body()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for status, answer in pool.map(lambda _: self.upload(f"{AT_ONCE} × {kind}", body), range(2 * AT_ONCE)):
                if status not in (400, 413, 429, 503):
                    self.problem(f"{AT_ONCE} × {kind}: answered {status} {answer.get('error')}")
        self.nothing_installed(f"{AT_ONCE} × {kind}")
        self.untouched(f"{AT_ONCE} × {kind}")
        self.weigh_host(f"{AT_ONCE} × {kind}")

    def installs(self, kind: str, make: Make) -> None:
        file = self.write(make)
        for verb in ("verify", "install"):
            exit_code, answer = self.command(kind, "pack", verb, str(file))
            if exit_code:
                self.problem(f"{kind}: pack {verb} of a valid pack exits with {exit_code}: {json.dumps(answer)[:300]}")
        self.reset_peak()
        body = self.body()
        status, answer = self.upload(kind, body)
        if status != 201:
            self.problem(f"{kind}: a valid pack is answered {status}: {json.dumps(answer)[:300]}")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for status, answer in pool.map(lambda _: self.upload(f"{AT_ONCE} × {kind}", body), range(AT_ONCE)):
                if status not in (201, 429, 503):
                    self.problem(f"{AT_ONCE} × {kind}: a valid pack is answered {status}: {json.dumps(answer)[:300]}")
        _, listed = self.call("GET", ROUTE)
        if [pack["name"] for pack in listed.get("packs", [])] != [NAME]:
            self.problem(f"{kind}: a valid pack is not listed after its installation")
        status, _ = self.call("DELETE", f"{ROUTE}/{NAME}/1.0.0")
        if status != 200:
            self.problem(f"{kind}: removing is answered {status}")
        shutil.rmtree(self.root / "cli" / "data", ignore_errors=True)
        self.untouched(kind)
        self.weigh_host(kind)

    def run(self, name: str) -> int:
        try:
            self.prepare()
            asked = self.options.only or ""
            hostile = {kind: how for kind, how in kinds(self.outside).items() if asked in kind}
            for kind, (code, make) in hostile.items():
                self.refused(kind, code, make)
                if self.options.verbose:
                    print(f"  {kind}", file=sys.stderr, flush=True)
            alone = dict(self.peaks)
            for kind in COSTLY:
                if kind in hostile:
                    self.together(kind, hostile[kind][1])
            sound = {kind: make for kind, make in SOUND.items() if not asked or asked in kind}
            for kind, make in sound.items():
                self.installs(kind, make)
            most = lambda facts, unit: f"{facts[0]:.1f} {unit} ({facts[1]})"  # noqa: E731
            return conclude(name, {
                "kinds of hostile archives": len(hostile),
                "commands that refused an archive": sum(self.codes.values()),
                "error codes of the commands": dict(self.codes.most_common()),
                "uploads by status": dict(sorted(self.statuses.items())),
                "valid archives installed both ways": len(sound),
                "slowest command": most(self.slowest["command"], "s"), "slowest upload": most(self.slowest["route"], "s"),
                "peak memory of a command": most(self.peaks["command"], "MiB"),
                "peak memory of the host, one upload at a time": most(alone["route"], "MiB"),
                f"peak memory of the host, {AT_ONCE} uploads at once, with valid packs": most(self.peaks["route"], "MiB"),
            }, self.violations)
        finally:
            if self.serving:
                self.serving.stop()
            shutil.rmtree(self.root, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="campaigns/hostile_archives.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="TEXT", help="only kinds whose name contains this")
    parser.add_argument("--seconds", type=float, default=10.0, help="maximum seconds for a response (default: %(default)s)")
    parser.add_argument("--memory-mib", type=float, default=300.0, help="limit of the resident memory in MiB (default: %(default)s)")
    parser.add_argument("--database-url", metavar="URL", help="PostgreSQL instead of the embedded database, for the host")
    parser.add_argument("--verbose", action="store_true", help="print each kind when it is done")
    options = parser.parse_args()
    return campaign(parser.prog, lambda: Archives(options).run(parser.prog))


if __name__ == "__main__":
    sys.exit(main())
