//! Installed packs, suites and agents.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use crate::api::ConsoleApi;
use crate::operations::PACKS;
use crate::page::answer::{html, see_other, segment};
use crate::page::badge::Badge;
use crate::page::chrome::{Chrome, Section};
use crate::page::text::{Time, count};
use crate::page::visit::Visit;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::PathParameters;
use touchstone_host::render::words::plain;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_openwop::pack::AgentInventoryEntry;
use touchstone_packs::ports::inventory::SuiteRecord;
use touchstone_packs::rules::inventory::PackFacts;
use touchstone_packs::rules::name::PackId;
use touchstone_packs::rules::verify::{SignatureCoverage, SignatureState};
use touchstone_packs::service::packs::Actor;

#[derive(Template)]
#[template(path = "operations/packs.html")]
struct Listing {
    chrome: Chrome,
    packs: Vec<PackRow>,
    suites: Vec<SuiteRow>,
    agents: Vec<AgentRow>,
    may_import: bool,
}

struct PackRow {
    href: String,
    name: String,
    version: String,
    kind: String,
    signature: Badge,
    agents: String,
    suites: String,
    warnings: usize,
    digest: String,
}

pub struct SuiteRow {
    pub href: String,
    pub name: String,
    pub tasks: String,
    pub digest: String,
    /// The pack it came with, and the address of the pack's page.
    pub pack: Option<(String, String)>,
    pub signature: Badge,
    pub added: Time,
}

struct AgentRow {
    id: String,
    name: String,
    description: String,
    model: &'static str,
    version: String,
    href: String,
    tools: Vec<String>,
    degraded: Vec<String>,
}

/// `GET /console/packs`.
pub async fn list(State(api): State<Arc<ConsoleApi>>, visit: Visit) -> Answer {
    let packs = &api.packs.packs;
    let installed = packs.list(visit.tenant()).await?;
    let suites = packs.suites(visit.tenant()).await?;
    let agents = packs.agents(visit.tenant()).await?;
    html(&Listing {
        chrome: visit.chrome(Section::Packs),
        packs: installed.iter().map(PackRow::of).collect(),
        suites: suites.iter().map(SuiteRow::of).collect(),
        agents: agents.agents.iter().map(AgentRow::of).collect(),
        may_import: visit.may(Scope::SuitesWrite),
    })
}

impl PackRow {
    fn of(facts: &PackFacts) -> Self {
        Self {
            href: address(&facts.name, &facts.version),
            name: plain(&facts.name),
            version: plain(&facts.version),
            kind: plain(&facts.kind),
            signature: signature(&facts.signature),
            agents: count(facts.agents.len()),
            suites: count(facts.suites.len()),
            warnings: facts.warnings.len(),
            digest: plain(&facts.integrity),
        }
    }
}

impl SuiteRow {
    pub fn of(suite: &SuiteRecord) -> Self {
        let pack = suite.pack.as_deref().map(|pack| {
            let (name, version) = pack.rsplit_once('@').unwrap_or((pack, ""));
            (plain(pack), address(name, version))
        });
        Self {
            href: suite_address(&suite.suite_id, &suite.version),
            name: plain(&format!("{}@{}", suite.suite_id, suite.version)),
            tasks: count(usize::try_from(suite.task_count).unwrap_or(usize::MAX)),
            digest: plain(&suite.digest),
            signature: match (suite.signed, &pack) {
                (true, _) => Badge::good("Signed"),
                (false, Some(_)) => Badge::warn("Not covered by a signature"),
                (false, None) => Badge::plain("–", "Imported, unsigned"),
            },
            pack,
            added: suite.added_at.into(),
        }
    }
}

impl AgentRow {
    fn of(agent: &AgentInventoryEntry) -> Self {
        Self {
            id: plain(&agent.agent_id),
            name: plain(&agent.label),
            description: plain(agent.description.as_deref().unwrap_or_default()),
            model: agent.model_class.as_str(),
            version: plain(&format!("{}@{}", agent.pack_name, agent.pack_version)),
            href: address(&agent.pack_name, &agent.pack_version),
            tools: agent.tool_allowlist.iter().map(|it| plain(it)).collect(),
            degraded: agent.degraded.iter().map(|it| plain(it)).collect(),
        }
    }
}

pub fn address(name: &str, version: &str) -> String {
    format!("{PACKS}/{}/{}", segment(name), segment(version))
}

pub fn suite_address(id: &str, version: &str) -> String {
    format!("/console/suites/{}/{}", segment(id), segment(version))
}

/// The content that a signature covers.
fn signature(state: &SignatureState) -> Badge {
    match state.coverage {
        SignatureCoverage::Tarball => Badge::good("Signed"),
        SignatureCoverage::Manifest => Badge::warn("Manifest signed"),
        SignatureCoverage::None => Badge::warn("Unsigned"),
    }
}

#[derive(Template)]
#[template(path = "operations/pack.html")]
struct Page {
    chrome: Chrome,
    href: String,
    name: String,
    version: String,
    kind: String,
    signature: Badge,
    covers: &'static str,
    key: String,
    origin: String,
    digest: String,
    degraded: Vec<String>,
    dependencies: Vec<(String, String)>,
    warnings: Vec<String>,
    agents: Vec<AgentRow>,
    suites: Vec<PackSuite>,
    may_remove: bool,
}

struct PackSuite {
    href: String,
    name: String,
    tasks: String,
    digest: String,
    scoring: String,
    signature: Badge,
}

/// `GET /console/packs/{name}/{version}`.
pub async fn page(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
) -> Answer {
    let (name, version) = (path.get("name"), path.get("version"));
    let installed = api.packs.packs.list(visit.tenant()).await?;
    let found = installed
        .iter()
        .find(|facts| facts.name == name && facts.version == version);
    let Some(facts) = found else {
        return Err(not_installed().into());
    };
    let wire = |value: Option<serde_json::Value>| match value {
        Some(serde_json::Value::String(text)) => plain(&text),
        _ => String::new(),
    };
    let origin = facts.signature.key_origin.as_ref();
    html(&Page {
        chrome: visit.chrome(Section::Packs),
        href: address(name, version),
        name: plain(&facts.name),
        version: plain(&facts.version),
        kind: plain(&facts.kind),
        signature: signature(&facts.signature),
        covers: match facts.signature.coverage {
            SignatureCoverage::Tarball => "the whole archive",
            SignatureCoverage::Manifest => {
                "only the manifest; prompts, schemas and suites are not signed"
            }
            SignatureCoverage::None => "nothing",
        },
        key: plain(facts.signature.key_id.as_deref().unwrap_or_default()),
        origin: wire(origin.and_then(|it| serde_json::to_value(it).ok())),
        digest: plain(&facts.integrity),
        degraded: facts.degraded.iter().map(|it| plain(it)).collect(),
        dependencies: facts
            .dependencies
            .iter()
            .map(|(name, range)| (plain(name), plain(range)))
            .collect(),
        warnings: facts.warnings.iter().map(|it| plain(it)).collect(),
        agents: facts.agents.iter().map(AgentRow::of).collect(),
        suites: facts
            .suites
            .iter()
            .map(|suite| {
                let (id, version) = suite.reference.rsplit_once('@').unwrap_or_default();
                PackSuite {
                    href: suite_address(id, version),
                    name: plain(&suite.reference),
                    tasks: count(suite.task_count),
                    digest: plain(&suite.digest),
                    scoring: plain(suite.scoring_digest.as_deref().unwrap_or_default()),
                    signature: match suite.signed {
                        true => Badge::good("Signed"),
                        false => Badge::warn("Not covered by a signature"),
                    },
                }
            })
            .collect(),
        may_remove: visit.may(Scope::PacksInstall),
    })
}

fn not_installed() -> Problem {
    Problem::new(ErrorCode::NotFound, "no such pack is installed")
}

/// `POST /console/packs/{name}/{version}/remove`.
pub async fn remove(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
) -> Answer {
    let pack = PackId::new(path.get("name"), path.get("version")).ok_or_else(not_installed)?;
    let by = Actor::of(&visit.caller);
    api.packs.packs.remove(&by, &pack).await?;
    Ok(see_other(&format!("{PACKS}?done=pack-removed")))
}
