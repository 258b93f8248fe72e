//! The checks of an OASIS evaluation that need no provider (OASIS.md section 14). Failures that
//! involve the provider end the run; they do not reject the request.

use super::kind::NAME;
use crate::rules::request::{OasisRequest, OasisSpec, Phases};
use crate::rules::scenario::{Classification, Descriptor};
use crate::rules::suite::{is_oasis, scenario_of};
use touchstone_kit::error::Problem;
use touchstone_kit::ids::TaskId;
use touchstone_openwop::suite::{AgentEvalSuite, EvalMode};
use touchstone_runs::rules::kind::KindPlan;
use touchstone_runs::rules::run::request::CreateRun;

/// Inputs for planning an OASIS evaluation.
#[derive(Default)]
pub struct PlanFacts<'a> {
    /// The evaluation that is requested, if one is.
    pub wanted: Option<&'a OasisRequest>,
    /// The profile in the suite's own pack, if there is one.
    pub profile: Option<ProfileFacts<'a>>,
    /// The providers configured on this host, by name.
    pub providers: &'a [String],
    /// The default evaluator.
    pub evaluator: Option<&'a str>,
}

/// An installed profile.
pub struct ProfileFacts<'a> {
    pub identifier: &'a str,
    pub version: &'a str,
    /// The digest of the profile's pack.
    pub pack: &'a str,
    /// Its scenarios by id.
    pub scenario: &'a dyn Fn(&str) -> Option<&'a Descriptor>,
}

/// The evaluation that a request asks for, if any.
///
/// # Errors
/// `validation_error` naming the field.
pub fn wanted(request: &CreateRun) -> Result<Option<OasisRequest>, Problem> {
    let members = request.options.configurable.get(NAME);
    members.map(OasisRequest::read).transpose()
}

/// Plans the evaluation; `None` for an ordinary eval.
///
/// # Errors
/// `validation_error` naming the field.
pub fn plan(
    request: &CreateRun,
    suite: &AgentEvalSuite,
    modes: &[EvalMode],
    facts: &PlanFacts<'_>,
) -> Result<Option<KindPlan>, Problem> {
    let wanted = match (facts.wanted, is_oasis(suite)) {
        (None, false) => return Ok(None),
        (None, true) => {
            return Err(Problem::validation(
                "configurable.oasis",
                "the suite is an OASIS evaluation; set profile, profileVersion, tier, provider \
                 and evaluator in `configurable.oasis`, or use `touchstone oasis run`",
            ));
        }
        (Some(_), false) => {
            return Err(Problem::validation(
                "configurable.oasis",
                "the suite has no scenarios of an OASIS profile; leave `configurable.oasis` out, \
                 or name a suite that has some",
            ));
        }
        (Some(wanted), true) => wanted,
    };
    let profile = profile(wanted, facts)?;
    if !facts.providers.contains(&wanted.provider) {
        let known = match facts.providers {
            [] => "none is configured; add `[[oasis.providers]]` to the host's configuration"
                .to_owned(),
            names => format!("configured providers: {}", names.join(", ")),
        };
        return Err(Problem::validation(
            "configurable.oasis.provider",
            format!("this host has no provider of this name; {known}"),
        ));
    }
    check_modes(wanted, modes)?;
    let tasks = selected(wanted, suite, profile)?;
    let mut pinned = wanted.clone();
    if pinned.evaluator.is_empty() {
        let evaluator = facts.evaluator.ok_or_else(|| {
            Problem::validation(
                "configurable.oasis.evaluator",
                "`configurable.oasis.evaluator` is required, because the verdict names the \
                 evaluator (default: `oasis.evaluator` in the host's configuration)",
            )
        })?;
        evaluator.clone_into(&mut pinned.evaluator);
    }
    if request.budget.interrupts {
        return Err(Problem::validation(
            "configurable.budget.onExhaustion",
            "an OASIS evaluation ends when its budget is exhausted; leave `onExhaustion` out, or set it to \"fail\"",
        ));
    }
    // Probes run only on explicit request, not because the suite supports them.
    let is_used = |mode: &&EvalMode| **mode == EvalMode::Golden || pinned.adversarial.is_some();
    let modes = modes.iter().filter(is_used).copied().collect();
    let spec = OasisSpec {
        request: pinned,
        profile_pack: profile.pack.to_owned(),
    };
    Ok(Some(KindPlan {
        spec: spec.extension(),
        tasks,
        modes,
        // A provider fault ends the evaluation immediately; no other task is in flight then.
        concurrency: 1,
    }))
}

fn profile<'f, 'p>(
    wanted: &OasisRequest,
    facts: &'f PlanFacts<'p>,
) -> Result<&'f ProfileFacts<'p>, Problem> {
    let Some(profile) = &facts.profile else {
        return Err(Problem::validation(
            "configurable.oasis.profile",
            "the suite's pack has no profile; a signed pack must contain both the profile and its \
             suites",
        ));
    };
    if profile.identifier != wanted.profile {
        return Err(Problem::validation(
            "configurable.oasis.profile",
            format!("the suite's pack has the profile `{}`", profile.identifier),
        ));
    }
    if profile.version != wanted.profile_version {
        return Err(Problem::validation(
            "configurable.oasis.profileVersion",
            format!(
                "the suite's pack has version `{}` of the profile",
                profile.version
            ),
        ));
    }
    Ok(profile)
}

/// An OASIS evaluation uses neither a judge nor fixtures, which leaves two modes.
fn check_modes(wanted: &OasisRequest, modes: &[EvalMode]) -> Result<(), Problem> {
    let field = "configurable.evalModes";
    if let Some(other) = modes
        .iter()
        .find(|mode| !matches!(mode, EvalMode::Golden | EvalMode::Adversarial))
    {
        return Err(Problem::validation(
            field,
            format!(
                "an OASIS evaluation runs in `golden`, optionally with `adversarial`; it does not \
                 support `{other}`"
            ),
        ));
    }
    if !modes.contains(&EvalMode::Golden) {
        return Err(Problem::validation(
            field,
            "an OASIS evaluation needs `golden`, because the adversarial phase follows a PASS",
        ));
    }
    match (modes.contains(&EvalMode::Adversarial), &wanted.adversarial) {
        (false, Some(_)) => Err(Problem::validation(
            field,
            "`configurable.oasis.adversarial` requests the adversarial phase; add `adversarial` \
             to the modes, if the suite declares it",
        )),
        _ => Ok(()),
    }
}

fn selected(
    wanted: &OasisRequest,
    suite: &AgentEvalSuite,
    profile: &ProfileFacts<'_>,
) -> Result<Vec<TaskId>, Problem> {
    let of_suite: Vec<(&TaskId, &Descriptor)> = suite
        .tasks
        .iter()
        .filter_map(|task| Some((&task.task_id, (profile.scenario)(scenario_of(task)?)?)))
        .collect();
    let known = |id: &str| {
        of_suite
            .iter()
            .find(|(_, it)| it.id == id)
            .map(|(_, it)| *it)
    };
    let asked = wanted.scenario_ids.as_deref().unwrap_or_default();
    if let Some(unknown) = asked.iter().find(|id| known(id).is_none()) {
        return Err(Problem::validation(
            "configurable.oasis.scenarioIds",
            format!("the suite has no scenario `{unknown}`"),
        ));
    }
    for id in wanted.tolerance_overrides.keys() {
        if known(id).is_none_or(|it| it.classification != Classification::Safety) {
            return Err(Problem::validation(
                "configurable.oasis.toleranceOverrides",
                format!("the suite has no safety scenario `{id}`"),
            ));
        }
    }
    let tasks: Vec<TaskId> = of_suite
        .iter()
        .filter(|(_, it)| it.tier <= wanted.tier)
        .filter(|(_, it)| {
            wanted.phases == Phases::Both || it.classification == Classification::Safety
        })
        .filter(|(_, it)| wanted.scenario_ids.is_none() || asked.contains(&it.id))
        .map(|(task, _)| (*task).clone())
        .collect();
    Ok(tasks)
}
