//! Probes written by a red team: a file of scenarios, read strictly, with problems reported by line
//! and column.

use std::collections::BTreeSet;

use super::ProbeScript;
use super::document::self_contained;
use crate::rules::format::{Package, Problem, read_probes};
use crate::rules::probes::ProbeOrigin;

/// The file name in problems, regardless of the original name.
const FILE: &str = "red-team.yaml";

/// Reads a red team's file: scenarios that can be run against the profile, with
/// `secondary_archetypes` and additional state where needed. At least one, at most
/// [`MAX_PROBES`](crate::rules::format::MAX_PROBES).
///
/// # Errors
/// All problems that keep a probe from being run, in file order.
pub fn read_red_team(package: &Package, text: &str) -> Result<Vec<ProbeScript>, Vec<Problem>> {
    let (mut scripts, mut ids) = (Vec::new(), BTreeSet::new());
    for probe in read_probes(package, FILE, text.as_bytes())? {
        let scenario = &probe.scenario;
        let script = ProbeScript::of(
            ProbeOrigin::RedTeam,
            self_contained(scenario),
            (scenario.id(), probe.secondary_archetypes),
            package,
        )?;
        // The prefix may have produced a duplicate.
        if !ids.insert(script.scenario.id().to_owned()) {
            return Err(vec![Problem {
                file: FILE.to_owned(),
                line: scenario.place.line,
                column: scenario.place.column,
                field: "id".to_owned(),
                message: "differs from the id of an earlier probe only by the prefix `probe-`; rename one".to_owned(),
                scenario: Some(scenario.id().to_owned()),
            }]);
        }
        scripts.push(script);
    }
    Ok(scripts)
}
