//! A badge as an `OpenBadgeCredential` (Open Badges 3.0 on Verifiable Credentials 2.0).
//!
//! The framework has no JSON-LD context, because verifiers reject unknown contexts. Scores
//! are expressed in terms of Open Badges, as results of an achievement that lists what can be
//! scored.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::standards::ALIGNMENT;
use super::{Axis, Badge, FRAMEWORK_VERSION, MAX_NAME, Tier, Window, axis_name, dimension_name};
use crate::credential::did::Signatory;
use crate::credential::proof::{self, SignError, moment};
use crate::credential::{
    CREDENTIALS_V2, OPEN_BADGES, OPEN_BADGES_EXTENSIONS, is_ambiguous, same, status_list,
};
use touchstone_kit::keys::SecretKey;

/// The JSON schema that the credential follows.
const SCHEMA: &str =
    "https://purl.imsglobal.org/spec/ob/v3p0/schema/json/ob_v3p0_achievementcredential_schema.json";

/// The members of a credential that carry the content of its badge. The rest is wording, which may
/// differ between versions of this host; the proof covers all of it.
const CONTENT_MEMBERS: [&str; 9] = [
    "/issuer/name",
    "/validFrom",
    "/validUntil",
    "/credentialSubject/id",
    "/credentialSubject/identifier",
    "/credentialSubject/achievement/id",
    "/credentialSubject/result",
    "/evidence",
    "/credentialStatus",
];

/// Everything issuing needs in addition to the badge.
#[derive(Clone, Copy, Debug)]
pub struct Issuance<'a> {
    /// Id of the credential, new for each one.
    pub credential_id: Uuid,
    /// The base URL of this host, without a trailing slash.
    pub base_url: &'a str,
    /// The status list that will state whether the credential is revoked.
    pub status_list: &'a str,
    /// The index of the credential's bit in the list.
    pub status_index: u32,
    /// The issuer.
    pub signatory: &'a Signatory,
    pub key: &'a SecretKey,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssueError {
    #[error("{0} must have 1 to {MAX_NAME} characters and no control characters")]
    Name(&'static str),
    /// The badge would never be valid.
    #[error("valid_until must be after the time of issue")]
    Validity,
    #[error("the status list has no bit {0}")]
    StatusIndex(u32),
    /// A signature would not cover the whole document.
    #[error(transparent)]
    SignError(#[from] SignError),
}

/// The signed credential of a badge.
///
/// # Errors
/// [`IssueError`].
pub fn issue(badge: &Badge, issuance: &Issuance<'_>) -> Result<Value, IssueError> {
    let named =
        |text: &str| (1..=MAX_NAME).contains(&text.chars().count()) && !text.contains(is_ambiguous);
    if !named(&badge.agent.name) {
        return Err(IssueError::Name("agent.name"));
    }
    if !named(&badge.organization.name) {
        return Err(IssueError::Name("organization.name"));
    }
    if badge.valid_until <= badge.certified_at {
        return Err(IssueError::Validity);
    }
    if issuance.status_index >= status_list::BITS {
        return Err(IssueError::StatusIndex(issuance.status_index));
    }
    let document = unsigned(
        badge,
        &Wording {
            credential_id: issuance.credential_id,
            base_url: issuance.base_url,
            issuer: &issuance.signatory.did,
            status_list: issuance.status_list,
            status_index: issuance.status_index,
        },
    );
    Ok(proof::sign(
        document,
        issuance.signatory,
        issuance.key,
        badge.certified_at,
    )?)
}

/// Whether a credential states the content of this badge, with this bit of this status list.
pub(super) fn states_badge(
    credential: &Value,
    badge: &Badge,
    base_url: &str,
    status_list: &str,
    status_index: u32,
) -> bool {
    let expected = unsigned(
        badge,
        &Wording {
            // The comparison ignores these two.
            credential_id: Uuid::nil(),
            issuer: "",
            base_url,
            status_list,
            status_index,
        },
    );
    CONTENT_MEMBERS.iter().all(|place| {
        let both = expected.pointer(place).zip(credential.pointer(place));
        both.is_some_and(|(expected, stated)| same(expected, stated))
    })
}

/// Everything the wording of a credential needs in addition to the badge.
struct Wording<'a> {
    credential_id: Uuid,
    base_url: &'a str,
    issuer: &'a str,
    status_list: &'a str,
    status_index: u32,
}

fn unsigned(badge: &Badge, wording: &Wording<'_>) -> Value {
    let tier = |axis: Axis| badge.rating(axis).tier.name();
    json!({
        "@context": [CREDENTIALS_V2, OPEN_BADGES, OPEN_BADGES_EXTENSIONS],
        "id": urn(wording.credential_id),
        "type": ["VerifiableCredential", "OpenBadgeCredential"],
        "name": format!(
            "AAAF: {} performance, {} capability",
            tier(Axis::Performance),
            tier(Axis::Capability),
        ),
        "issuer": {
            "id": wording.issuer,
            "type": ["Profile"],
            "name": badge.organization.name,
        },
        "validFrom": moment(badge.certified_at),
        "validUntil": moment(badge.shown_until()),
        "credentialSubject": {
            "id": urn(badge.agent.id),
            "type": ["AchievementSubject"],
            "identifier": [{
                "type": "IdentityObject",
                "identityHash": badge.agent.name,
                "identityType": "name",
                "hashed": false,
            }],
            "achievement": achievement(&achievement_id(wording.base_url)),
            "result": results(badge, &achievement_id(wording.base_url)),
        },
        "evidence": evidence(badge),
        "credentialStatus": status_list::entry(wording.status_list, wording.status_index),
        "credentialSchema": [{"id": SCHEMA, "type": "1EdTechJsonSchemaValidator2019"}],
    })
}

/// Prefix of the evidence's name, before the id of the assessment.
pub(super) const ASSESSMENT: &str = "Assessment ";
/// Prefix of the evidence's description, before the sources.
pub(super) const RECORDED_BY: &str = "Events recorded by: ";

/// Separates the start and the end of a window.
const UNTIL: &str = " until ";

/// The window that a credential states.
pub(super) fn window(credential: &Value) -> Option<Window> {
    let text = credential.pointer("/evidence/1/description")?.as_str()?;
    let (start, end) = text.split_once(UNTIL)?;
    Some(Window {
        start: start.parse().ok()?,
        end: end.parse().ok()?,
    })
}

/// The assessment, with its window if known.
fn evidence(badge: &Badge) -> Vec<Value> {
    let window = badge.window.map(|window| {
        let text = format!("{}{UNTIL}{}", moment(window.start), moment(window.end));
        json!({"type": ["Evidence"], "name": "Assessment window", "description": text})
    });
    std::iter::once(assessment(badge)).chain(window).collect()
}

fn assessment(badge: &Badge) -> Value {
    let mut stated = Map::new();
    stated.insert("id".to_owned(), json!(badge.verification_url));
    stated.insert("type".to_owned(), json!(["Evidence"]));
    stated.insert(
        "name".to_owned(),
        json!(format!("{ASSESSMENT}{}", badge.assessment_id)),
    );
    if !badge.sources.is_empty() {
        let sources = badge.sources.iter();
        let sources: Vec<String> = sources
            .map(|(it, events)| format!("{it} {events}"))
            .collect();
        let description = format!("{RECORDED_BY}{}", sources.join(", "));
        stated.insert("description".to_owned(), json!(description));
    }
    Value::Object(stated)
}

/// Rounds up to whole seconds, since credentials state times in seconds.
pub(super) fn ceiling(at: Timestamp) -> Timestamp {
    match at.subsec_nanosecond() {
        0 => at,
        _ => Timestamp::from_second(at.as_second() + 1).unwrap_or(at),
    }
}

fn urn(id: Uuid) -> String {
    format!("urn:uuid:{id}")
}

pub(super) fn achievement_id(base_url: &str) -> String {
    format!("{base_url}/achievements/aaaf/{FRAMEWORK_VERSION}")
}

fn achievement(id: &str) -> Value {
    let alignment = ALIGNMENT.map(|(name, framework, url)| {
        let mut stated = Map::new();
        stated.insert("type".to_owned(), json!(["Alignment"]));
        stated.insert("targetName".to_owned(), json!(name));
        stated.insert("targetUrl".to_owned(), json!(url));
        if let Some(framework) = framework {
            stated.insert("targetFramework".to_owned(), json!(framework));
        }
        Value::Object(stated)
    });
    json!({
        "id": id,
        "type": ["Achievement"],
        "achievementType": "Assessment",
        "name": format!("AI Agent Assessment Framework {FRAMEWORK_VERSION}"),
        "version": FRAMEWORK_VERSION,
        "description": "How well an AI agent performs, and what it is capable of: two ratings that never mix, \
            computed from recorded evidence.",
        "criteria": {
            "narrative": "Scores are computed from the evidence recorded within the window of the assessment; \
                the evidence link says more.",
        },
        "alignment": alignment,
        "resultDescription": descriptions(id),
    })
}

/// The possible results: each axis with its dimensions, then the coverage of each axis, then the
/// tiers.
fn descriptions(id: &str) -> Vec<Value> {
    let score = |key: &str, name: &str| {
        json!({
            "id": format!("{id}#{key}"),
            "type": ["ResultDescription"],
            "name": name,
            "resultType": "ScaledScore",
            "valueMin": "0.00",
            "valueMax": "1.00",
        })
    };
    let scores = Axis::ALL.into_iter().flat_map(|axis| {
        let own = score(axis.as_str(), &format!("{} score", axis_name(axis)));
        let dimensions = axis.dimensions().iter();
        std::iter::once(own)
            .chain(dimensions.map(move |it| score(it.as_str(), dimension_name(*it))))
    });
    let coverages = Axis::ALL.map(|axis| {
        let name = format!("{} coverage", axis_name(axis));
        score(&coverage_key(axis), &name)
    });
    let tiers = Axis::ALL.map(|axis| {
        json!({
            "id": format!("{id}#{}_tier", axis.as_str()),
            "type": ["ResultDescription"],
            "name": format!("{} tier", axis_name(axis)),
            "resultType": "PerformanceLevel",
            "allowedValue": Tier::all(axis).map(Tier::name).collect::<Vec<_>>(),
        })
    });
    scores.chain(coverages).chain(tiers).collect()
}

/// The key of the result that states an axis's coverage.
pub(super) fn coverage_key(axis: Axis) -> String {
    format!("{}_coverage", axis.as_str())
}

/// The results, in the order of the descriptions. Coverage is stated only where it is partial.
fn results(badge: &Badge, id: &str) -> Vec<Value> {
    let result = |key: &str, value: String| {
        json!({
            "type": ["Result"],
            "resultDescription": format!("{id}#{key}"),
            "value": value,
        })
    };
    let mut results = Vec::new();
    for axis in Axis::ALL {
        results.push(result(axis.as_str(), badge.rating(axis).score.to_string()));
        for dimension in axis.dimensions() {
            if let Some(score) = badge.scored(*dimension) {
                results.push(result(dimension.as_str(), score.to_string()));
            }
        }
    }
    for axis in Axis::ALL {
        if let Some(coverage) = badge.rating(axis).partial_coverage() {
            results.push(result(&coverage_key(axis), coverage.to_string()));
        }
    }
    for axis in Axis::ALL {
        let tier = badge.rating(axis).tier.name();
        results.push(result(&format!("{}_tier", axis.as_str()), tier.to_owned()));
    }
    results
}
