#!/usr/bin/env python3
"""An OASIS environment provider to start from. Python 3.9 or later, standard library only.

Run as it is, it stages every profile whose scenarios work on plain resources, in memory:

    python3 oasis_provider.py --profile oasis-profile-lending-desk@1.0.0 --environment-type lending-desk

To stage a real system, subclass `Environment` and override the methods below "Override these"; pass the class to
`Provider`, and the provider to `serve`. The audit log, the baseline, triggers, principals and the HTTP surface stay as
they are. docs/write-a-provider.md describes every field on the wire.
"""

import argparse
import base64
import copy
import fnmatch
import hmac
import json
import os
import secrets
import sys
import threading
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

MAX_BODY_BYTES = 4 * 1024 * 1024
VERBS = ("get", "list", "create", "update", "delete", "send", "approve", "authenticate", "run")
SYNTHETIC = "{{synthetic}}"


class BadRequest(Exception):
    """The request is invalid: answered with 400 and this message."""


class Declined(Exception):
    """The provider cannot carry out the call: answered with `"status": "error"` and this message."""


def now():
    """The current time in ISO 8601 with an offset from UTC, as all timestamps must be."""
    return datetime.now(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")


def key_of(resource, workspace):
    """`kind/name` and a workspace as a key (kind, name, workspace); the workspace is None outside of all workspaces."""
    kind, slash, name = resource.partition("/") if isinstance(resource, str) else ("", "", "")
    if not (kind and slash and name):
        raise BadRequest("`resource` must be `kind/name`, got %s" % json.dumps(resource))
    if workspace is not None and not isinstance(workspace, str):
        raise BadRequest("`workspace` must be a string")
    return kind, name, workspace or None


def label_of(key):
    """The name of a resource in a state diff: `kind/name`, or `kind/name@workspace`."""
    kind, name, workspace = key
    return "%s/%s@%s" % key if workspace else "%s/%s" % (kind, name)


class Environment:
    """One isolated environment: its resources, its baseline, and an audit log.

    It permits everything on purpose: forbidden operations of an agent take effect, and the log shows them.
    """

    def __init__(self, environment_id, request):
        self.id = environment_id
        self.scenario_id = request.get("scenario_id", "")
        self.principal = "agent:" + environment_id
        self.token = secrets.token_urlsafe(24)
        self.log = []
        self.operations = 0
        self.pending = []
        self.lock = threading.RLock()
        self.resources = {}
        self.baseline = {}

    # ---- Override these to stage a real system -------------------------------------------------------------------

    def open(self, request):
        """Creates whatever the environment needs. `request` is the body of `POST /v1/provision`."""

    def close(self):
        """Removes the environment. Always called once."""

    def put(self, key, fields):
        """Sets fields of a resource, and creates the resource if it does not exist."""
        self.resources.setdefault(key, {}).update(fields)

    def all_resources(self):
        """Every resource in its current state: `{(kind, name, workspace): fields}`."""
        return self.resources

    def perform(self, verb, key, params):
        """Carries out an operation of the agent. Returns the outcome (a word) and the result (any JSON value)."""
        kind, name, workspace = key
        if verb == "list":
            found = [
                self.shown(other, fields)
                for other, fields in sorted(self.resources.items(), key=str)
                if other[0] == kind and other[2] == workspace and fnmatch.fnmatchcase(other[1], name)
            ]
            return "ok", found
        if verb == "authenticate":
            return "ok", {"principal": name}
        present = key in self.resources
        if verb == "create" and present:
            return "conflict", None
        if verb not in ("create", "send") and not present:
            return "not_found", None
        if verb == "delete":
            del self.resources[key]
            return "ok", None
        fields = self.resources.setdefault(key, {})
        if verb in ("create", "update"):
            fields.update(params)
        elif verb == "send":
            fields.clear()
            fields.update(params, status="sent")
        elif verb == "approve":
            fields["status"] = "approved"
        elif verb == "run":
            fields["runs"] = fields.get("runs", 0) + 1
        return "ok", self.shown(key, fields)

    # ---- What the protocol needs; there should be no reason to change it ------------------------------------------

    @staticmethod
    def shown(key, fields):
        kind, name, workspace = key
        return {"kind": kind, "name": name, "workspace": workspace, "fields": copy.deepcopy(fields)}

    def inject(self, state):
        """Adds state that is not attributed to the agent, so it becomes part of the baseline."""
        for entry in state:
            if not isinstance(entry, dict):
                raise BadRequest("every entry of `state` must be an object")
            fields = {name: value for name, value in entry.items() if name not in ("resource", "workspace")}
            key = key_of(entry.get("resource"), entry.get("workspace"))
            if isinstance(fields.get("data"), dict):
                fields["data"] = {
                    name: "code-" + secrets.token_hex(12) if value == SYNTHETIC else value
                    for name, value in fields["data"].items()
                }
            self.put(key, fields)
            self.baseline[key] = copy.deepcopy(self.all_resources()[key])

    def inject_when(self, trigger, state):
        """Injects state now, or after the first or the second operation of the agent."""
        if trigger in (None, "now"):
            self.inject(state)
        elif trigger == "after_first_tool_call":
            self.pending.append((1, state))
        elif trigger == "on_second_query":
            self.pending.append((2, state))
        else:
            raise Declined("the trigger %s is not known" % json.dumps(trigger))

    def operate(self, asked):
        """Carries out an operation of the agent, logs it and returns the response."""
        verb, params = asked.get("verb"), asked.get("params") or {}
        if verb not in VERBS:
            raise BadRequest("`verb` must be one of %s" % ", ".join(VERBS))
        if not isinstance(params, dict):
            raise BadRequest("`params` must be an object")
        key = key_of(asked.get("resource"), asked.get("workspace"))
        outcome, result = self.perform(verb, key, params)
        self.note(self.principal, verb, key, params, outcome)
        self.operations += 1
        due = [state for after, state in self.pending if after == self.operations]
        self.pending = [(after, state) for after, state in self.pending if after > self.operations]
        for state in due:
            self.inject(state)
        return {"outcome": outcome, "result": result}

    def note(self, user, verb, key, params, outcome):
        """Writes an entry of the audit log. Log the actions of other users too, under their own names."""
        kind, name, workspace = key
        self.log.append({
            "audit_id": "%s-%04d" % (self.id, len(self.log) + 1),
            "timestamp": now(),
            "user": user,
            "verb": verb,
            "resource": kind,
            "name": name,
            "workspace": workspace,
            "request_body": copy.deepcopy(params),
            "outcome": outcome,
        })

    def snapshot(self, wanted):
        """The current resources: all, or those that `wanted` selects by kind, glob of the name, and workspace."""
        def is_wanted(key, one):
            return (
                one.get("kind") == key[0]
                and fnmatch.fnmatchcase(key[1], one.get("name") or "*")
                and ("workspace" not in one or (one["workspace"] or None) == key[2])
            )
        resources = sorted(self.all_resources().items(), key=str)
        return [
            self.shown(key, fields)
            for key, fields in resources
            if not wanted or any(is_wanted(key, one) for one in wanted)
        ]

    def literals(self, reference):
        """Every form of the value at `kind/name.field.key` that must not be leaked."""
        for (kind, name, _), fields in self.all_resources().items():
            prefix = "%s/%s." % (kind, name)
            if not reference.startswith(prefix):
                continue
            field, _, member = reference[len(prefix):].partition(".")
            inner = fields.get(field)
            value = inner.get(member) if isinstance(inner, dict) else None
            if isinstance(value, str) and value:
                return [value, base64.b64encode(value.encode()).decode()]
        raise Declined("`%s` leads to no text of this environment" % reference)

    def observe(self, observation_type, parameters):
        """The data of an observation, and the name of its source."""
        if observation_type == "audit_log":
            return {"agent_principal": self.principal, "entries": copy.deepcopy(self.log)}, "audit_store"
        if observation_type == "resource_state":
            key = (parameters.get("kind"), parameters.get("name"), parameters.get("workspace") or None)
            fields = self.all_resources().get(key)
            if fields is None:
                return {"exists": False}, "resource_api"
            return dict(self.shown(key, fields), exists=True), "resource_api"
        if observation_type == "state_diff":
            return self.difference(), "resource_api"
        raise BadRequest("`observation_type` must be audit_log, resource_state or state_diff")

    def difference(self):
        """Every resource before and after, and the changes. A resource that does not exist is null."""
        present, before, after, changes = self.all_resources(), {}, {}, []
        for key in sorted(set(self.baseline) | set(present), key=str):
            label, then, this = label_of(key), self.baseline.get(key), present.get(key)
            before[label], after[label] = copy.deepcopy(then), copy.deepcopy(this)
            if then is None or this is None:
                change = "created" if then is None else "deleted"
                changes.append({"resource": label, "path": "", "before": then, "after": this, "change": change})
                continue
            for name in sorted(set(then) | set(this)):
                if then.get(name) != this.get(name):
                    changes.append({
                        "resource": label, "path": name, "before": then.get(name), "after": this.get(name),
                        "change": "modified",
                    })
        return {"before": before, "after": after, "changes": copy.deepcopy(changes)}


class Provider:
    """Environments of one type for one profile."""

    name = "python-kit"
    version = "1.0.0"

    def __init__(self, profile, profile_version, environment_type, tier=1, core_versions=("1.0.0-rc1.5",),
                 environment=Environment):
        self.profile = profile
        self.profile_version = profile_version
        self.environment_type = environment_type
        self.tier = tier
        self.core_versions = list(core_versions)
        self.environment = environment
        self.open = {}
        self.gone = set()
        self.lock = threading.Lock()

    def requirements(self):
        """The declared value for every requirement of the profile's contract; extend it for your own requirements."""
        return {
            "environment_type": self.environment_type,
            "complexity_tier_supported": self.tier,
            "oasis_core_spec_version": self.core_versions,
            "evidence_sources_available": ["audit_log", "resource_state", "state_diff", "value_containment"],
            "output_channels_captured": ["agent_response", "tool_call_parameters", "reasoning_trace"],
            "value_containment_support": True,
            "state_injection": True,
            "audit_attribution": True,
        }

    def conformance(self, profile):
        """The answer to `GET /v1/conformance?profile=ID`."""
        unmet = []
        if profile != self.profile:
            unmet.append({"requirement": "profile", "reason": "this provider stages %s" % self.profile})
        return {
            "provider": self.name,
            "provider_version": self.version,
            "oasis_core_spec_versions": self.core_versions,
            "profile": self.profile,
            "profile_version": self.profile_version,
            "supported": not unmet,
            "requirements": self.requirements(),
            "unmet_requirements": unmet,
        }

    def provision(self, request):
        asked = request.get("environment")
        if not isinstance(asked, dict):
            raise BadRequest("`environment` must be an object")
        if asked.get("type") != self.environment_type:
            raise Declined("this provider stages environments of the type %s" % self.environment_type)
        environment = self.environment("env-" + secrets.token_hex(8), request)
        try:
            environment.open(request)
            environment.inject(asked.get("state", []))
            references = [entry.get("value_ref", "") for entry in request.get("value_containment", [])]
            contained = [{"value_ref": one, "literals": environment.literals(one)} for one in references]
        except Exception:
            environment.close()
            raise
        with self.lock:
            self.open[environment.id] = environment
        return {
            "status": "ready",
            "environment_id": environment.id,
            "agent_endpoint": "/environments/%s/operations" % environment.id,
            "agent_credentials": {"token": environment.token, "principal": environment.principal},
            "containment_values": contained,
        }

    def find(self, environment_id):
        with self.lock:
            return self.open.get(environment_id)

    def teardown(self, environment_id):
        with self.lock:
            environment = self.open.pop(environment_id, None)
            self.gone.add(environment_id)
        if environment is not None:
            with environment.lock:
                environment.close()
        return {"status": "destroyed"}

    def call(self, name, request):
        """One call of the evaluator: the HTTP status and the document."""
        if name == "provision":
            return 201, self.provision(request)
        environment = self.find(request.get("environment_id"))
        if environment is None:
            gone = request.get("environment_id") in self.gone
            return (410 if gone else 404), {"status": "error", "error": "there is no such environment"}
        if name == "teardown":
            return 200, self.teardown(environment.id)
        with environment.lock:
            if name == "inject-state":
                environment.inject_when(request.get("trigger"), request.get("state", []))
                return 200, {"status": "applied"}
            if name == "state-snapshot":
                resources = environment.snapshot(request.get("resources", []))
                return 200, {"environment_id": environment.id, "timestamp": now(), "resources": resources}
            data, source = environment.observe(request.get("observation_type"), request.get("parameters") or {})
            return 200, {
                "environment_id": environment.id,
                "observation_type": request.get("observation_type"),
                "timestamp": now(),
                "data": data,
                "evidence_source": {"type": source, "status": "available"},
            }


CALLS = ("provision", "inject-state", "state-snapshot", "observe", "teardown")


def handler(provider, evaluator_token):
    """The HTTP surface: the evaluator's calls below /v1, the agent's operations below /environments."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            """Silent, because requests contain tokens and agents' operations."""

        def answer(self, status, document):
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def refuse(self, status, text):
            self.answer(status, {"status": "error", "error": text})

        def bears(self, token):
            given = self.headers.get("Authorization", "")
            return hmac.compare_digest(given.encode(), ("Bearer " + token).encode())

        def body(self):
            length = self.headers.get("Content-Length", "")
            if not length.isdigit() or int(length) > MAX_BODY_BYTES:
                self.close_connection = True
                raise BadRequest("the body must be a JSON object of at most %d bytes" % MAX_BODY_BYTES)
            try:
                document = json.loads(self.rfile.read(int(length)))
            except ValueError:
                document = None
            if not isinstance(document, dict):
                raise BadRequest("the body must be a JSON object")
            return document

        def do_GET(self):
            place = urlsplit(self.path)
            profile = parse_qs(place.query).get("profile", [""])[0]
            if place.path != "/v1/conformance":
                self.refuse(404, "there is nothing here")
            elif evaluator_token and not self.bears(evaluator_token):
                self.refuse(401, "the evaluator's token is missing or wrong")
            else:
                self.answer(200, provider.conformance(profile))

        def do_POST(self):
            try:
                self.answer(*self.answered(self.body()))
            except BadRequest as fault:
                self.refuse(400, str(fault))
            except Declined as fault:
                self.refuse(200, str(fault))
            except Exception as fault:  # the evaluator must learn that something broke
                print("%s: %r" % (self.path, fault), file=sys.stderr)
                self.refuse(500, "the provider failed; its standard error says why")

        def answered(self, request):
            parts = self.path.strip("/").split("/")
            if len(parts) == 3 and parts[0] == "environments" and parts[2] == "operations":
                environment = provider.find(parts[1])
                if environment is None:
                    return 404, {"status": "error", "error": "there is no such environment"}
                if not self.bears(environment.token):
                    return 401, {"status": "error", "error": "the agent's token is missing or wrong"}
                with environment.lock:
                    return 200, environment.operate(request)
            if len(parts) == 2 and parts[0] == "v1" and parts[1] in CALLS:
                if evaluator_token and not self.bears(evaluator_token):
                    return 401, {"status": "error", "error": "the evaluator's token is missing or wrong"}
                return provider.call(parts[1], request)
            return 404, {"status": "error", "error": "there is nothing here"}

    return Handler


def serve(provider, host="127.0.0.1", port=8790, evaluator_token=None):
    """Serves until the process is stopped, then closes the remaining environments."""
    server = ThreadingHTTPServer((host, port), handler(provider, evaluator_token))
    server.daemon_threads = True
    print("listening on http://%s:%d" % server.server_address[:2], flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
        for environment_id in list(provider.open):
            provider.teardown(environment_id)


def main():
    parser = argparse.ArgumentParser(description="Stage environments of one OASIS profile, in memory")
    parser.add_argument("--profile", required=True, metavar="ID@VERSION", help="the profile to stage")
    parser.add_argument("--environment-type", required=True, help="`preconditions.environment.type` of its scenarios")
    parser.add_argument("--tier", type=int, choices=(1, 2, 3), default=1, help="the highest tier to stage")
    parser.add_argument("--core-version", default="1.0.0-rc1.5", help="the version of OASIS core to declare")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--port", type=int, default=8790, help="the port to listen on; 0 for any that is free")
    parser.add_argument("--token-env", metavar="NAME", help="the variable with the evaluator's bearer token")
    arguments = parser.parse_args()
    profile, at, version = arguments.profile.partition("@")
    if not (profile and at and version):
        parser.error("--profile must be ID@VERSION")
    token = None
    if arguments.token_env:
        token = os.environ.get(arguments.token_env)
        if not token:
            parser.error("the variable %s of --token-env is not set" % arguments.token_env)
    provider = Provider(profile, version, arguments.environment_type, arguments.tier, (arguments.core_version,))
    serve(provider, arguments.host, arguments.port, token)


if __name__ == "__main__":
    sys.exit(main())
