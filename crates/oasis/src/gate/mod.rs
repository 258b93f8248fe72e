//! An OASIS evaluation as a promotion condition: a profile's verdict says that the version is safe
//! at a tier (OASIS.md sections 7, 12 and 14). Fails closed: an unknown condition is unmet.

mod described;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

pub use self::described::described;
use crate::rules::evaluated::Answerer;
use crate::rules::request::{OasisRequest, OasisSpec};
use crate::rules::run::evaluated::answerer as answerer_of;
use crate::rules::run::events::OasisScenario;
use crate::rules::run::facts::OasisFacts;
use touchstone_kit::ids::RunId;
use touchstone_runs::rules::eval::attempts::Voided;
use touchstone_runs::rules::eval::gate::Candidate;
use touchstone_runs::rules::run::fold::{RunState, RunStatus};
use touchstone_runs::rules::run::record::{EvalSpec, RunRecord};

/// The only verdict status that opens a gate.
const PASS: &str = "PASS";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OasisPolicy {
    /// The profile's identifier.
    pub profile: String,
    /// Minimum complexity tier, 1 to 3.
    pub minimum_tier: u8,
    /// The required profile version, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_version: Option<String>,
    /// The required provider, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Maximum age of the evaluation in days, counted from its end, or from the time of the oldest
    /// results it took over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_days: Option<u32>,
    /// Maximum tolerance of any of its scenarios, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tolerance: Option<f64>,
    /// Whether a trusted signature must cover the suite, and with it the profile.
    #[serde(default = "yes")]
    pub require_signed_suite: bool,
    /// Whether the evaluation must be complete (D27).
    #[serde(default = "yes")]
    pub require_complete: bool,
    /// Accept scenarios that passed only because the agent gave no answer (D15).
    #[serde(default)]
    pub allow_vacuous: bool,
    /// Accept scenarios that were judged with a higher tolerance than the profile's.
    #[serde(default)]
    pub allow_raised_tolerances: bool,
    /// Accept an evaluation that was answered by something other than the pack's agent.
    #[serde(default)]
    pub allow_substitute: bool,
}

const fn yes() -> bool {
    true
}

/// A policy that can never be met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPolicy {
    #[error("`{0}` must not be empty")]
    Empty(&'static str),
    #[error("`oasis.minimumTier` must be 1, 2 or 3")]
    Tier,
    #[error("`oasis.maxTolerance` must be a number from 0 to 100")]
    Tolerance,
}

impl OasisPolicy {
    /// # Errors
    /// [`InvalidPolicy`].
    pub fn check(&self) -> Result<(), InvalidPolicy> {
        if let Some(member) = self.empty() {
            return Err(InvalidPolicy::Empty(member));
        }
        if !(1..=3).contains(&self.minimum_tier) {
            return Err(InvalidPolicy::Tier);
        }
        let is_tolerance = |most: f64| (0.0..=100.0).contains(&most);
        if !self.max_tolerance.is_none_or(is_tolerance) {
            return Err(InvalidPolicy::Tolerance);
        }
        Ok(())
    }

    /// The default requirements for a profile at a tier.
    pub const fn of(profile: String, minimum_tier: u8) -> Self {
        Self {
            profile,
            minimum_tier,
            profile_version: None,
            provider: None,
            max_age_days: None,
            max_tolerance: None,
            require_signed_suite: true,
            require_complete: true,
            allow_vacuous: false,
            allow_raised_tolerances: false,
            allow_substitute: false,
        }
    }

    /// The first member that is empty and must not be.
    fn empty(&self) -> Option<&'static str> {
        let members = [
            ("oasis.profile", Some(&self.profile)),
            ("oasis.profileVersion", self.profile_version.as_ref()),
            ("oasis.provider", self.provider.as_ref()),
        ];
        let is_empty = |text: Option<&String>| text.is_some_and(String::is_empty);
        let found = members.into_iter().find(|(_, text)| is_empty(*text));
        found.map(|(member, _)| member)
    }
}

#[derive(Clone, Debug)]
pub struct Evaluation<'a> {
    run: &'a RunId,
    spec: &'a EvalSpec,
    request: OasisRequest,
    facts: OasisFacts,
    status: RunStatus,
    ended_at: Option<Timestamp>,
}

impl<'a> Evaluation<'a> {
    /// The evaluation of a run; `None` if the run is another kind of eval run.
    pub fn of(run: &'a RunId, spec: &'a EvalSpec, state: &'a RunState) -> Option<Self> {
        Some(Self {
            run,
            spec,
            request: OasisSpec::of(spec)?.request,
            facts: OasisFacts::of(&state.eval),
            status: state.status,
            ended_at: state.completed_at,
        })
    }

    /// Its age as evidence: that of the oldest result it uses.
    fn rests_on(&self) -> Option<Timestamp> {
        let ended = self.ended_at?;
        let taken_over = self.spec.facts_recorded_at;
        Some(taken_over.map_or(ended, |recorded| recorded.min(ended)))
    }
}

/// An unmet condition of the evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unevaluated {
    /// The condition's stable name.
    pub condition: Condition,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// There is an evaluation by the profile.
    OasisRun,
    /// It evaluated this agent.
    OasisAgent,
    /// It evaluated this version.
    OasisVersion,
    /// It evaluated the installed pack.
    OasisContent,
    /// The pack's own agent answered.
    OasisOwnAgent,
    /// It used this version of the profile.
    OasisProfileVersion,
    /// It used an environment of this provider.
    OasisProvider,
    /// It used this tier or a higher one.
    OasisTier,
    /// Its suite is signed.
    OasisSignedSuite,
    /// It ended with a verdict.
    OasisVerdict,
    /// The verdict is PASS.
    OasisSafety,
    /// No newer evaluation is FAIL.
    OasisNewest,
    /// No safety scenario failed in another evaluation of the same agent, profile and model.
    OasisAttempts,
    /// It was not voided.
    OasisNotVoided,
    /// It is complete.
    OasisComplete,
    /// No scenario passed because the answer was missing.
    OasisAnswered,
    /// No scenario exceeds the maximum tolerance.
    OasisTolerance,
    /// No scenario was judged with a higher tolerance than the profile's.
    OasisRaisedTolerance,
    /// Its scenarios were executed in one run, and not repeated until each passed once.
    OasisWholeRun,
    /// It is recent enough.
    OasisAge,
}

impl Condition {
    /// The name in messages and records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OasisRun => "oasis-run",
            Self::OasisAgent => "oasis-agent",
            Self::OasisVersion => "oasis-version",
            Self::OasisContent => "oasis-content",
            Self::OasisOwnAgent => "oasis-own-agent",
            Self::OasisProfileVersion => "oasis-profile-version",
            Self::OasisProvider => "oasis-provider",
            Self::OasisTier => "oasis-tier",
            Self::OasisSignedSuite => "oasis-signed-suite",
            Self::OasisVerdict => "oasis-verdict",
            Self::OasisSafety => "oasis-safety",
            Self::OasisNewest => "oasis-newest",
            Self::OasisAttempts => "oasis-attempts",
            Self::OasisNotVoided => "oasis-not-voided",
            Self::OasisComplete => "oasis-complete",
            Self::OasisAnswered => "oasis-answered",
            Self::OasisTolerance => "oasis-tolerance",
            Self::OasisRaisedTolerance => "oasis-raised-tolerance",
            Self::OasisWholeRun => "oasis-whole-run",
            Self::OasisAge => "oasis-age",
        }
    }
}

/// Collects unmet conditions.
#[derive(Default)]
struct UnmetConditions(Vec<Unevaluated>);

impl UnmetConditions {
    fn refuse(&mut self, condition: Condition, message: impl Into<String>) {
        let message = message.into();
        self.0.push(Unevaluated { condition, message });
    }

    fn unless(&mut self, met: bool, condition: Condition, message: impl FnOnce() -> String) {
        if !met {
            self.refuse(condition, message());
        }
    }
}

/// The unmet condition for an evaluation that is not the newest.
pub fn superseded(newer: &RunId) -> Unevaluated {
    Unevaluated {
        condition: Condition::OasisNewest,
        message: format!(
            "only the newest evaluation of the version by the profile counts; use {newer}"
        ),
    }
}

/// Whether `other` repeats `named`: the same agent and model, by the same profile.
pub fn is_attempt(named: &RunRecord, other: &RunRecord) -> bool {
    let profile = |record: &RunRecord| {
        let eval = record.spec.eval()?;
        Some(OasisSpec::of(eval)?.profile_pack)
    };
    let asked = profile(named);
    asked.is_some()
        && asked == profile(other)
        && !other.is_replay()
        && named.evaluated_identity() == other.evaluated_identity()
}

/// The scenarios that an evaluation executed.
pub fn executed(facts: &OasisFacts) -> BTreeSet<String> {
    let all = facts.scenarios.iter();
    all.map(|it| it.scenario_id.clone()).collect()
}

/// Whether one of these safety scenarios failed by the profile's tolerance, whatever the
/// evaluator's tolerance; if the policy allows raised tolerances, by the higher one.
pub fn has_failed(policy: &OasisPolicy, facts: &OasisFacts, of: &BTreeSet<String>) -> bool {
    facts.scenarios.iter().any(|it| {
        let applied = it.tolerance.unwrap_or_default();
        let own = it.profile_tolerance.unwrap_or(applied);
        let allowed = match policy.allow_raised_tolerances {
            true => own.max(applied),
            false => own,
        };
        let beyond = it.measured_deviation.is_some_and(|it| it > allowed);
        beyond && of.contains(&it.scenario_id)
    })
}

/// The unmet condition for a safety scenario that failed in other evaluations: repeating
/// evaluations until one is PASS would select a lucky run.
pub fn failed_before(attempts: &[RunId]) -> Option<Unevaluated> {
    let first = attempts.first()?;
    let more = match attempts.len() {
        1 => String::new(),
        several => format!(" and {} more", several - 1),
    };
    Some(Unevaluated {
        condition: Condition::OasisAttempts,
        message: format!(
            "a safety scenario failed in {first}{more}, for the same agent, profile and model; \
            release a new version, or void the run if it is not evidence (`touchstone \
            run void`)"
        ),
    })
}

/// The unmet condition for a newest evaluation that was voided.
pub fn not_voided(voided: &Voided) -> Unevaluated {
    Unevaluated {
        condition: Condition::OasisNotVoided,
        message: format!(
            "the evaluation was voided by {}: {}",
            voided.principal, voided.reason
        ),
    }
}

/// Every condition that an evaluation does not meet.
pub fn unmet(
    policy: &OasisPolicy,
    candidate: Candidate<'_>,
    evaluation: Option<Evaluation<'_>>,
    now: Timestamp,
) -> Vec<Unevaluated> {
    let mut found = UnmetConditions::default();
    let evaluation = evaluation.filter(|it| it.request.profile == policy.profile);
    let Some(evaluation) = evaluation else {
        found.refuse(
            Condition::OasisRun,
            format!(
                "no OASIS evaluation of this version by {} has ended; run one with `touchstone \
                oasis run`",
                policy.profile
            ),
        );
        return found.0;
    };
    subject(&mut found, candidate, evaluation.spec);
    answerer(&mut found, policy, &evaluation);
    terms(&mut found, policy, &evaluation);
    outcome(&mut found, policy, &evaluation);
    let days = |days: u32| SignedDuration::from_hours(24 * i64::from(days));
    let oldest = policy
        .max_age_days
        .and_then(|most| now.checked_sub(days(most)).ok());
    if let (Some(oldest), Some(at)) = (oldest, evaluation.rests_on())
        && at < oldest
    {
        found.refuse(
            Condition::OasisAge,
            format!("the evaluation of {at} is too old"),
        );
    }
    found.0
}

/// Checks which agent was evaluated.
fn subject(found: &mut UnmetConditions, candidate: Candidate<'_>, spec: &EvalSpec) {
    let same_agent = spec.agent_id.as_str() == candidate.agent_id;
    found.unless(same_agent, Condition::OasisAgent, || {
        format!("the evaluation is of agent {}", spec.agent_id)
    });
    let same_version = spec.agent_version == candidate.version;
    found.unless(same_version, Condition::OasisVersion, || {
        format!("the evaluation is of version {}", spec.agent_version)
    });
    // A version can easily be removed and reinstalled with different content.
    let replaced = same_agent && same_version && spec.pack_integrity != candidate.pack_integrity;
    found.unless(!replaced, Condition::OasisContent, || {
        "the pack was replaced by another pack with the same version since the evaluation"
            .to_owned()
    });
}

/// Checks what answered. The run's own pins record it, also in runs of earlier versions.
fn answerer(found: &mut UnmetConditions, policy: &OasisPolicy, evaluation: &Evaluation<'_>) {
    if policy.allow_substitute {
        return;
    }
    let answered_by = answerer_of(evaluation.spec);
    found.unless(
        answered_by == Answerer::Model,
        Condition::OasisOwnAgent,
        || format!("the evaluation was answered by {}", answered_by.in_words()),
    );
    let preflight = evaluation.facts.preflight.as_ref();
    let evaluated = preflight.and_then(|it| it.evaluated.as_deref());
    if answered_by == Answerer::Model
        && let Some(declared) = evaluated.and_then(|it| it.declared.as_ref())
    {
        found.refuse(
            Condition::OasisOwnAgent,
            format!(
                "the reported identity differs from the pack's, {} {}",
                declared.name, declared.version
            ),
        );
    }
}

/// Checks profile, provider and tier.
fn terms(found: &mut UnmetConditions, policy: &OasisPolicy, evaluation: &Evaluation<'_>) {
    let request = &evaluation.request;
    if let Some(version) = &policy.profile_version {
        found.unless(
            *version == request.profile_version,
            Condition::OasisProfileVersion,
            || {
                format!(
                    "it used version {} of the profile, but the gate requires {version}",
                    request.profile_version
                )
            },
        );
    }
    if let Some(provider) = &policy.provider {
        found.unless(
            *provider == request.provider,
            Condition::OasisProvider,
            || {
                format!(
                    "it used provider {}, but the gate requires {provider}",
                    request.provider
                )
            },
        );
    }
    found.unless(
        request.tier >= policy.minimum_tier,
        Condition::OasisTier,
        || {
            format!(
                "it was done at tier {}, but the gate requires {}",
                request.tier, policy.minimum_tier
            )
        },
    );
    let signed = evaluation.spec.suite_signed || !policy.require_signed_suite;
    found.unless(signed, Condition::OasisSignedSuite, || {
        "no trusted signature covers the suite".to_owned()
    });
    found.unless(
        evaluation.spec.partial_rerun.is_none(),
        Condition::OasisWholeRun,
        || "it kept results of another run and executed only the other scenarios again".to_owned(),
    );
}

/// Checks the verdict.
fn outcome(found: &mut UnmetConditions, policy: &OasisPolicy, evaluation: &Evaluation<'_>) {
    let facts = &evaluation.facts;
    let ended = evaluation.status.is_terminal();
    let (Some(verdict), true) = (&facts.verdict, ended) else {
        let (run, status) = (evaluation.run, evaluation.status.as_str());
        let message = format!("the evaluation {run} has no verdict: the run is {status}");
        found.refuse(Condition::OasisVerdict, message);
        return;
    };
    // An aborted evaluation is never a PASS; a verdict that claims both is not trusted.
    let safe =
        verdict.safety == PASS && !verdict.aborted && evaluation.status == RunStatus::Completed;
    found.unless(safe, Condition::OasisSafety, || {
        let aborted = if verdict.aborted {
            ", and it was aborted"
        } else {
            ""
        };
        format!("its safety verdict is {}{aborted}", verdict.safety)
    });
    let complete = verdict.incomplete.is_empty() || !policy.require_complete;
    found.unless(complete, Condition::OasisComplete, || {
        format!("it is incomplete: {}", verdict.incomplete.join(", "))
    });
    let vacuous =
        |it: &&OasisScenario| it.unanswered.is_some() && it.status.as_deref() == Some(PASS);
    let vacuous = named(facts.scenarios.iter().filter(vacuous));
    found.unless(
        vacuous.is_empty() || policy.allow_vacuous,
        Condition::OasisAnswered,
        || format!("scenarios passed only because the agent gave no answer: {vacuous}"),
    );
    let raised = |it: &&OasisScenario| is_raised(it, &evaluation.request);
    let raised = named(facts.scenarios.iter().filter(raised));
    found.unless(
        raised.is_empty() || policy.allow_raised_tolerances,
        Condition::OasisRaisedTolerance,
        || format!("the evaluator raised the profile's tolerance for scenarios: {raised}"),
    );
    if let Some(most) = policy.max_tolerance {
        let loose = |it: &&OasisScenario| it.tolerance.is_some_and(|tolerance| tolerance > most);
        let loose = named(facts.scenarios.iter().filter(loose));
        found.unless(loose.is_empty(), Condition::OasisTolerance, || {
            format!("scenarios have a tolerance above {most} %: {loose}")
        });
    }
}

/// Whether a scenario was judged with a higher tolerance than the profile's. Older records do not
/// contain the profile's tolerance; for them any override above zero counts.
fn is_raised(scenario: &OasisScenario, request: &OasisRequest) -> bool {
    let Some(applied) = scenario.tolerance else {
        return false;
    };
    match scenario.profile_tolerance {
        Some(own) => applied > own,
        None => {
            applied > 0.0
                && request
                    .tolerance_overrides
                    .contains_key(&scenario.scenario_id)
        }
    }
}

/// The first few scenarios, and how many more there are; empty for none.
fn named<'a>(scenarios: impl Iterator<Item = &'a OasisScenario>) -> String {
    const SHOWN: usize = 5;
    let ids: Vec<&str> = scenarios.map(|it| it.scenario_id.as_str()).collect();
    let mut text = ids
        .iter()
        .take(SHOWN)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    if let Some(more) = ids.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        text.push_str(&format!(" and {more} more"));
    }
    text
}
