//! The contents of a pack: its manifest with every reference resolved inside the archive.
//!
//! Prompts are decoded, schemas compiled and suites checked once, when the pack is loaded. Any
//! failure refuses the whole pack.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::archive::Archive;
use super::attachments;
use super::format::PackFormat;
use super::manifest::refs;
use super::{Refusal, Stage};
use crate::rules::manifest::capabilities::{self, Peers};
use crate::rules::manifest::{self, Host};
use touchstone_kit::error::ErrorCode;
use touchstone_kit::{integrity, json};
use touchstone_openwop::pack::{AgentManifest, PackManifest};
use touchstone_openwop::schema::{CompiledSchema, compile_untrusted};
use touchstone_openwop::suite::{AgentEvalSuite, SuiteDocument, SuiteFault};

/// Maximum memory in bytes for all parsed suites of a pack; enough for 20,000 small tasks.
const MAX_SUITES_MEMORY: usize = 64 * 1024 * 1024;

/// A pack whose references are resolved.
#[derive(Clone, Debug)]
pub struct PackContents {
    /// The manifest from the archive: the only source of the pack's identity and rules.
    pub manifest: PackManifest,
    pub archive: Archive,
    /// Capabilities that the pack requests and this host lacks.
    pub degraded: Vec<String>,
    /// The agents, in the manifest's order.
    pub agents: Vec<PackAgent>,
    /// The suites, sorted by file name.
    pub suites: Vec<PackSuite>,
    /// The findings of the parts of other features, by name.
    pub extensions: Map<String, Value>,
    /// Warnings for the operator.
    pub warnings: Vec<String>,
}

/// An agent with all its references resolved.
#[derive(Clone, Debug)]
pub struct PackAgent {
    pub manifest: AgentManifest,
    /// The prompt, inline or read from its file.
    pub prompt: String,
    /// Schema of task inputs.
    pub task_schema: Option<CompiledSchema>,
    /// Schema of answers.
    pub return_schema: Option<CompiledSchema>,
    /// `suiteId@version` of `evalSuiteRef`.
    pub suite: Option<String>,
    /// Capabilities that the agent lacks on this host.
    pub degraded: Vec<String>,
}

impl PackAgent {
    /// The tools that the agent may call; none unless listed.
    pub fn tools(&self) -> &[String] {
        self.manifest.tool_allowlist.as_deref().unwrap_or_default()
    }
}

#[derive(Clone, Debug)]
pub struct PackSuite {
    /// Path in the archive.
    pub file: String,
    /// The suite and its canonical form.
    pub document: SuiteDocument,
    /// `sha256-<base64>` of the canonical form.
    pub digest: String,
    pub scoring: Option<PackScoring>,
}

/// The scoring document of a suite.
#[derive(Clone, Debug)]
pub struct PackScoring {
    pub canonical: String,
    /// `sha256-<base64>` of the canonical form.
    pub digest: String,
}

impl PackScoring {
    pub fn new(canonical: String) -> Self {
        Self {
            digest: integrity::of(canonical.as_bytes()),
            canonical,
        }
    }
}

impl PackSuite {
    pub fn suite(&self) -> &AgentEvalSuite {
        &self.document.suite
    }
}

impl PackContents {
    pub fn agent(&self, agent_id: &str) -> Option<&PackAgent> {
        self.agents
            .iter()
            .find(|agent| agent.manifest.agent_id == agent_id)
    }
}

/// Loads a pack: manifest, host, references, suites.
///
/// # Errors
/// The first rule that the pack violates.
pub fn load(archive: Archive, host: &Host, format: PackFormat) -> Result<PackContents, Refusal> {
    let manifest = manifest::read(archive.manifest()?)?;
    resolve(manifest, archive, host, format)
}

/// The manifest and the agents of a pack that this host admitted earlier. Host rules are not
/// checked again: if the host's capabilities have changed since, installed packs keep running.
///
/// # Errors
/// The archive is corrupt.
pub fn reopen(archive: &Archive) -> Result<(PackManifest, Vec<PackAgent>), Refusal> {
    let manifest = manifest::read(archive.manifest()?)?;
    let host = Host::default();
    let peers = capabilities::resolve(&manifest, &host.capabilities, host.peers);
    let agents = agents(&manifest, archive, &peers, &host)?;
    Ok((manifest, agents))
}

/// Opens a pack of unknown origin for display, without applying the rules of this host.
///
/// # Errors
/// The first rule that the pack violates.
pub fn inspect(archive: Archive, format: PackFormat) -> Result<PackContents, Refusal> {
    let manifest = manifest::read(archive.manifest()?)?;
    let host = Host::default();
    let peers = capabilities::resolve(&manifest, &host.capabilities, host.peers);
    bind(manifest, archive, peers, &host, format)
}

/// Resolves a parsed manifest.
///
/// # Errors
/// As [`load`].
pub fn resolve(
    manifest: PackManifest,
    archive: Archive,
    host: &Host,
    format: PackFormat,
) -> Result<PackContents, Refusal> {
    let peers = manifest::admit(&manifest, host)?;
    bind(manifest, archive, peers, host, format)
}

fn bind(
    manifest: PackManifest,
    archive: Archive,
    peers: Peers,
    host: &Host,
    format: PackFormat,
) -> Result<PackContents, Refusal> {
    let mut agents = agents(&manifest, &archive, &peers, host)?;
    let suites = suites(&manifest, &archive, format)?;
    for agent in &mut agents {
        let file = agent.manifest.eval_suite_ref.as_deref();
        let suite = file.and_then(|file| suites.iter().find(|suite| suite.file == file));
        agent.suite = suite.map(|suite| suite.suite().reference());
    }
    let warnings = warnings(&manifest);
    let mut pack = PackContents {
        degraded: peers.degraded,
        manifest,
        archive,
        agents,
        suites,
        extensions: Map::new(),
        warnings,
    };
    for part in format.parts {
        if let Some(facts) = part.check(&pack)? {
            pack.extensions.insert(part.name().to_owned(), facts.into());
        }
    }
    Ok(pack)
}

fn warnings(manifest: &PackManifest) -> Vec<String> {
    let mut warnings = Vec::new();
    if !manifest.nodes.is_empty() {
        warnings.push("the pack has workflow nodes, which this host does not run".to_owned());
    }
    if !manifest.prompts.is_empty() {
        warnings.push("the pack has prompt templates, which this host does not serve".to_owned());
    }
    warnings
}

fn agents(
    manifest: &PackManifest,
    archive: &Archive,
    peers: &Peers,
    host: &Host,
) -> Result<Vec<PackAgent>, Refusal> {
    let mut degraded = capabilities::degraded_of(manifest, peers, &host.capabilities);
    let mut schemas = Schemas {
        archive,
        compiled: BTreeMap::new(),
    };
    let mut agents = Vec::with_capacity(manifest.agents.len());
    for (index, agent) in manifest.agents.iter().enumerate() {
        let at = format!("/agents/{index}/handoff");
        let handoff = agent.handoff.clone().unwrap_or_default();
        agents.push(PackAgent {
            prompt: prompt(agent, archive, index)?,
            task_schema: schemas.get(handoff.task_schema_ref, &format!("{at}/taskSchemaRef"))?,
            return_schema: schemas
                .get(handoff.return_schema_ref, &format!("{at}/returnSchemaRef"))?,
            suite: None,
            degraded: degraded.remove(&agent.agent_id).unwrap_or_default(),
            manifest: agent.clone(),
        });
    }
    Ok(agents)
}

fn prompt(agent: &AgentManifest, archive: &Archive, index: usize) -> Result<String, Refusal> {
    if let Some(inline) = &agent.system_prompt {
        return Ok(inline.clone());
    }
    let Some(reference) = &agent.system_prompt_ref else {
        return Err(Refusal::new(
            ErrorCode::InvalidManifest,
            Stage::Manifest,
            format!("/agents/{index}: has neither systemPrompt nor systemPromptRef"),
        ));
    };
    let bytes = refs::resolve(
        archive,
        reference,
        &format!("/agents/{index}/systemPromptRef"),
    )?;
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(invalid(reference, "is not UTF-8")),
    }
}

/// The schemas of a pack. Agents often share schemas, so each file is compiled once.
struct Schemas<'a> {
    archive: &'a Archive,
    compiled: BTreeMap<String, CompiledSchema>,
}

impl Schemas<'_> {
    fn get(
        &mut self,
        reference: Option<String>,
        member: &str,
    ) -> Result<Option<CompiledSchema>, Refusal> {
        let Some(file) = reference else {
            return Ok(None);
        };
        if let Some(known) = self.compiled.get(&file) {
            return Ok(Some(known.clone()));
        }
        let bytes = refs::resolve(self.archive, &file, member)?;
        let value =
            json::parse_foreign(bytes).map_err(|error| invalid(&file, &error.to_string()))?;
        let schema =
            compile_untrusted(&value).map_err(|fault| invalid(&file, &fault.to_string()))?;
        self.compiled.insert(file, schema.clone());
        Ok(Some(schema))
    }
}

fn invalid(file: &str, reason: &str) -> Refusal {
    Refusal::new(ErrorCode::PackValidationFailed, Stage::References, reason).in_file(file)
}

/// Every `evals/*.json` and every other file that an `evalSuiteRef` names.
fn suites(
    manifest: &PackManifest,
    archive: &Archive,
    format: PackFormat,
) -> Result<Vec<PackSuite>, Refusal> {
    let mut memory = MAX_SUITES_MEMORY;
    let mut files: BTreeSet<&str> = archive
        .files
        .iter()
        .filter(|(name, bytes)| is_suite_file(name, bytes))
        .map(|(name, _)| name.as_str())
        .collect();
    for (file, bytes) in &archive.files {
        if is_scoring_file(file, bytes) {
            check_place(file, archive)?;
        }
    }
    for (index, agent) in manifest.agents.iter().enumerate() {
        if let Some(reference) = &agent.eval_suite_ref {
            refs::resolve(archive, reference, &format!("/agents/{index}/evalSuiteRef"))?;
            files.insert(reference);
        }
    }
    let mut seen = BTreeSet::new();
    let mut suites = Vec::with_capacity(files.len());
    for file in files {
        let bytes = archive
            .files
            .get(file)
            .map(AsRef::as_ref)
            .unwrap_or_default();
        let refuse = |reason: String| {
            Refusal::new(ErrorCode::PackValidationFailed, Stage::Suite, reason).in_file(file)
        };
        memory = memory
            .checked_sub(json::weight(bytes))
            .ok_or_else(|| refuse("the suites of the pack have too many values".to_owned()))?;
        let document = (format.read_suite)(bytes).map_err(|faults| {
            refuse(faults.first().map(ToString::to_string).unwrap_or_default())
        })?;
        if !in_space_of(&document.suite.suite_id, &manifest.name) {
            return Err(refuse(
                "/suiteId: must begin with the pack's own scope and organization".to_owned(),
            ));
        }
        if !seen.insert(document.suite.reference()) {
            return Err(refuse(
                "/suiteId: another suite of the pack has this id and version".into(),
            ));
        }
        suites.push(PackSuite {
            file: file.to_owned(),
            digest: document.digest(),
            scoring: scoring(file, archive, &document.suite, format, &mut memory)?,
            document,
        });
    }
    Ok(suites)
}

/// The scoring document beside a suite.
fn scoring(
    suite_file: &str,
    archive: &Archive,
    suite: &AgentEvalSuite,
    format: PackFormat,
    memory: &mut usize,
) -> Result<Option<PackScoring>, Refusal> {
    let Some(file) = scoring_file(suite_file) else {
        return Ok(None);
    };
    let Some(bytes) = archive.files.get(&file) else {
        return Ok(None);
    };
    if !is_scoring_file(&file, bytes) {
        return Ok(None);
    }
    let refuse = |reason: String| {
        Refusal::new(ErrorCode::PackValidationFailed, Stage::Suite, reason).in_file(&file)
    };
    *memory = memory
        .checked_sub(json::weight(bytes))
        .ok_or_else(|| refuse("the suites of the pack have too many values".to_owned()))?;
    let canonical = (format.read_scoring)(bytes, suite)
        .map_err(|faults| refuse(faults.first().map(scoring_fault).unwrap_or_default()))?;
    let find = |name: &str| archive.files.get(name).map(AsRef::as_ref);
    if let Some(fault) = attachments::faults(&canonical, find).first() {
        return Err(refuse(scoring_fault(fault)));
    }
    Ok(Some(PackScoring::new(canonical)))
}

/// A fault with its place.
pub fn scoring_fault(fault: &SuiteFault) -> String {
    match fault.pointer.as_str() {
        "" => fault.reason.clone(),
        pointer => format!("{pointer}: {}", fault.reason),
    }
}

/// The end of the name of a scoring document.
const SCORING: &str = ".scoring.json";

/// The name of the scoring document of a suite's file.
pub fn scoring_file(suite_file: &str) -> Option<String> {
    let stem = suite_file.strip_suffix(".json")?;
    Some(format!("{stem}{SCORING}"))
}

/// Whether a file directly in `evals/` is a scoring document. Earlier versions knew none, so a
/// suite may have such a name.
pub fn is_scoring_file(name: &str, bytes: &[u8]) -> bool {
    name.strip_suffix(SCORING).is_some_and(is_in_evals) && !is_suite(bytes)
}

/// Whether a document has members that every suite and no scoring document has.
fn is_suite(bytes: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Members {
        modes: Option<IgnoredAny>,
        version: Option<IgnoredAny>,
    }
    serde_json::from_slice(bytes)
        .is_ok_and(|it: Members| it.modes.is_some() && it.version.is_some())
}

/// Refuses a scoring document without a suite, whose assertions nothing would evaluate.
fn check_place(file: &str, archive: &Archive) -> Result<(), Refusal> {
    let suite = file
        .strip_suffix(SCORING)
        .map(|stem| format!("{stem}.json"));
    match suite.filter(|suite| !archive.files.contains_key(suite)) {
        None => Ok(()),
        Some(suite) => Err(Refusal::new(
            ErrorCode::PackValidationFailed,
            Stage::Suite,
            format!("belongs to {suite}, which the pack does not have"),
        )
        .in_file(file)),
    }
}

fn is_in_evals(stem: &str) -> bool {
    stem.strip_prefix("evals/")
        .is_some_and(|stem| !stem.is_empty() && !stem.contains('/'))
}

/// Whether a file is a suite directly in `evals/`.
pub fn is_suite_file(name: &str, bytes: &[u8]) -> bool {
    !is_scoring_file(name, bytes) && name.strip_suffix(".json").is_some_and(is_in_evals)
}

/// Whether a suite id is in the publisher's namespace: a pack may only contain suites of its own
/// `<scope>.<org>.`.
fn in_space_of(suite_id: &str, pack_name: &str) -> bool {
    let mut segments = pack_name.splitn(3, '.');
    match (segments.next(), segments.next()) {
        (Some(scope), Some(org)) => suite_id.starts_with(&format!("{scope}.{org}.")),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("community.bench.evals.x", true)]
    #[case("community.bench-two.evals.x", false)]
    #[case("core.openwop.evals.x", false)]
    fn a_pack_may_contain_only_suites_of_its_own_namespace(
        #[case] suite_id: &str,
        #[case] own: bool,
    ) {
        assert_eq!(in_space_of(suite_id, "community.bench.some.pack"), own);
    }
}
