//! Reading OASIS evaluations: verdict, report, evidence, profiles, and the preflight.

pub mod plan;

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use crate::ports::providers::{ConformanceAnswer, ProviderText, Providers};
use crate::rules::format::{Package, Problem as FormatProblem};
use crate::rules::pack::OasisProfileFacts;
use crate::rules::preflight::Preflight;
use crate::rules::refusal::RefusalItem;
use crate::rules::report::Report;
use crate::rules::report::decision::decide;
use crate::rules::report::environment::resources_by_kind;
use crate::rules::request::{AdversarialRequest, OasisSpec};
use crate::rules::run::events::{OasisVerdict, RequirementAnswer};
use crate::rules::run::facts::OasisFacts;
use crate::rules::run::sources::{Sources, gather};
use crate::rules::stored::StoredEvidence;
use crate::service::library::Library;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::fields::{Fields, Nulls};
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_kit::redaction::mask;
use touchstone_packs::rules::inventory::PackFacts;
use touchstone_packs::store as pack_store;
use touchstone_runs::rules::run::fold::RunStatus;
use touchstone_runs::rules::run::record::{EvalSpec, RunRecord};
use touchstone_runs::service::runs::Runs;
use touchstone_runs::store::annotations;

/// A profile that can be run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferedProfile {
    #[serde(flatten)]
    pub facts: OasisProfileFacts,
    /// The pack that contains it, `name@version`.
    pub pack: String,
    /// The scenarios that this host cannot execute, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_runnable_scenarios: Vec<UnrunnableScenario>,
}

/// A scenario that this host cannot execute as it is written.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnrunnableScenario {
    pub scenario_id: String,
    /// The first [`MAX_REASONS`] problems.
    pub problems: Vec<FormatProblem>,
}

/// Maximum number of reasons per scenario.
const MAX_REASONS: usize = 10;

fn unrunnable(package: &Package) -> Vec<UnrunnableScenario> {
    let scenarios = package.scenarios.iter().filter_map(|it| {
        let mut problems = it.runnable().err()?;
        problems.truncate(MAX_REASONS);
        Some(UnrunnableScenario {
            scenario_id: it.id().to_owned(),
            problems,
        })
    });
    scenarios.collect()
}

/// The result of a preflight without an evaluation.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DryPreflight {
    /// Whether `gaps` is empty.
    pub satisfied: bool,
    /// The provider's description of itself; `null` if it has none.
    pub provider: Value,
    /// Every requirement of the profile, with the answer.
    pub requirements: Vec<RequirementAnswer>,
    /// Every reason against an evaluation.
    pub gaps: Vec<RefusalItem>,
}

/// An OASIS evaluation that has ended with a verdict.
struct Ended {
    record: Arc<RunRecord>,
    eval: Arc<EvalSpec>,
    facts: OasisFacts,
    verdict: OasisVerdict,
}

/// The use cases of OASIS evaluations.
pub struct Evaluations {
    pub runs: Arc<Runs>,
    pub library: Arc<Library>,
    pub providers: Arc<dyn Providers>,
}

impl Evaluations {
    /// The verdict document of an evaluation, byte for byte as it was recorded.
    ///
    /// # Errors
    /// `not_found` for a run that is not an OASIS evaluation; `oasis_run_not_terminal`;
    /// `oasis_no_verdict`.
    pub async fn verdict(&self, tenant: &TenantId, run: &RunId) -> Result<Value, Problem> {
        let ended = self.ended(tenant, run).await?;
        self.stored_document(&ended.verdict.sha256).await
    }

    /// The report of an evaluation, derived from its log, its evidence and its profile.
    ///
    /// # Errors
    /// As [`verdict`](Self::verdict).
    pub async fn report(&self, tenant: &TenantId, run: &RunId) -> Result<Report, Problem> {
        let ended = self.ended(tenant, run).await?;
        let Some(oasis) = OasisSpec::of(&ended.eval) else {
            return Err(no_evaluation());
        };
        let verdict = self.stored_document(&ended.verdict.sha256).await?;
        let package = self.library.profile(&oasis.profile_pack).await;
        let package = package.map_err(|cause| internal(&cause))?;
        let package = package.ok_or_else(missing_blob)?;
        let suite = self.runs.suite_of(&ended.eval).await?;
        let mut evidence = Vec::with_capacity(ended.facts.scenarios.len());
        let mut baselines = Vec::new();
        let scenarios = ended
            .facts
            .scenarios
            .iter()
            .filter_map(|it| it.evidence.as_ref());
        let probes = ended
            .facts
            .probes
            .iter()
            .filter_map(|it| it.evidence.as_ref());
        for digest in scenarios.chain(probes) {
            let mut kept: StoredEvidence = self.stored_document(digest).await?;
            // Observations are large, and a report contains only their digests.
            kept.data = Vec::new();
            let snapshot = kept.snapshot.take().filter(|_| kept.probe.is_none());
            baselines.extend(snapshot.as_ref().map(resources_by_kind));
            evidence.push(kept);
        }
        let red_team = match oasis.request.adversarial.as_ref() {
            Some(asked) => self.red_team(asked).await?,
            None => None,
        };
        let provider = self.providers.provider(&oasis.request.provider);
        let facts = gather(Sources {
            red_team: red_team.as_deref(),
            run: &ended.record.run_id,
            spec: &ended.eval,
            oasis: &oasis,
            verdict,
            facts: &ended.facts,
            package: &package,
            suite: &suite,
            baselines,
            evidence,
            lab_framework: provider.as_ref().and_then(|it| it.lab_framework()),
        });
        let mut report = Report::make(facts.map_err(|cause| internal(&cause))?);
        let annotations = annotations::list(&self.runs.store, run, 0).await;
        let annotations = annotations.map_err(|cause| internal(&cause))?;
        let annotations: Vec<_> = annotations.into_iter().map(|it| it.annotation).collect();
        decide(&mut report.safety.human_review_required, &annotations);
        Ok(report)
    }

    /// The evidence of one executed scenario.
    ///
    /// # Errors
    /// `not_found`, also for a scenario that was not executed.
    pub async fn evidence(
        &self,
        tenant: &TenantId,
        run: &RunId,
        scenario: &str,
    ) -> Result<StoredEvidence, Problem> {
        let (_, facts) = self.facts(tenant, run).await?;
        let named = |number: u32| OasisFacts::probe_name(number) == scenario;
        let of_scenario = facts.scenario(scenario).and_then(|it| it.evidence.clone());
        let of_probe = || {
            let probe = facts.probes.iter().find(|it| named(it.number))?;
            probe.evidence.clone()
        };
        let digest = of_scenario.or_else(of_probe).ok_or_else(|| {
            Problem::new(
                ErrorCode::NotFound,
                "no evidence is stored for this scenario: it was not executed, or is not published",
            )
        })?;
        self.stored_document(&digest).await
    }

    /// The profiles a tenant may run, and the configured providers.
    ///
    /// # Errors
    /// An internal error.
    pub async fn profiles(
        &self,
        tenant: &TenantId,
    ) -> Result<(Vec<OfferedProfile>, Vec<String>), Problem> {
        let installs = pack_store::inventory::installs(&self.runs.store, tenant).await;
        let mut offered = Vec::new();
        for install in installs.map_err(|cause| internal(&cause))? {
            let facts: PackFacts =
                serde_json::from_value(install.facts).map_err(|cause| internal(&cause))?;
            let profile = OasisProfileFacts::of(&facts).map_err(|cause| internal(&cause))?;
            let Some(profile) = profile else { continue };
            let package = if profile.not_runnable == 0 {
                None
            } else {
                let loaded = self.library.profile(&install.integrity).await;
                loaded.map_err(|cause| internal(&cause))?
            };
            offered.push(OfferedProfile {
                facts: profile,
                pack: format!("{}@{}", install.name, install.version),
                not_runnable_scenarios: package.as_deref().map(unrunnable).unwrap_or_default(),
            });
        }
        Ok((offered, self.providers.names()))
    }

    /// Sends a provider the preflight of an evaluation, and nothing more.
    ///
    /// # Errors
    /// `validation_error` that names the field.
    pub async fn preflight(
        &self,
        tenant: &TenantId,
        body: &Value,
    ) -> Result<DryPreflight, Problem> {
        const KNOWN: &[&str] = &["profile", "profileVersion", "tier", "provider"];
        let fields = Fields::closed(body, "", KNOWN, Nulls::Wrong)?;
        let required = |name: &str| {
            fields
                .text_of(name, 1..=256)?
                .ok_or_else(|| fields.invalid(name, "is required"))
        };
        let (profile, version) = (required("profile")?, required("profileVersion")?);
        let tier = fields
            .whole("tier", 1)?
            .and_then(|tier| u8::try_from(tier).ok())
            .filter(|tier| *tier <= 3)
            .ok_or_else(|| fields.invalid("tier", "is required and must be 1, 2 or 3"))?;
        let provider = required("provider")?;
        let provider = self.providers.provider(provider).ok_or_else(|| {
            fields.invalid(
                "provider",
                "must name a provider that is configured on this host (`[[oasis.providers]]`)",
            )
        })?;
        let installs = pack_store::inventory::installs(&self.runs.store, tenant).await;
        let mut package = None;
        for install in installs.map_err(|cause| internal(&cause))? {
            let facts: PackFacts =
                serde_json::from_value(install.facts).map_err(|cause| internal(&cause))?;
            let found = OasisProfileFacts::of(&facts).map_err(|cause| internal(&cause))?;
            if found.is_some_and(|it| it.identifier == profile && it.version == version) {
                let loaded = self.library.profile(&install.integrity).await;
                package = loaded.map_err(|cause| internal(&cause))?;
                break;
            }
        }
        let package = package.ok_or_else(|| {
            fields.invalid(
                "profile",
                "is not installed in this version; install the pack that contains it",
            )
        })?;
        let answer = provider.conformance(profile).await;
        let found = preflight_of(tier, &package, &answer);
        Ok(DryPreflight {
            satisfied: found.gaps.is_empty(),
            provider: answer.body.as_ref().map_or(
                Value::Null,
                |body| json!({"name": body["provider"], "version": body["provider_version"]}),
            ),
            requirements: found
                .requirements
                .iter()
                .map(RequirementAnswer::from)
                .collect(),
            gaps: found.gaps,
        })
    }

    async fn facts(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<(RunStatus, OasisFacts), Problem> {
        let (_, eval) = self.runs.eval_record(tenant, run).await?;
        if !OasisSpec::is_in(&eval) {
            return Err(no_evaluation());
        }
        self.runs
            .with_state(run, |state| (state.status, OasisFacts::of(&state.eval)))
            .await
    }

    async fn ended(&self, tenant: &TenantId, run: &RunId) -> Result<Ended, Problem> {
        let (status, facts) = self.facts(tenant, run).await?;
        let (record, eval) = self.runs.eval_record(tenant, run).await?;
        if !status.is_terminal() {
            return Err(Problem::new(
                ErrorCode::OasisRunNotTerminal,
                "the evaluation has not ended; read its verdict once it has",
            ));
        }
        let Some(verdict) = facts.verdict.clone() else {
            let problem = Problem::new(
                ErrorCode::OasisNoVerdict,
                format!(
                    "the evaluation ended without a verdict: the run is {}",
                    status.as_str()
                ),
            );
            let refusal = facts.preflight.and_then(|it| it.refusal);
            return Err(match refusal {
                Some(refusal) => problem.with("refusal", json!(refusal)),
                None => problem,
            });
        };
        Ok(Ended {
            record,
            eval,
            facts,
            verdict,
        })
    }

    /// The red team's probes of a run, if it has any.
    async fn red_team(&self, asked: &AdversarialRequest) -> Result<Option<String>, Problem> {
        let Some(digest) = &asked.red_team_digest else {
            return Ok(None);
        };
        let bytes = pack_store::blobs::get(&self.runs.store, digest).await;
        let bytes = bytes
            .map_err(|cause| internal(&cause))?
            .ok_or_else(missing_blob)?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// A document stored under its digest.
    async fn stored_document<T: serde::de::DeserializeOwned>(
        &self,
        digest: &str,
    ) -> Result<T, Problem> {
        let bytes = pack_store::blobs::get(&self.runs.store, digest).await;
        let bytes = bytes.map_err(|cause| internal(&cause))?;
        let bytes = bytes.ok_or_else(missing_blob)?;
        if !touchstone_kit::integrity::matches(digest, &bytes) {
            return Err(missing_blob());
        }
        serde_json::from_slice(&bytes).map_err(|cause| internal(&cause))
    }
}

/// Maximum length of a provider's own message, in characters.
const LONGEST_WORDS: usize = 512;

/// The gaps between a provider's answer and a profile at a tier. The provider's message is
/// recorded: shortened, with credentials masked.
pub fn preflight_of(tier: u8, package: &Package, answer: &ConformanceAnswer) -> Preflight {
    let requirements = &package.requirements;
    let mut found = match &answer.body {
        Some(body) => Preflight::of(&package.profile, requirements, tier, body),
        None => {
            let trouble = answer.trouble.as_deref();
            let trouble = trouble.unwrap_or("the provider did not answer");
            let said = answer.said.as_ref().map(ProviderText::as_str);
            let said = said.map_or_else(String::new, |it| format!("; the provider says: {it}"));
            Preflight::unanswered(requirements, &format!("{trouble}{said}"))
        }
    };
    // A verdict names the provider and its version.
    if let Some(body) = &answer.body {
        let text = |name: &str| body[name].as_str().unwrap_or_default();
        let mut lacks = |key: &str, reason: &str| {
            found.gaps.push(RefusalItem {
                key: key.to_owned(),
                reason: reason.to_owned(),
            });
        };
        if text("provider").is_empty() {
            lacks("provider", "must be the provider's name");
        }
        if semver::Version::parse(text("provider_version")).is_err() {
            lacks(
                "provider_version",
                "must be a semantic version such as 1.2.0",
            );
        }
    }
    for gap in &mut found.gaps {
        gap.key = short(&gap.key);
        gap.reason = short(&mask(&gap.reason));
    }
    for requirement in &mut found.requirements {
        let text = requirement.answer.to_string();
        if text.chars().nth(LONGEST_WORDS).is_some() {
            requirement.answer = Value::String(short(&text));
        }
    }
    found
}

fn short(text: &str) -> String {
    match text.char_indices().nth(LONGEST_WORDS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

fn no_evaluation() -> Problem {
    Problem::new(ErrorCode::NotFound, "this run is not an OASIS evaluation")
}

/// A blob that an event refers to is missing or altered.
fn missing_blob() -> Problem {
    internal(&StoreError::Inconsistent {
        table: "blob",
        column: "digest",
    })
}
