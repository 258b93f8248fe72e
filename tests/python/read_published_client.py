"""Reads one run with the published client of OpenWOP 1 and prints its facts as JSON: `read_published_client.py RUN`.

The environment has BASE_URL and API_KEY. The client of OpenWOP 2 has the same module name, so each client runs in a process of its own.
"""

import dataclasses
import importlib.metadata
import json
import os
import sys

from openwop_client import OpenwopClient

run = sys.argv[1]
client = OpenwopClient(os.environ["BASE_URL"], os.environ["API_KEY"], timeout=30)
events = list(client.runs_events(run, stream_mode="debug"))
summary = client.runs_eval_summary(run)
json.dump({
    "version": importlib.metadata.version("openwop-client"),
    "events": [dataclasses.asdict(event) for event in events],
    "status": client.runs_get(run).status,
    "summary": summary and dataclasses.asdict(summary),
}, sys.stdout)
