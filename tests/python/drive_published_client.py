"""Drives a host by the published client, `openwop-client`, and by nothing else.

The host comes in by environment: BASE_URL, API_KEY, AGENT_ID, SUITE_REF, and DATABASE, the file it keeps everything in. It
has the fixture workflows. The suite has 20 tasks, of which every fourth fails; a pass score of 0.75 is just met.
"""

import base64
import http.server
import importlib.metadata
import json
import os
import secrets
import sqlite3
import threading
import time

from openwop_client import read_webhook_headers, verify_webhook_signature
from openwop_client.errors import WopError
from openwop_client.types import (
    AgentDeployment,
    AgentDeploymentTransition,
    AuditVerifyResult,
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

from recorded_client import RecordedClient, undriven

TASKS, WRONG_EVERY = 20, 4
AGENT_ID, SUITE_REF = os.environ["AGENT_ID"], os.environ["SUITE_REF"]


def equal(found, wanted, what):
    assert found == wanted, f"{what}: found {found!r}, wanted {wanted!r}"


def refused(status, code, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except WopError as refusal:
        equal(refusal.status, status, "status of a refusal")
        assert code in refusal.raw_text, f"{code} is not in {refusal.raw_text}"
        return
    raise AssertionError(f"{call.__name__} was not refused")


def body(**more):
    return {"mode": "eval", "evalSuiteRef": SUITE_REF, "agentId": AGENT_ID, **more}


equal(importlib.metadata.version("openwop-client"), "1.8.0", "version of the client")
client = RecordedClient(os.environ["BASE_URL"], os.environ["API_KEY"], timeout=30)

# Discovery and inventory.
capabilities = client.discovery_capabilities()
equal(capabilities.protocolVersion, "1.0", "protocol version")
assert "/v1/runs" in client.discovery_openapi()["paths"], "openapi.json lacks /v1/runs"
equal([agent.agentId for agent in client.agents_list()], [AGENT_ID], "inventory")
equal(client.agents_get(AGENT_ID).agentId, AGENT_ID, "inventory entry")
equal(client.agents_get("private.touchstone.nobody.default"), None, "an agent that is not there")

# Create, as idempotent as the client asks for it.
key = secrets.token_urlsafe(16)
request = body(tags=["driven"], metadata={"by": "the published client"}, configurable=RunConfigurable(extras={"evalModes": ["golden"]}))
created = client.runs_create(request, idempotency_key=key)
equal(client.runs_create(request, idempotency_key=key).runId, created.runId, "run of a repeated create")
refused(409, "idempotency_key_mismatch", client.runs_create, body(), idempotency_key=key)
run = created.runId
assert created.status in ("pending", "running"), created.status
assert created.eventsUrl.endswith(f"/v1/runs/{run}/events"), created.eventsUrl
refused(409, "", client.runs_eval_summary, run)

# The stream, from the run's first event to its last, while it runs.
streamed = list(client.runs_events(run, stream_mode="debug"))
equal([event.sequence for event in streamed], list(range(1, len(streamed) + 1)), "sequences of the stream")
equal((streamed[0].type, streamed[-1].type), ("run.started", "run.completed"), "first and last event")
scored = [event for event in streamed if event.type == "eval.scored"]
equal(len(scored), TASKS, "scored tasks")

# Poll: the same log, at once, in part, and batched.
polled = client.runs_poll_events(run, timeout_seconds=1)
equal(polled.events, streamed, "polled against streamed")
equal(polled.isComplete, True, "isComplete")
middle = streamed[len(streamed) // 2]
rest = client.runs_poll_events(run, last_sequence=middle.sequence, timeout_seconds=1)
equal(rest.events, streamed[middle.sequence:], "polled from the middle")
resumed = list(client.runs_events(run, stream_mode="debug", last_event_id=str(middle.sequence)))
equal(resumed, streamed[middle.sequence:], "resumed from the middle")
equal(list(client.runs_events(run, stream_mode="debug", buffer_ms=200)), streamed, "batched stream")
updates = list(client.runs_events(run))
equal([e for e in updates if e.type == "eval.scored"], scored, "eval.scored in updates")

# Snapshot and summary.
snapshot = client.runs_get(run)
equal((snapshot.runId, snapshot.status), (run, "completed"), "snapshot")
summary = client.runs_eval_summary(run)
equal(f"{summary.suiteId}@{summary.suiteVersion}", SUITE_REF, "suite")
equal((summary.taskCount, summary.passedCount), (TASKS, TASKS - TASKS // WRONG_EVERY), "counts")
equal((summary.aggregateScore, summary.passed), (0.75, True), "verdict")
equal([task.passed for task in summary.tasks], [n % WRONG_EVERY != 0 for n in range(1, TASKS + 1)], "tasks in suite order")
equal(round(summary.totalCostUsd, 9), round(sum(task.costUsd for task in summary.tasks), 9), "cost")

# A regression run against it, slow enough to be cancelled before it ends.
again = client.runs_create(body(configurable={"evalModes": ["regression"], "evalConcurrency": 1, "baselineRunId": run, "recursionLimit": None, "extras": {}}))
cancelled = client.runs_cancel(again.runId, CancelRunRequest(reason="seen enough"))
equal(cancelled.runId, again.runId, "cancelled run")
last = list(client.runs_events(again.runId))[-1]
equal(last.type, "run.cancelled", "last event of the cancelled run")
equal(client.runs_get(again.runId).status, "cancelled", "status of the cancelled run")

# Webhooks: a plain one, and one with Standard Webhooks whose secret is rotated.
class Endpoint(http.server.BaseHTTPRequestHandler):
    got: list = []

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["content-length"]))
        self.got.append((self.path, dict(self.headers), raw))
        challenge = json.loads(raw).get("challenge")
        answer = json.dumps({"challenge": challenge}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


endpoint = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
threading.Thread(target=endpoint.serve_forever, daemon=True).start()
at = f"http://127.0.0.1:{endpoint.server_port}"
plain = client.webhooks_register(RegisterWebhookRequest(url=f"{at}/plain", events=["run.completed"]))
equal((plain.url, plain.eventTypes, len(plain.secret)), (f"{at}/plain", ["run.completed"], 64), "subscription")
whsec = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
standard = client._request_json("POST", "/v1/webhooks", body={
    "url": f"{at}/standard", "events": ["run.completed"], "secret": whsec, "signatureAlgorithms": ["v1", "standard-webhooks-1"]})
rotated = client.webhooks_rotate_secret(standard["webhookId"], "acme", RotateWebhookSecretRequest(
    secret="whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()))
assert rotated.rotatedAt < rotated.previousSecretExpiresAt, rotated
told = client.runs_create(body()).runId
list(client.runs_events(told))
ends = time.monotonic() + 20
while time.monotonic() < ends and len(Endpoint.got) < 3:
    time.sleep(0.05)
delivered = {path: (headers, raw) for path, headers, raw in Endpoint.got if b"challenge" not in raw}
equal(sorted(delivered), ["/plain", "/standard"], "deliveries")
for path, secret in (("/plain", plain.secret), ("/standard", whsec)):
    headers, raw = delivered[path]
    signature, timestamp, family = read_webhook_headers(headers)
    outcome = verify_webhook_signature(secret, signature, timestamp, raw)
    equal((outcome.valid, family, json.loads(raw)["runId"]), (True, "openwop", told), f"delivery to {path}")
client.webhooks_unregister(plain.subscriptionId, "acme")
client.webhooks_unregister(standard["webhookId"], "acme")
refused(404, "subscription_not_found", client.webhooks_unregister, plain.subscriptionId, "acme")
refused(400, "webhook_url_rejected", client.webhooks_register, RegisterWebhookRequest(url="https://10.0.0.1/", events=["run.completed"]))

# Replay and branch, and what two runs did differently.
replay = client.runs_fork(run, ForkRunRequest(fromSeq=0, mode="replay"))
equal((replay.sourceRunId, replay.mode, replay.fromSeq), (run, "replay", 0), "replay")
repeated = list(client.runs_events(replay.runId, stream_mode="debug"))
equal([(e.type, e.payload) for e in repeated], [(e.type, e.payload) for e in streamed], "facts of the replay")
equal(client.runs_eval_summary(replay.runId), summary, "summary of the replay")
same = client.runs_diff(run, replay.runId)
equal((same.divergedAtSeq, same.eventDiffs, same.stateDiff), (None, [], {}), "diff of a run and its replay")
last_task = max(event.sequence for event in scored)
branch = client.runs_fork(run, ForkRunRequest(fromSeq=last_task, mode="branch", runOptionsOverlay={"tags": ["branched"]}))
equal(list(client.runs_events(branch.runId))[-1].type, "run.completed", "last event of the branch")
equal(client.runs_get(branch.runId).status, "completed", "status of the branch")
other = client.runs_diff(run, again.runId)
equal((other.eventDiffs[0].seq, other.stateDiff["status"]), (other.divergedAtSeq, {"a": "completed", "b": "cancelled"}), "diff")
refused(400, "fromSeq", client.runs_fork, run, {"mode": "branch"})
refused(422, "invalid_from_seq", client.runs_fork, run, ForkRunRequest(fromSeq=len(streamed) + 1, mode="replay"))

# What people say, and the run in one document.
key = secrets.token_urlsafe(16)
correction = CreateAnnotationRequest(
    signal={"kind": "correction", "correction": "It is blue."}, target={"eventId": scored[0].eventId}, note="I looked")
said = client.create_annotation(run, correction, idempotency_key=key)
equal(client.create_annotation(run, correction, idempotency_key=key), said, "repeated annotation")
equal(client.list_annotations(run), [said], "annotations")
equal(client.list_annotations(replay.runId), [], "annotations of a fork")
equal(client.runs_eval_summary(run), summary, "summary after a correction")
bundle = client.runs_debug_bundle(run)
equal((bundle.run["runId"], bundle.truncated), (run, None), "bundle")
equal([e["eventId"] for e in bundle.events], [e.eventId for e in streamed], "events of the bundle")
assert "ball" not in json.dumps(bundle.events), "a bundle shows an answer or a question"
equal(len(client.runs_debug_bundle(run, max_events=3).events), 3, "a short bundle")

# What is not there.
equal(client.runs_eval_summary("run_of_nobody"), None, "summary of no run")
refused(404, "not_found", client.runs_get, "run_of_nobody")
for absent in (client.list_annotations, client.runs_debug_bundle, client.runs_ancestry):
    equal(absent("run_of_nobody"), None, absent.__name__)
equal(client.runs_diff(run, "run_of_nobody"), None, "diff against no run")
equal(client.runs_ancestry(run), None, "ancestry, which is not offered")
refused(400, "validation_error", client.runs_create, body(evalSuiteRef="private.touchstone.evals.nothing@1.0.0"))
stranger = RecordedClient(os.environ["BASE_URL"], "wrong")
refused(401, "", stranger.runs_get, run)
equal(client.runs_get_artifact(run, "artifact-1"), None, "artifact, which no run leaves")

# Workflows: paused, resumed, and cancelled together.
def reached(run_id, event):
    return next(found for found in client.runs_events(run_id, stream_mode="debug") if found.type == event)


def started(workflow, event, **inputs):
    run_id = client.runs_create(CreateRunRequest(workflowId=workflow, inputs=inputs)).runId
    reached(run_id, event)
    return run_id


flow = client.workflows_get("conformance-cancellable")
equal((flow["id"], [node["typeId"] for node in flow["nodes"]]), ("conformance-cancellable", ["core.delay"]), "workflow")
refused(404, "not_found", client.workflows_get, "conformance-unheard-of")
slow = started("conformance-cancellable", "node.started", delayMs=60_000)
key = secrets.token_urlsafe(16)
pause = PauseRunRequest(reason="lunch", drainPolicy="immediate")
paused = client.runs_pause(slow, pause, idempotency_key=key)
equal((paused.runId, paused.status), (slow, "paused"), "pause")
assert paused.pausedAt, paused
equal(client.runs_pause(slow, pause, idempotency_key=key), paused, "repeated pause")
equal(client.runs_get(slow).status, "paused", "status of the paused run")
refused(409, "paused", client.runs_pause, slow)
resumed = client.runs_resume(slow, ResumeRunRequest(reason="back"))
equal((resumed.runId, resumed.status), (slow, "running"), "resume")
assert resumed.resumedAt >= paused.pausedAt, (paused, resumed)
refused(409, "running", client.runs_resume, slow)
short = started("conformance-delay", "run.started", delayMs=1)
equal(reached(short, "run.completed").runId, short, "a run that nobody pauses")
refused(409, "completed", client.runs_pause, short)

asked = started("conformance-approval", "approval.requested")
together = client.runs_bulk_cancel(BulkCancelRunsRequest(runIds=[slow, short, "run_of_nobody", asked], reason="enough")).results
equal([one.runId for one in together], [slow, short, "run_of_nobody", asked], "order of a bulk cancel")
equal([one.ok for one in together], [True, False, False, True], "what a bulk cancel came to")
equal([one.error["code"] for one in together if not one.ok], ["run_terminal", "not_found"], "refusals in a bulk cancel")
for one in (slow, asked):
    equal(reached(one, "run.cancelled").payload["reason"], "enough", "reason of a bulk cancel")
    equal(client.runs_get(one).status, "cancelled", "status after a bulk cancel")
kinds = [event.type for event in client.runs_poll_events(slow, timeout_seconds=1).events]
equal([kind for kind in kinds if kind in ("run.paused", "run.resumed")], ["run.paused", "run.resumed"], "log of the paused run")
refused(400, "runIds", client.runs_bulk_cancel, BulkCancelRunsRequest(runIds=[slow] * 101))

# Interrupts: answered by their node with a key, and by a token with none.
def token_of(run_id):
    # The protocol leaves open how a token comes to whom it is for.
    listed = client._request_json("GET", f"/v1/host/touchstone/runs/{run_id}/interrupts")["interrupts"]
    equal(len(listed), 1, "pending interrupts")
    return listed[0]["token"]


accept, blue = ResolveInterruptRequest({"action": "accept"}), ResolveInterruptRequest({"answers": {"q1": "blue"}})
asked = started("conformance-approval", "approval.requested")
equal(client.runs_get(asked).status, "waiting-approval", "status of a run that asks")
refused(404, "interrupt_not_found", client.interrupts_resolve_by_run, asked, "no-such-node", accept)
refused(400, "resumeValue.action", client.interrupts_resolve_by_run, asked, "gate", ResolveInterruptRequest({"action": "maybe"}))
key = secrets.token_urlsafe(16)
answered = client.interrupts_resolve_by_run(asked, "gate", accept, idempotency_key=key)
equal((answered.runId, answered.nodeId), (asked, "gate"), "answer by node")
equal(client.interrupts_resolve_by_run(asked, "gate", accept, idempotency_key=key), answered, "repeated answer")
equal(reached(asked, "approval.received").payload["action"], "accept", "what was answered")
equal(reached(asked, "run.completed").runId, asked, "end of the approved run")
refused(409, "interrupt_already_resolved", client.interrupts_resolve_by_run, asked, "gate", accept)

asked = started("conformance-clarification", "clarification.requested")
token = token_of(asked)
question = stranger.interrupts_inspect_by_token(token)
equal((question.kind, question.data["questions"][0]["id"]), ("clarification", "q1"), "what a token shows")
refused(404, "interrupt_not_found", stranger.interrupts_inspect_by_token, "nonsense")
refused(400, "validation_error", stranger.interrupts_resolve_by_token, token, accept)
equal(stranger.interrupts_resolve_by_token(token, blue)["runId"], asked, "answer by token")
equal(reached(asked, "clarification.resolved").payload["answers"], {"q1": "blue"}, "what was answered by token")
equal(reached(asked, "run.completed").runId, asked, "end of the answered run")
for call, more in ((stranger.interrupts_inspect_by_token, ()), (stranger.interrupts_resolve_by_token, (blue,))):
    refused(409, "interrupt_already_resolved", call, token, *more)

# Deployments, on the evidence of the run above, and the audit log of them.
def move(transition, **more):
    return client.agents_transition_deployment(AGENT_ID, AgentDeploymentTransition("1.0.0", transition, **more))


equal(client.agents_list_deployments(AGENT_ID), [AgentDeployment(AGENT_ID, "1.0.0", "draft")], "before any deployment")
equal(client.agents_list_deployments("private.touchstone.nobody.default"), None, "deployments of an agent that is not there")
client._request_json("POST", "/v1/host/touchstone/gates", body={"policy": {"eval": {"requireSignedSuite": False, "confidence": "lenient", "requiredPassScore": 0.5}}})
states = [move("promote").state, move("promote").state]
refused(403, "eval_gate_unmet", move, "promote", channel="stable")
serving = move("promote", channel="stable", evalRunId=run)
equal([*states, serving.state], ["test", "staged", "active"], "states on the way into service")
equal((serving.channels, serving.evalRunId), (["stable"], run), "what serves, and on what evidence")
equal(client.agents_list_deployments(AGENT_ID), [serving], "deployments")
refused(400, "", move, "adjust-canary", canaryPercent=101)
refused(401, "", stranger.agents_transition_deployment, AGENT_ID, AgentDeploymentTransition("1.0.0", "pause"))
equal(move("pause", reason="a drill").state, "paused", "state after a pause")

entries = [one["entry"] for one in client._request_json("GET", "/v1/host/touchstone/audit?limit=1000")["entries"]]
moves = [(one["action"], one["outcome"]) for one in entries if one["action"].startswith("deployment:")]
promoted = ("deployment:promote", "done")
equal(moves[:4], [promoted, promoted, ("deployment:promote", "refused"), promoted], "deployments on the audit log")
equal(moves[-1], ("deployment:pause", "done"), "last deployment on the audit log")
last = len(entries)
written = client.audit_verify(1, last)
equal(written, AuditVerifyResult(1, last, True, written.checkpoints, []), "the audit log as it was written")
refused(400, "validation_error", client.audit_verify, 3, 2)
with sqlite3.connect(os.environ["DATABASE"], timeout=30) as database:
    database.execute("DROP TRIGGER audit_entry_changed")
    changed = database.execute("UPDATE audit_entry SET body = REPLACE(body, 'a drill', 'a laugh') WHERE sequence = ?", (last,))
    equal(changed.rowcount, 1, "forged entries")
database.close()
forged = client.audit_verify(1, last)
# A chain breaks behind the entry that is not what it was.
equal((forged.chainValid, [one.atSeq for one in forged.anomalies]), (False, [last + 1]), "the audit log after a forgery")
assert forged.anomalies[0].expectedPrevHash != forged.anomalies[0].actualPrevHash, forged
equal(client.audit_verify(1, last - 1).chainValid, True, "what was written before the forgery")

# What is not offered: the capability, what belongs to it, and what the client would say. None of it is in discovery.
NOT_OFFERED = {
    "content": {
        "content_list_pages": (), "content_get_page": ("home",), "content_create_page": ({},), "content_delete_page": ("p",),
        "content_put_section": ("p", "s", {}), "content_get_settings": (), "content_put_settings": ({},),
    },
    "triggerBridge": {"create_trigger_subscription": ({},)},
    "agents.roster": {"agents_list_roster": (), "agents_get_roster_entry": ("r",)},
    "agents.orgChart": {"agents_get_org_chart": (), "agents_get_org_chart_department": ("d",)},
    "toolCatalog": {"tools_list": (), "tools_get": ("t",), "tools_list_compact": ()},
    "prompts": {
        "prompts_list": (), "prompts_get": ("p",), "prompts_create": ({},), "prompts_update": ("p", {}), "prompts_delete": ("p",),
        "prompts_render": (RenderPromptRequest("prompt:p", {}),),
    },
    "workspace": {
        "list_workspace_files": (), "get_workspace_file": ("f",), "put_workspace_file": ("f", {}), "delete_workspace_file": ("f",),
    },
}
calls = {name: arguments for surface in NOT_OFFERED.values() for name, arguments in surface.items()}
equal(sorted(undriven()), sorted(calls), "methods that were not driven")
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
            assert refusal.status in (404, 501), f"{name}: {refusal.status} {refusal.raw_text}"

print("all steps done")
