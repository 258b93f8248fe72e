"""Feeds inputs, one JSON document a line, to the AAAF reference scorer and writes its answers, one a line.

The reference is no part of this repository: the folder that holds its reference.py is the only argument.
"""
import json
import sys
from fractions import Fraction

sys.path.insert(0, sys.argv[1])
import reference  # noqa: E402

for line in sys.stdin:
    asked = json.loads(line, parse_float=Fraction)
    print(json.dumps(reference.plain(reference.KINDS[asked["kind"]](asked["input"]))))
