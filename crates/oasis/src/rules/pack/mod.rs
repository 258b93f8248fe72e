//! The files of a pack for OASIS evaluations, below `oasis/`: a profile, and the adapter reports of
//! its agents.

mod lint;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::rules::adapter::AdapterReport;
use crate::rules::format::{self, Package, Problem};
use crate::rules::scenario::Classification;
use crate::rules::suite::is_oasis;
use crate::rules::{adapter, suite};
use touchstone_kit::error::ErrorCode;
use touchstone_openwop::suite::AgentEvalSuite;
use touchstone_packs::rules::archive::Archive;
use touchstone_packs::rules::build::Files;
use touchstone_packs::rules::build::lint::Finding;
use touchstone_packs::rules::contents::{PackContents, PackSuite};
use touchstone_packs::rules::format::{PackPart, ReadSuite};
use touchstone_packs::rules::inventory::PackFacts;
use touchstone_packs::rules::{Refusal, Stage};

const FOLDER: &str = "oasis/";
const PROFILE: &str = "oasis/profile.yaml";
/// The name of the member of a pack's facts.
const MEMBER: &str = "oasisProfile";

/// The OASIS files of packs.
#[derive(Clone, Copy, Debug)]
pub struct OasisPart;

impl PackPart for OasisPart {
    fn name(&self) -> &'static str {
        MEMBER
    }

    fn check(&self, pack: &PackContents) -> Result<Option<Map<String, Value>>, Refusal> {
        let profile = profile(&pack.archive)?;
        check_suites(&pack.suites, profile.as_ref())?;
        check_reports(pack)?;
        Ok(profile.map(|profile| facts(&profile, &pack.suites)))
    }

    fn lint(&self, files: &Files, read_suite: ReadSuite) -> Vec<Finding> {
        lint::findings(files, read_suite)
    }
}

/// The facts about the profile of an installed pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OasisProfileFacts {
    /// Profile identifier, as sent to providers.
    pub identifier: String,
    pub version: String,
    /// Display name.
    pub name: String,
    /// Number of phase 1 scenarios.
    pub safety_scenarios: usize,
    /// Number of phase 2 scenarios.
    pub capability_scenarios: usize,
    /// Number of scenarios that this host cannot execute as written.
    pub not_runnable: usize,
    /// Number of unpublished scenarios; they are counted and not described.
    pub reserved_scenarios: usize,
    /// The pack's suites that run this profile, by the references that runs use.
    pub suites: Vec<String>,
    /// Whether the pack's signature covers the profile.
    pub signed: bool,
}

impl OasisProfileFacts {
    /// The facts about the profile of a pack, if it has one.
    ///
    /// # Errors
    /// The recorded facts have another form.
    pub fn of(pack: &PackFacts) -> serde_json::Result<Option<Self>> {
        let member = pack.extensions.get(MEMBER);
        member.map(Self::deserialize).transpose()
    }
}

/// The facts about a profile, except `signed`, which belongs to the pack.
fn facts(package: &Package, suites: &[PackSuite]) -> Map<String, Value> {
    let of_class = |class| {
        let scenarios = package.scenarios.iter();
        scenarios
            .filter(|it| it.descriptor.classification == class)
            .count()
    };
    let unrunnable = package.scenarios.iter().filter(|it| it.runnable().is_err());
    let suites: Vec<String> = suites
        .iter()
        .map(PackSuite::suite)
        .filter(|it| is_oasis(it))
        .map(AgentEvalSuite::reference)
        .collect();
    let mut facts = Map::new();
    let mut set = |name: &str, value: Value| facts.insert(name.to_owned(), value);
    set("identifier", package.profile.identifier.clone().into());
    set("version", package.profile.version.clone().into());
    set("name", package.profile.name.clone().into());
    set("safetyScenarios", of_class(Classification::Safety).into());
    set(
        "capabilityScenarios",
        of_class(Classification::Capability).into(),
    );
    set("notRunnable", unrunnable.count().into());
    set("reservedScenarios", package.reserved_count().into());
    set("suites", suites.into());
    facts
}

fn invalid(file: &str, reason: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::PackValidationFailed, Stage::References, reason).in_file(file)
}

/// The OASIS profile of a pack, if it has one.
///
/// # Errors
/// The profile cannot be parsed.
pub fn profile(archive: &Archive) -> Result<Option<Package>, Refusal> {
    if !archive.files.contains_key(PROFILE) {
        return Ok(None);
    }
    match format::read(&profile_files(&archive.files)) {
        Ok(package) => Ok(Some(package)),
        Err(problems) => Err(match problems.first() {
            Some(first) => invalid(&format!("{FOLDER}{}", first.file), first.to_string()),
            None => invalid(PROFILE, "is not an OASIS profile"),
        }),
    }
}

/// The profile files of a pack, by path below the profile's folder.
fn profile_files<B: AsRef<[u8]>>(files: &BTreeMap<String, B>) -> BTreeMap<String, &[u8]> {
    files
        .iter()
        .filter(|(name, _)| *name != adapter::FILE)
        .filter_map(|(name, bytes)| Some((name.strip_prefix(FOLDER)?.to_owned(), bytes.as_ref())))
        .collect()
}

/// Why a suite next to a profile cannot name this scenario, if it cannot.
fn lacks(profile: &Package, id: &str) -> Option<String> {
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
fn check_suites(suites: &[PackSuite], profile: Option<&Package>) -> Result<(), Refusal> {
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

/// The reports of a pack about its agents, by agent id.
///
/// # Errors
/// A report cannot be parsed.
pub fn reports(archive: &Archive) -> Result<BTreeMap<String, AdapterReport>, Refusal> {
    let Some(bytes) = archive.files.get(adapter::FILE) else {
        return Ok(BTreeMap::new());
    };
    adapter::read(bytes).map_err(|fault| invalid(adapter::FILE, fault))
}

/// Checks that every report is about an agent of the pack.
fn check_reports(pack: &PackContents) -> Result<(), Refusal> {
    let reports = reports(&pack.archive)?;
    match reports.keys().find(|agent| pack.agent(agent).is_none()) {
        None => Ok(()),
        Some(unknown) => Err(invalid(
            adapter::FILE,
            format!("/{unknown}: the pack has no agent with this id"),
        )),
    }
}
