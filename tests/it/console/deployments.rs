//! Deployments, approvals and the audit log in the console: pages and forms through the real router.

use axum::body::Body;
use axum::http::header::{COOKIE, LOCATION, SET_COOKIE};
use axum::http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use touchstone_host::access::Scope;
use touchstone_kit::ids::RunId;
use tower::ServiceExt as _;

use crate::http::deployments::promotion::{audit, eval, host, into_service};
use crate::http::support::host::{AGENT, SUITE, TestHost, agent_pack};

const ROLE: &str = "release-manager";

/// A signed-in person.
struct Person<'a> {
    host: &'a TestHost,
    cookie: String,
}

struct Shown {
    status: StatusCode,
    location: String,
    body: String,
}

async fn call(host: &TestHost, request: Request<Body>) -> (Shown, String) {
    let response = host.router.clone().oneshot(request).await.unwrap();
    let text = |name| {
        let value = response.headers().get(name);
        value.map_or("", |it| it.to_str().unwrap()).to_owned()
    };
    let (location, cookie) = (text(LOCATION), text(SET_COOKIE));
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let shown = Shown {
        status,
        location,
        body: String::from_utf8(body.to_vec()).unwrap(),
    };
    (shown, cookie)
}

fn encoded(fields: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish()
}

impl<'a> Person<'a> {
    async fn sign_in(host: &'a TestHost, key: &str) -> Self {
        let request = Request::builder()
            .method(Method::POST)
            .uri("/console/sign-in")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Body::from(encoded(&[("key", key)])));
        let (shown, cookie) = call(host, request.unwrap()).await;
        assert_eq!(shown.status, StatusCode::SEE_OTHER, "{}", shown.body);
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Self { host, cookie }
    }

    async fn get(&self, path: &str) -> Shown {
        let request = Request::builder().uri(path).header(COOKIE, &self.cookie);
        let (shown, _) = call(self.host, request.body(Body::empty()).unwrap()).await;
        shown
    }

    async fn page(&self, path: &str) -> String {
        let shown = self.get(path).await;
        assert_eq!(shown.status, StatusCode::OK, "{path}: {}", shown.body);
        shown.body
    }

    /// Sends a form of a page with the page's token.
    async fn send(&self, page: &str, path: &str, fields: &[(&str, &str)]) -> Shown {
        let form = self.page(page).await;
        let token = after(&form, "name=\"csrf\" value=\"");
        let fields = [&[("csrf", token)], fields].concat();
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(COOKIE, &self.cookie)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Body::from(encoded(&fields)));
        let (shown, _) = call(self.host, request.unwrap()).await;
        shown
    }

    async fn promote(&self, version: &str, more: &[(&str, &str)]) -> Shown {
        let page = format!("{}/promote?version={version}", agent());
        let fields = [
            &[
                ("transition", "promote"),
                ("version", version),
                ("reason", "weekly release"),
            ],
            more,
        ]
        .concat();
        let path = format!("{}/transition", agent());
        self.send(&page, &path, &fields).await
    }
}

/// The text up to the next quote after `mark`.
fn after<'a>(text: &'a str, mark: &str) -> &'a str {
    let (_, rest) = text
        .split_once(mark)
        .unwrap_or_else(|| panic!("no {mark}: {text}"));
    rest.split('"').next().unwrap()
}

fn agent() -> String {
    format!("/console/deployments/{AGENT}")
}

/// Requires approval of promotions on `stable`.
pub async fn require_approval(host: &TestHost, more: Value) {
    let mut approval = json!({"requiredRole": ROLE});
    for (name, value) in more.as_object().unwrap() {
        approval[name] = value.clone();
    }
    let eval = json!({"requireSignedSuite": false, "confidence": "lenient", "minTasks": 1});
    let policy = json!({"channel": "stable", "policy": {"eval": eval, "approval": approval}});
    let set = host.post("/v1/host/touchstone/gates", &policy).await;
    assert_eq!(set.status, StatusCode::OK, "{set:?}");
}

/// A key with these scopes and the role of approvers.
pub async fn approver(host: &TestHost, name: &str, scopes: &[Scope]) -> String {
    host.issue(|issue| {
        issue.principal = Some(name.to_owned());
        issue.scopes = scopes.to_vec();
        issue.roles = vec![ROLE.to_owned()];
    })
    .await
}

/// A version with an eval, one step before it goes into service.
async fn staged(host: &TestHost, person: &Person<'_>, version: &str) -> String {
    let run = eval(host, version).await;
    for _ in 0..2 {
        let sent = person.promote(version, &[]).await;
        assert_eq!(sent.location, format!("{}?done=version-promoted", agent()));
    }
    run
}

/// The gate run that a promotion waits for.
async fn gate_of(person: &Person<'_>) -> RunId {
    let page = person.page("/console/approvals").await;
    let gate = after(&page, "action=\"/console/approvals/");
    RunId::from(gate.split('/').next().unwrap())
}

#[tokio::test]
async fn a_promotion_shows_its_conditions_and_a_refused_one_says_why() {
    let host = host().await;
    let person = Person::sign_in(&host, &host.key).await;
    let list = person.page("/console/deployments").await;
    assert!(list.contains(AGENT) && list.contains("Serves no channel"));
    for version in ["1.0.0", "1.1.0"] {
        assert!(person.page(&agent()).await.contains(version));
    }
    let page = format!("{}/promote?version=1.0.0", agent());
    assert!(person.page(&page).await.contains("This step has no gate."));
    for _ in 0..2 {
        let sent = person.promote("1.0.0", &[]).await;
        assert_eq!(sent.location, format!("{}?done=version-promoted", agent()));
    }

    let shown = person.page(&page).await;
    assert!(shown.contains("an eval run of this tenant is the evidence"));
    assert!(shown.contains("not checked: an eval run of this tenant is the evidence"));
    assert!(
        shown.contains("<button class=\"primary\" disabled"),
        "{shown}"
    );
    let before = person.page(&agent()).await;
    let sent = person.promote("1.0.0", &[("channel", "stable")]).await;
    assert!(sent.location.contains("refused=run_"), "{}", sent.location);
    let why = person.page(&sent.location).await;
    assert!(why.contains("The host refused this step."));
    assert!(why.contains("no eval run of this tenant is named"));
    let listed = person.page(&agent()).await;
    assert!(before.contains("Staged") && listed.contains("Staged"));
    assert!(listed.contains("Refused") && !listed.contains("> Active<"));

    let run = eval(&host, "1.0.0").await;
    let shown = person.page(&page).await;
    assert!(shown.contains(&run), "the newest eval run is filled in");
    assert!(!shown.contains(" disabled"), "{shown}");
    assert!(!shown.contains("Not met: "));
    let to = [("channel", "stable"), ("run", &*run), ("toState", "active")];
    let sent = person.promote("1.0.0", &to).await;
    assert_eq!(sent.location, format!("{}?done=version-promoted", agent()));
    let twice = person.promote("1.0.0", &to).await;
    assert_eq!(twice.status, StatusCode::BAD_REQUEST, "sent twice");
    let shown = person.page(&agent()).await;
    assert!(shown.contains("weekly release") && shown.contains("100 %"));
}

#[tokio::test]
async fn a_version_is_paused_and_rolled_back_with_a_reason() {
    let host = host().await;
    into_service(&host, "1.0.0", json!({})).await;
    into_service(&host, "1.1.0", json!({"canaryPercent": 10})).await;
    let person = Person::sign_in(&host, &host.key).await;
    let shown = person.page("/console/deployments").await;
    assert!(shown.contains("10 %") && shown.contains("90 %"));
    let page = format!("{}/change?transition=rollback&version=1.1.0", agent());
    let path = format!("{}/transition", agent());
    let fields = [("transition", "rollback"), ("version", "1.1.0")];
    let silent = person.send(&page, &path, &fields).await;
    assert_eq!(
        silent.status,
        StatusCode::BAD_REQUEST,
        "a reason is required"
    );
    let fields = [&fields[..], &[("reason", "wrong answers")]].concat();
    let sent = person.send(&page, &path, &fields).await;
    assert_eq!(
        sent.location,
        format!("{}?done=version-rolled-back", agent())
    );
    let shown = person.page(&agent()).await;
    assert!(shown.contains("wrong answers") && shown.contains("Rolled back"));
    assert!(shown.contains("100 %"));
    let impossible = person.page(&page).await;
    assert!(impossible.contains("This step is not possible"));
    assert_eq!(
        audit(&host).await.last().unwrap()["action"],
        "deployment:rollback"
    );
}

#[tokio::test]
async fn somebody_else_approves_a_promotion_in_the_console() {
    let host = host().await;
    require_approval(&host, json!({"excludeRequester": true})).await;
    let all: Vec<Scope> = Scope::within_tenant().collect();
    let (bob, ann) = (
        approver(&host, "bob", &all).await,
        approver(&host, "ann", &[Scope::ApprovalsRespond]).await,
    );
    let (bob, ann) = (
        Person::sign_in(&host, &bob).await,
        Person::sign_in(&host, &ann).await,
    );
    let run = staged(&host, &bob, "1.0.0").await;
    let page = format!("{}/promote?version=1.0.0", agent());
    assert!(bob.page(&page).await.contains("Ask for approval"));
    let to = [("channel", "stable"), ("run", &*run), ("toState", "active")];
    let sent = bob.promote("1.0.0", &to).await;
    assert!(
        sent.location.ends_with("done=approval-asked"),
        "{}",
        sent.location
    );
    assert!(bob.page(&sent.location).await.contains(" disabled"));

    let own = bob.page("/console/approvals").await;
    assert!(own.contains("You asked for this, so you may not answer"));
    let gate = gate_of(&ann).await;
    let answer = format!("/console/approvals/{gate}/gate");
    let yes = [("answer", "accept"), ("reason", "looks good")];
    let own = bob.send("/console/approvals", &answer, &yes).await;
    assert_eq!(own.status, StatusCode::FORBIDDEN, "{}", own.body);
    let sent = ann.send("/console/approvals", &answer, &yes).await;
    assert_eq!(sent.location, "/console/approvals?done=answered");
    host.ended(&gate).await;
    let nothing = ann.page("/console/approvals").await;
    assert!(nothing.contains("Nothing waits for an answer"));
    let sent = bob.promote("1.0.0", &to).await;
    assert_eq!(sent.location, format!("{}?done=version-promoted", agent()));
    assert!(bob.page(&agent()).await.contains("ann approved"));

    let forbidden = ann.get("/console/audit").await;
    assert_eq!(forbidden.status, StatusCode::FORBIDDEN);
    assert!(forbidden.body.contains("audit:read"));
}

#[tokio::test]
async fn an_override_is_marked_and_the_audit_log_is_searched_and_verified() {
    let host = host().await;
    require_approval(
        &host,
        json!({"quorum": 2, "override": {"requiredRole": ROLE}}),
    )
    .await;
    let all: Vec<Scope> = Scope::within_tenant().collect();
    // Not so short that a random text of a form may contain it.
    let name = "bob-who-overrides";
    let bob = approver(&host, name, &all).await;
    let bob = Person::sign_in(&host, &bob).await;
    let run = staged(&host, &bob, "1.0.0").await;
    let to = [("channel", "stable"), ("run", &*run), ("toState", "active")];
    bob.promote("1.0.0", &to).await;
    let gate = gate_of(&bob).await;
    let answer = format!("/console/approvals/{gate}/gate");
    let over = [("answer", "override"), ("reason", "<b>outage</b>")];
    let sent = bob.send("/console/approvals", &answer, &over).await;
    assert_eq!(sent.location, "/console/approvals?done=overridden");
    host.ended(&gate).await;
    bob.promote("1.0.0", &to).await;
    let shown = bob.page(&agent()).await;
    assert!(shown.contains("</span> Override</span>"), "{shown}");
    assert!(!shown.contains("<b>outage"), "markup is escaped");

    let found = bob.page("/console/audit?action=approval").await;
    assert!(found.contains("approval:override") && !found.contains("deployment:promote"));
    let found = bob.page("/console/audit?principal=nobody").await;
    assert!(found.contains("No entry matches"));
    for (query, is_found) in [
        ("since=2001-01-01", true),
        ("until=2001-01-01", false),
        ("outcome=done", true),
        ("outcome=done&since=2999-01-01", false),
    ] {
        let found = bob.page(&format!("/console/audit?{query}")).await;
        assert_eq!(
            !found.contains("No entry matches"),
            is_found,
            "{query}: {found}"
        );
    }
    let found = bob.page("/console/audit/verify").await;
    assert!(found.contains("The audit log is intact"), "{found}");
    let other = Person::sign_in(&host, &host.other_key).await;
    let foreign = other.get(&agent()).await;
    assert_eq!(foreign.status, StatusCode::NOT_FOUND);
    let foreign = other.page("/console/audit").await;
    assert!(!foreign.contains("approval:override") && !foreign.contains(name));
}

/// The fields of the checked boxes, texts and chosen options of the form on a page.
fn fields_of(page: &str) -> Vec<(String, String)> {
    let (_, form) = page.split_once("class=\"policy-form\"").unwrap();
    let form = form.split("</form>").next().unwrap();
    let attribute = |tag: &str, name: &str| {
        let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
        Some(rest.split('"').next().unwrap().to_owned())
    };
    let mut fields = Vec::new();
    for tag in form.split('<').skip(1) {
        let tag = format!(" {}", tag.split('>').next().unwrap());
        let off = tag.contains("type=\"checkbox\"") && !tag.ends_with(" checked");
        if tag.starts_with(" input") && !off {
            let value = attribute(&tag, "value").unwrap_or_default();
            fields.push((attribute(&tag, "name").unwrap(), value));
        }
        if tag.starts_with(" select") {
            fields.push((attribute(&tag, "name").unwrap(), String::new()));
        }
        if tag.starts_with(" option") && tag.ends_with(" selected") {
            fields.last_mut().unwrap().1 = attribute(&tag, "value").unwrap();
        }
    }
    fields
}

/// The policy of the channel `stable`.
async fn on_stable(host: &TestHost) -> Option<Value> {
    let set = host.get("/v1/host/touchstone/gates").await.json();
    let mut all = set["policies"].as_array().unwrap().iter();
    let found = all.find(|it| it["channel"] == "stable")?;
    Some(found["policy"].clone())
}

#[tokio::test]
async fn a_gate_policy_is_set_changed_and_removed_in_words() {
    let host = host().await;
    require_approval(&host, json!({"quorum": 2, "excludeRequester": true})).await;
    let person = Person::sign_in(&host, &host.key).await;
    let list = person.page("/console/gates").await;
    assert!(list.contains("Every agent on channel stable"), "{list}");
    assert!(list.contains("approval of 2 with role `release-manager`, other than the requester"));
    assert!(list.contains("Everything else"));

    let edit = "/console/gates/edit?agentId=&channel=stable";
    let shown = person.page(edit).await;
    let before = host.get("/v1/host/touchstone/gates").await.json();
    let mut fields = fields_of(&shown);
    fields.retain(|(name, _)| name != "csrf");
    let send = async |fields: &[(String, String)]| {
        let fields: Vec<(&str, &str)> = fields.iter().map(|(a, b)| (&**a, &**b)).collect();
        person.send(edit, "/console/gates", &fields).await
    };
    let kept = send(&fields).await;
    assert_eq!(
        kept.location, "/console/gates?done=gate-set",
        "{}",
        kept.body
    );
    let after = host.get("/v1/host/touchstone/gates").await.json();
    assert_eq!(
        after, before,
        "a form that is sent as shown changes nothing"
    );

    for (name, value) in [("eval.minTasks", "12"), ("approval.quorum", "1")] {
        let field = fields.iter_mut().find(|(own, _)| own == name);
        field.unwrap().1 = value.to_owned();
    }
    fields.retain(|(name, _)| name != "approval.excludeRequester");
    fields.push(("rating".to_owned(), "on".to_owned()));
    fields.push(("rating.validBadge".to_owned(), "on".to_owned()));
    send(&fields).await;
    let set = on_stable(&host).await.unwrap();
    assert_eq!(
        (&set["eval"]["minTasks"], &set["approval"]["quorum"]),
        (&json!(12), &json!(1))
    );
    assert_eq!(set["approval"].get("excludeRequester"), None);
    assert_eq!(set["rating"]["validBadge"], true, "{set}");

    let wrong = [("channel", "no-such"), ("eval", "on")];
    let wrong = person.send(edit, "/console/gates", &wrong).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    let scope = [("agentId", ""), ("channel", "stable")];
    let removed = person.send(edit, "/console/gates/remove", &scope).await;
    assert_eq!(removed.location, "/console/gates?done=gate-removed");
    assert_eq!(on_stable(&host).await, None);
    let entries = host.get("/v1/host/touchstone/audit").await.text();
    assert!(entries.contains("gates:remove"));
}

#[tokio::test]
async fn a_policy_is_not_changed_without_the_right() {
    let host = host().await;
    let reader = host.key_with(&[Scope::ManifestRead]).await;
    let reader = Person::sign_in(&host, &reader).await;
    let list = reader.page("/console/gates").await;
    assert!(list.contains("gates:write") && !list.contains("New policy"));
    assert_eq!(
        reader.get("/console/gates/edit").await.status,
        StatusCode::FORBIDDEN
    );
    let refused = reader.send("/console/gates", "/console/gates", &[]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn the_agents_are_shown_in_pages() {
    let host = TestHost::idle().await;
    for n in 0..51 {
        let pack = agent_pack(&format!("community.bench.many{n:02}"), &[]);
        host.install_pack(&pack).await;
    }
    let person = Person::sign_in(&host, &host.key).await;
    let first = person.page("/console/deployments").await;
    assert!(first.contains("51 agents"), "{first}");
    assert!(first.contains("many49") && !first.contains("many50"));
    let next = after(&first, "href=\"/console/deployments?after=");
    let next = person
        .page(&format!("/console/deployments?after={next}"))
        .await;
    assert!(next.contains("many50") && !next.contains(">community.bench.many49.default<"));
    let none = person.page("/console/deployments?after=zzz").await;
    assert!(none.contains("No further agent"));
}

#[tokio::test]
async fn a_run_shows_the_strictest_gate_that_requires_its_suite() {
    let host = host().await;
    let person = Person::sign_in(&host, &host.key).await;
    let run = format!("/console/runs/{}", eval(&host, "1.0.0").await);
    let without = person.page(&run).await;
    assert!(without.contains("of the default policy") && !without.contains("Gate of channel"));
    for (channel, tasks) in [("canary", 1), ("stable", 500)] {
        let eval = json!({"suiteId": SUITE, "requireSignedSuite": false,
            "confidence": "lenient", "minTasks": tasks});
        let policy = json!({"channel": channel, "policy": {"eval": eval}});
        let set = host.post("/v1/host/touchstone/gates", &policy).await;
        assert_eq!(set.status, StatusCode::OK, "{set:?}");
    }
    let page = person.page(&run).await;
    assert!(page.contains("<h3>Gate of channel stable</h3>"), "{page}");
    assert!(
        page.contains("One condition of the gate is not met."),
        "{page}"
    );
    assert!(page.contains("<h3>Default policy</h3>") && !page.contains("channel canary"));
    let link = page.split("href=\"").find(|it| it.contains("/promote?"));
    let link = link
        .unwrap()
        .split('"')
        .next()
        .unwrap()
        .replace("&#38;", "&");
    assert!(person.page(&link).await.contains("stable"), "{link}");
    let reader = host.key_with(&[Scope::RunsRead]).await;
    let reader = Person::sign_in(&host, &reader).await;
    assert!(!reader.page(&run).await.contains("Gate of channel"));
}

#[tokio::test]
async fn a_step_shows_deployments_only_to_people_who_may_read_them() {
    let host = TestHost::idle().await;
    let key = host.key_with(&[Scope::RunsRead]).await;
    let person = Person::sign_in(&host, &key).await;
    for step in [
        "promote?version=1.0.0",
        "change?transition=pause&version=1.0.0",
    ] {
        let shown = person.get(&format!("{}/{step}", agent())).await;
        assert_eq!(shown.status, StatusCode::FORBIDDEN, "{}", shown.body);
        assert!(shown.body.contains("manifest:read"), "{}", shown.body);
    }
}
