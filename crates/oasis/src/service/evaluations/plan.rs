//! Planning an OASIS evaluation.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::ports::providers::Providers;
use crate::rules::format::Package;
use crate::rules::probes;
use crate::rules::request::OasisRequest;
use crate::rules::run::kind::NAME;
use crate::rules::run::plan::{PlanFacts, ProfileFacts, plan, wanted};
use crate::service::library::Library;
use touchstone_host::service::fault::internal;
use touchstone_host::store::database::Database;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::TenantId;
use touchstone_kit::integrity;
use touchstone_openwop::suite::{AgentEvalSuite, EvalMode};
use touchstone_packs::ports::inventory::SuiteRecord;
use touchstone_packs::store as pack_store;
use touchstone_runs::rules::kind::{KindPlan, PlanKind};
use touchstone_runs::rules::run::request::CreateRun;
use touchstone_runs::service::runs::KindPlanner;

/// The evaluation that a request asks for, if any, and the facts that it refers to.
struct Wanted {
    request: Option<OasisRequest>,
    /// The profile of the suite's pack, with the pack's digest.
    profile: Option<(String, Arc<Package>)>,
    providers: Vec<String>,
    evaluator: Option<String>,
}

impl Wanted {
    /// Plans the evaluation; `None` for an ordinary eval.
    fn plan(
        &self,
        request: &CreateRun,
        suite: &AgentEvalSuite,
        modes: &[EvalMode],
    ) -> Result<Option<KindPlan>, Problem> {
        let scenario = |id: &str| {
            let (_, package) = self.profile.as_ref()?;
            package.scenario(id).map(|it| &it.descriptor)
        };
        let profile = self.profile.as_ref();
        let facts = PlanFacts {
            wanted: self.request.as_ref(),
            profile: profile.map(|(pack, package)| ProfileFacts {
                identifier: &package.profile.identifier,
                version: &package.profile.version,
                pack,
                scenario: &scenario,
            }),
            providers: &self.providers,
            evaluator: self.evaluator.as_deref(),
        };
        plan(request, suite, modes, &facts)
    }
}

/// Plans OASIS evaluations.
pub struct OasisPlanner {
    pub store: Arc<Database>,
    pub library: Arc<Library>,
    /// Provides environments.
    pub providers: Arc<dyn Providers>,
    /// The default evaluator, if a request names none.
    pub evaluator: Option<String>,
}

#[async_trait]
impl KindPlanner for OasisPlanner {
    async fn prepare(
        &self,
        tenant: &TenantId,
        request: &mut CreateRun,
        suite: Option<&SuiteRecord>,
    ) -> Result<Box<PlanKind<'static>>, Problem> {
        let profile = match suite {
            Some(suite) => self.profile_of(tenant, suite).await?,
            None => None,
        };
        let package = profile.as_ref().map(|(_, package)| package.as_ref());
        let mut asked = wanted(request)?;
        self.keep_red_team(request, asked.as_mut(), package).await?;
        let wanted = Wanted {
            request: asked,
            profile,
            providers: self.providers.names(),
            evaluator: self.evaluator.clone(),
        };
        Ok(Box::new(move |request, suite, modes| {
            wanted.plan(request, suite, modes)
        }))
    }

    /// An evaluation is refused, because there is no profile and no provider.
    fn plan_other(
        &self,
        request: &CreateRun,
        suite: &AgentEvalSuite,
        modes: &[EvalMode],
    ) -> Result<Option<KindPlan>, Problem> {
        let wanted = wanted(request)?;
        let facts = PlanFacts {
            wanted: wanted.as_ref(),
            ..PlanFacts::default()
        };
        plan(request, suite, modes, &facts)
    }
}

impl OasisPlanner {
    /// The profile of the pack that contains a suite, with the pack's digest.
    async fn profile_of(
        &self,
        tenant: &TenantId,
        suite: &SuiteRecord,
    ) -> Result<Option<(String, Arc<Package>)>, Problem> {
        let Some(pack) = &suite.pack else {
            return Ok(None);
        };
        let installs = pack_store::inventory::installs(&self.store, tenant).await;
        let installs = installs.map_err(|cause| internal(&cause))?;
        let install = installs
            .into_iter()
            .find(|it| format!("{}@{}", it.name, it.version) == *pack);
        let Some(install) = install else {
            return Ok(None);
        };
        let package = self.library.profile(&install.integrity).await;
        let package = package.map_err(|cause| internal(&cause))?;
        Ok(package.map(|package| (install.integrity, package)))
    }

    /// Stores a red team's probes as a blob: they are content and do not belong into the run's
    /// record.
    async fn keep_red_team(
        &self,
        request: &mut CreateRun,
        wanted: Option<&mut OasisRequest>,
        package: Option<&Package>,
    ) -> Result<(), Problem> {
        let Some(adversarial) = wanted.and_then(|oasis| oasis.adversarial.as_mut()) else {
            return Ok(());
        };
        let Some(text) = adversarial.red_team.take() else {
            return Ok(());
        };
        if let Some(Err(problems)) = package.map(|it| probes::read_red_team(it, &text)) {
            let first = problems.first().map(ToString::to_string);
            return Err(Problem::validation(
                "configurable.oasis.adversarial.redTeam",
                first.unwrap_or_else(|| "contains no probes".to_owned()),
            ));
        }
        let digest = integrity::of(text.as_bytes());
        let kept = pack_store::blobs::put(&self.store, &digest, text.as_bytes()).await;
        kept.map_err(|cause| internal(&cause))?;
        let place = request
            .options
            .configurable
            .get_mut(NAME)
            .and_then(|oasis| oasis.get_mut("adversarial"))
            .and_then(Value::as_object_mut);
        if let Some(members) = place {
            members.remove("redTeam");
            members.insert("redTeamDigest".to_owned(), Value::from(digest.clone()));
        }
        adversarial.red_team_digest = Some(digest);
        Ok(())
    }
}
