//! The checks of an OASIS evaluation that need no provider (OASIS.md section 14). Everything else refuses the run, not the
//! request.

use super::parse::CreateRun;
use crate::domain::ids::TaskId;
use crate::domain::oasis::request::{OasisRequest, OasisSpec, Phases};
use crate::domain::oasis::scenario::{Classification, Descriptor};
use crate::domain::oasis::suite::{is_oasis, scenario_of};
use crate::protocol::error::Problem;
use crate::protocol::openwop::suite::{AgentEvalSuite, EvalMode};

/// What an OASIS evaluation is planned with.
#[derive(Default)]
pub struct OasisFacts<'a> {
    /// The profile of the suite's own pack, if it brings one.
    pub profile: Option<ProfileFacts<'a>>,
    /// The providers configured on this host, by name.
    pub providers: &'a [String],
    /// Who evaluates where the request does not say.
    pub evaluator: Option<&'a str>,
}

/// A profile that is installed.
pub struct ProfileFacts<'a> {
    /// Its identifier.
    pub identifier: &'a str,
    /// Its exact version.
    pub version: &'a str,
    /// The digest of the pack that brings it.
    pub pack: &'a str,
    /// Its scenarios by id.
    pub scenario: &'a dyn Fn(&str) -> Option<&'a Descriptor>,
}

/// The evaluation, pinned, and its tasks; `None` for an ordinary eval.
///
/// # Errors
/// `validation_error` naming the field.
pub(super) fn plan(
    request: &CreateRun,
    suite: &AgentEvalSuite,
    modes: &[EvalMode],
    facts: &OasisFacts<'_>,
) -> Result<Option<(OasisSpec, Vec<TaskId>)>, Problem> {
    let wanted = match (&request.oasis, is_oasis(suite)) {
        (None, false) => return Ok(None),
        (None, true) => {
            return Err(Problem::validation(
                "configurable.oasis",
                "the suite is an OASIS evaluation; say in `configurable.oasis` which profile, profileVersion, tier, provider and \
                 evaluator (touchstone oasis run)",
            ));
        }
        (Some(_), false) => {
            return Err(Problem::validation(
                "configurable.oasis",
                "the suite has no scenarios of an OASIS profile; leave `configurable.oasis` out, or name such a suite",
            ));
        }
        (Some(wanted), true) => wanted,
    };
    let profile = profile(wanted, facts)?;
    if !facts.providers.contains(&wanted.provider) {
        let known = match facts.providers {
            [] => "none is; add `[[oasis.providers]]` to its configuration".to_owned(),
            names => format!("these are: {}", names.join(", ")),
        };
        return Err(Problem::validation(
            "configurable.oasis.provider",
            format!("no provider of this name is configured on this host; {known}"),
        ));
    }
    check_modes(wanted, modes)?;
    let tasks = selected(wanted, suite, profile)?;
    let mut pinned = wanted.clone();
    if pinned.evaluator.is_empty() {
        let evaluator = facts.evaluator.ok_or_else(|| {
            Problem::validation(
                "configurable.oasis.evaluator",
                "`configurable.oasis.evaluator` is required: who evaluates, for the verdict (or `oasis.evaluator` in the host's \
                 configuration)",
            )
        })?;
        evaluator.clone_into(&mut pinned.evaluator);
    }
    let spec = OasisSpec {
        request: pinned,
        profile_pack: profile.pack.to_owned(),
    };
    Ok(Some((spec, tasks)))
}

fn profile<'f, 'p>(
    wanted: &OasisRequest,
    facts: &'f OasisFacts<'p>,
) -> Result<&'f ProfileFacts<'p>, Problem> {
    let Some(profile) = &facts.profile else {
        return Err(Problem::validation(
            "configurable.oasis.profile",
            "the suite's pack brings no profile; profiles travel with their suites in signed packs",
        ));
    };
    if profile.identifier != wanted.profile {
        return Err(Problem::validation(
            "configurable.oasis.profile",
            format!(
                "the suite's pack brings the profile `{}`",
                profile.identifier
            ),
        ));
    }
    if profile.version != wanted.profile_version {
        return Err(Problem::validation(
            "configurable.oasis.profileVersion",
            format!(
                "the suite's pack brings version `{}` of the profile",
                profile.version
            ),
        ));
    }
    Ok(profile)
}

/// There is no judge in an OASIS evaluation, and no fixtures: two modes are left.
fn check_modes(wanted: &OasisRequest, modes: &[EvalMode]) -> Result<(), Problem> {
    let field = "configurable.evalModes";
    if let Some(other) = modes
        .iter()
        .find(|mode| !matches!(mode, EvalMode::Golden | EvalMode::Adversarial))
    {
        return Err(Problem::validation(
            field,
            format!(
                "an OASIS evaluation is run in `golden`, and `adversarial` beside it; not in `{other}`"
            ),
        ));
    }
    if !modes.contains(&EvalMode::Golden) {
        return Err(Problem::validation(
            field,
            "an OASIS evaluation needs `golden`: the adversarial phase follows a PASS",
        ));
    }
    match (modes.contains(&EvalMode::Adversarial), &wanted.adversarial) {
        (false, Some(_)) => Err(Problem::validation(
            field,
            "`configurable.oasis.adversarial` asks for the adversarial phase; add `adversarial` to the modes, if the suite \
             declares it",
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
