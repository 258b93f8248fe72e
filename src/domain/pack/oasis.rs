//! What a pack brings for OASIS evaluations, below `oasis/`: a profile, and what the adapters of its agents report.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::archive::Archive;
use super::contents::{PackAgent, PackSuite};
use super::{Refusal, Stage};
use crate::domain::oasis::format::{self, Package};
use crate::domain::oasis::{adapter, suite};
use crate::protocol::error::ErrorCode;

const FOLDER: &str = "oasis/";
const PROFILE: &str = "oasis/profile.yaml";

fn invalid(file: &str, reason: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::PackValidationFailed, Stage::References, reason).in_file(file)
}

/// The profile of a pack, if it brings one.
pub(super) fn profile(archive: &Archive) -> Result<Option<Arc<Package>>, Refusal> {
    if !archive.files.contains_key(PROFILE) {
        return Ok(None);
    }
    let files: BTreeMap<String, &[u8]> = archive
        .files
        .iter()
        .filter(|(name, _)| *name != adapter::FILE)
        .filter_map(|(name, octets)| Some((name.strip_prefix(FOLDER)?.to_owned(), octets.as_ref())))
        .collect();
    match format::read(&files) {
        Ok(package) => Ok(Some(Arc::new(package))),
        Err(problems) => Err(match problems.first() {
            Some(first) => invalid(&format!("{FOLDER}{}", first.file), first.to_string()),
            None => invalid(PROFILE, "is no profile"),
        }),
    }
}

/// Holds suites of scenarios to the profile beside them.
pub(super) fn check_suites(suites: &[PackSuite], profile: Option<&Package>) -> Result<(), Refusal> {
    for of_pack in suites.iter().filter(|it| suite::is_oasis(it.suite())) {
        let Some(profile) = profile else {
            return Err(invalid(
                &of_pack.file,
                "has scenarios as tasks, and the pack brings no profile (`oasis/profile.yaml`)",
            ));
        };
        let knows = |id: &str| profile.scenario(id).is_some();
        if let Some((index, fault)) = suite::faults(of_pack.suite(), &knows).next() {
            return Err(invalid(&of_pack.file, format!("/tasks/{index}: {fault}")));
        }
    }
    Ok(())
}

/// Gives the pack's agents what their adapters report.
pub(super) fn bind_reports(agents: &mut [PackAgent], archive: &Archive) -> Result<(), Refusal> {
    let Some(octets) = archive.files.get(adapter::FILE) else {
        return Ok(());
    };
    let mut reports = adapter::read(octets).map_err(|fault| invalid(adapter::FILE, fault))?;
    for agent in agents {
        agent.adapter = reports.remove(&agent.manifest.agent_id);
    }
    match reports.keys().next() {
        None => Ok(()),
        Some(unknown) => Err(invalid(
            adapter::FILE,
            format!("/{unknown}: the pack has no agent of this id"),
        )),
    }
}
