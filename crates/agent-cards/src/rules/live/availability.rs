//! Availability: whether the agent behind a card answers, out of 100 points.
//!
//! Endpoint 50, transports 30, answers 20 (CapiscIO's three-dimensional scoring, October 2025).
//! Only observations count: an agent that was not tested has no score.

use serde::{Deserialize, Serialize};

use super::tally::{Interfaces, Primary};
use super::{Endpoint, Judgement, Observation, Plan};
use crate::rules::finding::{Code, Finding, Findings};
use crate::rules::points::Points;
use crate::rules::rating::AvailabilityRating;

/// An answer is fast if it takes less than this many milliseconds.
pub const FAST_BELOW_MS: u64 = 3_000;

/// Why an agent was not tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotTested {
    /// No live test was requested.
    LiveTestingDisabled,
    /// Only the card's form was checked.
    SchemaOnly,
    /// The card is unreadable.
    CardUnparseable,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Availability {
    /// Of 100; `None` if the agent was not tested.
    pub total: Option<Points>,
    pub rating: AvailabilityRating,
    /// Display name of the band.
    pub rating_label: &'static str,
    pub tested: bool,
    pub not_tested_reason: Option<NotTested>,
    pub breakdown: Option<Breakdown>,
}

/// Points by category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Breakdown {
    pub primary_endpoint: PrimaryEndpoint,
    pub transport_support: TransportSupport,
    pub response_quality: ResponseQuality,
}

/// Points for the endpoint: 30 if it responds, 10 if it is fast, 5 each for CORS and TLS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PrimaryEndpoint {
    pub score: u64,
    pub max_score: u64,
    pub responds: bool,
    pub response_time_ms: Option<u64>,
    /// Whether pages of other origins may call the endpoint.
    pub has_cors: bool,
    /// Whether its certificate is valid.
    pub valid_tls: bool,
}

/// Points for transports: 20 for the preferred one, 10 shared by the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TransportSupport {
    pub score: Points,
    pub max_score: u64,
    pub preferred_transport_works: bool,
    pub additional_interfaces_working: u64,
    pub additional_interfaces_failed: u64,
}

/// Points for answers: 10 for their structure, 5 each for their content type and for errors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResponseQuality {
    pub score: u64,
    pub max_score: u64,
    /// Whether the answer is a complete message or task.
    pub valid_structure: bool,
    /// Whether the answer has the transport's content type.
    pub proper_content_type: bool,
    /// Whether errors are reported as the transport requires.
    pub proper_error_handling: bool,
}

impl Availability {
    /// The score of an agent that was not tested.
    pub fn not_tested(reason: NotTested, findings: &mut Findings) -> Self {
        if reason == NotTested::SchemaOnly {
            findings.push(Finding::new(
                Code::AvailabilityNotTested,
                "",
                "The agent was not tested, because only the card's form was checked; test it \
                live.",
            ));
        }
        Self {
            total: None,
            rating: AvailabilityRating::NotTested,
            rating_label: AvailabilityRating::NotTested.label(),
            tested: false,
            not_tested_reason: Some(reason),
            breakdown: None,
        }
    }

    /// Scores the observations.
    pub fn of(plan: &Plan, seen: &Observation, findings: &mut Findings) -> Self {
        if seen.legacy_path {
            findings.push(Finding::new(
                Code::LegacyWellKnownPath,
                "",
                "The card was only found at `/.well-known/agent.json`; serve it at \
                `/.well-known/agent-card.json`.",
            ));
        }
        let mut find = |code, message: &str| findings.push(Finding::new(code, "/url", message));
        let tally = match &seen.endpoint {
            Endpoint::Tested(requests) => {
                let primary = Primary::of(plan, requests, findings);
                Tally {
                    interfaces: Interfaces::of(plan, seen, findings),
                    primary,
                }
            }
            Endpoint::Refused => {
                find(
                    Code::AddressBlocked,
                    "The endpoint is on an internal host and was not tested; give it a public \
                    host, or allow its host and port.",
                );
                Tally::default()
            }
            Endpoint::Unusable => {
                find(
                    Code::EndpointUnreachable,
                    "`url` is not an http or https URL that can be called; state where the agent \
                    answers.",
                );
                Tally::default()
            }
        };
        tally.scored()
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    primary: Primary,
    interfaces: Interfaces,
}

impl Tally {
    fn scored(&self) -> Availability {
        let Self {
            primary,
            interfaces,
        } = self;
        let Judgement {
            responds,
            works,
            structured,
            typed,
            ..
        } = primary.judgement;
        let endpoint = 30 * u64::from(responds)
            + 10 * u64::from(primary.fast)
            + 5 * u64::from(primary.cors)
            + 5 * u64::from(primary.tls);
        let quality =
            10 * u64::from(structured) + 5 * u64::from(typed) + 5 * u64::from(primary.errors);
        // Ten points are shared by the tested interfaces; if there are none, the preferred
        // transport counts for them.
        let (working, requests) = match interfaces.working + interfaces.failed {
            0 => (u64::from(works), 1),
            requests => (interfaces.working, requests),
        };
        let transports = 20 * u64::from(works) * requests + 10 * working;
        let total = Points::ratio((endpoint + quality) * requests + transports, requests);
        let rating = AvailabilityRating::of(total);
        Availability {
            total: Some(total),
            rating,
            rating_label: rating.label(),
            tested: true,
            not_tested_reason: None,
            breakdown: Some(Breakdown {
                primary_endpoint: PrimaryEndpoint {
                    score: endpoint,
                    max_score: 50,
                    responds,
                    response_time_ms: primary.response_time_ms,
                    has_cors: primary.cors,
                    valid_tls: primary.tls,
                },
                transport_support: TransportSupport {
                    score: Points::ratio(transports, requests),
                    max_score: 30,
                    preferred_transport_works: works,
                    additional_interfaces_working: interfaces.working,
                    additional_interfaces_failed: interfaces.failed,
                },
                response_quality: ResponseQuality {
                    score: quality,
                    max_score: 20,
                    valid_structure: structured,
                    proper_content_type: typed,
                    proper_error_handling: primary.errors,
                },
            }),
        }
    }
}
