//! Gate policies in words.

use crate::cli::gate::{Policy, oasis};
use touchstone_agent_cards::gate::CardPolicy;
use touchstone_host::render::words::plain;
use touchstone_ratings::gate::RatingPolicy;
use touchstone_ratings::rules::Axis;
use touchstone_runs::rules::eval::gate::{GatePolicy, MIN_TASKS, Strictness};
use touchstone_runs::rules::eval::rubric::calibration::MIN_AGREEMENT;
use touchstone_runs::rules::workflow::gate::GatePolicy as ApprovalPolicy;

pub fn line(agent: Option<&str>, channel: Option<&str>, policy: &Policy) -> String {
    format!(
        "{} on {}: {}",
        agent.unwrap_or("any agent"),
        channel.unwrap_or("any channel"),
        words(policy)
    )
}

/// The conditions of a policy.
pub fn words(policy: &Policy) -> String {
    let evidence = match &policy.eval {
        Some(eval) => evidence_in_words(eval),
        None => "no eval run required".to_owned(),
    };
    let mut parts = vec![evidence];
    parts.extend(policy.approval.as_ref().map(approval_in_words));
    parts.extend(policy.rating.as_ref().map(rating_in_words));
    parts.extend(policy.agent_card.as_ref().map(card_in_words));
    parts.extend(policy.oasis.as_ref().map(oasis::in_words));
    parts.join("; ")
}

fn rating_in_words(rating: &RatingPolicy) -> String {
    let mut parts = vec!["a rating of the version".to_owned()];
    let tiers = Axis::ALL
        .into_iter()
        .filter_map(|axis| rating.minimum(axis));
    parts.extend(tiers.map(|tier| format!("{} {tier} or better", tier.axis())));
    if let Some(days) = rating.max_age_days {
        parts.push(format!("not older than {days} days"));
    }
    if let Some(sources) = &rating.evidence_sources {
        let names: Vec<&str> = sources.iter().map(|it| it.as_str()).collect();
        let percent = rating.evidence_percent();
        parts.push(format!(
            "{percent} % of its evidence from {}",
            names.join(" or ")
        ));
    }
    parts.push(match rating.valid_badge {
        true => "a valid badge".to_owned(),
        false => "with or without a badge".to_owned(),
    });
    parts.join(", ")
}

fn card_in_words(card: &CardPolicy) -> String {
    let mut parts = vec![
        format!("the card at {}", plain(&card.url)),
        format!("compliance {} or more", card.minimum_compliance),
        format!("trust {} or more", card.minimum_trust),
    ];
    parts.push(match card.minimum_availability {
        Some(least) => format!("availability {least} or more"),
        None => "any availability".to_owned(),
    });
    parts.push(format!("not older than {} hours", card.max_age_hours));
    parts.join(", ")
}

fn approval_in_words(approval: &ApprovalPolicy) -> String {
    let role = approval
        .required_role
        .iter()
        .map(|role| format!("role {role}"));
    let scope = approval
        .required_scope
        .iter()
        .map(|scope| format!("scope {scope}"));
    let who: Vec<String> = role.chain(scope).collect();
    let mut text = format!("approval by {} with {}", approval.quorum, who.join(" and "));
    if let Some(over) = &approval.over {
        text.push_str(&format!(", or by role {} alone", over.required_role));
    }
    text
}

fn evidence_in_words(eval: &GatePolicy) -> String {
    let mut parts = vec![match eval.required_pass_score {
        Some(score) => format!("an eval run of the version with a score of at least {score}"),
        None => "a passing eval run of the version".to_owned(),
    }];
    parts.push(match eval.confidence {
        Strictness::Strict => "with significance".to_owned(),
        Strictness::Lenient => "by score alone".to_owned(),
    });
    if let Some(suite) = &eval.suite_id {
        parts.push(format!("suite {suite}"));
    }
    if eval.require_signed_suite {
        parts.push("signed suite".to_owned());
    }
    match eval.min_judge_agreement {
        Some(MIN_AGREEMENT) => {}
        Some(least) => parts.push(format!("judge agreement of at least {least}")),
        None => parts.push("judges may be uncalibrated".to_owned()),
    }
    if eval.min_tasks != MIN_TASKS {
        parts.push(format!("at least {} tasks", eval.min_tasks));
    }
    if let Some(seconds) = eval.max_age_seconds {
        parts.push(format!("not older than {seconds} s"));
    }
    for (allowed, what) in [
        (eval.allow_ignore, "ignore lists"),
        (eval.allow_missing_fixtures, "missing fixtures"),
        (eval.allow_partial_suite, "partial suites"),
        (eval.allow_partial_rerun, "partial reruns"),
        (eval.allow_forbidden_tools, "tools outside the allowlist"),
        (eval.allow_replay, "cassette replays"),
        (
            eval.allow_agent_command,
            "local commands as agents and for assertions",
        ),
    ] {
        if allowed {
            parts.push(format!("{what} allowed"));
        }
    }
    parts.join(", ")
}
