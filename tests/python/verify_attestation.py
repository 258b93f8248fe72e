"""Reads a bundle of attestations with the libraries of in-toto and secure-systems-lab, and holds each one to its signature.

    verify_attestation.py BUNDLE.intoto.jsonl PUBLIC.pem

Prints the statements as JSON. Every envelope is also changed in every way a signature has to notice; one that is accepted
all the same ends this with an error.
"""

import base64
import copy
import hashlib
import json
import sys

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)
from google.protobuf.json_format import ParseDict
from in_toto_attestation.predicates.provenance.v1.provenance_pb2 import Provenance
from in_toto_attestation.predicates.test_result.v0.test_result_pb2 import TestResult
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as StatementDocument
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

PREDICATES = {
    "https://in-toto.io/attestation/test-result/v0.1": TestResult,
    "https://slsa.dev/provenance/v1": Provenance,
}


def read_key(file):
    with open(file, "rb") as text:
        public = load_pem_public_key(text.read())
    encoded = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return SSlibKey.from_crypto(public, keyid=hashlib.sha256(encoded).hexdigest())


def verify(document, key):
    # The library changes what it is given.
    envelope = Envelope.from_dict(copy.deepcopy(document))
    envelope.verify([key], 1)
    return envelope


def changed(document):
    payload = base64.b64decode(document["payload"])
    said = json.loads(payload)
    said["predicateType"] += "x"
    for name, octets in {
        "a word": json.dumps(said).encode(),
        "a blank": payload + b" ",
        "a bit": bytes([payload[0] ^ 1]) + payload[1:],
    }.items():
        yield f"payload, {name}", {**document, "payload": base64.b64encode(octets).decode()}
    yield "type", {**document, "payloadType": "application/json"}
    for place in (0, 40):
        other = copy.deepcopy(document)
        signature = bytearray(base64.b64decode(other["signatures"][0]["sig"]))
        signature[place] ^= 1
        other["signatures"][0]["sig"] = base64.b64encode(signature).decode()
        yield f"signature, octet {place}", other
    yield "no signature", {**document, "signatures": []}


def read_statement(envelope):
    assert envelope.payload_type == "application/vnd.in-toto+json", envelope.payload_type
    document = json.loads(envelope.payload)
    Statement.copy_from_pb(ParseDict(document, StatementDocument())).validate()
    if predicate := PREDICATES.get(document["predicateType"]):
        # Refuses members the predicate does not have.
        ParseDict(document["predicate"], predicate())
    return document


def main():
    key = read_key(sys.argv[2])
    statements = []
    with open(sys.argv[1], encoding="utf-8") as bundle:
        for line in bundle:
            document = json.loads(line)
            statements.append(read_statement(verify(document, key)))
            for what, other in changed(document):
                try:
                    verify(other, key)
                except VerificationError:
                    continue
                sys.exit(f"accepted with a changed {what}")
    json.dump(statements, sys.stdout)


main()
