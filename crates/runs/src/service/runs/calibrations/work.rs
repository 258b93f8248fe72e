//! Executing a calibration attempt: samples are judged concurrently within the cost limit, the
//! progress is recorded every few seconds, and the end is recorded whatever it is.
//!
//! Samples are content and are not stored, so an attempt interrupted by the end of its process is
//! not resumed: its lease expires, and it is shown as failed with its cost.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, warn};

use crate::rules::eval::judged::exhibit::Exhibit;
use crate::rules::eval::judged::parts::JudgedParts;
use crate::rules::eval::rubric::attempt::Attempt;
use crate::rules::eval::rubric::calibration::{Calibration, Sample, compare, pair};
use crate::rules::eval::rubric::score;
use crate::rules::eval::rubric::votes::{RubricVote, tally};
use crate::rules::eval::scoring_document::{Check, ScoringDocument};
use crate::rules::eval::tally::MeanScore;
use crate::service::examination::Examination;
use crate::service::reserving::reserve;
use crate::service::runs::calibrations::unusable;
use crate::store;
use touchstone_agents::budget::{Budget, Estimate, Limits, Spending};
use touchstone_agents::judge::judge;
use touchstone_agents::ports::agent::{EventSink, Exhausted, Meter, Unrecorded};
use touchstone_agents::ports::judge::{JudgeRequest, Judgement};
use touchstone_agents::ports::model::ModelBinding;
use touchstone_agents::rules::BUDGET_EXHAUSTED;
use touchstone_host::audit::{Decision, Outcome};
use touchstone_host::background::supervised;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::{chain, note_outage};
use touchstone_host::service::lease::{Lease, LeaseTerm};
use touchstone_host::store::database::Database;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{EventId, RunId};
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::events::Event;
use touchstone_openwop::suite::{AgentEvalSuite, Criterion, Task};

/// How long an attempt counts as in progress without a heartbeat.
pub(super) const LEASE: Duration = Duration::from_secs(60);
/// Interval between heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// Samples in progress at once. The endpoint's permits limit the concurrent calls.
const CONCURRENCY: usize = 64;
/// Interval between two checks whether an outage of the database is over.
const OUTAGE_POLL: Duration = Duration::from_millis(500);
/// How often recording the end is tried, well within the lease.
const MAX_ATTEMPTS: u32 = 5;

/// The attempts in progress in this process.
#[derive(Debug, Default)]
pub struct Attempts {
    tracker: TaskTracker,
    stopping: CancellationToken,
}

impl Attempts {
    /// Executes an attempt in the background.
    pub(super) fn execute(&self, work: Work) {
        let stopping = self.stopping.clone();
        let working = supervised("calibration", work.execute(stopping));
        self.tracker.spawn(working.in_current_span());
    }

    /// Stops all attempts, and waits until that is recorded.
    pub(super) async fn stop(&self) {
        self.stopping.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// The score of one assertion.
async fn decide(
    about: Examination<'_>,
    place: &str,
    check: &Check,
    sample: &Sample,
) -> Result<f64, String> {
    let decided = match (check, &sample.baseline) {
        (Check::PreferredToBaseline(it), Some(baseline)) => {
            about.preferred(place, it, baseline).await?
        }
        _ => about.decide(place, check).await?,
    };
    Ok(decided.score)
}

/// An attempt and its dependencies.
pub(super) struct Work {
    pub(super) store: Arc<Database>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) models: Vec<ModelBinding>,
    pub(super) caller: Caller,
    pub(super) document: Arc<AgentEvalSuite>,
    pub(super) scoring: Option<Arc<ScoringDocument>>,
    pub(super) samples: Vec<Sample>,
    pub(super) allow_few: bool,
    pub(super) attempt: Attempt,
    /// [`Clock::uptime`] when its lease was requested.
    pub(super) leased_at: Duration,
}

impl Work {
    async fn execute(mut self, stopping: CancellationToken) {
        let account = Account::new(&self);
        let outcome = tokio::select! {
            outcome = self.compare(&account) => outcome,
            () = stopping.cancelled() => Err(interrupted()),
            cause = self.beat(&account) => {
                warn!(cause = chain(&cause), "a calibration is abandoned: its lease is lost");
                return;
            }
        };
        account.copy_to(&mut self.attempt);
        self.attempt.end(outcome, self.clock.now());
        if let Err(cause) = self.record_end().await {
            warn!(
                cause = chain(&cause),
                "could not record the end of a calibration"
            );
        }
    }

    /// Judges every sample. If one gets no verdict, those in progress are awaited all the same:
    /// they are paid for.
    async fn compare(&self, account: &Account) -> Result<Calibration, Problem> {
        let scoring = self.scoring.as_deref();
        let paired = pair(&self.document, scoring, &self.samples, self.allow_few);
        let paired = paired.map_err(unusable)?;
        let failed = AtomicBool::new(false);
        // Collected before they start: the compiler cannot see that a closure held meanwhile works
        // for every lifetime.
        let judging: Vec<_> = paired
            .iter()
            .enumerate()
            .map(|(place, pair)| self.judge_unless_failed(place, *pair, account, &failed))
            .collect();
        let judging = stream::iter(judging).buffered(CONCURRENCY);
        let judged: Vec<Option<Result<_, Problem>>> = judging.collect().await;
        let scored: Result<Vec<(&Sample, f64)>, Problem> = judged.into_iter().flatten().collect();
        let judge = self.attempt.judge.clone();
        let now = self.clock.now();
        compare(judge, &self.document, &scored?, account.spent(), now).map_err(unusable)
    }

    /// `None` once another sample got no verdict: no further calls are paid for in vain.
    async fn judge_unless_failed<'a>(
        &self,
        place: usize,
        (sample, task): (&'a Sample, &Task),
        account: &Account,
        failed: &AtomicBool,
    ) -> Option<Result<(&'a Sample, f64), Problem>> {
        if failed.load(Ordering::Relaxed) {
            return None;
        }
        let judged = self.judge_sample(place, sample, task, account).await;
        match judged {
            Ok(_) => {
                account.judged.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => failed.store(true, Ordering::Relaxed),
        }
        Some(judged.map(|score| (sample, score)))
    }

    async fn judge_sample(
        &self,
        place: usize,
        sample: &Sample,
        task: &Task,
        account: &Account,
    ) -> Result<f64, Problem> {
        let parts = JudgedParts::of(task, self.scoring.as_deref());
        // Samples of one task are separate runs: an endpoint must not take the second one for a
        // repetition of the first.
        let run = RunId::from(format!("{}/{place}", self.attempt.calibration_id));
        let judged = async {
            let rubric = match parts.rubric {
                [] => None,
                rubric => Some(
                    self.judge_rubric(&run, sample, task, rubric, account)
                        .await?,
                ),
            };
            let mut assertions = Vec::with_capacity(parts.assertions.len());
            for (place, assertion) in &parts.assertions {
                let check = &assertion.check;
                let asked = self.models.iter();
                let asked = asked.map(|model| {
                    let about = self.examination(&run, sample, task, model, account);
                    decide(about, place, check, sample)
                });
                let scores = join_all(asked).await.into_iter();
                let scores: Vec<f64> = scores.collect::<Result<_, String>>()?;
                assertions.push(scores.into_iter().collect::<MeanScore>().value());
            }
            Ok::<_, String>(parts.score(rubric, &assertions))
        };
        judged.await.map_err(|reason| self.unjudged(sample, reason))
    }

    /// The score of a rubric; several judges decide by majority.
    async fn judge_rubric(
        &self,
        run: &RunId,
        sample: &Sample,
        task: &Task,
        rubric: &[Criterion],
        account: &Account,
    ) -> Result<f64, String> {
        let asked = self.models.iter().map(|model| {
            let exhibition = JudgeRequest {
                tenant: &self.caller.tenant,
                run,
                task: &task.task_id,
                input: &task.input,
                output: &sample.output,
                rubric,
                model,
            };
            judge(exhibition, account, account)
        });
        let vote = |judgement: Judgement| match judgement {
            Judgement::Judged { verdicts } => Ok(RubricVote {
                judge: String::new(),
                verdicts,
            }),
            Judgement::Unjudged { reason } => Err(reason),
        };
        let votes = join_all(asked).await.into_iter().map(vote);
        let votes: Vec<RubricVote> = votes.collect::<Result<_, String>>()?;
        Ok(score(rubric, &tally(votes).met))
    }

    fn examination<'a>(
        &'a self,
        run: &'a RunId,
        sample: &'a Sample,
        task: &'a Task,
        model: &'a ModelBinding,
        account: &'a Account,
    ) -> Examination<'a> {
        Examination {
            tenant: &self.caller.tenant,
            run,
            task: &task.task_id,
            exhibit: Exhibit {
                input: &task.input,
                answer: &sample.output,
            },
            input: &task.input,
            returned: sample.tool_results.as_deref().unwrap_or_default(),
            model,
            meter: account,
            sink: account,
        }
    }

    /// Why a calibration without a verdict on this sample ends.
    fn unjudged(&self, sample: &Sample, reason: String) -> Problem {
        if reason == BUDGET_EXHAUSTED {
            return Problem::new(
                ErrorCode::Conflict,
                format!(
                    "the cost limit of {:.2} USD (`maxCostUsd`) was reached before every sample \
                     was judged; raise it, or send fewer samples",
                    self.attempt.max_cost_usd.usd()
                ),
            )
            .with("field", "maxCostUsd")
            .with("reason", reason);
        }
        Problem::new(
            ErrorCode::Conflict,
            "the judge gave no verdict on a sample, so its agreement cannot be computed; try again",
        )
        .with("item", sample.item.as_str())
        .with("reason", reason)
    }

    /// Records the progress until the lease is lost.
    async fn beat(&self, account: &Account) -> StoreError {
        let mut attempt = self.attempt.clone();
        loop {
            sleep(HEARTBEAT).await;
            account.copy_to(&mut attempt);
            let asked_at = self.clock.uptime();
            let renewed = store::calibrations::renew_attempt(
                &self.store,
                &self.caller.tenant,
                &attempt,
                LEASE,
            )
            .await;
            match renewed {
                Err(fenced @ StoreError::Fenced) => return fenced,
                Err(cause) => {
                    note_outage(self.store.as_ref(), &cause);
                    warn!(
                        cause = chain(&cause),
                        "could not renew a calibration's lease"
                    );
                }
                Ok(()) => account.term.renew(asked_at, LEASE),
            }
        }
    }

    /// A short outage of the store must not waste paid work.
    async fn record_end(&self) -> Result<(), StoreError> {
        let decision = self.decision();
        let mut attempt_number = 1;
        loop {
            let ended = store::calibrations::end_attempt(
                &self.store,
                &self.caller.tenant,
                &self.attempt,
                &decision,
            )
            .await;
            match ended {
                Err(StoreError::Unavailable(_)) if attempt_number < MAX_ATTEMPTS => {}
                ended => return ended,
            }
            sleep(HEARTBEAT * attempt_number).await;
            attempt_number += 1;
        }
    }

    fn decision(&self) -> Decision {
        let attempt = &self.attempt;
        let (outcome, found) = match (&attempt.calibration, &attempt.failure) {
            (Some(found), _) => (Outcome::Done, format!("spearman {:.6}", found.spearman)),
            (None, failure) => {
                let failure = failure.as_ref();
                let code = failure.map_or("internal_error", |failure| &failure.error);
                let reason = failure
                    .and_then(|failure| failure.details.as_ref()?.get("reason")?.as_str())
                    .map_or_else(String::new, |reason| format!(" ({reason})"));
                (Outcome::Refused, format!("{code}{reason}"))
            }
        };
        let cost = attempt.cost_usd.map_or_else(
            || "cost unknown".to_owned(),
            |cost| format!("cost {:.6} USD", cost.usd()),
        );
        Decision {
            at: attempt.ended_at.unwrap_or(attempt.started_at),
            principal: self.caller.principal.clone(),
            action: "judge:calibrate".to_owned(),
            resource: attempt.judge.identity.clone(),
            outcome,
            reasons: vec![found, cost],
            decided_on: None,
            run_id: None,
        }
    }
}

/// The error of an attempt whose process has ended.
pub(super) fn interrupted() -> Problem {
    Problem::new(
        ErrorCode::Unavailable,
        "the host stopped before every sample was judged; calibrate again",
    )
}

/// Costs outside of any run. No events are recorded: samples are content.
struct Account {
    budget: Mutex<Budget>,
    is_priced: bool,
    settled: Notify,
    judged: AtomicUsize,
    store: Arc<Database>,
    term: LeaseTerm,
    lease: Lease,
}

impl Account {
    fn new(work: &Work) -> Self {
        let limits = Limits {
            max_cost: Some(work.attempt.max_cost_usd),
            ..Limits::default()
        };
        let term = LeaseTerm::new(work.leased_at, LEASE);
        Self {
            budget: Mutex::new(Budget::new(limits, Spending::default())),
            is_priced: work.models.iter().all(|it| it.model.info().price.is_some()),
            settled: Notify::new(),
            judged: AtomicUsize::new(0),
            store: work.store.clone(),
            lease: term.lease(work.clock.clone()),
            term,
        }
    }

    fn budget(&self) -> MutexGuard<'_, Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` if the price is unknown.
    fn spent(&self) -> Option<NanoUsd> {
        self.is_priced.then(|| self.budget().spent().cost)
    }

    fn copy_to(&self, attempt: &mut Attempt) {
        attempt.judged = self.judged.load(Ordering::Relaxed);
        attempt.cost_usd = self.spent();
    }
}

#[async_trait]
impl Meter for Account {
    async fn reserve(&self, estimate: Estimate) -> Result<(), Exhausted> {
        reserve(&self.settled, || self.budget().reserve(estimate)).await
    }

    fn settle(&self, estimate: Estimate, used: Estimate) {
        self.budget().settle(estimate, used);
        self.settled.notify_waiters();
    }

    async fn call_tool(&self) -> Result<(), Exhausted> {
        self.budget().call_tool().map_err(|_| Exhausted)
    }

    async fn retry(&self) -> Result<(), Exhausted> {
        self.budget().retry().map_err(|_| Exhausted)
    }
}

#[async_trait]
impl EventSink for Account {
    fn emit(&self, _: Event, _: Option<&EventId>) -> EventId {
        EventId::from("evt_calibration")
    }

    async fn kept(&self) -> Result<(), Unrecorded> {
        Ok(())
    }

    async fn may_call(&self) -> Result<(), Unrecorded> {
        loop {
            while !self.store.takes_writes().await {
                sleep(OUTAGE_POLL).await;
            }
            if self.lease.holds() {
                return Ok(());
            }
            // The renewal either succeeds or abandons the attempt.
            self.lease.held().await;
        }
    }
}
