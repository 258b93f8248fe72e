"""Drives a host with the published client of OpenWOP 2, `openwop-client` 2.7.0, while the client of OpenWOP 1 reads the same runs.

The environment has BASE_URL, API_KEY, AGENT_ID, SUITE_REF, TENANT and V1_PYTHON, an interpreter with `openwop-client` 1.8.0. The host has the
fixture workflows. The suite has 20 tasks, of which every fourth fails; a pass score of 0.75 is just met.
"""

import base64
import http.server
import importlib.metadata
import json
import os
import secrets
import subprocess
import threading
import time
from pathlib import Path

from openwop_client.errors import WopError
from openwop_client.types import (
    AgentDeployment,
    AgentDeploymentTransition,
    BulkCancelRunsRequest,
    CancelRunRequest,
    CreateAnnotationRequest,
    CreateRunRequest,
    ForkRunRequest,
    PauseRunRequest,
    RegisterWebhookRequest,
    RenderPromptRequest,
    ResolveInterruptRequest,
    ResumeRunRequest,
    RotateWebhookSecretRequest,
    RunConfigurable,
)
from openwop_client.webhook_helpers import verify_webhook_signature

from recorded_client import RecordedClient, undriven

TASKS, WRONG_EVERY = 20, 4
BASE_URL, API_KEY = os.environ["BASE_URL"], os.environ["API_KEY"]
AGENT_ID, SUITE_REF, TENANT = os.environ["AGENT_ID"], os.environ["SUITE_REF"], os.environ["TENANT"]
SUITE_ID, SUITE_VERSION = SUITE_REF.split("@")
UNKNOWN_RUN = f"{TENANT}/run_unknown_00000000"
# What discovery must not list, and the methods that then get 404.
NOT_OFFERED = {
    "content": {
        "content_list_pages": (), "content_get_page": ("home",), "content_create_page": ({},), "content_delete_page": ("p",),
        "content_put_section": ("p", "s", {}), "content_get_settings": (), "content_put_settings": ({},),
    },
    "triggerBridge": {"create_trigger_subscription": ({},), "trigger_dead_letters": ("t",)},
    "agents.roster": {"agents_list_roster": (), "agents_get_roster_entry": ("r",)},
    "agents.orgChart": {"agents_get_org_chart": (), "agents_get_org_chart_department": ("d",)},
    "agents.proposals": {
        "proposals_list": (), "proposals_submit": ({},), "proposals_get": ("p",), "proposals_revise": ("p", {}), "proposals_archive": ("p",),
        "proposals_apply": ("p",), "proposals_reject": ("p",),
    },
    "connections": {"connection_providers_list": (), "connection_providers_resolve": ("p",)},
    "toolCatalog": {"tools_list": (), "tools_get": ("t",), "tools_list_compact": ()},
    "prompts": {
        "prompts_list": (), "prompts_get": ("p",), "prompts_create": ({},), "prompts_update": ("p", {}), "prompts_delete": ("p",),
        "prompts_render": (RenderPromptRequest("prompt:p", {}),),
    },
    "multiAgent": {"runs_ancestry": (UNKNOWN_RUN,)},
    "compensation": {"runs_compensation": (UNKNOWN_RUN,)},
    "hostEvents": {"host_emit_test_event": ("durable",)},
    "uiPlugins": {"host_ui_plugin_frame": ("p", "q"), "host_dispatch_ui_plugin_request": ("p", "q", {})},
}
# Names of properties, and a stream that is not offered and reconnects for ever.
NOT_CALLED = {"protocol_version", "client_version", "host_events"}


def equal(found, wanted, what):
    assert found == wanted, f"{what}: found {found!r}, wanted {wanted!r}"


def refused(status, code, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except WopError as refusal:
        equal((refusal.status, refusal.envelope and refusal.envelope.error), (status, code), f"refusal of {call.__name__}")
        return refusal.envelope
    raise AssertionError(f"{call.__name__} was not refused")


def a_key():
    return secrets.token_urlsafe(24)


def evaluation(**more):
    return CreateRunRequest(mode="eval", evalSuiteRef=SUITE_REF, agentId=AGENT_ID, **more)


def under_v1(run):
    """What the client of OpenWOP 1 reads of the run, as a process that has been started."""
    script = Path(__file__).with_name("read_published_client.py")
    return subprocess.Popen(
        [os.environ["V1_PYTHON"], "-B", script, run.split("/")[1]], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": ""})


def read(process):
    said, _ = process.communicate(timeout=60)
    equal(process.returncode, 0, "exit code of the client of OpenWOP 1")
    facts = json.loads(said)
    equal(facts["version"], "1.8.0", "version of the client of OpenWOP 1")
    return facts


def same_facts(ours, theirs, first_difference):
    """The events of one run under both majors."""
    equal([one.eventId for one in ours], [one["eventId"] for one in theirs], "ids of events")
    equal([one.timestamp for one in ours], [one["timestamp"] for one in theirs], "timestamps")
    equal([one.sequence + first_difference for one in ours], [one["sequence"] for one in theirs], "sequences")
    equal([one.payload for one in ours if one.type == "eval.scored"], [one["payload"] for one in theirs if one["type"] == "eval.scored"], "scores")
    equal(len(ours), len(theirs), "number of events")


equal(importlib.metadata.version("openwop-client"), "2.7.0", "version of the client")
client = RecordedClient(BASE_URL, API_KEY, timeout=30)

# Discovery and inventory.
capabilities = client.discovery_capabilities()
equal((capabilities.protocolVersions, capabilities.preferredVersion), (["1.0", "2.0"], "1.0"), "versions")
assert "/runs" in client.discovery_openapi()["paths"], "openapi.json lacks /runs"
equal([agent.agentId for agent in client.agents_list()], [AGENT_ID], "inventory")
equal(client.agents_get(AGENT_ID).agentId, AGENT_ID, "inventory entry")
equal(client.agents_get("private.touchstone.unknown.default"), None, "an agent that does not exist")

# Create, repeated with the same key, and read while it runs: by both clients at the same time.
key = a_key()
request = evaluation(tags=["driven"], metadata={"by": "the published client"}, evalModes=["golden"])
created = client.runs_create(request, idempotency_key=key)
equal(client.runs_create(request, idempotency_key=key).runId, created.runId, "run of a repeated create")
refused(409, "idempotency_key_mismatch", client.runs_create, evaluation(), idempotency_key=key)
refused(400, "idempotency_key_invalid", client.runs_create, evaluation(), idempotency_key="idem-1")
run = created.runId
assert run.startswith(f"{TENANT}/run_"), run
assert created.eventsUrl.endswith(f"/runs/{run.replace('/', '~2F')}/events"), created.eventsUrl
assert created.status in ("pending", "running"), created.status
reader = under_v1(run)
streamed = list(client.runs_events(run, stream_mode="debug"))
equal([event.sequence for event in streamed], list(range(len(streamed))), "sequences of the stream")
equal((streamed[0].type, streamed[-1].type), ("run.started", "run.completed"), "first and last event")
scored = [event for event in streamed if event.type == "eval.scored"]
equal(len(scored), TASKS, "scored tasks")
seen = read(reader)
same_facts(streamed, seen["events"], 0)

# Poll: the same log, at once, in part, and batched.
polled = client.runs_poll_events(run, timeout_seconds=1)
equal(polled.events, streamed, "polled against streamed")
equal((polled.runId, polled.lastSequence, polled.status, polled.isTerminal), (run, len(streamed) - 1, "completed", True), "poll")
middle = streamed[len(streamed) // 2]
equal(client.runs_poll_events(run, after_sequence=middle.sequence, timeout_seconds=1).events, streamed[middle.sequence + 1:], "polled from the middle")
equal(client.runs_poll_events(run, after_sequence=polled.lastSequence, timeout_seconds=1).events, [], "polled at the end")
resumed = list(client.runs_events(run, stream_mode="debug", last_event_id=str(middle.sequence)))
equal(resumed, streamed[middle.sequence + 1:], "resumed from the middle")
equal(list(client.runs_events(run, stream_mode="debug", buffer_ms=200)), streamed, "batched stream")
updates = list(client.runs_events(run))
equal([e for e in updates if e.type == "eval.scored"], scored, "eval.scored in updates")

# Snapshot, list and summary.
snapshot = client.runs_get(run)
equal((snapshot.runId, snapshot.status, snapshot.workflowId), (run, "completed", f"eval:{SUITE_ID}:{SUITE_VERSION}"), "snapshot")
equal((snapshot.eventLogSchemaVersion, snapshot.owner.subject.kind), (3, "user"), "era and owner")
equal(streamed[0].payload["owner"]["subject"]["subjectId"], snapshot.owner.subject.subjectId, "owner in the log")
summary = client.runs_eval_summary(run)
equal((summary.suiteId, summary.suiteVersion), (SUITE_ID, SUITE_VERSION), "suite")
equal((summary.taskCount, summary.passedCount), (TASKS, TASKS - TASKS // WRONG_EVERY), "counts")
equal((summary.aggregateScore, summary.passed), (0.75, True), "verdict")
equal((seen["status"], seen["summary"]["aggregateScore"], seen["summary"]["passed"]), ("completed", 0.75, True), "verdict under major 1")
equal([(task.taskId, task.score) for task in summary.tasks], [(task["taskId"], task["score"]) for task in seen["summary"]["tasks"]], "tasks under both majors")
page = client.runs_list(limit=1, status="completed")
equal([one.runId for one in page.runs], [run], "list of runs")
refused(400, "validation_error", client.runs_list, cursor="made-up")

# A regression run against it, slow enough to be cancelled before it ends.
again = client.runs_create(evaluation(
    evalModes=["regression"], baselineRunId=run, configurable=RunConfigurable(extensions={"touchstone": {"evalConcurrency": 1}})))
assert client.runs_cancel(again.runId, CancelRunRequest(reason="seen enough")).status in ("cancelling", "cancelled")
last = list(client.runs_events(again.runId))[-1]
equal((last.type, last.payload["reason"]), ("run.cancelled", "seen enough"), "last event of the cancelled run")
refused(409, "run_terminal", client.runs_cancel, again.runId)
refused(400, "validation_error", client.runs_create, evaluation(evalModes=["regression"], baselineRunId=UNKNOWN_RUN))
refused(400, "validation_error", client.runs_create, evaluation(evalModes=["regression"], baselineRunId="globex/run_0000000000000000"))
refused(400, "validation_error", client.runs_create, evaluation(fixtureRuns={"colour-1": UNKNOWN_RUN}))


# Webhooks: a plain one, and one with Standard Webhooks whose secret is rotated.
class Endpoint(http.server.BaseHTTPRequestHandler):
    got: list = []

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["content-length"]))
        self.got.append((self.path, {name.lower(): value for name, value in self.headers.items()}, raw))
        answer = json.dumps({"challenge": json.loads(raw).get("challenge")}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def whsec():
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


endpoint = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
threading.Thread(target=endpoint.serve_forever, daemon=True).start()
at = f"http://127.0.0.1:{endpoint.server_port}"
plain = client.webhooks_register(RegisterWebhookRequest(url=f"{at}/plain", events=["run.completed"]))
equal((plain.url, plain.eventTypes, len(plain.secret) >= 32), (f"{at}/plain", ["run.completed"], True), "subscription")
assert plain.subscriptionId.startswith(f"{TENANT}/"), plain.subscriptionId
secret = whsec()
standard = client._request_json("POST", "/webhooks", body={
    "url": f"{at}/standard", "events": ["run.completed"], "secret": secret, "signatureAlgorithms": ["v1", "standard-webhooks-1"]})
rotated = client.webhooks_rotate_secret(standard["webhookId"], RotateWebhookSecretRequest(secret=whsec()))
assert rotated.rotatedAt < rotated.previousSecretExpiresAt, rotated
told = client.runs_create(evaluation()).runId
list(client.runs_events(told))
ends = time.monotonic() + 20
while time.monotonic() < ends and len({path for path, _, raw in Endpoint.got if b"challenge" not in raw}) < 2:
    time.sleep(0.05)
delivered = {path: (headers, raw) for path, headers, raw in Endpoint.got if b"challenge" not in raw}
equal(sorted(delivered), ["/plain", "/standard"], "deliveries")
for path, signed_with in (("/plain", plain.secret), ("/standard", secret)):
    headers, raw = delivered[path]
    outcome = verify_webhook_signature(signed_with, headers["openwop-signature"], headers["openwop-timestamp"], raw)
    equal((outcome.valid, json.loads(raw)["runId"], json.loads(raw)["event"]["type"]), (True, told, "run.completed"), f"delivery to {path}")
    for name in ("webhook-id", "event-type", "timestamp", "signature", "signature-algorithm"):
        equal(headers[f"openwop-{name}"], headers[f"x-openwop-{name}"], f"both headers of {name}")
equal(client.webhooks_dead_letters(plain.subscriptionId).deliveries, [], "dead letters")
client.webhooks_unregister(plain.subscriptionId)
client.webhooks_unregister(standard["webhookId"])
refused(404, "not_found", client.webhooks_unregister, plain.subscriptionId)
refused(400, "webhook_url_rejected", client.webhooks_register, RegisterWebhookRequest(url="https://10.0.0.1/", events=["run.completed"]))
refused(400, "validation_error", client.webhooks_register, RegisterWebhookRequest(url=f"{at}/old", events=["agent.toolCalled"]))

# Replay and branch, and what two runs did differently.
replay = client.runs_fork(run, ForkRunRequest(fromSeq=0, mode="replay"))
equal((replay.sourceRunId, replay.mode), (run, "replay"), "replay")
repeated = list(client.runs_events(replay.runId, stream_mode="debug"))
equal([(e.type, e.payload) for e in repeated if e.type == "eval.scored"], [(e.type, e.payload) for e in scored], "facts of the replay")
equal(client.runs_eval_summary(replay.runId), summary, "summary of the replay")
same = client.runs_diff(run, replay.runId)
equal((same.a, same.b, same.divergedAtSeq, same.eventDiffs), (run, replay.runId, None, []), "diff of a run and its replay")
branch = client.runs_fork(run, ForkRunRequest(fromSeq=scored[-1].sequence, mode="branch", runOptionsOverlay={"tags": ["branched"]}))
equal(list(client.runs_events(branch.runId))[-1].type, "run.completed", "last event of the branch")
refused(422, "fork_point_invalid", client.runs_fork, run, ForkRunRequest(fromSeq=len(streamed) + 1, mode="replay"))
equal(client.runs_effects(run).effects, [], "effects of a run without tools that have any")
seams = client.host_effect_seams()
assert any(seam.kind == "provider-sdk" and seam.guarded for seam in seams.seams), seams

# A run that the client of OpenWOP 1 would have made, read by both.
made = client._request_json("POST", "/v1/runs", body={"mode": "eval", "evalSuiteRef": SUITE_REF, "agentId": AGENT_ID},
                            headers={"OpenWOP-Version": "1.0"})["runId"]
assert "/" not in made, made
old_form = f"{TENANT}/{made}"
ours = list(client.runs_events(old_form, stream_mode="debug"))
theirs = read(under_v1(old_form))
same_facts(ours, theirs["events"], 1)
equal((ours[0].sequence, theirs["events"][0]["sequence"]), (0, 1), "first sequences of a run of major 1")
equal(client.runs_eval_summary(old_form).aggregateScore, theirs["summary"]["aggregateScore"], "score of a run of major 1")

# Annotations.
key = a_key()
correction = CreateAnnotationRequest(
    signal={"kind": "correction", "correction": "It is blue."}, target={"eventId": scored[0].eventId}, note="I looked")
said = client.create_annotation(run, correction, idempotency_key=key)
equal(client.create_annotation(run, correction, idempotency_key=key), said, "repeated annotation")
equal(client.list_annotations(run), [said], "annotations")
equal(client.list_annotations(replay.runId), [], "annotations of a fork")

# Unknown runs, and ids of another tenant.
for absent in (client.runs_eval_summary, client.list_annotations, client.runs_effects):
    equal(absent(UNKNOWN_RUN), None, absent.__name__)
refused(404, "not_found", client.runs_get, UNKNOWN_RUN)
refused(403, "id_tenant_mismatch", client.runs_get, "globex/run_0000000000000000")
equal(client.runs_diff(run, UNKNOWN_RUN), None, "diff against no run")
equal(client.runs_get_artifact(run, "artifact-1"), None, "artifact, which no run leaves")
stranger = RecordedClient(BASE_URL, "wrong")
refused(401, "unauthenticated", stranger.runs_get, run)


# Workflows: paused, resumed, and cancelled together.
def reached(run_id, event):
    return next(found for found in client.runs_events(run_id, stream_mode="debug") if found.type == event)


def started(workflow, event, **inputs):
    run_id = client.runs_create(CreateRunRequest(workflowId=workflow, inputs=inputs)).runId
    reached(run_id, event)
    return run_id


equal(client.workflows_get("conformance-cancellable")["id"], "conformance-cancellable", "workflow")
slow = started("conformance-cancellable", "node.started", delayMs=60_000)
key = a_key()
pause = PauseRunRequest(reason="lunch", drainPolicy="immediate")
paused = client.runs_pause(slow, pause, idempotency_key=key)
equal((paused.runId, paused.status), (slow, "paused"), "pause")
equal(client.runs_pause(slow, pause, idempotency_key=key), paused, "repeated pause")
equal(refused(409, "run_state_conflict", client.runs_pause, slow).details["runStatus"], "paused", "status of a run that is paused twice")
equal(client.runs_resume(slow, ResumeRunRequest(reason="back")).status, "running", "resume")
short = started("conformance-delay", "run.started", delayMs=1)
reached(short, "run.completed")
refused(409, "run_terminal", client.runs_pause, short)
asked = started("conformance-approval", "approval.requested")
together = client.runs_bulk_cancel(BulkCancelRunsRequest(runIds=[slow, short, UNKNOWN_RUN, "globex/run_0000000000000000", asked], reason="enough")).results
equal([one.ok for one in together], [True, False, False, False, True], "results of a bulk cancel")
equal([one.error["error"] for one in together if not one.ok], ["run_terminal", "not_found", "id_tenant_mismatch"], "refusals in a bulk cancel")
for one in (slow, asked):
    equal(reached(one, "run.cancelled").payload["reason"], "enough", "reason of a bulk cancel")

# Interrupts: answered by their node with a key, and by a token with none.
accept, blue = ResolveInterruptRequest({"action": "accept"}), ResolveInterruptRequest({"answers": {"q1": "blue"}})
asked = started("conformance-approval", "approval.requested")
equal(client.runs_get(asked).status, "waiting-approval", "status of a run that asks")
refused(404, "not_found", client.interrupts_resolve_by_run, asked, "no-such-node", accept)
refused(400, "validation_error", client.interrupts_resolve_by_run, asked, "gate", ResolveInterruptRequest({"action": "maybe"}))
equal(client.interrupts_resolve_by_run(asked, "gate", accept).nodeId, "gate", "answer by node")
resolved = reached(asked, "interrupt.resolved")
equal((resolved.payload["action"], resolved.payload["decision"]), ("accept", "granted"), "what was answered")
reached(asked, "run.completed")
refused(409, "interrupt_already_resolved", client.interrupts_resolve_by_run, asked, "gate", accept)
asked = started("conformance-clarification", "clarification.requested")
listed = client._request_json("GET", f"/v1/host/touchstone/runs/{asked.split('/')[1]}/interrupts")["interrupts"]
token = listed[0]["token"]
equal(stranger.interrupts_inspect_by_token(token).kind, "clarification", "what a token shows")
refused(401, "interrupt_token_invalid", stranger.interrupts_inspect_by_token, "nonsense")
equal(stranger.interrupts_resolve_by_token(token, blue)["runId"], asked, "answer by token")
reached(asked, "run.completed")
refused(409, "interrupt_already_resolved", stranger.interrupts_resolve_by_token, token, blue)


# Deployments, on the evidence of the first run.
def move(transition, **more):
    return client.agents_transition_deployment(AGENT_ID, AgentDeploymentTransition("1.0.0", transition, **more))


equal(client.agents_list_deployments(AGENT_ID), [AgentDeployment(AGENT_ID, "1.0.0", "draft")], "before any deployment")
equal(client.agents_list_deployments("private.touchstone.unknown.default"), None, "deployments of an agent that does not exist")
policy = {"policy": {"eval": {"requireSignedSuite": False, "confidence": "lenient", "requiredPassScore": 0.5}}}
client._request_json("POST", "/v1/host/touchstone/gates", body=policy)
equal([move("promote").state, move("promote").state], ["test", "staged"], "states on the way into service")
refused(422, "eval_gate_unmet", move, "promote", channel="stable")
refused(400, "validation_error", move, "promote", channel="stable", evalRunId=run.split("/")[1])
serving = move("promote", channel="stable", evalRunId=run)
equal((serving.state, serving.channels, serving.evalRunId), ("active", ["stable"], run), "what serves, and on what evidence")
equal(client.agents_list_deployments(AGENT_ID), [serving], "deployments")
refused(400, "validation_error", move, "rollback", toState="draft")
last = len(client._request_json("GET", "/v1/host/touchstone/audit?limit=1000")["entries"])
equal((client.audit_verify(1, last).chainValid, client.audit_verify(1, last).anomalies), (True, []), "audit log")

# What is not offered is not in discovery either.
calls = {name: arguments for surface in NOT_OFFERED.values() for name, arguments in surface.items()}
equal(sorted(undriven() - NOT_CALLED), sorted(calls), "methods that were not driven")
advertised = client._request_json("GET", "/.well-known/openwop")
for capability, surface in NOT_OFFERED.items():
    found = advertised
    for member in capability.split("."):
        found = found.get(member, {})
    equal(found, {}, f"{capability} in discovery")
    for name, arguments in surface.items():
        try:
            assert not getattr(client, name)(*arguments), f"{name} had an answer"
        except WopError as refusal:
            equal((refusal.status, refusal.envelope.error), (404, "not_found"), name)

print("all steps done")
