//! The lines of the charts of a history.

use crate::compare::history::{agent_of, distinct};
use touchstone_host::render::words::plain;
use touchstone_runs::rules::run::listing::RunListing;

/// What tells the lines of a chart apart, beside the agent. Scores of different models or suite
/// versions are not joined: the change would look like a trend of the agent.
pub struct Lines {
    by_model: bool,
    by_suite_version: bool,
}

impl Lines {
    pub fn of(runs: &[RunListing]) -> Self {
        Self {
            by_model: distinct(runs.iter().filter_map(model_of)).len() > 1,
            by_suite_version: distinct(runs.iter().filter_map(suite_version_of)).len() > 1,
        }
    }

    /// The line of a run.
    pub fn name(&self, run: &RunListing) -> Option<String> {
        let model = model_of(run).filter(|_| self.by_model);
        let version = suite_version_of(run).filter(|_| self.by_suite_version);
        let version = version.map(|it| format!("suite {it}"));
        let parts = [Some(agent_of(run)?), model, version].into_iter();
        let parts: Vec<String> = parts.flatten().map(|it| plain(&it)).collect();
        Some(parts.join(" · "))
    }
}

fn suite_version_of(run: &RunListing) -> Option<String> {
    Some(run.subject.suite.as_ref()?.version.clone())
}

pub fn model_of(run: &RunListing) -> Option<String> {
    Some(run.subject.model.as_ref()?.model.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(model: &str, suite_version: &str, agent_version: &str) -> RunListing {
        serde_json::from_value(json!({
            "runId": "run_1", "status": "completed", "createdAt": "2026-11-28T09:00:00Z",
            "kind": "eval", "local": false,
            "suite": {"suiteId": "suite", "version": suite_version},
            "agent": {"agentId": "agent", "version": agent_version},
            "model": {"provider": "fake", "model": model},
        }))
        .unwrap()
    }

    fn names(runs: &[RunListing]) -> Vec<String> {
        let lines = Lines::of(runs);
        distinct(runs.iter().filter_map(|run| lines.name(run)))
    }

    #[test]
    fn models_and_suite_versions_are_different_lines_and_agent_versions_are_not() {
        let same = [run("m", "1.0.0", "1.0.0"), run("m", "1.0.0", "2.0.0")];
        assert_eq!(names(&same), ["agent"]);
        let models = [run("m", "1.0.0", "1.0.0"), run("n", "1.0.0", "1.0.0")];
        assert_eq!(names(&models), ["agent · m", "agent · n"]);
        let suites = [run("m", "1.0.0", "1.0.0"), run("m", "2.0.0", "1.0.0")];
        assert_eq!(
            names(&suites),
            ["agent · suite 1.0.0", "agent · suite 2.0.0"]
        );
    }
}
