//! OASIS evaluations as a condition of promotions: which one counts, and which requirements it does
//! not meet.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::value::RawValue;

use crate::gate as oasis;
use crate::gate::{Evaluation, OasisPolicy, Unevaluated};
use crate::rules::request::OasisSpec;
use crate::rules::run::facts::OasisFacts;
use touchstone_deployments::described::Described;
use touchstone_deployments::promotion::Requirement;
use touchstone_deployments::service::gates::GateInput;
use touchstone_deployments::service::gates::condition::{Condition, Undescribed, complete, read};
use touchstone_host::service::fault::internal;
use touchstone_host::store::database::Database;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::RunId;
use touchstone_runs::rules::eval::attempts::Voided;
use touchstone_runs::service::runs::Runs;
use touchstone_runs::store as run_store;

/// Records read per page.
const RECORDS: u32 = 500;

/// Requires a safety PASS of an OASIS profile for the version.
pub struct OasisGate {
    store: Arc<Database>,
    runs: Arc<Runs>,
}

#[async_trait]
impl Condition for OasisGate {
    fn member(&self) -> &'static str {
        "oasis"
    }

    fn kind(&self) -> &'static str {
        "oasis"
    }

    fn complete(&self, value: &RawValue) -> Result<Box<RawValue>, Undescribed> {
        complete::<OasisPolicy>(value)
    }

    fn check(&self, value: &RawValue) -> Result<(), Problem> {
        read::<OasisPolicy>(value)?
            .check()
            .map_err(|fault| Problem::validation("policy", fault.to_string()))
    }

    fn describe(&self, value: &RawValue) -> Result<Vec<Described>, Problem> {
        Ok(oasis::described(&read::<OasisPolicy>(value)?))
    }

    async fn unmet(
        &self,
        value: &RawValue,
        input: &GateInput<'_>,
        now: Timestamp,
    ) -> Result<Vec<Requirement>, Problem> {
        let policy: OasisPolicy = read(value)?;
        let unmet = self.unevaluated(&policy, input, now).await?.into_iter();
        let named =
            unmet.map(|it| Requirement::new(self.kind(), it.condition.as_str(), it.message));
        Ok(named.collect())
    }
}

impl OasisGate {
    pub fn new(store: Arc<Database>, runs: Arc<Runs>) -> Self {
        Self { store, runs }
    }

    /// Every condition that the version's evaluation does not meet. The newest one by the profile
    /// counts, whatever its outcome: an older one would hide later findings.
    async fn unevaluated(
        &self,
        asked: &OasisPolicy,
        input: &GateInput<'_>,
        now: Timestamp,
    ) -> Result<Vec<Unevaluated>, Problem> {
        let version = input.version.to_string();
        let candidate = input.candidate(&version);
        let newest = run_store::runs::newest_of_profile(
            &self.store,
            input.tenant,
            input.agent,
            candidate.version,
            &asked.profile,
        );
        let newest = newest.await.map_err(|cause| internal(&cause))?;
        let mut unmet = match &newest {
            None => oasis::unmet(asked, candidate, None, now),
            Some(run) => {
                let unmet = self.runs.with_eval_state(input.tenant, run, |spec, state| {
                    oasis::unmet(asked, candidate, Evaluation::of(run, spec, state), now)
                });
                unmet.await?
            }
        };
        if let Some(newest) = &newest {
            let voided = run_store::attempts::voided(
                &self.store,
                input.tenant,
                input.agent,
                candidate.version,
            );
            let voided = voided.await.map_err(|cause| internal(&cause))?;
            unmet.extend(voided.get(newest).map(oasis::not_voided));
            let failed = self.failed(asked, input, candidate.version, newest, &voided);
            unmet.extend(oasis::failed_before(&failed.await?));
        }
        if let (Some(offered), Some(newest)) = (input.evidence, &newest)
            && offered != newest
            && self.is_by_profile(input, offered, &asked.profile).await?
        {
            unmet.push(oasis::superseded(newest));
        }
        Ok(unmet)
    }

    /// Other evaluations of the same agent, by the same profile and model, in which a safety
    /// scenario failed that the newest one executed, whatever their outcome; without those declared
    /// void.
    async fn failed(
        &self,
        asked: &OasisPolicy,
        input: &GateInput<'_>,
        version: &str,
        newest: &RunId,
        voided: &HashMap<RunId, Voided>,
    ) -> Result<Vec<RunId>, Problem> {
        let (tenant, agent) = (input.tenant, input.agent);
        let (mut records, mut after) = (Vec::new(), 0);
        loop {
            let page =
                run_store::attempts::eval_runs(&self.store, tenant, agent, version, after, RECORDS);
            let page = page.await.map_err(|cause| internal(&cause))?;
            let is_last = page.len() < RECORDS as usize;
            for (number, record) in page {
                after = number;
                if record
                    .spec
                    .eval()
                    .is_some_and(|eval| OasisSpec::is_in(eval))
                {
                    records.push(record);
                }
            }
            if is_last {
                break;
            }
        }
        let Some(named) = records.iter().find(|it| it.run_id == *newest) else {
            return Ok(Vec::new());
        };
        let executed = self.runs.with_eval_state(tenant, newest, |_, state| {
            oasis::executed(&OasisFacts::of(&state.eval))
        });
        let executed = executed.await?;
        let mut failed = Vec::new();
        for record in &records {
            let run = &record.run_id;
            if run == newest || voided.contains_key(run) || !oasis::is_attempt(named, record) {
                continue;
            }
            let has_failed = self.runs.with_eval_state(tenant, run, |_, state| {
                oasis::has_failed(asked, &OasisFacts::of(&state.eval), &executed)
            });
            if has_failed.await? {
                failed.push(run.clone());
            }
        }
        Ok(failed)
    }

    async fn is_by_profile(
        &self,
        input: &GateInput<'_>,
        run: &RunId,
        profile: &str,
    ) -> Result<bool, Problem> {
        let found = self.runs.with_eval_state(input.tenant, run, |spec, _| {
            let oasis = OasisSpec::of(spec);
            oasis.is_some_and(|oasis| oasis.request.profile == profile)
        });
        match found.await {
            Err(problem) if problem.code == ErrorCode::NotFound => Ok(false),
            found => found,
        }
    }
}
