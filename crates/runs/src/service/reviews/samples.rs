//! Labelled answers as samples of a judge calibration.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::{NOT_BY_AGENTS, ReviewState, Reviews};
use crate::rules::eval::rubric::attempt::Attempt;
use crate::rules::eval::rubric::calibration::Sample;
use crate::rules::eval::suite_rules::{NotASuiteRef, SuiteRef};
use crate::rules::review::ReviewItem;
use crate::rules::review::agreement::complete;
use crate::rules::review::blind::sample;
use crate::service::runs::Comparison;
use touchstone_host::access::Scope;
use touchstone_host::service::access::{Caller, authorise};
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::TaskId;

/// Labelled answers as samples of a calibration.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewSamples {
    pub suite: String,
    pub samples: Vec<Sample>,
}

impl Reviews {
    /// The answers with all labels, of tasks that a judge decides, as samples of a calibration. The
    /// read is in the audit log.
    ///
    /// # Errors
    /// `not_found`; `conflict` for a queue that people still label; `forbidden` for an agent's own
    /// key.
    pub async fn samples(&self, caller: &Caller, id: &str) -> Result<ReviewSamples, Problem> {
        let state = self.show(&caller.tenant, id).await?;
        self.scores.refuse_own(caller, NOT_BY_AGENTS).await?;
        authorise(caller, Scope::RunsContent)?;
        if !state.has_ended() {
            return Err(Problem::new(
                ErrorCode::Conflict,
                "people still label answers of this review; wait for the last label, or close it",
            ));
        }
        let ReviewState { review, items, .. } = state;
        let run = &review.run_id;
        let judged = self.runs.judged_tasks(&caller.tenant, run).await?;
        let items: HashMap<&TaskId, &ReviewItem> = complete(&review, &items)
            .filter(|it| judged.contains(&it.task))
            .map(|it| (&it.task, it))
            .collect();
        let tasks: HashSet<TaskId> = items.keys().map(|it| (*it).clone()).collect();
        let details = match tasks.is_empty() {
            true => Vec::new(),
            false => self.runs.answers(caller, run, &tasks).await?,
        };
        let samples = details.into_iter().filter_map(|it| {
            let item = items.get(&it.task_id)?;
            sample(&review, item, it)
        });
        Ok(ReviewSamples {
            samples: samples.collect(),
            suite: review.suite,
        })
    }

    /// Calibrates the judge of the suite with the labels.
    ///
    /// # Errors
    /// As [`Self::samples`] and [`Runs::calibrate`].
    pub async fn calibrate(
        &self,
        caller: &Caller,
        id: &str,
        allow_few: bool,
    ) -> Result<Attempt, Problem> {
        let ReviewSamples { suite, samples } = self.samples(caller, id).await?;
        let suite: SuiteRef = suite
            .parse()
            .map_err(|fault: NotASuiteRef| internal(&fault))?;
        let request = Comparison {
            suite,
            samples,
            allow_few,
            max_cost: None,
        };
        self.runs.calibrate(caller, request, None).await
    }
}
