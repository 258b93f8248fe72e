//! Computes a verdict, or the reason for its absence, from an input.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;

use super::super::super::outcome::Outcome;
use super::super::super::preflight::Preflight;
use super::super::super::refusal::{Refusal, RefusalCode};
use super::super::compute::{self, Computed, ReportHeader};
use super::super::document::Verdict;
use super::super::eval_summary::{EvalFigures, PassConditions, eval_summary};
use super::super::facts::Facts;
use super::super::gate::CategoryResult;
use super::super::plan::{Plan, PlannedScenario, Terms};
use super::super::progress::{Next, next};
use super::super::rules;
use super::{HTTP_OK, Input, InputFault, extras};

/// The result for an input.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Output {
    /// A verdict and the related results.
    Verdict {
        verdict: Box<Verdict>,
        /// Whether the verdict covers a complete evaluation.
        report_header: ReportHeader,
        /// By safety category.
        category_results: BTreeMap<String, CategoryResult>,
        /// The projection onto OpenWOP.
        eval_summary: EvalFigures,
    },
    /// No verdict exists.
    Refused { error: Refused },
}

/// Why no verdict exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The first code that applies.
    pub code: RefusalCode,
    /// The keys of all items at fault.
    pub items: Vec<String>,
    /// The refusal with reasons, for people.
    #[serde(skip)]
    pub refusal: Refusal,
}

/// Computes the result for an input.
///
/// # Errors
/// Missing fields, and values that a verdict must not contain, by field.
pub fn compute(input: &Input) -> Result<Output, Vec<InputFault>> {
    let plan = match plan(input) {
        Ok(plan) => plan,
        Err(refusal) => return Ok(Output::refused(refusal)),
    };
    let results = execute(&plan, input)?;
    let adversarial = input.adversarial.as_ref();
    let adversarial = adversarial
        .map(|it| extras::adversarial(it, &input.profile))
        .transpose()?;
    let reserved = extras::reserved(&input.reserved)?;
    let computed = compute::compute(
        &plan,
        &facts(input),
        &results,
        &reserved,
        adversarial.as_ref(),
    )
    .map_err(|cause| vec![InputFault::new("/observed", cause.to_string())])?;
    sound(&computed)?;
    let demands = PassConditions {
        pass_score: input.thresholds.pass_score,
        allow_incomplete: input.allow_incomplete,
    };
    Ok(Output::Verdict {
        eval_summary: eval_summary(&computed, demands),
        verdict: Box::new(computed.verdict),
        report_header: computed.report_header,
        category_results: computed.category_results,
    })
}

impl Output {
    fn refused(refusal: Refusal) -> Self {
        let error = Refused {
            code: refusal.code,
            items: refusal.items.iter().map(|it| it.key.clone()).collect(),
            refusal,
        };
        Self::Refused { error }
    }
}

/// The steps that can refuse, in the order of precedence of their codes.
fn plan(input: &Input) -> Result<Plan, Refusal> {
    if let Some(refusal) = preflight(input).and_then(|it| it.refusal()) {
        return Err(refusal);
    }
    let schema = &input.profile.agent_configuration_schema;
    let configuration = schema.effective(&input.agent.reported_configuration)?;
    let terms = Terms {
        tier: input.tier,
        phases: input.phases,
        filtered: input.filtered,
        tolerance_overrides: input.tolerance_overrides.clone(),
    };
    Plan::make(&input.profile, &input.scenarios, &terms, &configuration)
}

fn preflight(input: &Input) -> Option<Preflight> {
    let conformance = input.provider_conformance.as_ref()?;
    let requirements = &conformance.requirements;
    if conformance.http_status != HTTP_OK {
        let reason = format!(
            "the provider responded with status {}",
            conformance.http_status
        );
        return Some(Preflight::unanswered(requirements, &reason));
    }
    Some(Preflight::of(
        &input.profile,
        requirements,
        input.tier,
        &conformance.response,
    ))
}

/// Executes the plan with the given observations, one scenario at a time.
fn execute(plan: &Plan, input: &Input) -> Result<Vec<(String, Outcome)>, Vec<InputFault>> {
    let mut results = Vec::new();
    while let Next::Run(scenario) = next(plan, &results) {
        let outcome = seen(scenario, input).map_err(|fault| vec![fault])?;
        results.push((scenario.id().to_owned(), outcome));
    }
    Ok(results)
}

fn seen(scenario: &PlannedScenario, input: &Input) -> Result<Outcome, InputFault> {
    let id = scenario.id();
    let path = format!("/observed/{}", rules::escaped(id));
    let Some(observed) = input.observed.get(id) else {
        return Err(InputFault::new(
            path,
            "is missing, although the scenario would be executed",
        ));
    };
    extras::outcome(observed, scenario.descriptor.classification)
        .ok_or_else(|| InputFault::new(path, "does not fit the scenario's classification"))
}

fn facts(input: &Input) -> Facts {
    Facts {
        agent: input.agent.name.clone(),
        agent_version: input.agent.version.clone(),
        provider: input.provider.name.clone(),
        provider_version: input.provider.version.clone(),
        tier_evidence: input.provider.tier_evidence.clone(),
        conformance_check: input.provider.conformance_check.clone(),
        oasis_core_version: input.oasis_core_version.clone(),
        evaluator: input.evaluator.clone(),
        timestamp: input.timestamp.clone(),
        duration: input.duration.clone(),
    }
}

/// Checks that the given facts about agent, provider and run, such as versions and times, are valid
/// in a verdict.
fn sound(computed: &Computed) -> Result<(), Vec<InputFault>> {
    const FIELDS: [(&str, &str); 7] = [
        ("/verdict/metadata/agent_version", "/agent/version"),
        (
            "/verdict/metadata/environment/provider_version",
            "/provider/version",
        ),
        (
            "/verdict/metadata/domain_profile_version",
            "/profile/version",
        ),
        ("/verdict/metadata/domain_profile", "/profile/name"),
        (
            "/verdict/metadata/oasis_core_version",
            "/oasis_core_version",
        ),
        ("/verdict/metadata/timestamp", "/timestamp"),
        ("/verdict/metadata/duration", "/duration"),
    ];
    let broken = rules::check(&json!({ "verdict": computed.verdict }));
    if broken.is_empty() {
        return Ok(());
    }
    let fault = |it: rules::Violation| {
        let field = FIELDS.iter().find(|(place, _)| *place == it.path);
        match field {
            Some((_, field)) => InputFault::new(*field, it.message),
            None => InputFault::new(
                "",
                format!("leads to an invalid verdict: {}: {}", it.path, it.message),
            ),
        }
    };
    Err(broken.into_iter().map(fault).collect())
}
