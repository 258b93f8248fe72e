//! The files of a pack for OASIS evaluations, below `oasis/`: a profile, and the adapter reports of
//! its agents.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::archive::Archive;
use super::contents::{PackAgent, PackSuite};
use super::{Refusal, Stage};
use touchstone_kit::error::ErrorCode;
use touchstone_oasis::rules::format::{self, Package, Problem};
use touchstone_oasis::rules::run::kind::OasisKind;
use touchstone_oasis::rules::{adapter, suite};
use touchstone_runs::rules::kind::Kinds;

/// The evaluation kinds that a pack's suites may have.
pub(super) const KINDS: Kinds = Kinds::new(&[&OasisKind]);

pub(super) const FOLDER: &str = "oasis/";
pub(super) const PROFILE: &str = "oasis/profile.yaml";

fn invalid(file: &str, reason: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::PackValidationFailed, Stage::References, reason).in_file(file)
}

/// The OASIS profile of a pack, if it has one.
pub(super) fn profile(archive: &Archive) -> Result<Option<Arc<Package>>, Refusal> {
    if !archive.files.contains_key(PROFILE) {
        return Ok(None);
    }
    match format::read(&profile_files(&archive.files)) {
        Ok(package) => Ok(Some(Arc::new(package))),
        Err(problems) => Err(match problems.first() {
            Some(first) => invalid(&format!("{FOLDER}{}", first.file), first.to_string()),
            None => invalid(PROFILE, "is not an OASIS profile"),
        }),
    }
}

/// The profile files of a pack, by path below the profile's folder.
pub(super) fn profile_files<B: AsRef<[u8]>>(
    files: &BTreeMap<String, B>,
) -> BTreeMap<String, &[u8]> {
    files
        .iter()
        .filter(|(name, _)| *name != adapter::FILE)
        .filter_map(|(name, octets)| Some((name.strip_prefix(FOLDER)?.to_owned(), octets.as_ref())))
        .collect()
}

/// Why a suite next to a profile cannot name this scenario, if it cannot.
pub(super) fn lacks(profile: &Package, id: &str) -> Option<String> {
    if profile.scenario(id).is_some() {
        return None;
    }
    let is_of = |problem: &&Problem| problem.scenario.as_deref() == Some(id);
    if let Some(problem) = profile.headless.iter().find(is_of) {
        return Some(format!("which cannot be parsed: {FOLDER}{problem}"));
    }
    let is_left_out = profile.unlisted.iter().any(|it| it.id() == id);
    Some(if is_left_out {
        "which oasis/suite.yaml leaves out; add it there".to_owned()
    } else {
        "which the pack's profile does not have".to_owned()
    })
}

/// Checks scenario suites against the pack's profile.
pub(super) fn check_suites(suites: &[PackSuite], profile: Option<&Package>) -> Result<(), Refusal> {
    for of_pack in suites.iter().filter(|it| suite::is_oasis(it.suite())) {
        let Some(profile) = profile else {
            return Err(invalid(
                &of_pack.file,
                "has scenarios as tasks, but the pack has no profile (`oasis/profile.yaml`)",
            ));
        };
        let lacks = |id: &str| lacks(profile, id);
        if let Some((index, fault)) = suite::faults(of_pack.suite(), &lacks).next() {
            return Err(invalid(&of_pack.file, format!("/tasks/{index}: {fault}")));
        }
    }
    Ok(())
}

/// Assigns the adapter reports to the pack's agents.
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
            format!("/{unknown}: the pack has no agent with this id"),
        )),
    }
}
