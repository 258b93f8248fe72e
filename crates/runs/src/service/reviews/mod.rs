//! Human reviews: people label answers of a run one by one, without seeing what the judge decided.
//! Complete labels show how far people agree, and calibrate the judge.

mod samples;
pub mod score_review;

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use crate::ports::reviews::{Labelled, ListedReview};
use crate::rules::eval::report::outcome_of;
use crate::rules::eval::rubric::calibration::MIN_SAMPLES;
use crate::rules::review::agreement::{ReviewAgreement, agreement, complete};
use crate::rules::review::blind::BlindItem;
use crate::rules::review::request::{NewLabel, NewReview};
use crate::rules::review::turn::{Turn, turn};
use crate::rules::review::{CLAIM, Label, Review, ReviewClaim, ReviewItem};
use crate::service::reviews::score_review::ScoreReview;
use crate::service::runs::Runs;
use crate::store;
pub use samples::ReviewSamples;
use touchstone_host::access::Scope;
use touchstone_host::audit::{Decision, Outcome};
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::idempotency::{IdempotencyClaim, IdempotencyCompletion};
use touchstone_host::ports::ids::Ids;
use touchstone_host::service::access::{Caller, authorise};
use touchstone_host::service::fault::internal;
use touchstone_host::store::database::Database;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::TenantId;

/// Attempts to open an answer while others open answers too.
const ATTEMPTS: usize = 5;

const NOT_BY_AGENTS: &str = "an agent's own key cannot take part in human reviews, which check \
    the scores of agents; use another principal's key";

/// A queue with the state of its labels.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewState {
    #[serde(flatten)]
    pub review: Review,
    /// Number of labels so far.
    pub labels: usize,
    /// On answers with all labels.
    pub agreement: ReviewAgreement,
    pub calibration: Readiness,
    #[serde(skip)]
    pub items: Vec<ReviewItem>,
}

impl ReviewState {
    /// Whether every answer has all labels.
    pub fn is_complete(&self) -> bool {
        self.labels >= self.review.needed()
    }

    /// Whether nothing more can be labelled.
    pub fn has_ended(&self) -> bool {
        self.is_complete() || self.review.closed_at.is_some()
    }
}

/// How many labelled answers a calibration can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Readiness {
    /// Answers with all labels, of tasks that a judge decides.
    pub usable: usize,
    /// Answers with all labels that no judge decides.
    pub not_judged: usize,
    /// The number that a reliable calibration needs.
    pub needed: usize,
}

pub struct Reviews {
    runs: Arc<Runs>,
    scores: Arc<dyn ScoreReview>,
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl Reviews {
    pub fn new(
        runs: Arc<Runs>,
        scores: Arc<dyn ScoreReview>,
        store: Arc<Database>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Self {
        Self {
            runs,
            scores,
            store,
            clock,
            ids,
        }
    }

    /// Creates a queue from a run that has ended.
    ///
    /// # Errors
    /// `not_found` for the run; `conflict` if it has not ended; `validation_error` if no answer can
    /// be chosen; `forbidden` for an agent's own key.
    pub async fn create(
        &self,
        caller: &Caller,
        new: NewReview,
        claim: Option<&IdempotencyClaim>,
    ) -> Result<Review, Problem> {
        let (_, eval) = self.runs.eval_record(&caller.tenant, &new.run).await?;
        self.scores.refuse_own(caller, NOT_BY_AGENTS).await?;
        let read = self
            .runs
            .with_state(&new.run, |state| {
                let tasks = eval.tasks.iter();
                let scored = tasks.filter_map(|id| {
                    let outcome = outcome_of(&*state.eval.scored(&id)?);
                    Some((id, outcome))
                });
                state.status.is_terminal().then(|| scored.collect())
            })
            .await?;
        let tasks = read.ok_or_else(|| {
            Problem::new(
                ErrorCode::Conflict,
                "the run has not ended; create the review once it has",
            )
        })?;
        let chosen = new.choose(tasks)?;
        let review = Review {
            review_id: self.ids.mint("review"),
            run_id: new.run,
            suite: format!("{}@{}", eval.suite_id, eval.suite_version),
            outcome: new.outcome,
            sample: new.sample,
            seed: new.seed,
            labellers: new.labellers,
            steps: new.steps,
            items: chosen.len(),
            created_by: caller.principal.clone(),
            created_at: self.clock.now(),
            closed_at: None,
        };
        let decision = decision(caller, "reviews:create", &review, review.created_at);
        let completes = completion(claim, 201, &review)?;
        store::reviews::create(
            &self.store,
            &caller.tenant,
            &review,
            &chosen,
            &decision,
            completes.as_ref(),
        )
        .await
        .map_err(|cause| internal(&cause))?;
        Ok(review)
    }

    /// The queues of a tenant, newest first, below number `before`.
    ///
    /// # Errors
    /// The store failed.
    pub async fn list(
        &self,
        tenant: &TenantId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<ListedReview>, Problem> {
        let found = store::reviews::list(&self.store, tenant, before, limit).await;
        found.map_err(|cause| internal(&cause))
    }

    /// A queue with its labels.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn show(&self, tenant: &TenantId, id: &str) -> Result<ReviewState, Problem> {
        let review = self.find(tenant, id).await?;
        let items = self.items(id).await?;
        let judged = self.runs.judged_tasks(tenant, &review.run_id).await?;
        let (usable, other): (Vec<_>, Vec<_>) =
            complete(&review, &items).partition(|it| judged.contains(&it.task));
        Ok(ReviewState {
            labels: items.iter().map(|it| it.labels.len()).sum(),
            agreement: agreement(&review, &items),
            calibration: Readiness {
                usable: usable.len(),
                not_judged: other.len(),
                needed: MIN_SAMPLES,
            },
            review,
            items,
        })
    }

    /// Opens the next answer for the caller, after number `after`, and keeps it from others for a
    /// while.
    ///
    /// # Errors
    /// `not_found`; `conflict` for a closed queue; `forbidden` for an agent's own key.
    pub async fn next(&self, caller: &Caller, id: &str, after: u32) -> Result<Turn, Problem> {
        let review = self.open(caller, id).await?;
        for _ in 0..ATTEMPTS {
            let items = self.items(id).await?;
            let now = self.clock.now();
            let who = caller.principal.as_str();
            let next = turn(&items, who, review.labellers, now, after);
            let Turn::Item(number) = next else {
                return Ok(next);
            };
            if self.claim(caller, &review, number, now).await? {
                return Ok(next);
            }
        }
        Ok(Turn::Waiting)
    }

    async fn claim(
        &self,
        caller: &Caller,
        review: &Review,
        number: u32,
        now: Timestamp,
    ) -> Result<bool, Problem> {
        let claim = ReviewClaim {
            principal: caller.principal.clone(),
            until: now.saturating_add(CLAIM).unwrap_or(now),
        };
        let tenant = &caller.tenant;
        let claimed = store::reviews::claim(&self.store, tenant, review, number, &claim, now).await;
        claimed.map_err(|cause| internal(&cause))
    }

    /// An answer to label, with its content. The read is in the audit log.
    ///
    /// # Errors
    /// `not_found`; `conflict` for a closed queue, an answer with all labels, and one that others
    /// have opened; `forbidden` without the right to read content and for an agent's own key.
    pub async fn item(&self, caller: &Caller, id: &str, number: u32) -> Result<BlindItem, Problem> {
        let review = self.open(caller, id).await?;
        let items = self.items(id).await?;
        let item = items.into_iter().find(|it| it.number == number);
        let item = item.ok_or_else(no_such_item)?;
        if item.is_complete(review.labellers) {
            return Err(is_complete());
        }
        let now = self.clock.now();
        if !self.claim(caller, &review, number, now).await? {
            return Err(Problem::new(
                ErrorCode::Conflict,
                "other people label this answer at the moment; ask for the next one",
            ));
        }
        let details = self.runs.task(caller, &review.run_id, &item.task).await?;
        Ok(BlindItem::of(&review, &item, &caller.principal, details))
    }

    /// Whether the labels of an answer can still change.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn is_open(&self, tenant: &TenantId, id: &str, number: u32) -> Result<bool, Problem> {
        let review = self.find(tenant, id).await?;
        let items = self.items(id).await?;
        let item = items.iter().find(|it| it.number == number);
        Ok(review.closed_at.is_none() && item.is_some_and(|it| !it.is_complete(review.labellers)))
    }

    /// Leaves an answer to others.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn skip(&self, caller: &Caller, id: &str, number: u32) -> Result<(), Problem> {
        self.find(&caller.tenant, id).await?;
        let released = store::reviews::release(&self.store, id, number, &caller.principal).await;
        released.map_err(|cause| internal(&cause))
    }

    /// Records the caller's label of an answer, or changes it.
    ///
    /// # Errors
    /// `not_found`; `validation_error` for a choice outside of the scale; `conflict` for a closed
    /// queue and an answer with all labels; `forbidden` for an agent's own key.
    pub async fn label(
        &self,
        caller: &Caller,
        id: &str,
        number: u32,
        new: NewLabel,
        claim: Option<&IdempotencyClaim>,
    ) -> Result<Label, Problem> {
        let review = self.find(&caller.tenant, id).await?;
        self.scores.refuse_own(caller, NOT_BY_AGENTS).await?;
        new.check(&review)?;
        let label = Label {
            principal: caller.principal.clone(),
            choice: new.choice,
            note: new.note,
            at: self.clock.now(),
        };
        let mut decision = decision(caller, "reviews:label", &review, label.at);
        // Not the choice: people who read the audit log may label too.
        decision.reasons = vec![format!("answer {number}")];
        let completes = completion(claim, 200, &label)?;
        let labelled = store::reviews::label(
            &self.store,
            &caller.tenant,
            &review,
            number,
            &label,
            &decision,
            completes.as_ref(),
        )
        .await
        .map_err(|cause| internal(&cause))?;
        match labelled {
            Labelled::Recorded => Ok(label),
            Labelled::Complete => Err(is_complete()),
            Labelled::Closed => Err(is_closed()),
            Labelled::Missing => Err(no_such_item()),
        }
    }

    /// Ends labelling. Answers that lack labels do not count.
    ///
    /// # Errors
    /// `not_found`; `conflict` for a closed queue; `forbidden` for an agent's own key.
    pub async fn close(
        &self,
        caller: &Caller,
        id: &str,
        claim: Option<&IdempotencyClaim>,
    ) -> Result<Review, Problem> {
        let mut review = self.find(&caller.tenant, id).await?;
        self.scores.refuse_own(caller, NOT_BY_AGENTS).await?;
        let now = self.clock.now();
        review.closed_at.get_or_insert(now);
        let decision = decision(caller, "reviews:close", &review, now);
        let completes = completion(claim, 200, &review)?;
        let closed = store::reviews::close(
            &self.store,
            &caller.tenant,
            id,
            &decision,
            completes.as_ref(),
        )
        .await
        .map_err(|cause| internal(&cause))?;
        match closed {
            true => Ok(review),
            false => Err(is_closed()),
        }
    }

    /// A queue that the caller may label.
    async fn open(&self, caller: &Caller, id: &str) -> Result<Review, Problem> {
        let review = self.find(&caller.tenant, id).await?;
        authorise(caller, Scope::RunsContent)?;
        self.scores.refuse_own(caller, NOT_BY_AGENTS).await?;
        match review.closed_at {
            None => Ok(review),
            Some(_) => Err(is_closed()),
        }
    }

    async fn find(&self, tenant: &TenantId, id: &str) -> Result<Review, Problem> {
        let found = store::reviews::find(&self.store, tenant, id).await;
        found
            .map_err(|cause| internal(&cause))?
            .ok_or_else(|| Problem::new(ErrorCode::NotFound, "no such review"))
    }

    async fn items(&self, id: &str) -> Result<Vec<ReviewItem>, Problem> {
        let found = store::reviews::items(&self.store, id).await;
        found.map_err(|cause| internal(&cause))
    }
}

fn decision(caller: &Caller, action: &str, review: &Review, at: Timestamp) -> Decision {
    Decision {
        at,
        principal: caller.principal.clone(),
        action: action.to_owned(),
        resource: review.review_id.clone(),
        outcome: Outcome::Done,
        reasons: Vec::new(),
        decided_on: None,
        run_id: Some(review.run_id.clone()),
    }
}

fn completion(
    claim: Option<&IdempotencyClaim>,
    status: u16,
    body: &impl Serialize,
) -> Result<Option<IdempotencyCompletion>, Problem> {
    let Some(claim) = claim else {
        return Ok(None);
    };
    let body = serde_json::to_vec(body).map_err(|cause| internal(&cause))?;
    Ok(Some(IdempotencyCompletion {
        claim: claim.clone(),
        status,
        body: body.into(),
    }))
}

fn no_such_item() -> Problem {
    Problem::new(ErrorCode::NotFound, "the review has no such answer")
}

fn is_closed() -> Problem {
    Problem::new(ErrorCode::Conflict, "this review is closed")
}

fn is_complete() -> Problem {
    Problem::new(
        ErrorCode::Conflict,
        "this answer has all its labels, which no longer change; ask for the next one",
    )
}
