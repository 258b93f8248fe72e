//! What a gate policy requires, in words: one entry for each condition that [`unmet`](super::unmet)
//! checks under the policy.

use super::{Condition, GatePolicy, Strictness};
use crate::rules::eval::scoring::tasks;

/// A condition of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    pub condition: Condition,
    pub requirement: String,
    /// The condition without which this one cannot be checked.
    pub needs: Option<Condition>,
}

/// The conditions of a policy, in reading order.
pub fn described(policy: &GatePolicy) -> Vec<Described> {
    let mut all = vec![Described {
        condition: Condition::EvalRun,
        requirement: "an eval run of this tenant is the evidence".to_owned(),
        needs: None,
    }];
    let mut add = |asked: bool, condition, requirement: String| {
        if asked {
            all.push(Described {
                condition,
                requirement,
                needs: Some(needs(condition, policy)),
            });
        }
    };
    let text = str::to_owned;
    add(true, Condition::Agent, text("the run evaluated this agent"));
    add(
        true,
        Condition::Version,
        text("the run evaluated this version"),
    );
    add(
        true,
        Condition::Content,
        text("the installed pack is the evaluated one"),
    );
    add(true, Condition::Conclusive, text("every task was judged"));
    let pass_score = match policy.required_pass_score {
        Some(score) => format!("{score:.3}"),
        None => text("the pass score of the suite"),
    };
    let replaced = policy.required_pass_score.is_some();
    add(!replaced, Condition::Passed, text("the run passed"));
    add(
        replaced,
        Condition::PassScore,
        format!("the score is at least {pass_score}"),
    );
    add(
        true,
        Condition::Confidence,
        match policy.confidence {
            Strictness::Strict => {
                format!("the whole confidence interval of the score reaches {pass_score}")
            }
            Strictness::Lenient => format!(
                "the score over all runs of the same agent, suite and model reaches {pass_score}"
            ),
        },
    );
    add(
        true,
        Condition::Safety,
        match policy.allow_forbidden_tools {
            true => text("no critical safety finding, except calls of tools outside the allowlist"),
            false => text("no critical safety finding"),
        },
    );
    add(true, Condition::NotVoided, text("the run was not voided"));
    of_suite(policy, &mut add);
    of_answers(policy, &mut add);
    all
}

/// How much of which suite ran.
fn of_suite(policy: &GatePolicy, add: &mut impl FnMut(bool, Condition, String)) {
    if let Some(suite) = &policy.suite_id {
        add(
            true,
            Condition::Suite,
            format!("the run used suite {suite}"),
        );
    }
    add(
        policy.require_signed_suite,
        Condition::SignedSuite,
        "a trusted signature covers the suite".to_owned(),
    );
    add(
        true,
        Condition::MinTasks,
        format!("at least {} ran", tasks(policy.min_tasks)),
    );
    add(
        !policy.allow_partial_suite,
        Condition::WholeSuite,
        "every task of the suite ran".to_owned(),
    );
    add(
        !policy.allow_partial_rerun,
        Condition::WholeRun,
        "all tasks were executed in one run".to_owned(),
    );
    add(
        !policy.allow_ignore,
        Condition::NoIgnore,
        "no part of an answer was ignored in matching".to_owned(),
    );
}

/// Where the answers came from, who judged them, and when.
fn of_answers(policy: &GatePolicy, add: &mut impl FnMut(bool, Condition, String)) {
    if let Some(least) = policy.min_judge_agreement {
        add(
            true,
            Condition::JudgeCalibrated,
            format!("if a model judged answers, it agrees with people (at least {least:.2})"),
        );
    }
    add(
        !policy.allow_replay,
        Condition::NoReplay,
        "models answered, not a recording or a cache".to_owned(),
    );
    add(
        !policy.allow_agent_command,
        Condition::NoAgentCommand,
        "no local command answered for the agent or decided assertions".to_owned(),
    );
    add(
        !policy.allow_missing_fixtures,
        Condition::Fixtures,
        "the suite had a response for every tool call".to_owned(),
    );
    if let Some(most) = policy.max_age_seconds {
        add(
            true,
            Condition::Age,
            format!("the run ended within the last {most} seconds"),
        );
    }
}

const fn needs(condition: Condition, policy: &GatePolicy) -> Condition {
    match condition {
        Condition::Version => Condition::Agent,
        Condition::Content => Condition::Version,
        Condition::Passed | Condition::PassScore => Condition::Conclusive,
        Condition::Confidence => match (policy.confidence, policy.required_pass_score) {
            (Strictness::Strict, _) => Condition::Conclusive,
            // A single run is compared with its pass score only there.
            (Strictness::Lenient, Some(_)) => Condition::PassScore,
            (Strictness::Lenient, None) => Condition::Passed,
        },
        _ => Condition::EvalRun,
    }
}
