"""Reads badges with openbadgeslib and says of each whether it holds.

    verify_badges.py CASES.json

CASES is a list of {"file", "status"?, "did"?}: paths of a credential (.json) or a picture with one in it (.svg, .png), of the
issuer's status list and of its DID document. Prints a list of {"file", "valid", "said"}. Nothing is fetched: whoever opens a
socket ends this.
"""

import json
import pathlib
import socket
import sys


def no_network(*_, **__):
    sys.exit("a verifier opened a socket")


socket.socket.connect = no_network

from openbadgeslib.ob3.did import resolve_verification_method  # noqa: E402
from openbadgeslib.ob3.ldp import OB3LdpVerifier, verify_data_integrity_proof  # noqa: E402
from openbadgeslib.ob3.verifier import OB3Verifier  # noqa: E402

UNBAKE = {
    ".json": lambda octets: octets.decode(),
    ".svg": OB3Verifier.extract_token_from_svg,
    ".png": OB3Verifier.extract_token_from_png,
}


def verify(case):
    file = pathlib.Path(case["file"])
    credential = UNBAKE[file.suffix](file.read_bytes())
    at_hand = {}
    if case.get("did"):
        octets = pathlib.Path(case["did"]).read_bytes()
        host, *path = json.loads(octets)["id"].removeprefix("did:web:").split(":")
        at_hand[f"https://{host.replace('%3A', ':')}/{'/'.join(path)}/did.json"] = octets
    if case.get("status"):
        octets = pathlib.Path(case["status"]).read_bytes()
        at_hand[json.loads(octets)["id"]] = octets

    def download(url):
        return at_hand[url]

    if case.get("status"):
        # The library knows status lists as tokens only, so the proof of ours is checked by hand.
        status = json.loads(octets)
        if status["issuer"] != json.loads(credential)["issuer"]["id"]:
            raise ValueError("somebody else's status list")
        method = status["proof"]["verificationMethod"]
        verify_data_integrity_proof(status, resolve_verification_method(method, download))
    verifier = OB3LdpVerifier(None)
    verifier.verify(credential, check_status=bool(case.get("status")), download=download, verify_status_list=False)


def main():
    results = []
    for case in json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")):
        try:
            verify(case)
            results.append({"file": case["file"], "valid": True, "said": ""})
        except Exception as refusal:  # whatever it is, the badge was not accepted
            results.append({"file": case["file"], "valid": False, "said": f"{type(refusal).__name__}: {refusal}"})
    json.dump(results, sys.stdout)


main()
