//! The agent's URL, its interfaces and its provider's site.

use std::collections::BTreeMap;

use rstest::rstest;
use serde_json::{Value, json};
use touchstone_agent_cards::rules::live::{
    Body, Endpoint, LiveRequests, NoReply, Observation, Plan, Reply, Tls, site_answers,
};
use touchstone_agent_cards::rules::transport::Transport;
use touchstone_agent_cards::rules::{Card, Context, Live, score};

use super::{
    ID, ORIGIN, answering, asked, failing, found, json_reply, message, on_message, open_headers,
    outcome, probe, reply, rest_probe, rpc, scored_of, seen, silent, task, unknown_method, with,
};
use crate::agent_cards::fixture::Change::{Cut, Set};
use crate::agent_cards::fixture::{Change, card, changed, keys, now, signed};

#[rstest]
#[case::good(asked(), "100", &[])]
#[case::a_task(answering(rpc(&task())), "100", &[])]
#[case::charset(on_message(|it| it.headers = [("Content-Type", "Application/JSON; charset=utf-8"), ("Access-Control-Allow-Origin", ORIGIN)].into_iter().collect()), "100", &[])]
#[case::just_fast(on_message(|it| it.elapsed_ms = 2999), "100", &[])]
#[case::slow(on_message(|it| it.elapsed_ms = 3000), "90", &["RESPONSE_SLOW /url"])]
#[case::no_tls(with(|it| it.tls = Tls::Absent), "95", &["TLS_ABSENT /url"])]
#[case::bad_tls(with(|it| it.tls = Tls::Invalid), "95", &["TLS_INVALID /url"])]
#[case::wrong_type(on_message(|it| it.headers = [("content-type", "text/html"), ("access-control-allow-origin", "*")].into_iter().collect()), "95", &["CONTENT_TYPE_INVALID /url"])]
#[case::no_type(on_message(|it| it.headers = [("access-control-allow-origin", "*")].into_iter().collect()), "95", &["CONTENT_TYPE_INVALID /url"])]
#[case::other_origin(on_message(|it| it.headers = [("content-type", "application/json"), ("access-control-allow-origin", "https://x.example")].into_iter().collect()), "95", &["CORS_MISSING /url"])]
#[case::two_origins(on_message(|it| it.headers = [("content-type", "application/json"), ("access-control-allow-origin", "*"), ("access-control-allow-origin", "*")].into_iter().collect()), "95", &["CORS_MISSING /url"])]
#[case::no_preflight(with(|it| it.preflight.as_mut().unwrap().status = 405), "95", &["CORS_MISSING /url"])]
#[case::silent_preflight(with(|it| it.preflight = Err(NoReply::Timeout)), "95", &["CORS_MISSING /url"])]
#[case::no_headers_allowed(with(|it| it.preflight.as_mut().unwrap().headers = [("access-control-allow-origin", "*")].into_iter().collect()), "95", &["CORS_MISSING /url"])]
#[case::all_headers_allowed(with(|it| it.preflight.as_mut().unwrap().headers = [("access-control-allow-origin", "*"), ("access-control-allow-headers", "*")].into_iter().collect()), "100", &[])]
#[case::bare_text(answering(rpc(&json!({"text": "Aye."}))), "90", &["RESPONSE_STRUCTURE_INVALID /url"])]
#[case::wrong_role(answering(rpc(&changed(message(), &[Set("/role", json!("user"))]))), "90", &["RESPONSE_STRUCTURE_INVALID /url"])]
#[case::no_parts(answering(rpc(&changed(message(), &[Set("/parts", json!([]))]))), "90", &["RESPONSE_STRUCTURE_INVALID /url"])]
#[case::state(answering(rpc(&changed(task(), &[Set("/status/state", json!("done"))]))), "90", &["RESPONSE_STRUCTURE_INVALID /url"])]
#[case::protobuf_form(answering(rpc(&json!({"messageId": "m", "role": "ROLE_AGENT", "content": [{"text": "x"}]}))), "90", &["RESPONSE_STRUCTURE_INVALID /url"])]
#[case::declined(answering(json!({"jsonrpc": "2.0", "id": ID, "error": {"code": -32005, "message": "no"}})), "90", &["RESPONSE_STRUCTURE_INVALID /url"])]
#[case::internal_error(answering(json!({"jsonrpc": "2.0", "id": ID, "error": {"code": -32603, "message": "no"}})), "70", &["PREFERRED_TRANSPORT_FAILED /url"])]
#[case::code_below(answering(json!({"jsonrpc": "2.0", "id": ID, "error": {"code": -32008}})), "70", &["PREFERRED_TRANSPORT_FAILED /url"])]
#[case::code_above(answering(json!({"jsonrpc": "2.0", "id": ID, "error": {"code": -32000}})), "70", &["PREFERRED_TRANSPORT_FAILED /url"])]
#[case::other_id(answering(changed(rpc(&message()), &[Set("/id", json!("x"))])), "70", &["PREFERRED_TRANSPORT_FAILED /url"])]
#[case::other_version(answering(changed(rpc(&message()), &[Set("/jsonrpc", json!("1.0"))])), "70", &["PREFERRED_TRANSPORT_FAILED /url"])]
#[case::result_and_error(answering(changed(rpc(&message()), &[Set("/error", json!({"code": -32001}))])), "70", &["PREFERRED_TRANSPORT_FAILED /url"])]
#[case::neither(answering(json!({"jsonrpc": "2.0", "id": ID})), "70", &["PREFERRED_TRANSPORT_FAILED /url"])]
#[case::list_of_results(answering(rpc(&json!([message()]))), "70", &["PREFERRED_TRANSPORT_FAILED /url"])]
#[case::created(on_message(|it| it.status = 201), "70", &["PREFERRED_TRANSPORT_FAILED /url"])]
#[case::not_json(on_message(|it| it.body = Body::Whole(b"Aye.".to_vec())), "70", &["PREFERRED_TRANSPORT_FAILED /url"])]
#[case::oversized(on_message(|it| it.body = Body::Oversized), "70", &["PREFERRED_TRANSPORT_FAILED /url"])]
#[case::not_found(failing(404), "60", &["CONTENT_TYPE_INVALID /url", "ERROR_HANDLING_POOR /url", "PREFERRED_TRANSPORT_FAILED /url"])]
#[case::redirect(with(|it| { it.message = failing(307).message; it.error = failing(307).error; it.preflight.as_mut().unwrap().status = 307; }), "55", &["CONTENT_TYPE_INVALID /url", "CORS_MISSING /url", "ERROR_HANDLING_POOR /url", "PREFERRED_TRANSPORT_FAILED /url"])]
#[case::server_error(failing(500), "15", &["ENDPOINT_SERVER_ERROR /url"])]
#[case::silence(silent(NoReply::Timeout, Tls::Verified), "15", &["ENDPOINT_UNREACHABLE /url"])]
#[case::cut(silent(NoReply::Cut, Tls::Verified), "15", &["ENDPOINT_UNREACHABLE /url"])]
#[case::nobody(silent(NoReply::Unreachable, Tls::NotReached), "10", &["ENDPOINT_UNREACHABLE /url"])]
#[case::plain_error(with(|it| it.error = probe(Ok(reply(200, "no such method")))), "95", &["ERROR_HANDLING_POOR /url"])]
#[case::error_without_code(with(|it| it.error = probe(Ok(json_reply(200, &json!({"id": ID, "error": "no"}))))), "95", &["ERROR_HANDLING_POOR /url"])]
#[case::error_of_another(with(|it| it.error = probe(Ok(json_reply(200, &changed(unknown_method(), &[Set("/id", json!("x"))]))))), "95", &["ERROR_HANDLING_POOR /url"])]
#[case::error_without_id(with(|it| it.error = probe(Ok(json_reply(200, &changed(unknown_method(), &[Cut("/id")]))))), "95", &["ERROR_HANDLING_POOR /url"])]
#[case::error_of_nobody(with(|it| it.error = probe(Ok(json_reply(404, &changed(unknown_method(), &[Set("/id", json!(null))]))))), "100", &[])]
#[case::error_with_500(with(|it| it.error = probe(Ok(json_reply(500, &unknown_method())))), "95", &["ERROR_HANDLING_POOR /url"])]
#[case::error_with_a_fraction(with(|it| it.error = probe(Ok(json_reply(200, &changed(unknown_method(), &[Set("/error/code", json!(-32601.5))]))))), "95", &["ERROR_HANDLING_POOR /url"])]
#[case::error_is_no_error(with(|it| it.error = probe(Ok(json_reply(200, &rpc(&message()))))), "95", &["ERROR_HANDLING_POOR /url"])]
fn availability_points_depend_on_the_responses_of_the_endpoint(
    #[case] asked: LiveRequests,
    #[case] total: &str,
    #[case] issues: &[&str],
) {
    let (found, _, told) = outcome(&seen(asked));
    assert_eq!(found, total);
    assert_eq!(told, issues);
}

#[test]
fn an_endpoint_that_requires_authentication_responds_but_does_not_work() {
    let denied = |headers: &[(&'static str, &'static str)]| Reply {
        headers: headers.iter().copied().collect(),
        ..json_reply(401, &json!({"error": "who?"}))
    };
    let [kind, origin] = open_headers();
    let told = denied(&[kind, origin, ("www-authenticate", "Bearer")]);
    let asked = LiveRequests {
        message: probe(Ok(told.clone())),
        error: probe(Ok(told.clone())),
        ..asked()
    };
    let mut of = seen(asked.clone());
    of.interfaces.insert(1, probe(Ok(told)).into());
    let (total, rating, issues) = outcome(&of);
    assert_eq!((total.as_str(), rating), ("60", json!("DEGRADED")));
    let failed = "INTERFACE_FAILED /additionalInterfaces/1";
    assert_eq!(issues, ["AUTH_REQUIRED /url", failed]);
    // An error without a reason is not reported as an error.
    of.endpoint = Endpoint::Called(Box::new(LiveRequests {
        error: probe(Ok(denied(&[kind]))),
        ..asked
    }));
    assert_eq!(outcome(&of).0, "55");
}

#[test]
fn the_breakdown_has_the_published_form() {
    let mut of = seen(on_message(|it| it.elapsed_ms = 3214));
    of.interfaces.insert(1, probe(Err(NoReply::Timeout)).into());
    let found = serde_json::to_value(scored_of(&card(), &of).availability).unwrap();
    assert_eq!(
        found,
        json!({
            "total": 80, "rating": "AVAILABLE", "ratingLabel": "Available", "tested": true, "notTestedReason": null,
            "breakdown": {
                "primaryEndpoint": {
                    "score": 40, "maxScore": 50, "responds": true, "responseTimeMs": 3214, "hasCors": true, "validTls": true,
                },
                "transportSupport": {
                    "score": 20, "maxScore": 30, "preferredTransportWorks": true,
                    "additionalInterfacesWorking": 0, "additionalInterfacesFailed": 1,
                },
                "responseQuality": {
                    "score": 20, "maxScore": 20, "validStructure": true, "properContentType": true,
                    "properErrorHandling": true,
                },
            },
        })
    );
}

#[rstest]
#[case::refused(Endpoint::Refused, "ADDRESS_BLOCKED /url")]
#[case::unusable(Endpoint::Unusable, "ENDPOINT_UNREACHABLE /url")]
fn an_agent_with_an_unusable_endpoint_scores_zero(#[case] endpoint: Endpoint, #[case] issue: &str) {
    let of = Observation {
        endpoint,
        ..seen(asked())
    };
    let (total, rating, issues) = outcome(&of);
    assert_eq!((total.as_str(), rating), ("0", json!("UNAVAILABLE")));
    assert_eq!(issues, [issue]);
}

#[test]
fn a_host_name_with_an_internal_address_is_reported_as_blocked() {
    let of = seen(silent(NoReply::Refused, Tls::NotReached));
    assert_eq!(outcome(&of).2, ["ADDRESS_BLOCKED /url"]);
}

/// Additional interfaces of the card, and those that answer.
#[rstest]
#[case::none(json!([]), &[], "100", &[])]
#[case::only_the_main_one(json!([{"url": "https://berths.harbour.example/a2a", "transport": "JSONRPC"}]), &[], "100", &[])]
#[case::one_of_three(json!([{"url": "https://a.example/1", "transport": "HTTP+JSON"}, {"url": "https://a.example/2", "transport": "JSONRPC"}, {"url": "https://a.example/3", "transport": "GRPC"}]), &[0], "93.33", &["INTERFACE_FAILED /additionalInterfaces/1", "INTERFACE_FAILED /additionalInterfaces/2"])]
#[case::main_url_over_another(json!([{"url": "https://berths.harbour.example/a2a", "transport": "HTTP+JSON"}]), &[], "90", &["INTERFACE_FAILED /additionalInterfaces/0"])]
#[case::unknown(json!([{"url": "https://a.example/1", "transport": "WS"}]), &[], "100", &["INTERFACE_NOT_TESTED /additionalInterfaces/0"])]
fn further_interfaces_share_ten_points(
    #[case] interfaces: Value,
    #[case] answering: &[usize],
    #[case] total: &str,
    #[case] issues: &[&str],
) {
    let card = changed(card(), &[Set("/additionalInterfaces", interfaces)]);
    let plan = Plan::of(&Card::parse(&serde_json::to_vec(&card).unwrap()).unwrap());
    let outcome = |index| {
        if answering.contains(&index) {
            rest_probe()
        } else {
            probe(Err(NoReply::Unreachable))
        }
    };
    let of = Observation {
        interfaces: plan
            .interfaces
            .iter()
            .map(|it| (it.index, outcome(it.index).into()))
            .collect(),
        ..seen(asked())
    };
    let scorecard = scored_of(&card, &of);
    assert_eq!(scorecard.availability.total.unwrap().to_string(), total);
    let availability: Vec<_> = found(&scorecard)
        .into_iter()
        .filter(|it| it.starts_with("INTERFACE"))
        .collect();
    assert_eq!(availability, issues);
}

#[test]
fn an_untested_interface_does_not_change_the_score() {
    let of = Observation {
        interfaces: BTreeMap::new(),
        ..seen(asked())
    };
    let (total, _, issues) = outcome(&of);
    assert_eq!(total, "100");
    assert_eq!(issues, ["INTERFACE_NOT_TESTED /additionalInterfaces/1"]);
}

#[test]
fn unknown_transports_are_unsupported() {
    let card = changed(card(), &[Set("/preferredTransport", json!("WS"))]);
    let of = seen(silent(NoReply::NotSent, Tls::Verified));
    let scorecard = scored_of(&card, &of);
    // TLS 5 points, and the answering interface 10.
    assert_eq!(scorecard.availability.total.unwrap().to_string(), "15");
    let told = found(&scorecard);
    assert!(told.contains(&"PREFERRED_TRANSPORT_FAILED /url".to_owned()));
}

#[test]
fn the_plan_contains_the_interfaces_of_the_card() {
    let card = changed(
        card(),
        &[
            Set("/additionalInterfaces/1/url", json!("no url")),
            Set(
                "/additionalInterfaces/2",
                json!({"url": "https://x.example/", "transport": "WS"}),
            ),
            Set("/additionalInterfaces/3", json!(7)),
        ],
    );
    let plan = Plan::of(&Card::parse(&serde_json::to_vec(&card).unwrap()).unwrap());
    assert_eq!(
        plan.endpoint.unwrap().as_str(),
        "https://berths.harbour.example/a2a"
    );
    assert_eq!(plan.transport, Some(Transport::JsonRpc));
    assert_eq!(plan.provider.unwrap().as_str(), "https://harbour.example/");
    assert_eq!(plan.unknown, [2, 3]);
    let [interface] = plan.interfaces.as_slice() else {
        panic!("{:?}", plan.interfaces)
    };
    assert_eq!(
        (interface.index, &interface.url, interface.transport),
        (1, &None, Transport::HttpJson)
    );
    let nothing = Plan::of(&Card::parse(b"{\"url\": \"ftp://x.example\"}").unwrap());
    assert_eq!((nothing.endpoint, nothing.provider), (None, None));
}

#[rstest]
#[case::reached(Some(true), 25, 5, &[])]
#[case::not_reached(Some(false), 20, 0, &["PROVIDER_URL_UNREACHABLE /provider/url"])]
#[case::not_asked(None, 20, 0, &[])]
fn a_reachable_provider_site_adds_points(
    #[case] reachable: Option<bool>,
    #[case] points: u64,
    #[case] more: u64,
    #[case] issues: &[&str],
) {
    let of = Observation {
        provider_reachable: reachable,
        ..seen(asked())
    };
    let scorecard = scored_of(&signed(card(), "ES256"), &of);
    let provider = scorecard.trust.breakdown.as_ref().unwrap().provider.clone();
    assert_eq!(
        (provider.score, provider.url_reachable),
        (points, reachable)
    );
    assert_eq!(scorecard.trust.raw_score, 92 + more);
    assert_eq!(found(&scorecard), issues);
    // Without a site URL there is nothing to request.
    let without = scored_of(&changed(card(), &[Cut("/provider/url")]), &of);
    assert_eq!(
        without.trust.breakdown.unwrap().provider.url_reachable,
        None
    );
}

#[rstest]
#[case(200, true)]
#[case(301, true)]
#[case(403, true)]
#[case(404, false)]
#[case(410, false)]
#[case(500, false)]
fn a_site_is_reachable_unless_it_returns_404_410_or_5xx(
    #[case] status: u16,
    #[case] answers: bool,
) {
    assert_eq!(site_answers(&Ok(reply(status, ""))), answers);
    assert!(!site_answers(&Err(NoReply::Timeout)));
}

#[test]
fn a_card_at_the_legacy_path_is_reported() {
    let of = Observation {
        legacy_path: true,
        ..seen(asked())
    };
    assert_eq!(outcome(&of).2, ["LEGACY_WELL_KNOWN_PATH "]);
}

#[test]
fn low_availability_prevents_production_readiness() {
    let card = signed(card(), "EdDSA");
    let good = scored_of(&card, &seen(asked()));
    assert!(good.production_ready);
    let bad = scored_of(&card, &seen(failing(500)));
    assert_eq!(
        bad.recommendation,
        ["Not production ready: availability 15 is below 80."]
    );
    let keys = keys();
    let bytes = serde_json::to_vec(&card).unwrap();
    for (live, reason, told) in [
        (Live::Disabled, "live_testing_disabled", vec![]),
        (
            Live::SchemaOnly,
            "schema_only",
            vec!["AVAILABILITY_NOT_TESTED "],
        ),
    ] {
        let context = Context {
            now: now(),
            keys: Some(&keys),
            live,
        };
        let untested = score(&bytes, &context);
        assert!(untested.production_ready);
        assert_eq!(found(&untested), told);
        assert_eq!(
            json!(untested.availability.not_tested_reason),
            json!(reason)
        );
    }
}

/// Ensures that the changes in these tests have an effect.
#[test]
fn the_sample_card_has_one_further_interface_to_test() {
    let unchanged: &[Change] = &[];
    let card = changed(card(), unchanged);
    let plan = Plan::of(&Card::parse(&serde_json::to_vec(&card).unwrap()).unwrap());
    let places: Vec<_> = plan.interfaces.iter().map(|it| it.index).collect();
    assert_eq!(places, [1]);
}
