//! Names of events and workflows under major 2 (OpenWOP v2 event code map). Inside, and under major
//! 1, everything keeps the name that it is stored with.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Kinds with the same name under both majors, in order.
const UNCHANGED: &[&str] = &[
    "agent.decided",
    "agent.handoff",
    "agent.reasoned",
    "agent.verified",
    "approval.granted",
    "approval.overridden",
    "approval.received",
    "approval.rejected",
    "approval.requested",
    "artifact.created",
    "authorization.decided",
    "budget.consumed",
    "budget.exhausted",
    "budget.reserved",
    "cap.breached",
    "channel.presence",
    "channel.written",
    "clarification.requested",
    "clarification.resolved",
    "commitment.fired",
    "compensation.completed",
    "compensation.failed",
    "compensation.paused",
    "compensation.requested",
    "compensation.started",
    "connector.authorized",
    "context.summarized",
    "conversation.closed",
    "conversation.exchanged",
    "conversation.opened",
    "deployment.promoted",
    "deployment.rolled-back",
    "egress.decided",
    "envelope.refusal",
    "envelope.truncated",
    "eval.completed",
    "eval.scored",
    "eval.started",
    "goal.closed",
    "goal.evaluated",
    "import.applied",
    "interrupt.requested",
    "interrupt.resolved",
    "lease.acquired",
    "lease.handed-off",
    "lease.lost",
    "lease.renewed",
    "log.appended",
    "memory.compacted",
    "memory.written",
    "node.cancelled",
    "node.completed",
    "node.dispatched",
    "node.failed",
    "node.resumed",
    "node.retried",
    "node.skipped",
    "node.started",
    "node.suspend-failed",
    "node.suspended",
    "output.chunk",
    "prompt.composed",
    "proposal.activated",
    "proposal.created",
    "provider.usage",
    "replay.diverged",
    "run.cancelled",
    "run.completed",
    "run.failed",
    "run.paused",
    "run.restored-from-snapshot",
    "run.resumed",
    "run.started",
    "variable.changed",
    "version.pinned",
    "voice.cancelled",
    "voice.transcript",
    "workflow.loopback-limit",
    "workflow.restored",
    "workflow.stalled",
    "workspace.updated",
];

/// The other kinds, by their name under major 1, in order.
const RENAMED: &[(&str, &str)] = &[
    ("agent.invocation.completed", "agent.invocation-completed"),
    ("agent.invocation.started", "agent.invocation-started"),
    ("agent.memory.consolidated", "agent.memory-consolidated"),
    ("agent.promptResolved", "agent.prompt-resolved"),
    ("agent.reasoning.delta", "agent.reasoning-delta"),
    ("agent.toolCalled", "agent.tool-called"),
    ("agent.toolReturned", "agent.tool-returned"),
    ("budget.threshold.crossed", "budget.threshold-crossed"),
    (
        "compensation.manual_intervention_required",
        "compensation.manual-intervention-required",
    ),
    ("connector.auth_expired", "connector.auth-expired"),
    ("core.dispatch.fanOut", "dispatch.fanned-out"),
    ("core.dispatch.join", "dispatch.joined"),
    (
        "core.workflowChain.confidence-escalated",
        "workflow-chain.confidence-escalated",
    ),
    ("core.workflowChain.event", "workflow-chain.event"),
    ("deployment.canary.adjusted", "deployment.canary-adjusted"),
    ("deployment.state.changed", "deployment.state-changed"),
    (
        "envelope.nlToFormat.engaged",
        "envelope.nl-to-format-engaged",
    ),
    ("envelope.recovery.applied", "envelope.recovery-applied"),
    ("envelope.retry.attempted", "envelope.retry-attempted"),
    ("envelope.retry.exhausted", "envelope.retry-exhausted"),
    (
        "model.capability.insufficient",
        "model.capability-insufficient",
    ),
    (
        "model.capability.substituted",
        "model.capability-substituted",
    ),
    ("replay.divergedAtRefusal", "replay.diverged-at-refusal"),
    ("roster.run.initiated", "roster.run-initiated"),
    ("run.dead_lettered", "run.dead-lettered"),
    ("run.resuming", "run.resume-started"),
    ("runOrchestrator.decided", "orchestrator.decided"),
    ("tool.session.closed", "tool.session-closed"),
    ("tool.session.opened", "tool.session-opened"),
    ("trigger.delivery.attempted", "trigger.delivery-attempted"),
    (
        "trigger.subscription.state.changed",
        "trigger.subscription-state-changed",
    ),
    ("voice.barge_in", "voice.barge-in"),
    ("voice.endpoint_candidate", "voice.endpoint-candidate"),
    ("voice.speech_start", "voice.speech-start"),
    ("voice.synthesis_chunk", "voice.synthesis-chunk"),
    ("voice.turn_commit", "voice.turn-commit"),
];

/// Chunks of a model's text: this host stores the name that major 1 has for frames of streams. The
/// code map has no such kind.
const STORED_CHUNK: &str = "ai.message.chunk";
const CHUNK: &str = "output.chunk";

/// This host's own kinds have the same name under both majors.
const OWN: &str = "touchstone.";

/// The name of a stored kind under major 2; `None` for a kind that major 2 does not have.
pub fn projected(stored: &str) -> Option<&str> {
    if stored == STORED_CHUNK {
        return Some(CHUNK);
    }
    if is_own(stored) || UNCHANGED.binary_search(&stored).is_ok() {
        return Some(stored);
    }
    let row = RENAMED.binary_search_by(|(v1, _)| (*v1).cmp(stored)).ok()?;
    RENAMED.get(row).map(|(_, v2)| *v2)
}

/// The stored kind that major 2 names so; `None` for other names, such as those that only major 1
/// has.
pub fn stored(projected: &str) -> Option<&str> {
    if projected == CHUNK {
        return Some(STORED_CHUNK);
    }
    if is_own(projected) || UNCHANGED.binary_search(&projected).is_ok() {
        return Some(projected);
    }
    let row = RENAMED.iter().find(|(_, v2)| *v2 == projected);
    row.map(|(v1, _)| *v1)
}

/// Whether a kind belongs to this host and has the form of a vendor kind of major 2: two or three
/// segments of words that are joined by hyphens.
pub fn is_own(kind: &str) -> bool {
    let Some(rest) = kind.strip_prefix(OWN) else {
        return false;
    };
    let mut segments = rest.split('.');
    let mut is_next = || segments.next().map(is_segment);
    match (is_next(), is_next(), is_next()) {
        (Some(first), second, None) => first && second.unwrap_or(true),
        _ => false,
    }
}

fn is_segment(text: &str) -> bool {
    let is_word = |word: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        !word.is_empty() && word.bytes().all(plain)
    };
    text.starts_with(|first: char| first.is_ascii_lowercase()) && text.split('-').all(is_word)
}

/// The prefix of the workflow ids of eval runs.
const EVAL: &str = "eval:";

/// The id of a workflow under major 2: `eval:SUITE:VERSION` for `eval:SUITE@VERSION`. Every other byte
/// that ids of major 2 may not have is `~` and two hexadecimal digits.
pub fn workflow(stored: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte);
    if stored.bytes().all(is_plain) {
        return Cow::Borrowed(stored);
    }
    let version = stored.rfind('@').filter(|_| stored.starts_with(EVAL));
    let mut id = String::with_capacity(stored.len() + 8);
    for (at, byte) in stored.bytes().enumerate() {
        if is_plain(byte) {
            id.push(char::from(byte));
        } else if Some(at) == version {
            id.push(':');
        } else {
            // Writing to memory does not fail.
            let _ = write!(id, "~{byte:02X}");
        }
    }
    Cow::Owned(id)
}

/// The stored id of the workflow that major 2 names so; `None` if no workflow has this id.
pub fn stored_workflow(id: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(id.len());
    let mut rest = id.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'~' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            _ => byte,
        });
    }
    let mut name = String::from_utf8(bytes).ok()?;
    if let Some(at) = name.rfind(':')
        && at >= EVAL.len()
        && name.starts_with(EVAL)
    {
        name.replace_range(at..=at, "@");
    }
    // Each id has one form.
    (workflow(&name) == id).then_some(name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;
    use crate::events::Event;

    #[test]
    fn the_code_map_is_a_bijection_of_117_kinds() {
        assert!(UNCHANGED.is_sorted() && RENAMED.is_sorted());
        assert_eq!((UNCHANGED.len(), RENAMED.len()), (81, 36));
        let rows = UNCHANGED.iter().map(|name| (*name, *name));
        let rows: Vec<(&str, &str)> = rows.chain(RENAMED.iter().copied()).collect();
        let v1: BTreeSet<&str> = rows.iter().map(|(v1, _)| *v1).collect();
        let v2: BTreeSet<&str> = rows.iter().map(|(_, v2)| *v2).collect();
        assert_eq!((v1.len(), v2.len()), (117, 117));
        for (v1, v2) in rows {
            assert_eq!(projected(v1), Some(v2));
            // A chunk is stored under another name than major 1 has for it.
            let expected = if v2 == CHUNK { STORED_CHUNK } else { v1 };
            assert_eq!(stored(v2), Some(expected));
            let mut segments = v2.split('.');
            assert!(segments.all(is_segment), "{v2}");
            assert_eq!(v2.split('.').count(), 2, "{v2}");
        }
    }

    #[test]
    fn every_kind_that_runs_write_has_one_name() {
        for kind in Event::TYPES {
            let name = projected(kind).unwrap_or_else(|| panic!("{kind} has no name"));
            assert_eq!(stored(name), Some(*kind));
        }
    }

    #[rstest]
    #[case("touchstone.task.judged", true)]
    #[case("touchstone.oasis.verdict", true)]
    #[case("touchstone.drill", true)]
    #[case("touchstone.a-1.b2", true)]
    #[case("touchstone.", false)]
    #[case("touchstone.task.", false)]
    #[case("touchstone.a.b.c", false)]
    #[case("touchstone.a_b", false)]
    #[case("touchstone.a-", false)]
    #[case("touchstone.1a", false)]
    #[case("touchstone", false)]
    #[case("acme.task.judged", false)]
    fn own_kinds_have_the_form_of_kinds_of_hosts(#[case] kind: &str, #[case] is: bool) {
        assert_eq!(is_own(kind), is);
        assert_eq!(projected(kind).is_some(), is);
        assert_eq!(stored(kind).is_some(), is);
    }

    #[rstest]
    #[case("agent.toolCalled")]
    #[case("ai.message.chunk")]
    #[case("negotiation.decided")]
    #[case("run.annotated")]
    #[case("")]
    fn names_of_other_lists_are_no_names_of_major_2(#[case] name: &str) {
        assert_eq!(stored(name), None);
    }

    #[rstest]
    #[case("eval:acme.triage@1.2.0", "eval:acme.triage:1.2.0")]
    #[case("eval:triage@1.0.0+a", "eval:triage:1.0.0~2Ba")]
    #[case("eval:a@b@1", "eval:a~40b:1")]
    #[case("conformance-noop", "conformance-noop")]
    #[case("a@b", "a~40b")]
    #[case("a~b", "a~7Eb")]
    fn workflows_have_ids_of_the_permitted_characters(#[case] inside: &str, #[case] id: &str) {
        assert_eq!(workflow(inside), id);
    }

    #[rstest]
    #[case("eval:acme.triage:1.2.0", Some("eval:acme.triage@1.2.0"))]
    #[case("conformance-noop", Some("conformance-noop"))]
    #[case("a~40b", Some("a@b"))]
    #[case("eval:acme.triage@1.2.0", None)]
    #[case("a~4", None)]
    #[case("a~zz", None)]
    #[case("a~+1", None)]
    #[case("a~61", None)]
    #[case("a~FF", None)]
    fn an_id_of_a_workflow_leads_to_the_stored_one(#[case] id: &str, #[case] inside: Option<&str>) {
        assert_eq!(stored_workflow(id).as_deref(), inside);
    }

    proptest! {
        #[test]
        fn every_workflow_is_found_by_its_id(
            suite in "[a-zA-Z0-9._~@ -]{1,12}",
            version in "[0-9a-z.+-]{1,12}",
            other in "[^:@]{0,12}",
        ) {
            for inside in [format!("eval:{suite}@{version}"), other] {
                let id = workflow(&inside).into_owned();
                prop_assert!(id.bytes().all(|it| it.is_ascii_alphanumeric() || b"._~:-".contains(&it)));
                prop_assert_eq!(stored_workflow(&id), Some(inside));
            }
        }

        #[test]
        fn any_text_is_a_name_or_none(text in ".{0,40}") {
            let _ = (projected(&text), stored(&text), stored_workflow(&text));
        }
    }
}
