//! A complete sample report, scored from evidence like any other.

use serde_json::{Value, json};

use crate::render::progress::{CollectionProgress, TaskCount};
use crate::render::report::{AgentInfo, AgentSummary, Badge, RatingSnapshot, Report, Summary};
use crate::rules::assessment::overview::{AgentScore, DimensionOverview};
use crate::rules::{Axis, Config, Dimension, Event, Score, score};

/// The assessment document for a test vector.
fn document(name: &str, id: &str, ended: &str) -> Value {
    let file = format!(
        "{}/../../tests/it/ratings/vectors/{name}.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let vector: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let input = &vector["input"];
    let config = match input.get("config") {
        Some(config) => Config::read(config).unwrap(),
        None => Config::default(),
    };
    let events: Vec<Event> = input["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| Event::read(it).unwrap())
        .collect();
    let assessment = serde_json::from_value(input["assessment"].clone()).unwrap();
    let scored = score(&events, &assessment, &config, &[]).unwrap();
    json!({"id": id, "agent_id": "8f6f0b7e-0000-4000-8000-000000000001", "type": "full", "status": "completed",
        "window_start": assessment.window_start, "window_end": assessment.window_end, "created_at": ended,
        "completed_at": ended, "config_snapshot": config, "result": scored})
}

fn subject(name: &str) -> AgentInfo {
    AgentInfo {
        id: "8f6f0b7e-0000-4000-8000-000000000001".to_owned(),
        name: name.to_owned(),
        version: Some("1.1.0".to_owned()),
        description: Some("Sorts <b>tickets</b> & answers".to_owned()),
    }
}

/// An agent with earlier ratings, gaps, score changes and a badge.
pub fn report() -> Report {
    let id = "a55e55ed-0000-4000-8000-00000000000a";
    let mut current = document("partial-coverage", id, "2026-04-16T00:00:05Z");
    current["calibration"] = json!({"flags": [{"subject": "accuracy", "previous": 0.5, "current": 0.8, "delta": 0.3}],
        "human_review_required": true, "badge": "withheld"});
    current["review"] = json!({"decision": "approve", "by": "dana"});
    current["badge_state"] = json!("issued");
    let assessment: crate::render::view::AssessmentView = serde_json::from_value(current).unwrap();
    let now = RatingSnapshot::of(&assessment).unwrap();
    let before = |at: &str, performance: f64, capability: f64| {
        let mut moment = now.clone();
        moment.at = at.parse().unwrap();
        for (snapshot, score) in [
            (&mut moment.performance, performance),
            (&mut moment.capability, capability),
        ] {
            snapshot.score = crate::rules::Score::of(score);
            snapshot.tier = crate::rules::Tier::of(snapshot.tier.axis(), snapshot.score);
            snapshot.display = snapshot.score.display(snapshot.tier.axis());
        }
        moment
    };
    Report {
        made_at: "2026-04-20T08:00:00Z".parse().unwrap(),
        organization: Some("Acme Evaluations".to_owned()),
        agent: subject("triage <script>alert(1)</script>"),
        history: vec![
            before("2026-01-10T00:00:00Z", 0.45, 0.28),
            before("2026-02-14T00:00:00Z", 0.58, 0.41),
            before("2026-03-16T00:00:00Z", 0.71, 0.39),
        ],
        assessment,
        now,
        badge: Some(Badge {
            badge_id: "b".to_owned(),
            valid: true,
            valid_until: "2026-07-15T00:00:00Z".parse().unwrap(),
            expired: false,
            revoked: false,
            revoke_reason: None,
            verification_url: Some("https://ratings.example/api/v1/badges/b/verify".to_owned()),
        }),
        failed_since: None,
    }
}

/// Several agents, one of them not rated.
pub fn summary() -> Summary {
    let report = report();
    let line = |name: &str, now: Option<RatingSnapshot>, failed: Option<&str>| AgentSummary {
        agent: subject(name),
        now,
        review_required: name == "intake",
        failed_since: failed.map(str::to_owned),
        progress: (name == "idle").then_some(CollectionProgress {
            window_start: report.now.at,
            window_end: report.made_at,
            performance: TaskCount {
                tasks: 15,
                required: 20,
                enough: false,
            },
            capability: TaskCount {
                tasks: 30,
                required: 30,
                enough: true,
            },
        }),
    };
    let score = |name: &str, score: Option<f64>, tier: Option<&str>| AgentScore {
        agent_id: format!("id-{name}"),
        name: name.to_owned(),
        assessment_id: format!("of-{name}"),
        score: score.map(Score::of),
        low: score.map(|it| Score::of(it - 0.1)),
        high: score.map(|it| Score::of(it + 0.1)),
        tier: tier.map(str::to_owned),
    };
    let dimensions = vec![
        DimensionOverview {
            dimension: Dimension::Speed,
            axis: Axis::Performance,
            assessed: 2,
            mean: Some(Score::of(0.5)),
            agents: vec![
                score("intake", Some(0.3), Some("Novice")),
                score("triage", Some(0.7), Some("Proficient")),
                score("drafts", None, None),
            ],
        },
        DimensionOverview {
            dimension: Dimension::OrchestrationSkills,
            axis: Axis::Capability,
            assessed: 0,
            mean: None,
            agents: vec![score("triage", None, None)],
        },
    ];
    Summary {
        made_at: report.made_at,
        organization: report.organization,
        agents: vec![
            line("triage", Some(report.now.clone()), None),
            line("intake", report.history.first().cloned(), None),
            line(
                "drafts",
                report.history.last().cloned(),
                Some("performance needs 20 tasks"),
            ),
            line("idle", None, None),
        ],
        dimensions,
    }
}
