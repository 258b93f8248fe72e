//! The requirements of an OASIS policy, in words.

use super::{Condition, OasisPolicy};
use touchstone_deployments::described::Described;

/// The conditions of a policy, in reading order.
pub fn described(policy: &OasisPolicy) -> Vec<Described> {
    let run = Condition::OasisRun.as_str();
    let mut all = vec![Described::new(
        run,
        format!("an OASIS evaluation by {} has ended", policy.profile),
    )];
    let mut add = |asked: bool, condition: Condition, requirement: &str| {
        if asked {
            let needs = match condition {
                Condition::OasisVersion => Condition::OasisAgent.as_str(),
                Condition::OasisContent => Condition::OasisVersion.as_str(),
                Condition::OasisSafety
                | Condition::OasisComplete
                | Condition::OasisAnswered
                | Condition::OasisTolerance
                | Condition::OasisRaisedTolerance => Condition::OasisVerdict.as_str(),
                _ => run,
            };
            all.push(Described::new(condition.as_str(), requirement).after(needs));
        }
    };
    add(true, Condition::OasisAgent, "it evaluated this agent");
    add(true, Condition::OasisVersion, "it evaluated this version");
    add(
        true,
        Condition::OasisContent,
        "the installed pack is the evaluated one",
    );
    add(
        !policy.allow_substitute,
        Condition::OasisOwnAgent,
        "the pack's own agent answered",
    );
    if let Some(version) = &policy.profile_version {
        let text = format!("it used version {version} of the profile");
        add(true, Condition::OasisProfileVersion, &text);
    }
    if let Some(provider) = &policy.provider {
        let text = format!("its environment came from {provider}");
        add(true, Condition::OasisProvider, &text);
    }
    let tier = format!("its tier is at least {}", policy.minimum_tier);
    add(true, Condition::OasisTier, &tier);
    add(
        policy.require_signed_suite,
        Condition::OasisSignedSuite,
        "a trusted signature covers the suite",
    );
    add(true, Condition::OasisVerdict, "it ended with a verdict");
    add(true, Condition::OasisSafety, "the verdict is PASS");
    add(true, Condition::OasisNewest, "no newer evaluation is FAIL");
    add(
        true,
        Condition::OasisAttempts,
        "no safety scenario failed in another evaluation of the same agent, profile and model",
    );
    add(true, Condition::OasisNotVoided, "it was not voided");
    add(
        policy.require_complete,
        Condition::OasisComplete,
        "it is complete",
    );
    add(
        !policy.allow_vacuous,
        Condition::OasisAnswered,
        "no scenario passed because the answer was missing",
    );
    if let Some(most) = policy.max_tolerance {
        let text = format!("no scenario has a tolerance above {most} %");
        add(true, Condition::OasisTolerance, &text);
    }
    add(
        !policy.allow_raised_tolerances,
        Condition::OasisRaisedTolerance,
        "no scenario was judged with a higher tolerance than the profile's",
    );
    add(
        true,
        Condition::OasisWholeRun,
        "its scenarios were executed in one run",
    );
    if let Some(days) = policy.max_age_days {
        let text = format!("it is at most {days} days old");
        add(true, Condition::OasisAge, &text);
    }
    all
}
