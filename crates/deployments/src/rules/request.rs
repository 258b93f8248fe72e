//! The body of a transition request: unknown fields are refused, and errors name the field.

use semver::Version;
use serde_json::Value;

use super::transition::TransitionRequest;
use touchstone_kit::error::Problem;
use touchstone_kit::fields::{Fields, Nulls};
use touchstone_kit::ids::RunId;
use touchstone_kit::redaction::mask;
use touchstone_openwop::channel::Channel;
use touchstone_openwop::deployment::{DeploymentState, TransitionKind};

const FIELDS: &[&str] = &[
    "version",
    "transition",
    "toState",
    "channel",
    "canaryPercent",
    "evalRunId",
    "reason",
];
const MAX_VERSION: usize = 64;
const MAX_REASON: usize = 512;
const MAX_RUN_ID: usize = 128;

/// Parses a transition. `channels` are those that this host advertises, without [`super::LATEST`].
///
/// # Errors
/// `validation_error` that names the field.
pub fn parse(body: &Value, channels: &[Channel]) -> Result<TransitionRequest, Problem> {
    let fields = Fields::closed(body, "", FIELDS, Nulls::Wrong)?;
    let text = |field: &str, most: usize| fields.text_of(field, 1..=most);
    let required =
        |field: &str, most| text(field, most)?.ok_or_else(|| fields.invalid(field, "is required"));

    let version = required("version", MAX_VERSION)?;
    let version = Version::parse(version)
        .map_err(|_| invalid("version", "must be a version such as `1.2.0`"))?;
    let transition = required("transition", MAX_VERSION)?;
    let transition = TransitionKind::parse(transition).ok_or_else(|| {
        let known: Vec<_> = TransitionKind::ALL.iter().map(|t| t.as_str()).collect();
        invalid(
            "transition",
            &format!("must be one of {}", known.join(", ")),
        )
    })?;
    let to_state = text("toState", MAX_VERSION)?
        .map(|name| {
            DeploymentState::parse(name).ok_or_else(|| {
                let known: Vec<_> = DeploymentState::ALL.iter().map(|s| s.as_str()).collect();
                invalid("toState", &format!("must be one of {}", known.join(", ")))
            })
        })
        .transpose()?;
    let channel = text("channel", MAX_VERSION)?
        .map(|name| {
            channels
                .iter()
                .find(|channel| channel.as_str() == name)
                .cloned()
                .ok_or_else(|| unknown_channel(name, channels))
        })
        .transpose()?;
    let share = match fields.get("canaryPercent") {
        None => None,
        Some(value) => Some(
            value
                .as_u64()
                .and_then(|percent| u8::try_from(percent).ok())
                .filter(|percent| *percent <= 100)
                .ok_or_else(|| invalid("canaryPercent", "must be an integer from 0 to 100"))?,
        ),
    };
    Ok(TransitionRequest {
        version,
        transition,
        to_state,
        channel,
        share,
        evidence: text("evalRunId", MAX_RUN_ID)?.map(RunId::from),
        approval_gate: None,
        pack_integrity: None,
        // The masked text is what is recorded and audited.
        reason: text("reason", MAX_REASON)?.map(|reason| mask(reason).into_owned()),
    })
}

fn unknown_channel(name: &str, channels: &[Channel]) -> Problem {
    if name == super::LATEST {
        return invalid(
            "channel",
            "is `latest`, which always means the highest active version; name another channel",
        );
    }
    let known: Vec<_> = channels.iter().map(Channel::as_str).collect();
    invalid("channel", &format!("must be one of {}", known.join(", ")))
}

fn invalid(field: &str, message: &str) -> Problem {
    Problem::validation(field, format!("`{field}` {message}"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn channels() -> Vec<Channel> {
        vec!["stable".parse().unwrap(), "canary".parse().unwrap()]
    }

    #[test]
    fn all_fields_of_a_transition_request_are_parsed() {
        let body = json!({"version": "1.2.0", "transition": "promote", "toState": "active", "channel": "stable",
            "canaryPercent": 10, "evalRunId": "run_1", "reason": "weekly"});
        let asked = parse(&body, &channels()).unwrap();
        assert_eq!(asked.version, Version::new(1, 2, 0));
        assert_eq!(asked.transition, TransitionKind::Promote);
        assert_eq!(asked.to_state, Some(DeploymentState::Active));
        assert_eq!(asked.channel.unwrap().as_str(), "stable");
        assert_eq!(asked.share, Some(10));
        assert_eq!(asked.evidence.unwrap().as_str(), "run_1");
        assert_eq!(asked.reason.unwrap(), "weekly");
    }

    #[test]
    fn a_reason_is_masked_before_it_is_stored() {
        let body = json!({"version": "1.2.0", "transition": "rollback", "reason": "leaks sk-canary123456789"});
        let asked = parse(&body, &channels()).unwrap();
        assert_eq!(asked.reason.unwrap(), "leaks [REDACTED:api-key]");
    }

    #[rstest]
    #[case(json!([]), "")]
    #[case(json!({}), "version")]
    #[case(json!({"version": "1.0.0"}), "transition")]
    #[case(json!({"transition": "promote"}), "version")]
    #[case(json!({"version": 3, "transition": "promote"}), "version")]
    #[case(json!({"version": "one", "transition": "promote"}), "version")]
    #[case(json!({"version": "1.0.0", "transition": "launch"}), "transition")]
    #[case(json!({"version": "1.0.0", "transition": "promote", "toState": "live"}), "toState")]
    #[case(json!({"version": "1.0.0", "transition": "promote", "toState": null}), "toState")]
    #[case(json!({"version": "1.0.0", "transition": "promote", "extra": 1}), "extra")]
    #[case(json!({"version": "1.0.0", "transition": "promote", "channel": ""}), "channel")]
    #[case(json!({"version": "1.0.0", "transition": "promote", "channel": "beta"}), "channel")]
    #[case(json!({"version": "1.0.0", "transition": "promote", "channel": "latest"}), "channel")]
    #[case(json!({"version": "1.0.0", "transition": "adjust-canary", "canaryPercent": 101}), "canaryPercent")]
    #[case(json!({"version": "1.0.0", "transition": "adjust-canary", "canaryPercent": -1}), "canaryPercent")]
    #[case(json!({"version": "1.0.0", "transition": "adjust-canary", "canaryPercent": 12.5}), "canaryPercent")]
    #[case(json!({"version": "1.0.0", "transition": "adjust-canary", "canaryPercent": "10"}), "canaryPercent")]
    #[case(json!({"version": "1.0.0", "transition": "adjust-canary", "canaryPercent": 300}), "canaryPercent")]
    #[case(json!({"version": "1.0.0", "transition": "promote", "evalRunId": ""}), "evalRunId")]
    #[case(json!({"version": "1.0.0", "transition": "pause", "reason": "x".repeat(513)}), "reason")]
    #[case(json!({"version": "1.0.0", "transition": "pause", "reason": ""}), "reason")]
    fn malformed_transition_requests_are_rejected_by_field(
        #[case] body: Value,
        #[case] field: &str,
    ) {
        let problem = parse(&body, &channels()).unwrap_err();
        assert_eq!(problem.code.as_str(), "validation_error");
        assert_eq!(problem.details["field"], field, "{body}");
    }
}
