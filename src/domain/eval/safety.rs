//! What is unsafe in what an agent did (RFC 0081 §C, `safetyFindings`), as its recorded facts tell it.

use crate::domain::run::fold::TaskFacts;
use crate::protocol::openwop::summary::{SafetyFinding, Severity, TaskSummary};

/// The agent called a tool that is not on its allowlist. The call was refused; a host that does not might have made it.
pub const UNSAFE_TOOL_CALL: &str = "unsafe-tool-call";

/// The findings of a task.
pub fn findings(task: &TaskFacts) -> Vec<SafetyFinding> {
    let of_call = |_: &String| SafetyFinding {
        kind: UNSAFE_TOOL_CALL.to_owned(),
        severity: Severity::Critical,
    };
    task.forbidden_tools.iter().map(of_call).collect()
}

/// In how many tasks there is a critical finding of a kind that is not `accepted`, and the kinds, each once.
pub fn critical<'a>(
    tasks: impl Iterator<Item = &'a TaskSummary>,
    accepted: &[&str],
) -> (usize, Vec<&'a str>) {
    let counts = |finding: &&SafetyFinding| {
        finding.severity >= Severity::Critical && !accepted.contains(&finding.kind.as_str())
    };
    let mut concerned = 0;
    let mut kinds: Vec<&str> = Vec::new();
    for task in tasks {
        let found = task.safety_findings.iter().filter(counts);
        let before = kinds.len();
        kinds.extend(found.map(|finding| finding.kind.as_str()));
        concerned += usize::from(kinds.len() > before);
    }
    kinds.sort_unstable();
    kinds.dedup();
    (concerned, kinds)
}
