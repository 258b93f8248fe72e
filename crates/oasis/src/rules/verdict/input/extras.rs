//! The given results of the adversarial phase and of unpublished scenarios: written as observations
//! or as a status, in the entry itself or in its member `outcome` or `observed`.

use serde_json::Value;

use super::super::super::outcome::Outcome;
use super::super::super::profile::Profile;
use super::super::super::scenario::Classification;
use super::super::adversarial::{AdversarialResults, ProbeResult, ReservedOutcome, ReservedResult};
use super::super::document::Status;
use super::super::gate;
use super::{Adversarial, Check, InputFault, Observed, Reserved};

/// The result in an entry.
enum EntryResult {
    Safety { violated: bool, deviation: f64 },
    Score { score: f64, band: Option<String> },
    Fault { cause: String },
}

/// The outcome of a scenario; `None` if the result does not fit its phase.
pub(super) fn outcome(observed: &Observed, phase: Classification) -> Option<Outcome> {
    match (entry_result(observed), phase) {
        (EntryResult::Fault { cause }, _) => Some(Outcome::Fault { cause }),
        (
            EntryResult::Safety {
                violated,
                deviation,
            },
            Classification::Safety,
        ) => Some(Outcome::Safety {
            violated,
            soft_deviation: deviation,
        }),
        (EntryResult::Score { score, band }, Classification::Capability) => {
            Some(Outcome::Capability { score, band })
        }
        _ => None,
    }
}

fn entry_result(observed: &Observed) -> EntryResult {
    if let Some(cause) = &observed.fault {
        return EntryResult::Fault {
            cause: cause.clone(),
        };
    }
    if let Some(score) = observed.score {
        let band = observed.band.clone();
        return EntryResult::Score { score, band };
    }
    let checks = observed.assertions.as_deref().unwrap_or_default();
    EntryResult::Safety {
        violated: checks.contains(&Check::Fail),
        deviation: observed.deviation.unwrap_or_default(),
    }
}

/// The results of the probes.
pub(super) fn adversarial(
    given: &Adversarial,
    profile: &Profile,
) -> Result<AdversarialResults, Vec<InputFault>> {
    let mut faults = Vec::new();
    let mut probes = Vec::new();
    for (place, entry) in given.probes.iter().enumerate() {
        match probe(entry, profile) {
            Ok(probe) => probes.push(probe),
            Err(message) => {
                faults.push(InputFault::new(
                    format!("/adversarial/probes/{place}"),
                    message,
                ));
            }
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    Ok(AdversarialResults {
        generator: given.generator.clone(),
        probes,
        interpretation_note: None,
    })
}

fn probe(entry: &Value, profile: &Profile) -> Result<ProbeResult, String> {
    let text = |name: &str| entry[name].as_str().map(str::to_owned);
    let primary_archetype =
        text("primary_archetype").ok_or("`primary_archetype` must be a string")?;
    let given = serde_json::from_value(entry["classification"].clone())
        .map_err(|_| "`classification` must be \"safety\" or \"capability\"")?;
    let classification = classification(profile, &primary_archetype).unwrap_or(given);
    let secondary = entry["secondary_archetypes"]
        .as_array()
        .into_iter()
        .flatten();
    let outcome = match (read(entry)?, classification) {
        (EntryResult::Fault { cause }, _) => Outcome::Fault { cause },
        (
            EntryResult::Safety {
                violated,
                deviation,
            },
            Classification::Safety,
        ) => Outcome::Safety {
            violated,
            soft_deviation: deviation,
        },
        (EntryResult::Score { score, band }, Classification::Capability) => {
            Outcome::Capability { score, band }
        }
        _ => return Err("its result does not fit the phase of its primary archetype".to_owned()),
    };
    Ok(ProbeResult {
        classification,
        primary_archetype,
        secondary_archetypes: secondary
            .filter_map(|it| it.as_str().map(str::to_owned))
            .collect(),
        description: text("description").unwrap_or_default(),
        serialized: text("probe_serialized")
            .or_else(|| text("serialized"))
            .unwrap_or_default(),
        outcome,
    })
}

/// The primary archetype determines the classification of a probe.
fn classification(profile: &Profile, archetype: &str) -> Option<Classification> {
    let has = |all: &[String]| all.iter().any(|it| it == archetype);
    let categories = &profile.capability_scoring.categories;
    if profile
        .safety_categories
        .iter()
        .any(|it| has(&it.archetypes))
    {
        Some(Classification::Safety)
    } else if categories.iter().any(|it| has(&it.archetypes)) {
        Some(Classification::Capability)
    } else {
        None
    }
}

/// The results of unpublished scenarios.
pub(super) fn reserved(given: &[Reserved]) -> Result<Vec<ReservedResult>, Vec<InputFault>> {
    let mut faults = Vec::new();
    let mut results = Vec::new();
    for (place, entry) in given.iter().enumerate() {
        match reserved_outcome(entry) {
            Ok(outcome) => results.push(ReservedResult {
                classification: entry.classification,
                category: entry.category.clone(),
                archetype: entry.archetype.clone(),
                outcome,
            }),
            Err(message) => {
                faults.push(InputFault::new(
                    format!("/reserved/{place}/outcome"),
                    message,
                ));
            }
        }
    }
    if faults.is_empty() {
        Ok(results)
    } else {
        Err(faults)
    }
}

fn reserved_outcome(entry: &Reserved) -> Result<ReservedOutcome, String> {
    Ok(match read(&entry.outcome)? {
        EntryResult::Fault { .. } => ReservedOutcome::Fault,
        EntryResult::Score { .. } => ReservedOutcome::Scored,
        EntryResult::Safety {
            violated,
            deviation,
        } => {
            let deviation = gate::measured_deviation(violated, deviation);
            match gate::judge(deviation, entry.safety_tolerance) {
                Status::Pass => ReservedOutcome::Passed,
                Status::Fail | Status::ProviderFailure => ReservedOutcome::Failed,
            }
        }
    })
}

/// Reads a result in any of its forms.
fn read(value: &Value) -> Result<EntryResult, String> {
    let safety = |violated| EntryResult::Safety {
        violated,
        deviation: 0.0,
    };
    match value {
        Value::Number(_) => read(&serde_json::json!({ "score": value })),
        Value::Bool(passed) => Ok(safety(!passed)),
        Value::String(word) => match word.to_ascii_lowercase().as_str() {
            "pass" | "passed" => Ok(safety(false)),
            "fail" | "failed" => Ok(safety(true)),
            "provider_failure" | "fault" => Ok(EntryResult::Fault {
                cause: word.clone(),
            }),
            _ => Err("must be PASS, FAIL or PROVIDER_FAILURE".to_owned()),
        },
        Value::Object(members) => {
            const INSIDE: [&str; 5] = ["outcome", "observed", "result", "status", "passed"];
            const SEEN: [&str; 4] = ["assertions", "deviation", "score", "fault"];
            if SEEN.iter().any(|name| members.contains_key(*name)) {
                let observed: Observed = serde_json::from_value(value.clone())
                    .map_err(|cause| format!("could not read its result: {cause}"))?;
                let shares = observed.score.is_none_or(|it| (0.0..=1.0).contains(&it));
                let percents = observed
                    .deviation
                    .is_none_or(|it| (0.0..=100.0).contains(&it));
                if !shares || !percents {
                    return Err(
                        "a score must be between 0 and 1, and a deviation between 0 and 100"
                            .to_owned(),
                    );
                }
                return Ok(entry_result(&observed));
            }
            match INSIDE.iter().find_map(|name| members.get(*name)) {
                Some(inside) => read(inside),
                None => Err(
                    "has no result; add `assertions`, `deviation`, `score`, `fault` or `outcome`"
                        .to_owned(),
                ),
            }
        }
        Value::Null | Value::Array(_) => Err("must be a result".to_owned()),
    }
}
