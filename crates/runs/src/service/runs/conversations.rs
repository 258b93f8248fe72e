//! The simulated users of runs, and the files that are sent with inputs.

use crate::rules::run::record::{RunSpec, UserPin};
use crate::rules::run::request::conversation::{UserFacts, no_pack, plan_files, plan_user};
use crate::service::runs::Runs;
use crate::service::runs::plan::FoundBaseline;
use touchstone_agents::ports::model::ModelBinding;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::TenantId;
use touchstone_packs::ports::inventory::SuiteRecord;
use touchstone_packs::store as pack_store;

impl Runs {
    /// Checks the conversations and files of a planned run, and pins what plays their users and the
    /// `pack` of the suite, if it has files.
    ///
    /// # Errors
    /// `validation_error` if a conversation cannot be held or a file not be sent.
    pub(super) async fn plan_conversations(
        &self,
        spec: &mut RunSpec,
        baseline: Option<&FoundBaseline>,
        pack: Option<&str>,
    ) -> Result<(), Problem> {
        let Some(eval) = spec.eval_mut() else {
            return Ok(());
        };
        let Some(digest) = &eval.scoring_digest else {
            return Ok(());
        };
        let scoring = self.library.scoring(digest).await;
        let scoring = scoring.map_err(|cause| internal(&cause))?;
        let user = self.models.simulated_user();
        eval.simulated_user = plan_user(eval, &scoring, user.as_ref().map(facts).as_ref())?;
        eval.attachments_pack = match plan_files(eval, &scoring)? {
            true => Some(pack.ok_or_else(no_pack)?.to_owned()),
            false => None,
        };
        let of_baseline = baseline.map(|found| &found.eval().simulated_user);
        // Answers to different users are not comparable.
        if of_baseline.is_some_and(|user| *user != eval.simulated_user) {
            let run = eval.baseline.as_ref();
            let run = run.map(|it| it.run_id.as_str()).unwrap_or_default();
            return Err(Problem::validation(
                "configurable.baselineRunId",
                format!(
                    "run {run} cannot be the baseline: another model played its users; choose \
                     another run, or none"
                ),
            ));
        }
        Ok(())
    }

    /// The digest of the pack that a suite came with.
    pub(super) async fn pack_of(
        &self,
        tenant: &TenantId,
        suite: Option<&SuiteRecord>,
    ) -> Result<Option<String>, Problem> {
        let Some(pack) = suite.and_then(|suite| suite.pack.as_deref()) else {
            return Ok(None);
        };
        let installs = pack_store::inventory::installs(&self.store, tenant).await;
        let installs = installs.map_err(|cause| internal(&cause))?;
        let of_suite = installs
            .into_iter()
            .find(|it| format!("{}@{}", it.name, it.version) == pack);
        Ok(of_suite.map(|install| install.integrity))
    }

    /// What would play the users of a run now.
    pub(super) fn playing_model(&self) -> (Option<ModelBinding>, Option<UserPin>) {
        let model = self.models.simulated_user();
        let pin = model.as_ref().map(|model| UserPin::of(&model.pin()));
        (model, pin)
    }
}

fn facts(model: &ModelBinding) -> UserFacts {
    UserFacts {
        model: model.pin(),
        is_priced: model.model.info().price.is_some(),
    }
}
