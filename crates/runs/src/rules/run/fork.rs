//! Forks (OpenWOP replay): runs that start with the recorded events of another run.
//!
//! A replay copies every event of the source, with the same facts and ids in the payloads, under
//! its own event ids and times. A branch copies the events before `fromSeq` and executes the rest.
//! In both modes the history is copied event by event in order. The only event in between is
//! `replay.diverged`, which a replay adds where its own computation differs from the recording. A
//! fork whose process was killed therefore resumes at the end of its own log.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::fold::RunState;
use super::record::{EvalSpec, PartialRerun, RunRecord};
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::fields::{Fields, Nulls};
use touchstone_kit::ids::{EventId, RunId, TaskId};
use touchstone_openwop::events::{EventDocument, Inherited};
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::log::Numbering;

/// Behavior of a fork after its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForkMode {
    /// Nothing: the whole log is history.
    Replay,
    /// It executes the rest.
    Branch,
}

impl ForkMode {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::Branch => "branch",
        }
    }
}

/// The origin of a forked run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fork {
    /// The run it was forked from.
    pub source_run_id: RunId,
    /// The place in the source's log before which events are fixed history; 0 and 1 for none.
    pub from_seq: u64,
    pub mode: ForkMode,
    /// Number of events copied from the source.
    pub history: u64,
    /// The run that first recorded the facts: the source's own origin if the source was a replay.
    pub origin: RunId,
    /// Key or user that forked it; the run itself belongs to the source's owner.
    pub forked_by: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Provenance {
    /// The run it was forked from.
    pub source_run_id: RunId,
    /// Events before this sequence number are fixed history.
    pub from_seq: u64,
    pub mode: ForkMode,
}

impl Fork {
    /// The part of the log that subscribers already received from the source: a branch's history,
    /// or all of a replay (`None`).
    pub fn notified_to(&self) -> Option<u64> {
        match self.mode {
            ForkMode::Replay => None,
            ForkMode::Branch => Some(self.history),
        }
    }

    /// Number of history events that a fork in this state has. It executes its own part only once
    /// it has all of them.
    pub fn copied(&self, state: &RunState) -> u64 {
        state.sequence - state.divergences(&self.source_run_id)
    }

    /// The origin of a run under major 1, if it is a fork.
    pub fn provenance(record: &RunRecord) -> Option<Provenance> {
        let fork = record.fork.as_ref()?;
        let numbers = record.log.under(Major::V1);
        Some(Provenance {
            source_run_id: fork.source_run_id.clone(),
            from_seq: match fork.from_seq {
                0 => 0,
                place => numbers.sequence(place),
            },
            mode: fork.mode,
        })
    }
}

/// The body of `POST /v1/runs/{runId}:fork`.
#[derive(Clone, Debug, PartialEq)]
pub struct ForkRequest {
    /// The sequence before which events are history; 0 for none.
    pub from_seq: u64,
    /// What to do after it.
    pub mode: ForkMode,
    /// Changes of a branch.
    pub overlay: Overlay,
}

/// `runOptionsOverlay`: the changes of a branch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlay {
    /// Members that replace the source's.
    pub configurable: Option<Map<String, Value>>,
    /// Replaces the source's tags.
    pub tags: Option<Value>,
    /// Replaces the source's metadata.
    pub metadata: Option<Value>,
}

impl Overlay {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Parses the body of a fork request.
///
/// # Errors
/// `validation_error` naming the field.
pub fn parse(body: &Value) -> Result<ForkRequest, Problem> {
    const FIELDS: [&str; 3] = ["fromSeq", "mode", "runOptionsOverlay"];
    let fields = Fields::closed(body, "", &FIELDS, Nulls::Absent)?;
    let mode = match fields.get("mode").and_then(Value::as_str) {
        Some("replay") => ForkMode::Replay,
        Some("branch") => ForkMode::Branch,
        _ => return Err(fields.invalid("mode", "must be \"replay\" or \"branch\"")),
    };
    let from_seq = match (fields.whole("fromSeq", 0)?, mode) {
        (Some(from_seq), _) => from_seq,
        (None, ForkMode::Replay) => 0,
        (None, ForkMode::Branch) => {
            return Err(fields.invalid(
                "fromSeq",
                "is required for a branch: the sequence number from which to execute again",
            ));
        }
    };
    let overlay = match fields.get("runOptionsOverlay") {
        None => Overlay::default(),
        Some(value) => overlay(value)?,
    };
    if mode == ForkMode::Replay && !overlay.is_empty() {
        return Err(fields.invalid(
            "runOptionsOverlay",
            "is only allowed for a branch, because a replay repeats the recording; leave it out, \
             or set `mode` to \"branch\"",
        ));
    }
    Ok(ForkRequest {
        from_seq,
        mode,
        overlay,
    })
}

fn overlay(value: &Value) -> Result<Overlay, Problem> {
    const FIELD: &str = "runOptionsOverlay";
    let Some(members) = value.as_object() else {
        return Err(Problem::validation(
            FIELD,
            "`runOptionsOverlay` must be an object",
        ));
    };
    let mut overlay = Overlay::default();
    for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
        match (name.as_str(), value) {
            ("configurable", Value::Object(members)) => {
                // Some clients send unset members as `null`, and members they do not know in
                // `extras`.
                let nothing = |name: &str, value: &Value| {
                    value.is_null()
                        || (name == "extras" && value.as_object().is_some_and(Map::is_empty))
                };
                let mut members = members.clone();
                members.retain(|name, value| !nothing(name, value));
                overlay.configurable = Some(members).filter(|members| !members.is_empty());
            }
            ("tags", tags) => overlay.tags = Some(tags.clone()),
            ("metadata", metadata) => overlay.metadata = Some(metadata.clone()),
            _ => {
                return Err(Problem::validation(
                    &format!("{FIELD}.{name}"),
                    "`runOptionsOverlay` may only contain the objects `configurable` and \
                     `metadata` and the list `tags`",
                ));
            }
        }
    }
    Ok(overlay)
}

/// Number of events that a fork copies from a source with `events` events. `fromSeq` is one of the
/// `numbers` of the source.
///
/// # Errors
/// `invalid_from_seq` past the end of the log.
pub fn history(request: &ForkRequest, numbers: Numbering, events: u64) -> Result<u64, Problem> {
    let last = numbers.reached(events).unwrap_or_default();
    if request.from_seq > last {
        return Err(Problem::new(
            ErrorCode::InvalidFromSeq,
            format!(
                "`fromSeq` is past the end of the run's log, which has {events} events; the last \
                 one has the sequence {last}"
            ),
        )
        .with("field", "fromSeq")
        .with("lastSequence", last));
    }
    Ok(match request.mode {
        ForkMode::Replay => events,
        ForkMode::Branch => numbers.events_before(request.from_seq),
    })
}

/// The partial rerun that a branch of `source` is when it keeps the judgments of these tasks.
/// `None` if it keeps none of the source's tasks, or if it keeps all of them and the source is not
/// a partial rerun.
pub fn partial_rerun(
    source: &RunId,
    eval: &EvalSpec,
    judged: &HashSet<TaskId>,
) -> Option<PartialRerun> {
    let kept_tasks = eval
        .tasks
        .iter()
        .filter(|task| judged.contains(task))
        .count();
    match kept_tasks {
        0 => None,
        all if all == eval.tasks.len() => eval.partial_rerun.clone(),
        kept_tasks => Some(PartialRerun {
            source_run_id: source.clone(),
            kept_tasks,
        }),
    }
}

/// Converts an event of the source into the event that `run` inherits.
///
/// # Errors
/// The document cannot be parsed.
pub fn inherit(run: &RunId, body: &[u8]) -> serde_json::Result<Inherited> {
    let document = EventDocument::read(body)?;
    Ok(Inherited {
        event_id: inherited_id(run, &document.event_id),
        // An unreadable payload is copied unchanged, and counts as unreadable in the fork too.
        event: document.event().unwrap_or_default(),
        kind: document.kind.clone().into_owned(),
        causation_id: document
            .causation_id
            .as_ref()
            .map(|cause| inherited_id(run, cause)),
        payload: document.payload.to_owned(),
        node_id: document.node_id,
    })
}

/// The id of a source's event in a fork. It is derived from both, so causes can be mapped without a
/// table of all events.
fn inherited_id(run: &RunId, source: &EventId) -> EventId {
    let digest = Sha256::digest(format!("{run}\0{source}"));
    let half: Vec<u8> = digest.iter().take(18).copied().collect();
    let unique = format!("evt_{}", URL_SAFE_NO_PAD.encode(half));
    // History keeps its sequence numbers, so the number in the source's id is valid in the fork
    // too, up to a replay's first divergence. Beyond that, the number is only where a search for
    // the id starts.
    match EventId::place(source.as_str()) {
        Some(place) => EventId::at(&unique, place),
        None => EventId::from(unique),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;
    use touchstone_openwop::events::Event;
    use touchstone_openwop::wire::log::LogMark;

    use super::*;

    #[rstest]
    #[case(json!({"mode": "replay"}), 0, ForkMode::Replay)]
    #[case(json!({"mode": "replay", "fromSeq": 3, "runOptionsOverlay": {}}), 3, ForkMode::Replay)]
    #[case(json!({"mode": "replay", "fromSeq": null, "runOptionsOverlay": null}), 0, ForkMode::Replay)]
    #[case(json!({"mode": "branch", "fromSeq": 0, "runOptionsOverlay": {"configurable": {}}}), 0, ForkMode::Branch)]
    #[case(json!({"mode": "replay", "runOptionsOverlay": {"configurable": {"model": null, "extras": {}}, "tags": null}}), 0, ForkMode::Replay)]
    fn valid_fork_requests_are_parsed(
        #[case] body: Value,
        #[case] from_seq: u64,
        #[case] mode: ForkMode,
    ) {
        let request = parse(&body).unwrap();
        assert_eq!((request.from_seq, request.mode), (from_seq, mode));
        assert!(request.overlay.is_empty());
    }

    #[rstest]
    #[case(json!([]), "")]
    #[case(json!({"fromSeq": 0}), "mode")]
    #[case(json!({"mode": "rewind"}), "mode")]
    #[case(json!({"mode": "branch"}), "fromSeq")]
    #[case(json!({"mode": "branch", "fromSeq": null}), "fromSeq")]
    #[case(json!({"mode": "replay", "fromSeq": -1}), "fromSeq")]
    #[case(json!({"mode": "replay", "fromSeq": 1.5}), "fromSeq")]
    #[case(json!({"mode": "replay", "fromSeq": "0"}), "fromSeq")]
    #[case(json!({"mode": "replay", "extra": 1}), "extra")]
    #[case(json!({"mode": "replay", "runOptionsOverlay": {"tags": ["x"]}}), "runOptionsOverlay")]
    #[case(json!({"mode": "branch", "fromSeq": 0, "runOptionsOverlay": []}), "runOptionsOverlay")]
    #[case(json!({"mode": "branch", "fromSeq": 0, "runOptionsOverlay": {"inputs": {}}}), "runOptionsOverlay.inputs")]
    #[case(json!({"mode": "branch", "fromSeq": 0, "runOptionsOverlay": {"configurable": 1}}), "runOptionsOverlay.configurable")]
    fn invalid_fork_requests_are_rejected_by_field(#[case] body: Value, #[case] field: &str) {
        let problem = parse(&body).unwrap_err();
        assert_eq!(problem.code, ErrorCode::ValidationError);
        assert_eq!(problem.details["field"], field);
    }

    const FROM_0: Numbering = LogMark::of_new(Major::V2).under(Major::V1);
    const FROM_1: Numbering = LogMark::of_new(Major::V1).under(Major::V1);

    #[rstest]
    #[case(FROM_1, "replay", 0, Some(10))]
    #[case(FROM_1, "replay", 10, Some(10))]
    #[case(FROM_1, "replay", 11, None)]
    #[case(FROM_1, "branch", 0, Some(0))]
    #[case(FROM_1, "branch", 1, Some(0))]
    #[case(FROM_1, "branch", 10, Some(9))]
    #[case(FROM_1, "branch", 11, None)]
    #[case(FROM_0, "replay", 0, Some(10))]
    #[case(FROM_0, "replay", 9, Some(10))]
    #[case(FROM_0, "replay", 10, None)]
    #[case(FROM_0, "branch", 0, Some(0))]
    #[case(FROM_0, "branch", 1, Some(1))]
    #[case(FROM_0, "branch", 9, Some(9))]
    #[case(FROM_0, "branch", 10, None)]
    fn history_ends_before_from_seq(
        #[case] numbers: Numbering,
        #[case] mode: &str,
        #[case] from_seq: u64,
        #[case] expected: Option<u64>,
    ) {
        let request = parse(&json!({"mode": mode, "fromSeq": from_seq})).unwrap();
        let found = history(&request, numbers, 10);
        if let Err(problem) = &found {
            assert_eq!(problem.details["lastSequence"], numbers.sequence(10));
        }
        assert_eq!(found.ok(), expected);
    }

    #[rstest]
    #[case(FROM_1)]
    #[case(FROM_0)]
    fn a_run_without_events_can_be_forked_from_its_beginning(#[case] numbers: Numbering) {
        let forked = |from_seq: u64| {
            let request = parse(&json!({"mode": "branch", "fromSeq": from_seq})).unwrap();
            history(&request, numbers, 0)
        };
        assert_eq!(forked(0).unwrap(), 0);
        assert!(forked(1).is_err());
    }

    #[rstest]
    #[case::nothing_kept(&[], false, None)]
    #[case::nothing_kept_of_a_partial_rerun(&[], true, None)]
    #[case::one_kept(&["a"], false, Some(("run_b", 1)))]
    #[case::two_kept(&["c", "a"], false, Some(("run_b", 2)))]
    #[case::one_kept_of_a_partial_rerun(&["a"], true, Some(("run_b", 1)))]
    #[case::all_kept(&["a", "b", "c"], false, None)]
    #[case::all_kept_of_a_partial_rerun(&["a", "b", "c"], true, Some(("run_a", 2)))]
    #[case::of_no_task_of_the_run(&["x", "y", "z"], false, None)]
    fn a_run_that_reuses_some_judged_tasks_is_a_partial_rerun(
        #[case] judged: &[&str],
        #[case] is_one: bool,
        #[case] expected: Option<(&str, usize)>,
    ) {
        let mut eval: EvalSpec = serde_json::from_value(json!({
            "suiteId": "vendor.acme.evals.triage", "suiteVersion": "1.0.0", "suiteDigest": "sha256-x",
            "suiteSigned": true, "suiteTaskCount": 3, "agentId": "vendor.acme.triage.default",
            "agentVersion": "1.0.0", "packIntegrity": "sha256-y", "modelClass": "general",
            "model": {"provider": "openai", "model": "large-1"}, "modes": ["golden"], "tasks": ["a", "b", "c"],
            "concurrency": 4,
        }))
        .unwrap();
        eval.partial_rerun = is_one.then(|| PartialRerun {
            source_run_id: "run_a".into(),
            kept_tasks: 2,
        });
        let judged = judged.iter().map(|task| TaskId::from(*task)).collect();
        let found = partial_rerun(&"run_b".into(), &eval, &judged);
        let found = found.as_ref();
        assert_eq!(
            found.map(|it| (it.source_run_id.as_str(), it.kept_tasks)),
            expected
        );
    }

    #[test]
    fn an_inherited_event_keeps_its_fact_and_names_its_cause_among_the_inherited_ones() {
        let document = |id: &str, cause: Option<&str>| {
            let mut document = json!({"eventId": id, "runId": "run_a", "type": "provider.usage", "sequence": 2,
                "timestamp": "2026-01-01T00:00:00Z", "nodeId": "t", "payload": {"provider": "p", "model": "m",
                "inputTokens": 1, "outputTokens": 2, "totalTokens": 3, "costEstimateUsd": 0.5, "currency": "USD",
                "later": true}});
            if let Some(cause) = cause {
                document["causationId"] = json!(cause);
            }
            document.to_string().into_bytes()
        };
        let run = RunId::from("run_b");
        let cause = inherit(&run, &document("evt_1", None)).unwrap();
        let event = inherit(&run, &document("evt_2", Some("evt_1"))).unwrap();
        assert_eq!(event.causation_id.as_ref(), Some(&cause.event_id));
        assert_eq!(EventId::place(event.event_id.as_str()), Some(2));
        assert_ne!(
            inherit(&"run_c".into(), &document("evt_2", None))
                .unwrap()
                .event_id,
            event.event_id
        );
        // Members that this version would not write are kept too.
        assert!(event.payload.get().contains("\"later\":true"));
        assert!(matches!(event.event, Some(Event::ProviderUsage(_))));
    }
}
