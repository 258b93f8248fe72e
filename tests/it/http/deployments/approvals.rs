//! Promotions that need people's approval.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_kit::ids::RunId;

use crate::http::deployments::promotion::{
    audit, eval, host, into_service, list, moved, path, refused,
};
use crate::http::runs::interrupts::{answer_as, somebody, until};
use crate::http::support::host::{AGENT, Reply, TestHost};

const GATES: &str = "/v1/host/touchstone/gates";
const ROLE: &str = "release-manager";

/// Requires an approval for promotions on `stable`.
async fn ask_for(host: &TestHost, approval: Value) {
    let policy = json!({"eval": {"requireSignedSuite": false, "confidence": "lenient", "minTasks": 1}, "approval": approval});
    let set = host
        .post(GATES, &json!({"channel": "stable", "policy": policy}))
        .await;
    assert_eq!(set.status, StatusCode::OK, "{set:?}");
}

/// A version with an eval, one step before it goes into service; returns the request for that step.
async fn staged(host: &TestHost, version: &str) -> Value {
    let run = eval(host, version).await;
    for _ in 0..2 {
        moved(host, json!({"version": version, "transition": "promote"})).await;
    }
    json!({"version": version, "transition": "promote", "channel": "stable", "evalRunId": run})
}

fn gate_of(details: &Value) -> RunId {
    let gate = details["approvalGateId"].as_str().unwrap();
    assert_eq!(details["gateRunId"], gate);
    assert_eq!(
        details["resolveUrl"],
        format!("/v1/runs/{gate}/interrupts/gate")
    );
    gate.into()
}

fn conditions(details: &Value) -> Vec<&str> {
    let unmet = details["unmet"].as_array().unwrap();
    unmet
        .iter()
        .map(|unmet| unmet["condition"].as_str().unwrap())
        .collect()
}

/// Requests a promotion that needs approval; returns the gate it waits for.
async fn waits(host: &TestHost, body: &Value) -> RunId {
    let before = list(host).await;
    let details = refused(
        &host.post(&path(), body).await,
        StatusCode::FORBIDDEN,
        "forbidden",
    );
    assert_eq!(conditions(&details), ["approval-pending"]);
    assert_eq!(list(host).await, before, "a refusal changes nothing");
    let gate = gate_of(&details);
    // Anyone with read access to that response may answer the gate.
    let shown = host.get(&format!("/v1/runs/{gate}")).await.json();
    assert_eq!(shown["status"], "waiting-approval");
    gate
}

async fn says_yes(host: &TestHost, key: &str, gate: &RunId) -> Reply {
    answer_as(host, key, gate, json!({"action": "accept"})).await
}

async fn approved(host: &TestHost, gate: &RunId) {
    let ann = somebody(host, "ann", Some(ROLE)).await;
    assert_eq!(says_yes(host, &ann, gate).await.status, StatusCode::OK);
    host.ended(gate).await;
}

#[tokio::test]
async fn a_promotion_waits_for_the_required_approvals() {
    let host = host().await;
    ask_for(&host, json!({"requiredRole": ROLE, "quorum": 2})).await;
    let body = staged(&host, "1.0.0").await;
    let gate = waits(&host, &body).await;
    assert_eq!(
        waits(&host, &body).await,
        gate,
        "approval is requested once"
    );
    let (ann, bob, eve) = (
        somebody(&host, "ann", Some(ROLE)).await,
        somebody(&host, "bob", Some(ROLE)).await,
        somebody(&host, "eve", None).await,
    );
    let foreign = answer_as(&host, &host.other_key, &gate, json!({"action": "accept"})).await;
    assert_eq!(foreign.status, StatusCode::NOT_FOUND);
    assert_eq!(
        says_yes(&host, &eve, &gate).await.status,
        StatusCode::FORBIDDEN
    );
    assert_eq!(says_yes(&host, &ann, &gate).await.status, StatusCode::OK);
    assert_eq!(waits(&host, &body).await, gate, "one of two is not enough");
    assert_eq!(says_yes(&host, &bob, &gate).await.status, StatusCode::OK);
    host.ended(&gate).await;
    assert_eq!(
        answers(&host, &gate).await,
        [
            answered("ann", "approval:accept", "pending"),
            answered("bob", "approval:accept", "done")
        ],
        "answers without permission or from another tenant do not count"
    );

    let active = moved(&host, body.clone()).await;
    assert_eq!(active["state"], "active");
    assert_eq!(active["approvalGateId"], gate.as_str());
    let entries = audit(&host).await;
    let outcomes: Vec<&str> = entries
        .iter()
        .filter(|entry| entry["action"] == "deployment:promote")
        .map(|entry| entry["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(
        outcomes,
        ["done", "done", "pending", "pending", "pending", "done"]
    );
    let run = RunId::from(entries.last().unwrap()["runId"].as_str().unwrap());
    let log = host.ended(&run).await;
    let promoted = log
        .iter()
        .find(|event| event["type"] == "deployment.promoted");
    assert_eq!(
        promoted.unwrap()["payload"]["approvalGateId"],
        gate.as_str()
    );

    // The approval was for one promotion.
    moved(&host, json!({"version": "1.0.0", "transition": "pause"})).await;
    let again = waits(&host, &json!({"version": "1.0.0", "transition": "promote"})).await;
    assert_ne!(again, gate);
}

#[tokio::test]
async fn an_approval_is_for_one_canary_share_which_the_gate_names() {
    let host = host().await;
    ask_for(&host, json!({"requiredRole": ROLE})).await;
    let body = staged(&host, "1.0.0").await;
    let with = |percent: u8| {
        let mut body = body.clone();
        body["canaryPercent"] = json!(percent);
        body
    };
    let small = waits(&host, &with(1)).await;
    let path = format!("/v1/host/touchstone/runs/{small}/interrupts");
    let title = host.get(&path).await.json()["interrupts"][0]["data"]["title"].clone();
    let run = body["evalRunId"].as_str().unwrap();
    assert_eq!(
        title,
        format!(
            "Promote {AGENT}@1.0.0 into service on channel stable with 1 % of its traffic, which is all of it while no other version serves there; based on eval run {run}"
        )
    );
    approved(&host, &small).await;
    let whole = waits(&host, &with(100)).await;
    assert_ne!(whole, small);
    assert_eq!(
        waits(&host, &body).await,
        whole,
        "by default, the full share"
    );
    let check = async |percent: u8| {
        let ask = json!({"agentId": AGENT, "version": "1.0.0", "channel": "stable", "evalRunId": run,
            "canaryPercent": percent});
        host.post(&format!("{GATES}/check"), &ask).await.json()["allowed"].clone()
    };
    assert_eq!(
        (check(1).await, check(2).await),
        (json!(true), json!(false))
    );
    let active = moved(&host, with(1)).await;
    assert_eq!(
        (&active["canaryPercent"], &active["approvalGateId"]),
        (&json!(1), &json!(small))
    );
    let entries = audit(&host).await;
    let grounds: Vec<&Value> = entries
        .iter()
        .filter(|entry| entry["resource"] == format!("{AGENT}@1.0.0"))
        .map(|entry| &entry["decidedOn"])
        .collect();
    let on = |percent: u8, gate: &RunId| {
        let mut grounds = grounds[0].clone();
        grounds["evalRunId"] = json!(run);
        grounds["attempts"] = json!({"looks": 1, "runIds": [run]});
        let mut place = json!({"channel": "stable", "canaryPercent": percent});
        if percent < 100 {
            place["alone"] = json!(true);
        }
        grounds["placements"] = json!([place]);
        grounds["approvalGateIds"] = json!([gate]);
        grounds
    };
    assert!(
        grounds[0]["packIntegrity"]
            .as_str()
            .unwrap()
            .starts_with("sha256-")
    );
    assert_eq!(
        grounds[2..],
        [
            &on(1, &small),
            &on(100, &whole),
            &on(100, &whole),
            &on(1, &small)
        ]
    );
}

/// Reads the answers to a gate from the audit log.
#[tokio::test]
async fn a_larger_share_needs_approval_again_and_a_smaller_one_does_not() {
    let host = host().await;
    ask_for(&host, json!({"requiredRole": ROLE})).await;
    let mut body = staged(&host, "1.0.0").await;
    body["canaryPercent"] = json!(10);
    approved(&host, &waits(&host, &body).await).await;
    moved(&host, body).await;
    let adjust = |percent: u8| json!({"version": "1.0.0", "transition": "adjust-canary", "canaryPercent": percent});
    let less = moved(&host, adjust(5)).await;
    assert_eq!(less["canaryPercent"], 5);
    let gate = waits(&host, &adjust(60)).await;
    assert_eq!(list(&host).await[0], less, "nothing has changed");
    approved(&host, &gate).await;
    let more = moved(&host, adjust(60)).await;
    assert_eq!(
        (&more["canaryPercent"], &more["approvalGateId"]),
        (&json!(60), &json!(gate))
    );
    assert_eq!(more["evalRunId"], less["evalRunId"]);
    // The other evidence must be valid, too.
    let mut unfounded = adjust(70);
    unfounded["evalRunId"] = json!("run_absent");
    let refused = host.post(&path(), &unfounded).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{refused:?}");
    assert_eq!(list(&host).await[0], more);
}

async fn answers(host: &TestHost, gate: &RunId) -> Vec<(String, String, String)> {
    let entries = audit(host).await;
    let of_it = |entry: &&Value| entry["resource"] == format!("{gate}/gate");
    entries
        .iter()
        .filter(of_it)
        .map(|entry| {
            assert_eq!(entry["runId"], gate.as_str());
            let text = |name: &str| entry[name].as_str().unwrap().to_owned();
            (text("principal"), text("action"), text("outcome"))
        })
        .collect()
}

fn answered(principal: &str, action: &str, outcome: &str) -> (String, String, String) {
    (principal.to_owned(), action.to_owned(), outcome.to_owned())
}

#[tokio::test]
async fn a_rejection_is_recorded_and_approval_may_be_requested_again() {
    let host = host().await;
    ask_for(&host, json!({"requiredScope": "approvals:respond"})).await;
    let body = staged(&host, "1.0.0").await;
    let gate = waits(&host, &body).await;
    let ann = somebody(&host, "ann", None).await;
    let no = answer_as(
        &host,
        &ann,
        &gate,
        json!({"action": "reject", "feedback": "not on a Friday"}),
    )
    .await;
    assert_eq!(no.status, StatusCode::OK);
    host.ended(&gate).await;
    assert_eq!(
        answers(&host, &gate).await,
        [answered("ann", "approval:reject", "refused")]
    );
    let before = list(&host).await;
    let reply = host.post(&path(), &body).await;
    let message = reply.json()["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("repeat the request to ask for approval again"),
        "{message}"
    );
    let details = refused(&reply, StatusCode::FORBIDDEN, "forbidden");
    assert_eq!(
        (conditions(&details), gate_of(&details)),
        (vec!["approval-refused"], gate.clone())
    );
    assert_eq!(list(&host).await, before);
    assert_eq!(audit(&host).await.last().unwrap()["outcome"], "refused");
    assert_ne!(waits(&host, &body).await, gate);
}

#[tokio::test]
async fn a_rollback_does_not_resume_a_version_that_awaits_approval() {
    let host = host().await;
    for version in ["1.0.0", "1.1.0"] {
        into_service(&host, version, json!({})).await;
    }
    moved(&host, json!({"version": "1.0.0", "transition": "pause"})).await;
    ask_for(&host, json!({"requiredRole": ROLE})).await;
    let resume = json!({"version": "1.0.0", "transition": "promote"});
    let gate = waits(&host, &resume).await;
    let back = json!({"version": "1.1.0", "transition": "rollback"});
    let reply = host.post(&path(), &back).await;
    let details = refused(&reply, StatusCode::BAD_REQUEST, "validation_error");
    assert_eq!(details["field"], "transition");
    assert!(reply.text().contains("promote 1.0.0 first"), "{reply:?}");
    approved(&host, &gate).await;
    moved(&host, resume).await;
    moved(&host, back).await;
    // The approved channel stays on record, whatever happens next.
    let records = list(&host).await;
    assert_eq!(
        (&records[0]["state"], &records[1]["rollbackPointer"]),
        (&json!("active"), &json!("1.0.0"))
    );
    moved(&host, json!({"version": "1.0.0", "transition": "pause"})).await;
    assert_eq!(list(&host).await[0]["approvalGateId"], gate.as_str());
}

/// An approval given for one version together with another does not apply to it alone.
#[tokio::test]
async fn approval_of_a_canary_does_not_approve_full_traffic() {
    let host = host().await;
    into_service(&host, "1.0.0", json!({})).await;
    ask_for(&host, json!({"requiredRole": ROLE})).await;
    let mut body = staged(&host, "1.1.0").await;
    body["canaryPercent"] = json!(5);
    let part = waits(&host, &body).await;
    approved(&host, &part).await;
    moved(&host, json!({"version": "1.0.0", "transition": "pause"})).await;
    assert_ne!(waits(&host, &body).await, part);
}

/// Cancelling needs a scope that most keys have, and would be a rejection without an audit entry.
#[tokio::test]
async fn the_cancel_scope_does_not_decide_approvals() {
    let host = host().await;
    ask_for(&host, json!({"requiredRole": ROLE})).await;
    let body = staged(&host, "1.0.0").await;
    let gate = waits(&host, &body).await;
    let resolve = json!(format!("/v1/runs/{gate}/interrupts/gate"));
    let cancel = format!("/v1/runs/{gate}/cancel");
    let reply = host.post(&cancel, &json!({})).await;
    let details = refused(&reply, StatusCode::CONFLICT, "conflict");
    assert_eq!(details["resolveUrl"], resolve);
    let bulk = host
        .post("/v1/runs:bulk-cancel", &json!({"runIds": [gate]}))
        .await;
    let result = bulk.json()["results"][0].clone();
    assert_eq!(
        (&result["ok"], &result["error"]["code"]),
        (&json!(false), &json!("conflict"))
    );
    let pause = host
        .post(&format!("/v1/runs/{gate}:pause"), &json!({}))
        .await;
    refused(&pause, StatusCode::CONFLICT, "conflict");
    assert_eq!(
        waits(&host, &body).await,
        gate,
        "the approval is still pending"
    );
    approved(&host, &gate).await;
    moved(&host, body).await;
    let ended = host.post(&cancel, &json!({})).await;
    assert_eq!(
        (ended.status, &ended.json()["status"]),
        (StatusCode::OK, &json!("completed"))
    );
}

#[tokio::test]
async fn a_principal_with_the_override_role_may_decide_alone_with_an_audit_entry() {
    let host = host().await;
    let over = json!({"requiredRole": ROLE, "audited": true});
    ask_for(
        &host,
        json!({"requiredScope": "approvals:respond", "quorum": 3, "override": over}),
    )
    .await;
    let body = staged(&host, "1.0.0").await;
    let gate = waits(&host, &body).await;
    let alone = json!({"action": "accept", "override": {"reason": "incident-17"}});
    let eve = somebody(&host, "eve", None).await;
    assert_eq!(
        answer_as(&host, &eve, &gate, alone.clone()).await.status,
        StatusCode::FORBIDDEN
    );
    let ann = somebody(&host, "ann", Some(ROLE)).await;
    assert_eq!(
        answer_as(&host, &ann, &gate, alone).await.status,
        StatusCode::OK
    );
    host.ended(&gate).await;
    moved(&host, body).await;
    let entries = audit(&host).await;
    let audited = entries
        .iter()
        .find(|entry| entry["action"] == "approval:override")
        .unwrap();
    assert_eq!(
        (
            &audited["principal"],
            &audited["reasons"],
            &audited["runId"]
        ),
        (&json!("ann"), &json!(["incident-17"]), &json!(gate))
    );
}

#[tokio::test]
async fn an_approval_is_not_evidence_and_is_bound_to_one_evidence() {
    let host = host().await;
    ask_for(&host, json!({"requiredRole": ROLE})).await;
    let body = staged(&host, "1.0.0").await;

    // Both are reported at once, in the order in which the policy lists them.
    let mut without = body.clone();
    without.as_object_mut().unwrap().remove("evalRunId");
    let details = refused(
        &host.post(&path(), &without).await,
        StatusCode::FORBIDDEN,
        "forbidden",
    );
    assert_eq!(conditions(&details), ["approval-pending", "eval-run"]);
    let blind = gate_of(&details);
    until(&host, &blind, "waiting-approval").await;
    approved(&host, &blind).await;
    let details = refused(
        &host.post(&path(), &without).await,
        StatusCode::FORBIDDEN,
        "eval_gate_unmet",
    );
    assert_eq!(conditions(&details), ["eval-run"]);

    let gate = waits(&host, &body).await;
    let mut other = body.clone();
    other["evalRunId"] = json!(eval(&host, "1.0.0").await);
    let pending = waits(&host, &other).await;
    assert_ne!(pending, gate);
    approved(&host, &gate).await;
    assert_eq!(
        waits(&host, &other).await,
        pending,
        "that was approved on another run"
    );

    // An approval does not apply under changed terms either.
    ask_for(&host, json!({"requiredRole": ROLE, "quorum": 2})).await;
    let stricter = waits(&host, &body).await;
    assert!(stricter != gate && stricter != pending);
    ask_for(&host, json!({"requiredRole": ROLE})).await;
    assert_eq!(moved(&host, body).await["approvalGateId"], gate.as_str());
    for obsolete in [pending, stricter] {
        host.ended(&obsolete).await;
        let snapshot = host.get(&format!("/v1/runs/{obsolete}")).await.json();
        assert_eq!(
            snapshot["status"], "cancelled",
            "it needs no answer any more"
        );
    }
}

#[tokio::test]
async fn a_check_reports_required_approvals_without_requesting_them() {
    let host = host().await;
    ask_for(&host, json!({"requiredRole": ROLE})).await;
    let body = staged(&host, "1.0.0").await;
    let ask = json!({"agentId": AGENT, "version": "1.0.0", "channel": "stable", "evalRunId": body["evalRunId"]});
    let check = async || host.post(&format!("{GATES}/check"), &ask).await.json();
    let before = audit(&host).await.len();
    for _ in 0..2 {
        let found = check().await;
        assert_eq!(
            (&found["allowed"], conditions(&found)),
            (&json!(false), vec!["approval-needed"])
        );
    }
    assert_eq!(audit(&host).await.len(), before);
    let gate = waits(&host, &body).await;
    assert_eq!(check().await["unmet"][0]["approvalGateId"], gate.as_str());
    approved(&host, &gate).await;
    assert_eq!(check().await["allowed"], true);
    // On another channel, no approval was requested.
    let mut elsewhere = ask.clone();
    elsewhere["channel"] = json!("canary");
    let found = host
        .post(&format!("{GATES}/check"), &elsewhere)
        .await
        .json();
    assert_eq!(found["allowed"], true, "{found}");
}

#[tokio::test]
async fn approval_is_requested_only_for_permitted_and_possible_promotions() {
    let host = host().await;
    into_service(&host, "1.1.0", json!({})).await;
    ask_for(&host, json!({"requiredRole": ROLE})).await;
    let body = staged(&host, "1.0.0").await;
    let weak = host.key_with(&[]).await;
    let call = host.request(Method::POST, &path()).key(&weak).json(&body);
    let details = refused(&call.send().await, StatusCode::FORBIDDEN, "forbidden");
    assert_eq!(details["scopeRequired"], "deploy:promote");
    assert_eq!(details.get("approvalGateId"), None);
    let again = json!({"version": "1.1.0", "transition": "promote", "channel": "stable"});
    refused(
        &host.post(&path(), &again).await,
        StatusCode::BAD_REQUEST,
        "validation_error",
    );
    // A transition out of service needs no approval; a transition back into service does.
    moved(&host, json!({"version": "1.1.0", "transition": "pause"})).await;
    let back = json!({"version": "1.1.0", "transition": "promote"});
    let details = refused(
        &host.post(&path(), &back).await,
        StatusCode::FORBIDDEN,
        "forbidden",
    );
    assert_eq!(conditions(&details), ["approval-pending"]);
}

#[tokio::test]
async fn the_number_of_open_approval_requests_is_limited() {
    let host = host().await;
    ask_for(&host, json!({"requiredRole": ROLE})).await;
    let mut body = staged(&host, "1.0.0").await;
    let first = waits(&host, &body).await;
    let mut asked = 1;
    let refusal = loop {
        body["evalRunId"] = json!(format!("run_{asked}"));
        let reply = host.post(&path(), &body).await;
        if reply.status != StatusCode::FORBIDDEN {
            break reply;
        }
        asked += 1;
        assert!(asked < 100);
    };
    refused(&refusal, StatusCode::CONFLICT, "conflict");
    // A pending approval is not requested again, so repeating its request causes no conflict.
    body["evalRunId"] = json!("run_1");
    refused(
        &host.post(&path(), &body).await,
        StatusCode::FORBIDDEN,
        "forbidden",
    );
    assert_eq!(
        host.get(&format!("/v1/runs/{first}")).await.json()["status"],
        "waiting-approval"
    );
}

/// A fork would ask people for an answer that has no effect.
#[tokio::test]
async fn approval_and_decision_runs_cannot_be_forked() {
    let host = host().await;
    ask_for(&host, json!({"requiredRole": ROLE})).await;
    let body = staged(&host, "1.0.0").await;
    let gate = waits(&host, &body).await;
    let refusal = audit(&host).await.pop().unwrap();
    let decision = RunId::from(refusal["runId"].as_str().unwrap());
    let refuse = async |run: &RunId| {
        for fork in [
            json!({"mode": "branch", "fromSeq": 0}),
            json!({"mode": "branch", "fromSeq": 2}),
            json!({"mode": "replay"}),
        ] {
            let reply = host.post(&format!("/v1/runs/{run}:fork"), &fork).await;
            refused(&reply, StatusCode::CONFLICT, "conflict");
        }
    };
    refuse(&gate).await;
    refuse(&decision).await;
    approved(&host, &gate).await;
    refuse(&gate).await;
    assert_eq!(moved(&host, body).await["state"], "active");
}

#[rstest]
#[case(json!({}))]
#[case(json!({"quorum": 2}))]
#[case(json!({"requiredRole": "nobody-has-this"}))]
#[case(json!({"requiredScope": "deploy:everything"}))]
#[case(json!({"requiredRole": ROLE, "quorum": 0}))]
#[case(json!({"requiredRole": ROLE, "override": {"requiredRole": "nobody-has-this"}}))]
#[case(json!({"requiredRole": ROLE, "override": {}}))]
#[case(json!({"requiredRole": ROLE, "overrideRole": ROLE}))]
#[tokio::test]
async fn an_approval_policy_that_is_unsatisfiable_or_empty_is_rejected(#[case] approval: Value) {
    let host = TestHost::idle().await;
    let reply = host
        .post(GATES, &json!({"policy": {"approval": approval}}))
        .await;
    refused(&reply, StatusCode::BAD_REQUEST, "validation_error");
    let listed = host.get(GATES).await.json();
    assert_eq!(listed["policies"], json!([]));
}
