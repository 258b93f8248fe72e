//! The end of an evaluation: the verdict, computed once from the records, and the corresponding
//! OpenWOP documents.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use tracing::error;

use crate::executor::adversarial::probed;
use crate::executor::{Evaluation, PROVIDER_FAILURE};
use crate::rules::CORE_VERSION;
use crate::rules::probes::ProbeScript;
use crate::rules::run::extensions;
use crate::rules::run::facts::OasisFacts;
use crate::rules::verdict;
use crate::rules::verdict::document::Document;
use crate::rules::verdict::{Computed, Facts, PassConditions, eval_summary, rules};
use crate::wire::events::{OasisEvent, OasisVerdict};
use touchstone_kit::integrity;
use touchstone_kit::json;
use touchstone_openwop::events::{Event, NewEvent, RunCompleted, RunError, RunFailed, RunOutputs};
use touchstone_packs::store as pack_store;
use touchstone_runs::rules::eval::scoring::summary;
use touchstone_runs::rules::run::fold::RunState;
use touchstone_runs::service::executor::endings::running_for;
use touchstone_runs::service::executor::eval::{INTERNAL_ERROR, completed};
use touchstone_runs::service::run_writer::Closed;

/// Records the verdict, unless it is recorded already, and ends the run.
pub(super) async fn conclude(
    evaluation: &Evaluation,
    probes: &[ProbeScript],
) -> Result<(), Closed> {
    let writer = &evaluation.context.writer;
    let verdict = match evaluation.facts().verdict {
        Some(verdict) => verdict,
        None => match record(evaluation, probes).await {
            Ok(Some(verdict)) => verdict,
            Ok(None) => return Ok(()),
            Err(closed) => return Err(closed),
        },
    };
    let abort = verdict.aborted.then(|| {
        let facts = evaluation.facts();
        let cause = facts.scenarios.iter().find_map(|it| match &it.outcome {
            crate::rules::outcome::Outcome::Fault { cause } => {
                Some(format!("{}: {cause}", it.scenario_id))
            }
            _ => None,
        });
        let cause = cause.unwrap_or_else(|| "unknown".to_owned());
        format!("a runtime provider fault ended the evaluation at {cause}")
    });
    match abort {
        Some(message) => end_with(evaluation, PROVIDER_FAILURE, message),
        None => {
            let context = &evaluation.context;
            let thresholds = context.thresholds();
            let outputs = writer.with_state(|state| {
                summary(
                    evaluation.work.library.kinds,
                    &context.run.run_id,
                    &context.spec,
                    &thresholds,
                    &state.eval,
                )
            });
            let mut events = Vec::with_capacity(2);
            if writer.with_state(|state| state.eval.completed.is_none()) {
                events.push(NewEvent::of_run(Event::EvalCompleted(completed(&outputs))));
            }
            let duration_ms = running_for(writer);
            events.push(NewEvent::of_run(Event::RunCompleted(RunCompleted {
                outputs: RunOutputs::Eval(outputs),
                duration_ms,
            })));
            writer.emit_all(&events);
        }
    }
    Ok(())
}

fn end_with(evaluation: &Evaluation, code: &str, message: String) {
    let error = RunError {
        code: code.to_owned(),
        message,
    };
    let writer = &evaluation.context.writer;
    writer.emit(&NewEvent::of_run(Event::RunFailed(RunFailed {
        error,
        failed_node_id: None,
    })));
}

/// Computes the verdict, stores the document and records its digest. `None` if the run had to be
/// ended without a verdict.
async fn record(
    evaluation: &Evaluation,
    probes: &[ProbeScript],
) -> Result<Option<OasisVerdict>, Closed> {
    let context = &evaluation.context;
    let computed = match compute(evaluation, probes) {
        Ok(computed) => computed,
        Err(cause) => {
            error!(run_id = %context.run.run_id, %cause, "could not compute an OASIS verdict");
            let message = "could not compute the verdict; this is a fault of the host".to_owned();
            end_with(evaluation, INTERNAL_ERROR, message);
            return Ok(None);
        }
    };
    let text = match document(&computed) {
        Ok(text) => text,
        Err(cause) => {
            error!(run_id = %context.run.run_id, %cause, "could not write an OASIS verdict");
            let message = "could not write the verdict; this is a fault of the host".to_owned();
            end_with(evaluation, INTERNAL_ERROR, message);
            return Ok(None);
        }
    };
    let sha256 = integrity::of(text.as_bytes());
    // The document is stored first: it becomes visible only when the event below refers to it.
    if let Err(cause) =
        pack_store::blobs::put(&evaluation.work.store, &sha256, text.as_bytes()).await
    {
        error!(run_id = %context.run.run_id, %cause, "could not store an OASIS verdict");
        context.writer.close();
        return Err(Closed);
    }
    let figures = eval_summary(&computed, demands(evaluation));
    let recorded = OasisVerdict {
        safety: computed.verdict.safety.as_str().to_owned(),
        sha256,
        aborted: computed.verdict.metadata.aborted,
        incomplete: computed
            .report_header
            .reasons
            .iter()
            .map(|it| it.as_str().to_owned())
            .collect(),
        aggregate_score: figures.aggregate_score,
        passed: figures.passed,
    };
    let event = NewEvent::of_run(OasisEvent::Verdict(recorded.clone()).into());
    context.writer.emit(&event);
    Ok(Some(recorded))
}

/// A verdict that cannot be published.
#[derive(Debug, thiserror::Error)]
enum Untold {
    #[error(transparent)]
    Unwritable(#[from] serde_json::Error),
    /// The verdict contradicts itself, which is a fault of this host. No verdict is better than an
    /// invalid one.
    #[error("the verdict breaks {0}")]
    Unsound(String),
}

/// The verdict document in its canonical form.
fn document(computed: &Computed) -> Result<String, Untold> {
    let document = serde_json::to_value(Document {
        verdict: computed.verdict.clone(),
    })?;
    match rules::check(&document).first() {
        Some(broken) => Err(Untold::Unsound(format!(
            "{} at {}",
            broken.rule, broken.path
        ))),
        None => Ok(json::canonical_text(&document)),
    }
}

pub(super) fn demands(evaluation: &Evaluation) -> PassConditions {
    PassConditions {
        pass_score: evaluation.context.thresholds().pass_score,
        allow_incomplete: evaluation.oasis.request.allow_incomplete,
    }
}

fn compute(
    evaluation: &Evaluation,
    probes: &[ProbeScript],
) -> Result<Computed, verdict::Unfinished> {
    let facts = evaluation.facts();
    let about = about(evaluation, &facts);
    let results = evaluation.results();
    let (adversarial, reserved) = probed(evaluation, &facts, probes);
    let mut computed = verdict::compute(
        &evaluation.plan,
        &about,
        &results,
        &reserved,
        adversarial.as_ref(),
    )?;
    let added = extensions::of(&evaluation.plan, &facts);
    computed.verdict.metadata.extensions.extend(added);
    Ok(computed)
}

/// The recorded evidence for the claimed tier: the provider's declaration, and the sources that it
/// read.
fn tier_evidence(facts: &OasisFacts, tier: u8) -> String {
    let requirements = facts.preflight.iter().flat_map(|it| &it.requirements);
    let of_tier = requirements.filter(|it| {
        it.expected
            .get("value")
            .is_some_and(|value| value == "requested")
    });
    let declared: Vec<String> = of_tier
        .map(|it| format!("{}: {}", it.key, it.answer))
        .collect();
    let declared = if declared.is_empty() {
        format!("declared by the provider in its conformance response: tier {tier} or above")
    } else {
        let declared = declared.join(", ");
        format!(
            "declared by the provider in its conformance response: {declared}; claimed: tier {tier}"
        )
    };
    let observed = facts.observed.values().flatten();
    let sources: BTreeSet<String> = observed
        .filter(|it| it.status == "available")
        .map(|it| format!("{} from {}", it.observation_type, it.source_type))
        .collect();
    if sources.is_empty() {
        return declared;
    }
    let sources: Vec<String> = sources.into_iter().take(MOST_SOURCES).collect();
    format!(
        "{declared}; observed during the run: {}",
        sources.join(", ")
    )
}

/// Maximum number of sources that are listed as evidence of a tier.
const MOST_SOURCES: usize = 20;

/// The parts of a verdict that are not computed, taken from the records.
fn about(evaluation: &Evaluation, facts: &OasisFacts) -> Facts {
    let preflight = facts.preflight.clone();
    let (provider, agent) = match preflight {
        Some(preflight) => (preflight.provider, preflight.agent),
        None => (None, None),
    };
    let checked = facts
        .preflight
        .as_ref()
        .map_or(0, |it| it.requirements.len());
    let started = |state: &RunState| state.started_at;
    let started = evaluation.context.writer.with_state(started);
    let duration = started
        .zip(facts.last_at)
        .map_or(SignedDuration::ZERO, |(from, to)| to.duration_since(from));
    let request = &evaluation.oasis.request;
    Facts {
        agent: agent.as_ref().map(|it| it.name.clone()).unwrap_or_default(),
        agent_version: agent.map(|it| it.version).unwrap_or_default(),
        provider: provider
            .as_ref()
            .map(|it| it.name.clone())
            .unwrap_or_default(),
        provider_version: provider.map(|it| it.version).unwrap_or_default(),
        tier_evidence: tier_evidence(facts, request.tier),
        conformance_check: format!("all {checked} requirements of the profile are satisfied"),
        oasis_core_version: CORE_VERSION.to_owned(),
        evaluator: request.evaluator.clone(),
        timestamp: started.map(|it| it.to_string()).unwrap_or_default(),
        duration: duration.to_string(),
    }
}
