//! Schemathesis generates valid and invalid requests from the served API description and checks
//! every response against it.
//!
//! Without help it makes up ids and rarely gets past 404. So it is given existing ids: each
//! operation has its own resource, so that no operation deletes another's, and one valid body.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value, json};

mod major_2;

use super::python;
use crate::oasis::desk::evaluation::Rooms;
use crate::oasis::desk::provider::Options;
use crate::process::api::Api;
use crate::process::endpoint::{Endpoint, question, saying};
use crate::process::{AGENT, Host, Site};
use crate::ratings::api::assessments::tasks;
use crate::support::evidence::collecting_in;
use crate::webhooks::receiver::{Answer, Receiver};

/// The same requests every time, so that a failure points to a change; another seed is another
/// test.
const SEED: &str = "20261121";
const EXAMPLES: &str = "12";
/// The host of this test has no worker that it could drain. `cluster::drained` sends accepted requests.
const WITHOUT_A_WORKER: &str = "POST /v1/host/touchstone/cluster/workers/{worker}/drain";

/// The check that valid data is accepted. A valid body may still name an agent that does not exist.
const ACCEPTANCE: &str = "positive_data_acceptance";
/// The check that other methods than those described get 405. `GET /v1/runs` gets 404, because only
/// major 2 has it. `contract::surface` sends the others.
const METHODS: &str = "unsupported_method";

const PACK: &str = "private.touchstone.probe";
const SUITE: &str = "private.touchstone.evals.colours";

/// Values for the operations' parameters, and one body.
#[derive(Default)]
struct Material {
    parameters: Vec<(&'static str, Vec<(&'static str, Value)>)>,
    bodies: Vec<(&'static str, Value)>,
}

impl Material {
    fn names(&mut self, operation: &'static str, parameters: &[(&'static str, &str)]) {
        let named = parameters.iter().map(|(name, value)| (*name, json!(value)));
        self.parameters.push((operation, named.collect()));
    }

    fn sends(&mut self, operation: &'static str, body: Value) {
        self.bodies.push((operation, body));
    }

    /// The Schemathesis configuration.
    fn configuration(&self) -> String {
        let mut text = String::new();
        for (operation, parameters) in &self.parameters {
            write!(
                text,
                "[[operations]]\ninclude-operation-id = \"{operation}\"\n[operations.parameters]\n"
            )
            .unwrap();
            for (name, value) in parameters {
                writeln!(text, "\"{name}\" = {value}").unwrap();
            }
        }
        text
    }

    /// The description with the valid bodies as examples.
    fn description(&self, mut served: Value) -> Value {
        for (id, body) in &self.bodies {
            let paths = served["paths"].as_object_mut().unwrap().values_mut();
            let operation = paths
                .flat_map(|item| item.as_object_mut().unwrap().values_mut())
                .find(|operation| operation["operationId"] == *id)
                .unwrap_or_else(|| panic!("{id} is not described"));
            operation["requestBody"]["content"]["application/json"]["example"] = body.clone();
        }
        served
    }
}

async fn post(api: &Api, path: &str, body: Value) -> Value {
    let (status, text) = api.text(Method::POST, path, Some(&body)).await;
    assert!(status.is_success(), "{path} {body}: {status} {text}");
    serde_json::from_str(&text).unwrap()
}

/// A fixture's run that has reached this status.
async fn workflow(api: &Api, id: &str, inputs: Value, status: &str) -> String {
    let made = post(api, "/v1/runs", json!({"workflowId": id, "inputs": inputs})).await;
    let run = made["runId"].as_str().unwrap().to_owned();
    let mut seen = 0;
    while api.get(&format!("/v1/runs/{run}")).await["status"] != status {
        let (events, _) = api.poll(&run, seen, 5).await.unwrap();
        seen += events.len() as u64;
    }
    run
}

/// The token that answers the interrupt of a run.
async fn token(api: &Api, run: &str) -> String {
    let asked = api
        .get(&format!("/v1/host/touchstone/runs/{run}/interrupts"))
        .await;
    asked["interrupts"][0]["token"].as_str().unwrap().to_owned()
}

fn suite(version: &str) -> Value {
    let task = |id: &str| {
        json!({"taskId": id, "input": {"thing": id},
               "expected": {"kind": "golden", "match": {"strategy": "contains", "value": "blue"}}})
    };
    json!({"suiteId": SUITE, "version": version, "modes": ["golden"], "tasks": [task("sky"), task("broken")]})
}

/// A secret of Standard Webhooks.
fn secret(octet: u8) -> String {
    format!("whsec_{}", STANDARD.encode([octet; 24]))
}

/// A suite with a rubric.
fn judged(version: &str) -> Value {
    json!({"suiteId": SUITE, "version": version, "modes": ["rubric"],
           "tasks": [{"taskId": "hue", "input": {"thing": "sky"},
                      "expected": {"kind": "rubric", "rubric": [{"criterion": "It names a colour.", "weight": 1}]}}]})
}

/// People's scores of some answers.
fn samples(version: &str) -> Value {
    let sample = |(item, (output, human)): (usize, &(&str, f64))| json!({"item": format!("i{item}"), "output": output, "human": [human]});
    let samples: Vec<Value> = [
        ("blue", 1.0),
        ("a bird", 0.0),
        ("blue, I think", 0.9),
        ("loud", 0.2),
    ]
    .iter()
    .enumerate()
    .map(sample)
    .collect();
    json!({"suite": format!("{SUITE}@{version}"), "samples": samples, "allowFew": true})
}

/// Another signed version of the agent's pack, as an upload.
fn upload(site: &Site, version: &str) -> Value {
    let manifest = std::fs::read_to_string(site.folder().join("probe/pack.json")).unwrap();
    let mut manifest: Value = serde_json::from_str(&manifest).unwrap();
    manifest["version"] = version.into();
    site.write("probe/pack.json", &manifest.to_string());
    let archive = format!("{version}.tgz");
    site.run_on_files(&["pack", "build", "probe", "--out", &archive]);
    let key = ["--key", "signing.pem", "--key-id", "site-key"];
    site.run_on_files(&[["pack", "sign", &archive].as_slice(), &key].concat());
    let octets = |kind: &str| {
        let file = site.folder().join(format!("{version}.{kind}"));
        STANDARD.encode(std::fs::read(file).unwrap())
    };
    json!({"tarball": octets("tgz"), "served": octets("json"), "signature": octets("sig")})
}

/// Creates resources of every kind.
async fn furnish(site: &Site, api: &Api, hook: &Receiver) -> Material {
    let mut material = Material::default();
    site.install_agent(api, "Say what colour it is.", &json!({}));
    for version in ["2.0.1", "2.0.2"] {
        post(api, "/v1/host/touchstone/suites", suite(version)).await;
    }
    material.names(
        "getSuite",
        &[("path.suiteId", SUITE), ("path.version", "2.0.1")],
    );
    material.names(
        "getSuiteDocument",
        &[("path.suiteId", SUITE), ("path.version", "2.0.1")],
    );
    material.names(
        "removeSuite",
        &[("path.suiteId", SUITE), ("path.version", "2.0.2")],
    );
    material.sends("importSuite", suite("2.0.3"));
    post(api, "/v1/host/touchstone/suites", judged("3.0.0")).await;
    material.sends("calibrateJudge", samples("3.0.0"));
    let calibrations = "/v1/host/touchstone/judge/calibrations";
    let begun = post(api, calibrations, samples("3.0.0")).await;
    let calibration = begun["calibrationId"].as_str().unwrap();
    let path = format!("{calibrations}/{calibration}");
    // One at a time: the generated requests must not find another assessment running.
    while api.get(&path).await["status"] == "running" {
        crate::support::pause().await;
    }
    material.names("getCalibration", &[("path.calibrationId", calibration)]);
    post(api, "/v1/host/touchstone/packs", upload(site, "1.1.0")).await;
    material.names(
        "removePack",
        &[("path.name", PACK), ("path.version", "1.1.0")],
    );
    material.sends("installPack", upload(site, "1.2.0"));
    for operation in ["getPublishedPack", "getPublishedPackIndex", "getKeychain"] {
        material.names(operation, &[("path.name", PACK)]);
    }
    for operation in [
        "getPublishedManifest",
        "getPublishedArchive",
        "getPublishedSignature",
    ] {
        material.names(operation, &[("path.name", PACK), ("path.version", "1.0.0")]);
    }
    material.names("getSigningKey", &[("path.keyId", "site-key")]);
    for operation in ["getAgent", "listDeployments", "transitionDeployment"] {
        material.names(operation, &[("path.agentId", AGENT)]);
    }
    material.sends(
        "transitionDeployment",
        json!({"version": "1.0.0", "transition": "promote", "toState": "test"}),
    );
    let policy = json!({"agentId": AGENT, "channel": "canary", "policy": {}});
    post(api, "/v1/host/touchstone/gates", policy).await;
    material.names(
        "removeGate",
        &[("query.agentId", AGENT), ("query.channel", "canary")],
    );
    material.sends("setGate", json!({"channel": "stable", "policy": {}}));
    material.sends("checkGate", json!({"agentId": AGENT, "version": "1.0.0"}));

    let eval = json!({"mode": "eval", "evalSuiteRef": format!("{SUITE}@2.0.1"), "agentId": AGENT});
    let run = api.start(&format!("{SUITE}@2.0.1"), AGENT, json!({})).await;
    let log = api.log(&run).await;
    let scored = log.iter().find(|it| it["type"] == "eval.scored").unwrap();
    let task = scored["payload"]["taskId"].as_str().unwrap();
    for operation in [
        "getRun",
        "streamEvents",
        "pollEvents",
        "forkRun",
        "retryRun",
        "listAnnotations",
        "annotateRun",
        "getDebugBundle",
        "getEvalSummary",
        "getReport",
        "getAttestation",
        "getStatistics",
        "listResults",
        "listTasks",
        "tagRun",
    ] {
        material.names(operation, &[("path.runId", &run)]);
    }
    material.names("getTask", &[("path.runId", &run), ("path.taskId", task)]);
    reviews(api, &run, &mut material).await;
    material.names("diffRuns", &[("path.runId", &run), ("query.against", &run)]);
    material.names(
        "compareRuns",
        &[("path.runId", &run), ("query.baseline", &run)],
    );
    material.names("getWorkflow", &[("path.workflowId", "conformance-noop")]);
    material.sends("createRun", eval);
    material.sends("forkRun", json!({"mode": "replay"}));
    material.sends("retryRun", json!({}));
    material.sends("tagRun", json!({"add": ["nightly"]}));
    material.sends("annotateRun", json!({"signal": {"kind": "flag"}}));
    material.sends("bulkCancelRuns", json!({"runIds": [run]}));

    for operation in ["cancelRun", "pauseRun", "resumeRun"] {
        let slow = workflow(
            api,
            "conformance-cancellable",
            json!({"delayMs": 600_000}),
            "running",
        )
        .await;
        if operation == "resumeRun" {
            post(
                api,
                &format!("/v1/runs/{slow}:pause"),
                json!({"drainPolicy": "immediate"}),
            )
            .await;
        }
        material.names(operation, &[("path.runId", &slow)]);
    }
    material.sends("cancelRun", json!({"reason": "no need"}));
    material.sends("pauseRun", json!({"drainPolicy": "immediate"}));
    for operation in [
        "resolveInterrupt",
        "listInterrupts",
        "inspectInterrupt",
        "resolveInterruptByToken",
    ] {
        let asking = workflow(api, "conformance-approval", json!({}), "waiting-approval").await;
        let token = token(api, &asking).await;
        match operation {
            "resolveInterrupt" => material.names(
                operation,
                &[("path.runId", &asking), ("path.nodeId", "gate")],
            ),
            "listInterrupts" => material.names(operation, &[("path.runId", &asking)]),
            _ => material.names(operation, &[("path.token", &token)]),
        }
    }
    let accept = json!({"resumeValue": {"action": "accept"}});
    material.sends("resolveInterrupt", accept.clone());
    material.sends("resolveInterruptByToken", accept);

    let plain = json!({"url": hook.url(), "events": ["run.completed"]});
    let mut standard = plain.clone();
    standard["signatureAlgorithms"] = json!(["v1", "standard-webhooks-1"]);
    standard["secret"] = secret(0).into();
    for (operation, asked) in [
        ("unregisterWebhook", &plain),
        ("rotateWebhookSecret", &standard),
    ] {
        let made = post(api, "/v1/webhooks", asked.clone()).await;
        material.names(
            operation,
            &[("path.webhookId", made["webhookId"].as_str().unwrap())],
        );
    }
    let made = post(api, "/v1/webhooks", plain.clone()).await;
    let webhook = made["webhookId"].as_str().unwrap();
    material.names("listWebhookDeliveries", &[("path.webhookId", webhook)]);
    material.names("listDeadLetters", &[("path.webhookId", webhook)]);
    let run = api.start(&format!("{SUITE}@2.0.1"), AGENT, json!({})).await;
    api.log(&run).await;
    let path = format!("/v1/host/touchstone/webhooks/{webhook}/deliveries");
    while api.get(&path).await["deliveries"]
        .as_array()
        .unwrap()
        .is_empty()
    {
        tokio::task::yield_now().await;
    }
    material.names(
        "replayWebhookDelivery",
        &[("path.webhookId", webhook), ("path.number", "1")],
    );
    for operation in ["rotateKey", "revokeKey"] {
        let asked = json!({"scopes": ["runs:read"]});
        let made = post(api, "/v1/host/touchstone/keys", asked).await;
        let id = made["keyId"].as_str().unwrap();
        material.names(operation, &[("path.keyId", id)]);
    }
    material.sends(
        "createKey",
        json!({"scopes": ["runs:read"], "expiresInHours": 24}),
    );
    material.sends("rotateKey", json!({"overlapHours": 1}));
    material.sends("registerWebhook", plain);
    material.sends("rotateWebhookSecret", json!({"secret": secret(1)}));
    material
}

/// A review for each operation on one, all of the same run.
async fn reviews(api: &Api, run: &str, material: &mut Material) {
    let request = json!({"runId": run, "labellers": 5});
    for operation in ["getReview", "getNextAnswer", "closeReview", "labelAnswer"] {
        let made = post(api, "/v1/host/touchstone/reviews", request.clone()).await;
        let id = made["reviewId"].as_str().unwrap();
        match operation {
            "labelAnswer" => {
                material.names(operation, &[("path.reviewId", id), ("path.item", "1")]);
            }
            _ => material.names(operation, &[("path.reviewId", id)]),
        }
    }
    let made = post(api, "/v1/host/touchstone/reviews", request.clone()).await;
    let id = made["reviewId"].as_str().unwrap();
    let close = format!("/v1/host/touchstone/reviews/{id}/close");
    post(api, &close, json!({})).await;
    material.names("getReviewSamples", &[("path.reviewId", id)]);
    material.sends("createReview", request);
    material.sends("labelAnswer", json!({"choice": 1}));
    material.sends("closeReview", json!({}));
}

/// The latest assessment of an agent, one after each batch of tasks, requested by another
/// principal.
async fn rated(site: &Site, asker: &Api, name: &str, batches: &[(&str, usize, &str)]) -> String {
    let agent = post(asker, "/api/v1/agents", json!({"name": name})).await;
    let organization = agent["organization_id"].as_str().unwrap();
    let agent = agent["id"].as_str().unwrap();
    collecting_in(&site.folder().join("data"), organization, agent).await;
    let mut last = String::new();
    for (batch, many, status) in batches {
        let batch = tasks(agent, &format!("{name}-{batch}"), *many, status);
        post(asker, "/api/v1/events/batch", batch).await;
        let order = json!({"agent_id": agent, "type": "passive_only"});
        let ordered = post(asker, "/api/v1/assessments", order).await;
        last = ordered["id"].as_str().unwrap().to_owned();
        let path = format!("/api/v1/assessments/{last}");
        while asker.get(&path).await["status"] != "completed" {
            crate::support::pause().await;
        }
    }
    last
}

/// An assessment that may be appealed, and an appeal of it by another principal.
async fn furnish_appeals(site: &Site, asker: &Api, material: &mut Material) {
    let assessment = rated(site, asker, "appealed", &[("good", 36, "accepted")]).await;
    let filing = |dimension: &str| {
        json!({"dimensions": [dimension], "justification": "It was right.",
            "counter_evidence": [{"task_id": "appealed-good-1", "claim": "It was accepted."}]})
    };
    let path = format!("/api/v1/assessments/{assessment}/appeals");
    let appeal = post(asker, &path, filing("accuracy")).await;
    let appeal = appeal["id"].as_str().unwrap();
    for operation in ["fileAppeal", "listAppeals"] {
        material.names(operation, &[("path.assessmentId", &assessment)]);
    }
    for operation in ["getAppeal", "resolveAppeal"] {
        let names = [
            ("path.assessmentId", assessment.as_str()),
            ("path.appealId", appeal),
        ];
        material.names(operation, &names);
    }
    material.sends("fileAppeal", filing("speed"));
    material.sends("resolveAppeal", json!({"decision": "review"}));
}

/// Organizations, agents and evidence. Operations that change an organization get a separate one:
/// suspending a shared one would break all others.
async fn furnish_ratings(
    site: &Site,
    host: &Host,
    api: &Api,
    asker: &Api,
    material: &mut Material,
) {
    let id = |made: &Value| made["id"].as_str().unwrap().to_owned();
    let body = json!({"name": "Probe", "tenant": "acme"});
    let own = id(&post(api, "/api/v1/organizations", body).await);
    let other = id(&post(api, "/api/v1/organizations", json!({"name": "Other"})).await);
    for (operation, organization) in [
        ("getOrganization", &own),
        ("getAaafConfig", &own),
        ("getOrganizationWeights", &own),
        ("getOrganizationTaxonomy", &own),
        ("setOrganizationWeights", &other),
        ("setOrganizationTaxonomy", &other),
        ("changeOrganization", &other),
        ("changeAaafConfig", &other),
    ] {
        material.names(operation, &[("path.organizationId", organization)]);
    }
    material.sends("createOrganization", json!({"name": "One more"}));
    material.sends("changeOrganization", json!({"name": "Another name"}));
    material.sends("changeAaafConfig", json!({"assessment_window_days": 14}));
    material.sends("setWeights", json!({"performance_weights": null}));
    material.sends("setTaxonomy", json!({"domain_taxonomy": ["code"]}));
    material.sends(
        "setOrganizationWeights",
        json!({"performance_weights": null}),
    );
    material.sends(
        "setOrganizationTaxonomy",
        json!({"domain_taxonomy": ["code"]}),
    );
    for operation in [
        "getAaafAgent",
        "getCollectionProgress",
        "changeAaafAgent",
        "archiveAaafAgent",
    ] {
        let agent = post(api, "/api/v1/agents", json!({"name": operation})).await;
        material.names(operation, &[("path.agentId", &id(&agent))]);
    }
    // Two agents of an organization cannot represent the same version.
    let runs = json!({"name": "orderStressTest", "openwop_agent": format!("{AGENT}@1.0.0"), "domains": ["code"]});
    let agent = post(api, "/api/v1/agents", runs).await;
    material.names("orderStressTest", &[("path.agentId", &id(&agent))]);
    material.sends("orderStressTest", json!({"dimension": "domain_breadth"}));
    material.sends("enrolAgent", json!({"name": "probe"}));
    material.sends("changeAaafAgent", json!({"version": "2"}));
    let agent = id(&post(api, "/api/v1/agents", json!({"name": "busy"})).await);
    let event = json!({"agent_id": agent, "type": "tool_invoked", "timestamp": jiff::Timestamp::now(),
        "data": {"task_id": "t", "tool": "grep", "success": true, "unnecessary": false, "error_recovered": null}});
    post(api, "/api/v1/events", event.clone()).await;
    let order =
        json!({"agent_id": agent, "type": "single_dimension", "dimension": "tool_proficiency"});
    let ordered = id(&post(api, "/api/v1/assessments", order.clone()).await);
    material.names("getAssessment", &[("path.assessmentId", &ordered)]);
    // For an agent that this host can run.
    post(api, "/v1/host/touchstone/packs", upload(site, "1.3.0")).await;
    let one_version = json!({"name": "orderStressTestOfAssessment", "openwop_agent": format!("{AGENT}@1.3.0"),
        "domains": ["code"]});
    let tested = id(&post(api, "/api/v1/agents", one_version).await);
    let of_it = |mut body: Value| {
        body["agent_id"] = json!(tested);
        body
    };
    post(api, "/api/v1/events", of_it(event.clone())).await;
    let earlier = id(&post(api, "/api/v1/assessments", of_it(order.clone())).await);
    material.names(
        "orderStressTestOfAssessment",
        &[("path.assessmentId", &earlier)],
    );
    material.sends(
        "orderStressTestOfAssessment",
        json!({"dimension": "domain_breadth"}),
    );
    let task = json!({"dimension": "autonomy", "task_definition": {"input": "Say it."},
        "expected_outcome": {"strategy": "contains", "value": "it"}});
    let added = id(&post(api, "/api/v1/stress-tests", task.clone()).await);
    material.names("removeStressTest", &[("path.stressTestId", &added)]);
    material.sends("addStressTest", task);
    // A large score change.
    let moved = [("good", 36, "accepted"), ("bad", 60, "rejected")];
    let moved = rated(site, asker, "moved", &moved).await;
    material.names("reviewAssessment", &[("path.assessmentId", &moved)]);
    furnish_profiles(api, material).await;
    furnish_webhooks(api, &order, material).await;
    furnish_appeals(site, asker, material).await;
    furnish_badges(site, asker, &own, material).await;
    // A compromised key takes the badges of its organization with it.
    let signing = post(api, "/api/v1/organizations", json!({"name": "Signing"})).await;
    let theirs = host.api(signing["api_key"].as_str().unwrap());
    rated(site, &theirs, "signed", &[("good", 36, "accepted")]).await;
    material.names("rotateIssuerKey", &[("path.organizationId", &id(&signing))]);
    material.sends("rotateIssuerKey", json!({}));
    material.sends("orderAssessment", order);
    material.sends("reviewAssessment", json!({"decision": "approve"}));
    material.sends("recordEvidence", event.clone());
    material.sends("recordEvidenceBatch", json!({"events": [event]}));
}

/// An organization that the test client audits, and an assessment that waits for a review.
async fn furnish_audits(site: &Site, host: &Host, api: &Api, key: &str, material: &mut Material) {
    let text = |made: &Value, name: &str| made[name].as_str().unwrap().to_owned();
    let audited = post(api, "/api/v1/organizations", json!({"name": "Audited"})).await;
    let organization = text(&audited, "id");
    // A key without a principal acts under its id.
    let id = key.strip_prefix("hk_test_").unwrap();
    let id = id.split_once('_').unwrap().0;
    let path = format!("/api/v1/organizations/{organization}");
    for (path, body) in [
        (
            path.clone(),
            json!({"auditors": [{"tenant": "acme", "principal": id}]}),
        ),
        (format!("{path}/config"), json!({"review_policy": "always"})),
    ] {
        let (status, said) = api.text(Method::PATCH, &path, Some(&body)).await;
        assert!(status.is_success(), "{path}: {status} {said}");
    }
    let theirs = host.api(&text(&audited, "api_key"));
    let waits = rated(site, &theirs, "audited", &[("good", 36, "accepted")]).await;
    material.names(
        "listAuditedAssessments",
        &[("path.organizationId", organization.as_str())],
    );
    for operation in ["getAuditedAssessment", "reviewAuditedAssessment"] {
        let names = [
            ("path.organizationId", organization.as_str()),
            ("path.assessmentId", waits.as_str()),
        ];
        material.names(operation, &names);
    }
    material.sends("reviewAuditedAssessment", json!({"decision": "approve"}));
}

/// Maps the tasks of suites to assessments.
async fn furnish_profiles(api: &Api, material: &mut Material) {
    let profile = |version: &str| json!({"suiteId": SUITE, "suiteVersion": version, "defaults": {"domain": "code", "complexityLevel": 2}});
    for (operation, version) in [
        ("getProfile", "2.0.1"),
        ("removeProfile", "2.0.2"),
        ("setProfile", "2.0.3"),
    ] {
        let path = format!("/api/v1/profiles/{SUITE}/{version}");
        let body = profile(version);
        let (status, text) = api.text(Method::PUT, &path, Some(&body)).await;
        assert!(status.is_success(), "{path}: {status} {text}");
        let names = [("path.suiteId", SUITE), ("path.suiteVersion", version)];
        material.names(operation, &names);
    }
    material.sends("setProfile", profile("2.0.3"));
}

/// A webhook of the organization with one delivery. No other id is given: each request works on the
/// resource that the previous one created.
async fn furnish_webhooks(api: &Api, order: &Value, material: &mut Material) {
    let hook = json!({"url": "http://127.0.0.1:65535/"});
    material.sends("createNoticeWebhook", hook.clone());
    let made = post(api, "/api/v1/webhooks", hook).await;
    let made = made["id"].as_str().unwrap();
    post(api, "/api/v1/assessments", order.clone()).await;
    let path = format!("/api/v1/webhooks/{made}/deliveries");
    let delivery = loop {
        let listed = api.get(&path).await;
        if let Some(id) = listed["data"][0]["id"].as_str() {
            break id.to_owned();
        }
        crate::support::pause().await;
    };
    material.names(
        "redeliverNotice",
        &[("path.webhookId", made), ("path.deliveryId", &delivery)],
    );
}

/// A card, and the URL of one.
fn furnish_agent_cards(material: &mut Material) {
    const PLACE: &str = "https://agents.example/";
    material.sends(
        "scoreAgentCard",
        json!({"card": {"name": "Probe"}, "offline": true}),
    );
    material.sends(
        "rankAgentCards",
        json!({"candidates": [{"name": "Probe", "card": {"name": "Probe"}}], "offline": true}),
    );
    material.sends("watchAgentCard", json!({"url": PLACE, "everyHours": 24}));
    for operation in ["getAgentCardHistory", "unwatchAgentCard"] {
        material.names(operation, &[("query.url", PLACE)]);
    }
}

/// A pack with a profile, and an ended evaluation with it.
async fn furnish_oasis(site: &Site, api: &Api, material: &mut Material) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("packs/oasis-front-desk");
    let mut open = vec![folder.clone()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let below = path.strip_prefix(&folder).unwrap().to_str().unwrap();
            // Uses the namespace of the site's key.
            let text = text.replace("vendor.touchstone", "private.touchstone");
            site.write(&format!("desk/{below}"), &text);
        }
    }
    site.run_on_files(&["pack", "build", "desk", "--out", "desk.tgz"]);
    let key = ["--key", "signing.pem", "--key-id", "site-key"];
    site.run_on_files(&[["pack", "sign", "desk.tgz"].as_slice(), &key].concat());
    site.run_at(api, &["pack", "install", "desk.tgz"]);
    let asked = json!({"profile": "oasis-profile-front-desk", "profileVersion": "1.0.0", "tier": 1, "provider": "rooms"});
    material.sends("checkOasisProvider", asked.clone());
    let mut oasis = asked;
    oasis["evaluator"] = json!("probe");
    let configurable = json!({"evalModes": ["golden"], "oasis": oasis});
    let (suite, agent) = (
        "private.touchstone.evals.front-desk@1.0.0",
        "private.touchstone.front-desk.clerk",
    );
    let run = api.start(suite, agent, configurable).await;
    let log = api.log(&run).await;
    let executed = log
        .iter()
        .find(|it| it["type"] == "touchstone.oasis.scenario");
    let scenario = executed.unwrap()["payload"]["scenarioId"].as_str().unwrap();
    for operation in ["getOasisVerdict", "getOasisReport"] {
        material.names(operation, &[("path.runId", &run)]);
    }
    material.names(
        "getOasisEvidence",
        &[("path.runId", &run), ("path.scenarioId", scenario)],
    );
    let vector = include_str!("../../../fixtures/oasis/compute/till.json");
    let mut vector: Value = serde_json::from_str(vector).unwrap();
    material.sends("computeOasisVerdict", vector["input"].take());
}

/// Ended runs, one for each operation that changes their retention.
async fn furnish_storage(api: &Api, material: &mut Material) {
    let reason = json!({"reason": "case-17"});
    for (operation, body) in [
        ("deleteRun", None),
        ("holdRun", Some(reason.clone())),
        ("releaseRun", Some(json!({}))),
        ("archiveRun", Some(json!({}))),
        ("voidRun", Some(reason.clone())),
    ] {
        let run = api.start(&format!("{SUITE}@2.0.1"), AGENT, json!({})).await;
        api.log(&run).await;
        if operation == "releaseRun" {
            let hold = format!("/v1/host/touchstone/runs/{run}:hold");
            post(api, &hold, reason.clone()).await;
        }
        material.names(operation, &[("path.runId", &run)]);
        if let Some(body) = body {
            material.sends(operation, body);
        }
    }
}

async fn furnish_badges(site: &Site, asker: &Api, organization: &str, material: &mut Material) {
    let assessment = rated(site, asker, "certified", &[("good", 36, "accepted")]).await;
    let path = format!("/api/v1/assessments/{assessment}");
    let certified = asker.get(&path).await;
    let badge = certified["badge_id"].as_str().unwrap();
    for operation in [
        "getBadge",
        "getBadgeCredential",
        "verifyBadge",
        "revokeBadge",
    ] {
        material.names(operation, &[("path.badgeId", badge)]);
    }
    material.sends("revokeBadge", json!({"reason": "withdrawn"}));
    let path = format!("/api/v1/badges/{badge}/credential");
    let credential = asker.get(&path).await;
    let list = &credential["credentialStatus"]["statusListCredential"];
    let list = list.as_str().unwrap().rsplit_once('/').unwrap().1;
    material.names("getStatusList", &[("path.statusListId", list)]);
    material.names("getDidDocument", &[("path.organizationId", organization)]);
}

/// Sends generated requests for each operation of a description that the host serves, and checks the
/// responses. `excluded` are checks
/// that do not apply. Returns the operations that accepted none of them.
async fn generate(
    python: &Path,
    site: &Site,
    api: &Api,
    key: &str,
    material: &Material,
    (described, excluded, more): (&str, &[&str], &[&str]),
) -> Vec<String> {
    site.write("schemathesis.toml", &material.configuration());
    let description = material.description(api.get(described).await);
    site.write("openapi.json", &description.to_string());
    let output = Command::new(python)
        .args(["-B", "-m", "schemathesis.cli"])
        .args(["--config-file", "schemathesis.toml"])
        .args([
            "run",
            "--no-color",
            "--seed",
            SEED,
            "--max-examples",
            EXAMPLES,
        ])
        .args(["--checks", "all"])
        .args(["--exclude-checks", &excluded.join(",")])
        .args(["--report", "json", "--report-json-path", "report.json"])
        .args(["--url", api.base_url()])
        .arg("--header")
        .arg(format!("Authorization: Bearer {key}"))
        .args(more)
        .arg("openapi.json")
        .current_dir(site.folder())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let report = std::fs::read(site.folder().join("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    let rates = report["valid_rates"].as_object().unwrap();
    let mut refused = Vec::new();
    for (path, item) in description["paths"].as_object().unwrap() {
        for method in item
            .as_object()
            .unwrap()
            .keys()
            .filter(|key| *key != "parameters")
        {
            let operation = format!("{} {path}", method.to_uppercase());
            let phases = rates.get(&operation).and_then(Value::as_object);
            let accepted = phases
                .into_iter()
                .flat_map(|phases| phases.values())
                .any(|phase| phase["accepted"].as_u64() > Some(0));
            if !accepted {
                eprintln!("{operation}: {phases:?}");
                refused.push(operation);
            }
        }
    }
    refused
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_to_generated_requests_match_the_openapi_description() {
    let Some(python) = python("schemathesis") else {
        return;
    };
    let endpoint = Endpoint::start(1..2, |body| {
        let question = question(body);
        if question.contains("\n<answer ") {
            return saying(&json!({"met": question.contains("\nblue")}).to_string());
        }
        if question.contains("broken") {
            return (
                400,
                json!({"error": {"message": "no", "type": "invalid_request_error"}}),
            );
        }
        saying("It is blue.")
    })
    .await;
    let hook = Receiver::start(Answer::Echo).await;
    let rooms = Rooms::open(Options::default()).await;
    let site = Site::embedded();
    let archive = tempfile::tempdir().unwrap();
    site.configure(
        "touchstone.toml",
        &format!(
            "[archive]\nurl = \"file://{2}\"\n[conformance]\nenabled = true\n[ratings]\npublic_url = \"https://evals.example.org\"\nrequests_per_minute_per_key = 0\nevents_per_minute_per_key = 0\nassessments_per_hour_per_key = 0\n[webhooks]\nprivate_targets = [\"127.0.0.1\"]\n\
             [packs.registry]\ntenant = \"acme\"\nnamespaces = [\"private.touchstone.probe\"]\n\
             [[oasis.providers]]\nname = \"rooms\"\nurl = \"{1}\"\n\
             [[models]]\nclass = \"*\"\nprovider = \"openai\"\nbase_url = \"{0}\"\nmodel = \"probe\"\n\
             [judge]\nprovider = \"openai\"\nbase_url = \"{0}\"\nmodel = \"judge\"\n",
            endpoint.url(),
            rooms.url(),
            archive.path().display()
        ),
    );
    let more = [
        "organizations:write",
        "metrics:read",
        "cluster:manage",
        "keys:manage",
    ];
    let operator: Vec<&str> = more.iter().flat_map(|scope| ["--scope", scope]).collect();
    let all = [
        "key", "create", "--tenant", "acme", "--scope", "all", "--test",
    ];
    let key = site.run(&[&all[..], &operator[..]].concat());
    let key = key.trim();
    let host = site.serve("touchstone.toml");
    let api = host.api(key);
    let mut material = furnish(&site, &api, &hook).await;
    furnish_storage(&api, &mut material).await;
    let asker = [
        "key",
        "create",
        "--tenant",
        "acme",
        "--scope",
        "all",
        "--principal",
        "asker",
    ];
    let asker = host.api(site.run(&asker).trim());
    furnish_ratings(&site, &host, &api, &asker, &mut material).await;
    furnish_audits(&site, &host, &api, key, &mut material).await;
    furnish_agent_cards(&mut material);
    material.names("getErrorPage", &[("code", "not_found")]);
    furnish_oasis(&site, &api, &mut material).await;
    let refused = generate(
        &python,
        &site,
        &api,
        key,
        &material,
        ("/v1/openapi.json", &[ACCEPTANCE, METHODS], &[]),
    )
    .await;
    let refused: Vec<_> = refused
        .iter()
        .filter(|it| *it != WITHOUT_A_WORKER)
        .collect();
    assert!(
        refused.is_empty(),
        "operations that refused every request: {refused:#?}"
    );
    assert!(host.terminate());
}
