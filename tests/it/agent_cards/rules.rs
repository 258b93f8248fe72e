//! The cost of each compliance and trust rule, by one change at a time to a perfect card.

use rstest::rstest;
use serde_json::{Value, json};
use touchstone_agent_cards::rules::{Context, Live, Scorecard, score};

use super::fixture::Change::{Cut, Set};
use super::fixture::{Change, card, changed, issues, keys, now, scored};

/// The finding of every unsigned card.
const ABSENT: &str = "SIGNATURES_ABSENT /signatures";

fn of(changes: &[Change]) -> Scorecard {
    scored(&changed(card(), changes), &keys())
}

/// Points for core fields, skills, format and data quality.
fn compliance(scorecard: &Scorecard) -> (String, u64, u64, u64) {
    let of = scorecard.compliance.breakdown.as_ref().unwrap();
    (
        of.core_fields.score.to_string(),
        of.skills_quality.score,
        of.format_compliance.score,
        of.data_quality.score,
    )
}

/// Points for the provider, security and documentation.
fn trust(scorecard: &Scorecard) -> (u64, u64, u64) {
    let of = scorecard.trust.breakdown.as_ref().unwrap();
    (of.provider.score, of.security.score, of.documentation.score)
}

fn found(scorecard: &Scorecard) -> Vec<String> {
    let mut issues = issues(scorecard);
    issues.retain(|it| it != ABSENT);
    issues
}

#[test]
fn a_faultless_card_gets_full_compliance_without_a_signature() {
    let scorecard = of(&[]);
    assert_eq!(compliance(&scorecard), ("60".to_owned(), 20, 15, 5));
    assert_eq!(trust(&scorecard), (20, 20, 15));
    assert_eq!(issues(&scorecard), [ABSENT]);
    assert_eq!(
        scorecard.recommendation,
        ["Not production ready: trust 33 is below 60."]
    );
}

#[rstest]
#[case::absent(Cut("/description"), "53.33", &["CORE_FIELD_MISSING /description"])]
#[case::null(Set("/description", Value::Null), "53.33", &["CORE_FIELD_MISSING /description"])]
#[case::blank(Set("/name", json!(" \t\u{a0}")), "53.33", &["CORE_FIELD_MISSING /name"])]
#[case::number(Set("/name", json!(7)), "53.33", &["CORE_FIELD_WRONG_TYPE /name"])]
#[case::empty_object_is_there(Set("/capabilities", json!({})), "60", &[])]
#[case::list_for_object(Set("/capabilities", json!([])), "53.33", &["CORE_FIELD_WRONG_TYPE /capabilities"])]
#[case::empty_list(Set("/defaultOutputModes", json!([])), "53.33", &["CORE_FIELD_MISSING /defaultOutputModes"])]
#[case::text_for_list(Set("/defaultInputModes", json!("text/plain")), "53.33", &["CORE_FIELD_WRONG_TYPE /defaultInputModes"])]
fn missing_and_blank_core_fields_cost_points(
    #[case] change: Change,
    #[case] points: &str,
    #[case] expected: &[&str],
) {
    let scorecard = of(&[change]);
    assert_eq!(compliance(&scorecard).0, points);
    assert_eq!(found(&scorecard), expected);
}

#[rstest]
#[case::none(Set("/skills", json!([])), 0, &["CORE_FIELD_MISSING /skills", "SKILLS_EMPTY /skills"])]
#[case::object(Set("/skills", json!({"id": "x"})), 0, &["CORE_FIELD_WRONG_TYPE /skills", "SKILLS_EMPTY /skills"])]
#[case::no_name(Cut("/skills/0/name"), 13, &["SKILL_REQUIRED_FIELD_MISSING /skills/0"])]
#[case::blank_id(Set("/skills/1/id", json!(" ")), 13, &["SKILL_REQUIRED_FIELD_MISSING /skills/1"])]
#[case::no_tags(Cut("/skills/0/tags"), 14, &["SKILL_TAGS_MISSING /skills/0/tags"])]
#[case::blank_tags(Set("/skills/0/tags", json!([" ", 7])), 14, &["SKILL_TAGS_MISSING /skills/0/tags"])]
#[case::one_good_tag(Set("/skills/0/tags", json!([" ", "x"])), 20, &[])]
#[case::tags_text(Set("/skills/0/tags", json!("port")), 14, &["SKILL_TAGS_MISSING /skills/0/tags"])]
#[case::no_object(Set("/skills/1", json!("book")), 7, &["SKILL_REQUIRED_FIELD_MISSING /skills/1", "SKILL_TAGS_MISSING /skills/1/tags"])]
#[case::modes_only_warn(Set("/skills/0/inputModes", json!(["text/plain", "csv", 7])), 20, &["SKILL_MODE_INVALID /skills/0/inputModes/1", "SKILL_MODE_INVALID /skills/0/inputModes/2"])]
fn skills_are_to_be_complete_and_tagged(
    #[case] change: Change,
    #[case] points: u64,
    #[case] expected: &[&str],
) {
    let scorecard = of(&[change]);
    assert_eq!(compliance(&scorecard).1, points);
    assert_eq!(found(&scorecard), expected);
}

#[test]
fn skill_points_do_not_fall_below_zero() {
    let scorecard = of(&[Set("/skills", json!(vec![json!({}); 4]))]);
    assert_eq!(compliance(&scorecard).1, 0);
    assert_eq!(found(&scorecard).len(), 8);
}

#[rstest]
#[case::version(Set("/version", json!("3.1")), 12, &["VERSION_NOT_SEMVER /version"])]
#[case::long_version(Set("/version", json!("99999999999999999999.0.0")), 15, &[])]
#[case::protocol(Set("/protocolVersion", json!("0.3")), 12, &["PROTOCOL_VERSION_UNSUPPORTED /protocolVersion"])]
#[case::protocol_spaced(Set("/protocolVersion", json!("0.3.0 ")), 12, &["PROTOCOL_VERSION_UNSUPPORTED /protocolVersion"])]
#[case::transport_case(Set("/preferredTransport", json!("JsonRpc")), 12, &["MAIN_INTERFACE_NOT_LISTED /additionalInterfaces", "TRANSPORT_INVALID /preferredTransport", "TRANSPORT_URL_CONFLICT /additionalInterfaces/0"])]
#[case::transport_number(Set("/preferredTransport", json!(1)), 12, &["MAIN_INTERFACE_NOT_LISTED /additionalInterfaces", "TRANSPORT_INVALID /preferredTransport"])]
#[case::transport_absent(Cut("/preferredTransport"), 15, &["PREFERRED_TRANSPORT_DEFAULTED /preferredTransport"])]
#[case::transport_null(Set("/preferredTransport", Value::Null), 15, &["PREFERRED_TRANSPORT_DEFAULTED /preferredTransport"])]
#[case::interface_without(Cut("/additionalInterfaces/1/transport"), 12, &["TRANSPORT_INVALID /additionalInterfaces/1/transport"])]
#[case::interface_unknown(Set("/additionalInterfaces/1/transport", json!("WS")), 12, &["TRANSPORT_INVALID /additionalInterfaces/1/transport"])]
#[case::interface_no_object(Set("/additionalInterfaces/1", json!(1)), 12, &["TRANSPORT_INVALID /additionalInterfaces/1/transport"])]
#[case::interfaces_empty(Set("/additionalInterfaces", json!([])), 15, &[])]
#[case::interface_twice(Set("/additionalInterfaces/1/url", json!("https://berths.harbour.example/a2a")), 15, &["TRANSPORT_URL_CONFLICT /additionalInterfaces/1"])]
#[case::main_not_listed(Set("/additionalInterfaces/0/url", json!("https://berths.harbour.example/b")), 15, &["MAIN_INTERFACE_NOT_LISTED /additionalInterfaces"])]
#[case::mode_word(Set("/defaultInputModes/0", json!("text")), 2, &["MIME_TYPE_INVALID /defaultInputModes/0"])]
#[case::mode_range(Set("/defaultOutputModes/0", json!("application/*")), 2, &["MIME_TYPE_INVALID /defaultOutputModes/0"])]
#[case::mode_number(Set("/defaultOutputModes/0", json!(1)), 2, &["MIME_TYPE_INVALID /defaultOutputModes/0"])]
#[case::mode_parameter(Set("/defaultInputModes/0", json!("text/plain; charset=utf-8")), 15, &[])]
fn malformed_values_cost_points(
    #[case] change: Change,
    #[case] points: u64,
    #[case] expected: &[&str],
) {
    let scorecard = of(&[change]);
    assert_eq!(compliance(&scorecard).2, points);
    assert_eq!(found(&scorecard), expected);
}

#[test]
fn invalid_media_types_cost_points_once_and_not_below_zero() {
    let bad = [
        Set("/defaultInputModes", json!(["a", "b"])),
        Set("/defaultOutputModes", json!(["c"])),
    ];
    assert_eq!(compliance(&of(&bad)).2, 2);
    let worse = [&bad[..], &[Set("/version", json!("x"))]].concat();
    assert_eq!(compliance(&of(&worse)).2, 0);
}

#[rstest]
#[case::name("/name", 100)]
#[case::description("/description", 1000)]
#[case::skill_id("/skills/0/id", 200)]
#[case::skill_name("/skills/1/name", 200)]
#[case::skill_description("/skills/0/description", 2000)]
fn texts_over_their_maximum_length_cost_points(
    #[case] pointer: &'static str,
    #[case] limit: usize,
) {
    let fits = of(&[Set(pointer, json!("⚓".repeat(limit)))]);
    assert_eq!((compliance(&fits).3, found(&fits)), (5, vec![]));
    let long = of(&[Set(pointer, json!("⚓".repeat(limit + 1)))]);
    assert_eq!(compliance(&long).3, 3);
    assert_eq!(found(&long), [format!("FIELD_TOO_LONG {pointer}")]);
}

#[test]
fn a_url_may_have_500_characters() {
    let url = |length: usize| format!("https://berths.harbour.example/{}", "a".repeat(length - 31));
    let changes = |length| {
        [
            Set("/url", json!(url(length))),
            Cut("/additionalInterfaces"),
        ]
    };
    assert_eq!(compliance(&of(&changes(500))).3, 5);
    assert_eq!(found(&of(&changes(501))), ["FIELD_TOO_LONG /url"]);
}

#[rstest]
#[case::two(&[Set("/skills/1/id", json!("find"))], 3, &["SKILL_ID_DUPLICATE /skills/1/id"])]
#[case::other_case(&[Set("/skills/1/id", json!("Find"))], 5, &[])]
#[case::three(&[Set("/skills/1/id", json!("find")), Set("/skills/2", json!({"id": "find", "name": "n", "description": "d", "tags": ["t"]}))], 3, &["SKILL_ID_DUPLICATE /skills/1/id", "SKILL_ID_DUPLICATE /skills/2/id"])]
#[case::blank_ids(&[Set("/skills/0/id", json!("")), Set("/skills/1/id", json!(""))], 5, &["SKILL_REQUIRED_FIELD_MISSING /skills/0", "SKILL_REQUIRED_FIELD_MISSING /skills/1"])]
fn ids_are_to_differ(#[case] changes: &[Change], #[case] points: u64, #[case] expected: &[&str]) {
    let scorecard = of(changes);
    assert_eq!(compliance(&scorecard).3, points);
    assert_eq!(found(&scorecard), expected);
}

#[rstest]
#[case::provider("/provider/url", "https://192.168.1.1", 4)]
#[case::icon("/iconUrl", "https://[fd00::1]/i", 4)]
#[case::documentation("/documentationUrl", "https://wiki.corp/x", 4)]
#[case::terms("/termsOfServiceUrl", "https://017700000001/", 4)]
#[case::privacy("/privacyPolicyUrl", "https://nas/", 4)]
#[case::interface("/additionalInterfaces/1/url", "https://a.home.arpa/", 4)]
#[case::token(
    "/securitySchemes/pass/flows/clientCredentials/tokenUrl",
    "https://10.1/",
    4
)]
#[case::path_only("/documentationUrl", "https://docs.example/10.0.0.1/localhost", 5)]
fn urls_with_internal_hosts_cost_points(
    #[case] pointer: &'static str,
    #[case] url: &str,
    #[case] points: u64,
) {
    let scorecard = of(&[Set(pointer, json!(url))]);
    assert_eq!(compliance(&scorecard).3, points);
    let expected: Vec<_> = (points < 5)
        .then(|| format!("SSRF_RISK {pointer}"))
        .into_iter()
        .collect();
    assert_eq!(found(&scorecard), expected);
}

#[test]
fn a_url_with_user_information_is_checked_for_internal_hosts() {
    let scorecard = of(&[Set("/iconUrl", json!("https://me@localhost/"))]);
    assert_eq!(
        found(&scorecard),
        ["NON_HTTPS_URL /iconUrl", "SSRF_RISK /iconUrl"]
    );
}

#[rstest]
#[case::no_organization(Cut("/provider/organization"), (10, 20, 15), &["PROVIDER_ORGANIZATION_MISSING /provider/organization"])]
#[case::blank_organization(Set("/provider/organization", json!("")), (10, 20, 15), &["PROVIDER_ORGANIZATION_MISSING /provider/organization"])]
#[case::no_site(Cut("/provider/url"), (10, 20, 15), &["PROVIDER_URL_MISSING /provider/url"])]
#[case::plain_site(Set("/provider/url", json!("http://harbour.example")), (10, 0, 15), &["HTTP_URL /provider/url", "PROVIDER_URL_MISSING /provider/url"])]
#[case::no_provider(Cut("/provider"), (0, 20, 15), &["PROVIDER_ORGANIZATION_MISSING /provider/organization", "PROVIDER_URL_MISSING /provider/url"])]
#[case::ftp(Set("/iconUrl", json!("ftp://harbour.example/a.svg")), (20, 10, 15), &["NON_HTTPS_URL /iconUrl"])]
#[case::any_case(Set("/iconUrl", json!("HTTP://harbour.example/a.svg")), (20, 0, 15), &["HTTP_URL /iconUrl"])]
#[case::blank_is_none(Set("/iconUrl", json!(" ")), (20, 20, 15), &[])]
#[case::number_is_none(Set("/iconUrl", json!(1)), (20, 20, 15), &[])]
#[case::extension_is_a_name(Set("/capabilities/extensions", json!([{"uri": "http://x.example/e"}])), (20, 20, 15), &[])]
#[case::no_schemes(Cut("/securitySchemes"), (20, 10, 15), &["SECURITY_SCHEMES_MISSING /securitySchemes", "STRONG_AUTH_MISSING /securitySchemes"])]
#[case::empty_schemes(Set("/securitySchemes", json!({})), (20, 10, 15), &["SECURITY_SCHEMES_MISSING /securitySchemes", "STRONG_AUTH_MISSING /securitySchemes"])]
#[case::list_of_schemes(Set("/securitySchemes", json!([{"type": "oauth2"}])), (20, 10, 15), &["SECURITY_SCHEMES_MISSING /securitySchemes", "STRONG_AUTH_MISSING /securitySchemes"])]
#[case::api_key(Set("/securitySchemes", json!({"k": {"type": "apiKey"}})), (20, 15, 15), &["STRONG_AUTH_MISSING /securitySchemes"])]
#[case::bearer(Set("/securitySchemes", json!({"k": {"type": "http", "scheme": "bearer"}})), (20, 15, 15), &["STRONG_AUTH_MISSING /securitySchemes"])]
#[case::openid(Set("/securitySchemes", json!({"a": 1, "k": {"type": "openIdConnect"}})), (20, 20, 15), &[])]
#[case::mutual(Set("/securitySchemes", json!({"k": {"type": "mutualTLS"}})), (20, 20, 15), &[])]
#[case::wrapped_oauth(Set("/securitySchemes", json!({"k": {"oauth2SecurityScheme": {}}})), (20, 20, 15), &[])]
#[case::wrapped_openid(Set("/securitySchemes", json!({"k": {"openIdConnectSecurityScheme": {}}})), (20, 20, 15), &[])]
#[case::wrapped_mutual(Set("/securitySchemes", json!({"k": {"mtlsSecurityScheme": {}}})), (20, 20, 15), &[])]
#[case::wrapped_nothing(Set("/securitySchemes", json!({"k": {"mtlsSecurityScheme": null}})), (20, 15, 15), &["STRONG_AUTH_MISSING /securitySchemes"])]
#[case::escaped_name(Set("/securitySchemes/pass", json!({"type": "oauth2", "flows": {"a/b": {"refreshUrl": "http://x.example"}}})), (20, 0, 15), &["HTTP_URL /securitySchemes/pass/flows/a~1b/refreshUrl"])]
#[case::openid_url(Set("/securitySchemes/pass/openIdConnectUrl", json!("http://x.example")), (20, 0, 15), &["HTTP_URL /securitySchemes/pass/openIdConnectUrl"])]
#[case::metadata_url(Set("/securitySchemes/pass/oauth2MetadataUrl", json!("x")), (20, 10, 15), &["NON_HTTPS_URL /securitySchemes/pass/oauth2MetadataUrl"])]
#[case::device_url(Set("/securitySchemes/pass/flows/clientCredentials/deviceAuthorizationUrl", json!("x")), (20, 10, 15), &["NON_HTTPS_URL /securitySchemes/pass/flows/clientCredentials/deviceAuthorizationUrl"])]
#[case::wrapped_url(Set("/securitySchemes", json!({"k": {"oauth2SecurityScheme": {"flows": {"password": {"tokenUrl": "http://x.example"}}}}})), (20, 0, 15), &["HTTP_URL /securitySchemes/k/oauth2SecurityScheme/flows/password/tokenUrl"])]
#[case::plain_documentation(Set("/documentationUrl", json!("http://harbour.example/docs")), (20, 0, 15), &["HTTP_URL /documentationUrl"])]
#[case::no_documentation(Cut("/documentationUrl"), (20, 20, 10), &["DOCUMENTATION_URL_MISSING /documentationUrl"])]
#[case::no_terms(Cut("/termsOfServiceUrl"), (20, 20, 10), &["TERMS_OF_SERVICE_URL_MISSING /termsOfServiceUrl"])]
#[case::junk_privacy(Set("/privacyPolicyUrl", json!("n/a")), (20, 10, 10), &["NON_HTTPS_URL /privacyPolicyUrl", "PRIVACY_POLICY_URL_MISSING /privacyPolicyUrl"])]
#[case::ftp_terms(Set("/termsOfServiceUrl", json!("ftp://harbour.example/t")), (20, 10, 10), &["NON_HTTPS_URL /termsOfServiceUrl", "TERMS_OF_SERVICE_URL_MISSING /termsOfServiceUrl"])]
fn unsupported_claims_cost_trust_points(
    #[case] change: Change,
    #[case] points: (u64, u64, u64),
    #[case] expected: &[&str],
) {
    let scorecard = of(&[change]);
    assert_eq!(trust(&scorecard), points);
    assert_eq!(found(&scorecard), expected);
}

#[test]
fn an_empty_card_passes_only_checks_without_subject() {
    let scorecard = scored(&json!({}), &keys());
    assert_eq!(compliance(&scorecard), ("0".to_owned(), 0, 6, 5));
    assert_eq!(trust(&scorecard), (0, 0, 0));
    assert_eq!(
        scorecard.recommendation,
        ["Not production ready: compliance 11 is below 95, trust 0 is below 60."]
    );
}

#[rstest]
#[case::cut(r#"{"name": "x"#.as_bytes())]
#[case::list(b"[{}]")]
#[case::text(b"\"{}\"")]
#[case::nothing(b"")]
#[case::twice(br#"{"a": {"b": 1, "b": 1}}"#)]
#[case::twice_escaped(br#"{"a": 1, "\u0061": 1}"#)]
#[case::lone_surrogate(br#"{"a": "\ud800"}"#)]
#[case::lone_surrogate_name(br#"{"\udc00": 1}"#)]
#[case::latin(b"{\"a\": \"\xe4\"}")]
#[case::two(b"{} {}")]
fn a_card_that_cannot_be_read_scores_nothing(#[case] bytes: &[u8]) {
    unreadable(bytes);
}

fn unreadable(bytes: &[u8]) {
    let keys = keys();
    let context = Context {
        now: now(),
        keys: Some(&keys),
        live: Live::SchemaOnly,
    };
    let mut found = serde_json::to_value(score(bytes, &context)).unwrap();
    let message = found["issues"][0]["message"].take();
    assert!(
        message
            .as_str()
            .unwrap()
            .starts_with("The card cannot be scored: it ")
    );
    assert_eq!(
        found,
        json!({
            "score": 0,
            "compliance": {"total": 0, "rating": "POOR", "ratingLabel": "Poor", "breakdown": null},
            "trust": {
                "total": 0, "rawScore": 0, "confidenceMultiplier": 0.6, "rating": "UNTRUSTED",
                "ratingLabel": "Untrusted", "partialValidation": false, "breakdown": null, "signatureResults": [],
            },
            "availability": {
                "total": null, "rating": "NOT_TESTED", "ratingLabel": "Not Tested", "tested": false,
                "notTestedReason": "card_unparseable", "breakdown": null,
            },
            "productionReady": false,
            "blockers": ["compliance", "trust"],
            "recommendation": ["Not production ready: compliance 0 is below 95, trust 0 is below 60."],
            "issues": [{
                "code": "CARD_UNPARSEABLE", "severity": "error", "dimension": "compliance", "path": "", "message": null,
            }],
        })
    );
}

#[test]
fn a_card_may_have_up_to_one_mebibyte() {
    let padded =
        |length: usize| format!(r#"{{"name":"{}"}}"#, "x".repeat(length - 11)).into_bytes();
    let scorecard = score(
        &padded(1024 * 1024),
        &Context {
            now: now(),
            keys: None,
            live: Live::Disabled,
        },
    );
    assert!(scorecard.compliance.breakdown.is_some());
    unreadable(&padded(1024 * 1024 + 1));
}

#[rstest]
#[case(&[Cut("/name")], "93.33")]
#[case(&[Cut("/name"), Cut("/description")], "86.67")]
#[case(&[Cut("/name"), Cut("/description"), Cut("/capabilities")], "80")]
#[case(&[Cut("/name"), Set("/version", json!("x"))], "90.33")]
fn totals_are_exact_before_they_are_rounded(#[case] changes: &[Change], #[case] total: &str) {
    let scorecard = of(changes);
    assert_eq!(scorecard.compliance.total.to_string(), total);
    assert_eq!(scorecard.score, scorecard.compliance.total);
}

#[test]
fn the_number_of_reported_findings_is_limited() {
    let faulty = changed(
        card(),
        &[
            Set("/skills", json!(vec![0; 5_000])),
            Set("/signatures", json!(vec![0; 5_000])),
        ],
    );
    let scorecard = scored(&faulty, &keys());
    assert_eq!(compliance(&scorecard).1, 0);
    // The first thousand findings, about skills without fields and without tags, and a hundred
    // signatures.
    assert_eq!(scorecard.issues.len(), 1_100);
    // Two findings per skill, and one per signature that is reported.
    assert_eq!(scorecard.omitted_issues, 10_000 + 100 - 1_100);
    assert_eq!(scorecard.trust.signature_results.len(), 100);
}
