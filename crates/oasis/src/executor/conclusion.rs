//! The end of an evaluation: the verdict, computed once from the records, and the corresponding
//! OpenWOP documents.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use tracing::error;

use crate::executor::adversarial::probe_results;
use crate::executor::evaluation::Evaluation;
use crate::rules::CORE_VERSION;
use crate::rules::outcome::Outcome;
use crate::rules::probes::ProbeScript;
use crate::rules::run::events::{OasisEvent, OasisVerdict};
use crate::rules::run::extensions;
use crate::rules::run::facts::OasisFacts;
use crate::rules::verdict;
use crate::rules::verdict::document::Document;
use crate::rules::verdict::{Computed, Facts, PassConditions, eval_summary, rules};
use touchstone_kit::integrity;
use touchstone_kit::json;
use touchstone_openwop::events::{NewEvent, RunError};
use touchstone_packs::store as pack_store;
use touchstone_runs::rules::run::fold::RunState;
use touchstone_runs::service::executor::endings::fail;
use touchstone_runs::service::executor::eval::conclusion::complete;
use touchstone_runs::service::executor::{INTERNAL_ERROR, WorkEnd};
use touchstone_runs::service::run_writer::Closed;

/// The error code of a run that a runtime provider fault ended.
const PROVIDER_FAILURE: &str = "oasis_provider_failure";

/// Records the verdict, unless it is recorded already, and ends the run.
pub(super) async fn conclude(
    evaluation: &Evaluation,
    probes: &[ProbeScript],
) -> Result<WorkEnd, Closed> {
    let known = evaluation.facts().verdict.clone();
    let verdict = match known {
        Some(verdict) => verdict,
        None => match record(evaluation, probes).await? {
            Some(verdict) => verdict,
            None => return Ok(WorkEnd::Ended),
        },
    };
    if verdict.aborted {
        return Ok(fail_aborted(evaluation));
    }
    let kinds = evaluation.executor.library.kinds;
    Ok(complete(kinds, &evaluation.context))
}

fn fail_aborted(evaluation: &Evaluation) -> WorkEnd {
    let cause = evaluation
        .facts()
        .scenarios
        .iter()
        .find_map(|it| match &it.outcome {
            Outcome::Fault { cause } => Some(format!("{}: {cause}", it.scenario_id)),
            Outcome::Safety { .. } | Outcome::Capability { .. } => None,
        })
        .unwrap_or_else(|| "unknown".to_owned());
    let message = format!("a runtime provider fault ended the evaluation at {cause}");
    let error = RunError::new(PROVIDER_FAILURE, message);
    fail(&evaluation.context.writer, error)
}

/// Fails the run, whose verdict could not be made.
fn fail_internally(evaluation: &Evaluation, problem: &str) {
    let message = format!("{problem}; this is a fault of the host");
    let error = RunError::new(INTERNAL_ERROR, message);
    fail(&evaluation.context.writer, error);
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
            fail_internally(evaluation, "could not compute the verdict");
            return Ok(None);
        }
    };
    let text = match document(&computed) {
        Ok(text) => text,
        Err(cause) => {
            error!(run_id = %context.run.run_id, %cause, "could not write an OASIS verdict");
            fail_internally(evaluation, "could not write the verdict");
            return Ok(None);
        }
    };
    let sha256 = integrity::of(text.as_bytes());
    // The document is stored first: it becomes visible only when the event below refers to it.
    if let Err(cause) =
        pack_store::blobs::put(&evaluation.executor.store, &sha256, text.as_bytes()).await
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
enum DocumentError {
    #[error(transparent)]
    Serialize(#[from] serde_json::Error),
    /// The verdict contradicts itself, which is a fault of this host. No verdict is better than an
    /// invalid one.
    #[error("the verdict breaks {0}")]
    Inconsistent(String),
}

/// The verdict document in its canonical form.
fn document(computed: &Computed) -> Result<String, DocumentError> {
    let document = serde_json::to_value(Document {
        verdict: computed.verdict.clone(),
    })?;
    match rules::check(&document).first() {
        Some(broken) => Err(DocumentError::Inconsistent(format!(
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

/// Why there is no verdict; a defect of the host.
#[derive(Debug, thiserror::Error)]
enum NotComputed {
    #[error(transparent)]
    Unfinished(#[from] verdict::Unfinished),
    #[error("the log has no record of {0}")]
    NotRecorded(&'static str),
}

fn compute(evaluation: &Evaluation, probes: &[ProbeScript]) -> Result<Computed, NotComputed> {
    let facts = evaluation.facts().clone();
    let about = verdict_facts(evaluation, &facts)?;
    let results = evaluation.results();
    let (adversarial, reserved) = probe_results(evaluation, &facts, probes);
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
fn verdict_facts(evaluation: &Evaluation, facts: &OasisFacts) -> Result<Facts, NotComputed> {
    let preflight = facts.preflight.as_ref();
    let preflight = preflight.ok_or(NotComputed::NotRecorded("the preflight"))?;
    let agent = preflight.agent.clone();
    let agent = agent.ok_or(NotComputed::NotRecorded("the agent's identity"))?;
    // A provider may be conformant without telling its name and version.
    let (provider, provider_version) = match preflight.provider.clone() {
        Some(provider) => (provider.name, provider.version),
        None => (String::new(), String::new()),
    };
    let checked = preflight.requirements.len();
    let started = |state: &RunState| state.started_at;
    let started = evaluation.context.writer.with_state(started);
    let started = started.ok_or(NotComputed::NotRecorded("its start"))?;
    let duration = facts
        .last_at
        .map_or(SignedDuration::ZERO, |to| to.duration_since(started));
    let request = &evaluation.oasis.request;
    Ok(Facts {
        agent: agent.name,
        agent_version: agent.version,
        provider,
        provider_version,
        tier_evidence: tier_evidence(facts, request.tier),
        conformance_check: format!("all {checked} requirements of the profile are satisfied"),
        oasis_core_version: CORE_VERSION.to_owned(),
        evaluator: request.evaluator.clone(),
        timestamp: started.to_string(),
        duration: duration.to_string(),
    })
}
