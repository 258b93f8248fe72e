//! Similarities and differences of two runs.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{ComparisonSide, Difference, ExclusionReason};
use crate::rules::eval::rubric::rubric;
use crate::rules::eval::scoring::DEFAULT_PASS_SCORE;
use crate::rules::eval::scoring_document::Check;
use crate::rules::run::deciders::{EmbeddingsPin, decided_differently};
use touchstone_kit::ids::TaskId;
use touchstone_openwop::suite::Task;

/// Returns a function that says why a task's scores cannot be compared; `None` if they can.
pub fn exclusion_rule<'a>(
    baseline: ComparisonSide<'a>,
    candidate: ComparisonSide<'a>,
) -> impl Fn(&TaskId) -> Option<ExclusionReason> + 'a {
    let by_id = |tasks: &'a [Task]| -> HashMap<&'a TaskId, &'a Task> {
        tasks.iter().map(|task| (&task.task_id, task)).collect()
    };
    let same_suite = baseline.spec.suite_digest == candidate.spec.suite_digest;
    let same_scoring = baseline.spec.scoring_digest == candidate.spec.scoring_digest;
    let scoring = |side: ComparisonSide<'a>, id: &TaskId| side.scoring?.of_task(id);
    let judge = |side: ComparisonSide<'a>| side.spec.judge.as_ref().map(|judge| &judge.identity);
    let same_judge = judge(baseline) == judge(candidate);
    let conversation = |side: ComparisonSide<'a>, id: &TaskId| side.scoring?.conversation(id);
    let files = |side: ComparisonSide<'a>, id: &TaskId| Some(side.scoring?.attachments(id));
    let user = |side: ComparisonSide<'a>| side.spec.simulated_user.as_ref();
    let same_user = user(baseline) == user(candidate);
    let (was, is) = (by_id(&baseline.suite.tasks), by_id(&candidate.suite.tasks));
    move |id| {
        let task = is.get(id)?;
        if !same_suite && was.get(id) != Some(task) {
            return Some(ExclusionReason::TaskChanged);
        }
        if !same_scoring
            && (scoring(baseline, id) != scoring(candidate, id)
                || conversation(baseline, id) != conversation(candidate, id)
                || files(baseline, id) != files(candidate, id))
        {
            return Some(ExclusionReason::TaskChanged);
        }
        // A comparison with a baseline counts in only one of the runs, or with another baseline.
        let compares = |side: ComparisonSide<'a>| {
            let scoring = scoring(side, id)?;
            let baseline = side.spec.baseline.as_ref();
            let baseline = baseline.filter(|_| side.spec.compares_answers)?;
            scoring.compares_answers().then_some(&baseline.run_id)
        };
        if compares(baseline) != compares(candidate) {
            return Some(ExclusionReason::TaskChanged);
        }
        let is_simulated = || conversation(candidate, id).is_some_and(|it| it.user.is_some());
        if !same_user && is_simulated() {
            return Some(ExclusionReason::UserChanged);
        }
        let is_judged = || {
            let scoring = scoring(candidate, id);
            rubric(task).is_some() || scoring.is_some_and(|it| it.has(Check::is_judged))
        };
        let differs = !same_judge && is_judged()
            || decided_differently(candidate.scoring, id, baseline.spec, candidate.spec);
        differs.then_some(ExclusionReason::JudgeChanged)
    }
}

/// The differences of the two runs, most important first.
pub fn differences(baseline: ComparisonSide<'_>, candidate: ComparisonSide<'_>) -> Vec<Difference> {
    facts(baseline)
        .into_iter()
        .zip(facts(candidate))
        .filter(|((_, was), (_, is))| was != is)
        .map(|((what, baseline), (_, candidate))| Difference {
            what: what.to_owned(),
            baseline,
            candidate,
        })
        .collect()
}

fn facts(side: ComparisonSide<'_>) -> [(&'static str, Value); 20] {
    let spec = side.spec;
    let (judge, safety_judge) = (spec.judge.as_ref(), spec.safety_judge.as_ref());
    let thresholds = side.suite.thresholds.unwrap_or_default();
    [
        ("suiteId", json!(spec.suite_id)),
        ("suiteVersion", json!(spec.suite_version)),
        ("suiteDigest", json!(spec.suite_digest)),
        ("scoringDigest", json!(spec.scoring_digest)),
        (
            "passScore",
            json!(thresholds.pass_score.unwrap_or(DEFAULT_PASS_SCORE)),
        ),
        ("agentId", json!(spec.agent_id)),
        ("agentVersion", json!(spec.agent_version)),
        ("packIntegrity", json!(spec.pack_integrity)),
        (
            "model",
            json!(format!("{}/{}", spec.model.provider, spec.model.model)),
        ),
        ("judge", json!(judge.map(|judge| &judge.identity))),
        (
            "safetyJudge",
            json!(safety_judge.map(|judge| &judge.identity)),
        ),
        (
            "embeddings",
            json!(
                spec.deciders
                    .embeddings
                    .as_ref()
                    .map(EmbeddingsPin::identity)
            ),
        ),
        ("assertCommand", json!(spec.deciders.command)),
        (
            "simulatedUser",
            json!(spec.simulated_user.as_ref().map(|user| &user.identity)),
        ),
        ("modes", json!(spec.modes)),
        ("ignore", json!(spec.ignore)),
        ("temperature", json!(spec.temperature)),
        ("maxTokens", json!(spec.max_tokens)),
        ("maxLoopIterations", json!(spec.max_loop_iterations)),
        (
            "trials",
            json!(side.evidence.trials().len() + side.evidence.missing),
        ),
    ]
}
