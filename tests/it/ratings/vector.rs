//! Results of our functions for a vector's input, in the vector's format.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use touchstone_kit::webhook::{Secret, Secrets, standard_headers};
use touchstone_ratings::rules::appeal;
use touchstone_ratings::rules::appeal::Resolution;
use touchstone_ratings::rules::assessment::calibration::{Scores, calibrate};
use touchstone_ratings::rules::assessment::grader;
use touchstone_ratings::rules::badge::validity::Validity;
use touchstone_ratings::rules::evidence::{RETENTION_DAYS, ValidationContext, validate};
use touchstone_ratings::rules::projection::{Finding, Profile, Run, RunEvent, project};
use touchstone_ratings::rules::scoring::weights::{WeightFault, Weights};
use touchstone_ratings::rules::{
    Assessment, Axis, AxisRating, Config, ConfigFault, Dimension, Event, Measure, Override, Rating,
    Score, Scored, ScoringError, Tier, score,
};

/// `None` for any other kind.
pub fn computed(kind: &str, input: &Value) -> Option<Value> {
    Some(match kind {
        "assessment" => assessment(input),
        "composite" => composite(input),
        "tiers" => tiers(input),
        "weights" => weights(input),
        "recency" => recency(input),
        "calibration" => {
            let config = config(input).unwrap();
            let scores = |name: &str| -> Scores { from(&input[name]) };
            let delta = config.rules.calibration_delta;
            json!(calibrate(
                &scores("previous"),
                &scores("current"),
                delta,
                false
            ))
        }
        "appeal" => appealed(input),
        "grader_gate" => {
            let pairs: Vec<(f64, f64)> = list(&input["human"])
                .iter()
                .zip(list(&input["grader"]))
                .map(|(human, grader)| (human.as_f64().unwrap(), grader.as_f64().unwrap()))
                .collect();
            let least = input["minimum_samples"].as_u64();
            let least = least.map_or(grader::MIN_SAMPLES, |it| it.try_into().unwrap());
            json!(grader::gate(&pairs, least))
        }
        "validity" => validity(input),
        "webhook" => webhook(input),
        "ingest" => ingest(input),
        "projection" => projection(input),
        _ => return None,
    })
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn from<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

fn time(value: &Value) -> Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

fn config(input: &Value) -> Result<Config, ConfigFault> {
    input
        .get("config")
        .map_or_else(|| Ok(Config::default()), Config::read)
}

fn events(input: &Value) -> Vec<Event> {
    let read = |event| Event::read(event).unwrap_or_else(|fault| panic!("{fault}: {event}"));
    list(&input["events"]).iter().map(read).collect()
}

fn overrides(input: &Value) -> Vec<Override> {
    input.get("overrides").map(from).unwrap_or_default()
}

/// Converts our report format to that of the vectors: parts in `details`, and unassessed dimensions
/// with their parts.
fn dimension(measure: &Measure) -> Value {
    let mut details = measure.details.as_ref().map_or(json!({}), |it| json!(it));
    let members = details.as_object_mut().unwrap();
    members.retain(|name, _| !name.ends_with("_assessed"));
    json!({"score": measure.score(), "raw": measure.raw, "sample_size": measure.sample_size,
        "evidence_count": measure.evidence_count, "details": details})
}

fn axis(rating: &AxisRating) -> Value {
    let mut document = json!(rating);
    let dimensions = rating.dimensions.iter();
    document["dimensions"] = dimensions
        .map(|(name, measure)| (name.to_string(), dimension(measure)))
        .collect::<Map<_, _>>()
        .into();
    document
}

fn assessment(input: &Value) -> Value {
    let config = match config(input) {
        Ok(config) => config,
        Err(fault) => return json!({"status": "rejected", "error": {"code": fault.code()}}),
    };
    let assessment: Assessment = from(&input["assessment"]);
    match score(&events(input), &assessment, &config, &overrides(input)) {
        Err(ScoringError::Insufficient(details)) => json!({"status": "failed",
            "error": {"code": "INSUFFICIENT_EVIDENCE", "details": details}}),
        Err(fault) => panic!("{fault}"),
        Ok(Scored::Single(found)) => json!({"status": "completed", "dimension": found.dimension,
            "result": dimension(&found.result)}),
        Ok(Scored::Rating(rating)) => {
            let mut document = json!({"status": "completed", "tasks_performance": rating.tasks_performance,
                "tasks_capability": rating.tasks_capability, "performance": axis(&rating.performance),
                "capability": axis(&rating.capability)});
            if let Some(previous) = input.get("previous") {
                let current = Scores::from(rating.as_ref());
                let delta = config.rules.calibration_delta;
                document["calibration"] = json!(calibrate(&from(previous), &current, delta, false));
            }
            document
        }
    }
}

fn composite(input: &Value) -> Value {
    let config = match config(input) {
        Ok(config) => config,
        Err(fault) => return json!({"error": {"code": fault.code()}}),
    };
    let mut axes = Map::new();
    for axis in Axis::ALL {
        let Some(given) = input.get(axis.as_str()) else {
            continue;
        };
        let measures = axis.dimensions().iter().map(|it| {
            let raw = given[it.as_str()].as_f64();
            (
                *it,
                raw.map_or(Measure::unassessed("-"), |raw| Measure::assessed(raw, 0, 0)),
            )
        });
        let mut found = json!(AxisRating::of(
            axis,
            measures.collect(),
            config.weights(axis)
        ));
        found.as_object_mut().unwrap().remove("dimensions");
        axes.insert(axis.to_string(), found);
    }
    axes.into()
}

fn tiers(input: &Value) -> Value {
    let rows = list(&input["scores"]).iter().map(|raw| {
        let stored = Score::of(raw.as_f64().unwrap());
        let shown = |axis| json!([Tier::of(axis, stored), stored.display(axis)]);
        json!({"score": raw, "stored": stored, "performance": shown(Axis::Performance),
            "capability": shown(Axis::Capability)})
    });
    json!({"rows": rows.collect::<Vec<_>>()})
}

fn weights(input: &Value) -> Value {
    let rows = list(&input["rows"]).iter().map(|row| {
        let axis: Axis = from(&row["axis"]);
        let given: BTreeMap<String, f64> = from(&row["weights"]);
        let result = match Weights::read(axis, &given) {
            Ok(_) => "OK",
            Err(WeightFault::Sum { .. }) => "WEIGHT_SUM_INVALID",
            Err(_) => "INVALID_REQUEST",
        };
        json!({"result": result})
    });
    json!({"rows": rows.collect::<Vec<_>>()})
}

fn recency(input: &Value) -> Value {
    let (config, end) = (config(input).unwrap(), time(&input["window_end"]));
    let weight = |at| config.rules.recency_weights.weight(time(at), end);
    json!({"weights": list(&input["timestamps"]).iter().map(weight).collect::<Vec<_>>()})
}

fn short(rating: &Rating) -> Value {
    let axes = Axis::ALL.into_iter().map(|axis| {
        let found = rating.axis(axis);
        let scores = found.dimensions.iter();
        let scores: Map<_, _> = scores.map(|(it, measure)| (it.to_string(), json!(measure.score()))).collect();
        let short = json!({"composite_score": found.composite_score, "composite_raw": found.composite_raw,
            "display": found.display, "tier": found.tier, "dimensions": scores});
        (axis.to_string(), short)
    });
    axes.collect::<Map<_, _>>().into()
}

fn appealed(input: &Value) -> Value {
    if !appeal::is_in_time(time(&input["completed_at"]), time(&input["filed_at"])) {
        return json!({"error": {"code": "APPEAL_WINDOW_CLOSED"}});
    }
    let (config, events): (Config, Vec<Event>) = (config(input).unwrap(), events(input));
    let assessment: Assessment = from(&input["assessment"]);
    let rate = |resolutions: &[Resolution]| {
        appeal::rate(&events, &assessment, &config, resolutions).unwrap()
    };
    let dimensions: Vec<Dimension> = from(&input["dimensions_challenged"]);
    let before = rate(&[]);
    let after = match input["decision"].as_str() {
        Some("accepted") => rate(&[Resolution {
            appeal_id: "appeal".to_owned(),
            dimensions,
            overrides: overrides(input),
        }]),
        _ => before.clone(),
    };
    json!({"before": short(&before), "after": short(&after), "changed": appeal::changed(&before, &after)})
}

fn validity(input: &Value) -> Value {
    let days = config(input).unwrap().rules.validity_period_days;
    let validity = Validity::of(time(&input["created_at"]), days).unwrap();
    let rows = list(&input["checks"]).iter().map(|row| {
        let at = time(&row["at"]);
        let sound = row["revoked"] != json!(true) && row["signature_ok"] != json!(false);
        json!({"at": row["at"], "expired": validity.is_expired(at), "expiring": validity.is_expiring(at),
            "valid": sound && !validity.is_expired(at)})
    });
    json!({"valid_until": validity.valid_until, "rows": rows.collect::<Vec<_>>()})
}

fn webhook(input: &Value) -> Value {
    let secrets = Secrets::of(Secret::standard(input["secret"].as_str().unwrap()).unwrap());
    let at = Timestamp::from_second(input["webhook_timestamp"].as_i64().unwrap()).unwrap();
    let body = input["body"].as_str().unwrap().as_bytes();
    let headers = standard_headers(input["webhook_id"].as_str().unwrap(), &secrets, body, at);
    let signature = headers
        .into_iter()
        .find(|(name, _)| *name == "webhook-signature")
        .unwrap()
        .1;
    json!({"webhook-signature": signature})
}

fn ingest(input: &Value) -> Value {
    let known: Vec<String> = from(&input["known_agents"]);
    let bounds = ValidationContext {
        now: time(&input["now"]),
        retention_days: RETENTION_DAYS,
        is_known: &|agent| known.iter().any(|it| it == agent),
        is_closed: &|_| false,
    };
    let batch = validate(list(&input["events"]), &bounds);
    let status = if batch.accepted() > 0 { 201 } else { 400 };
    json!({"http_status": status, "accepted": batch.accepted(), "rejected": batch.rejected(),
        "duplicates": batch.duplicates.len(), "errors": batch.errors})
}

fn projection(input: &Value) -> Value {
    let run: Run = from(&input["run"]);
    let profile = (!input["profile"].is_null()).then(|| Profile::read(&input["profile"]).unwrap());
    let log: Vec<RunEvent> = from(&input["run_events"]);
    let findings: BTreeMap<String, Vec<Finding>> = list(&input["eval_summary"]["tasks"])
        .iter()
        .filter(|task| task.get("safetyFindings").is_some())
        .map(|task| (from(&task["taskId"]), from(&task["safetyFindings"])))
        .collect();
    let agent = input["agent_id"].as_str().unwrap();
    let made = project(agent, &run, profile.as_ref(), &log, &findings).unwrap();
    // The part of a log that hosts read is sufficient.
    let trimmed: Vec<RunEvent> = log.into_iter().map(RunEvent::trimmed).collect();
    assert_eq!(
        project(agent, &run, profile.as_ref(), &trimmed, &findings).unwrap(),
        made
    );
    json!(made)
}
