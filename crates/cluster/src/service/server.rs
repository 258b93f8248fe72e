//! The requests of workers to this replica.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use touchstone_host::background::supervised;
use tracing::{debug, warn};

use crate::ports::bus::Request;
use crate::rules::subjects::Operation;
use crate::rules::wire::{
    self, Answer, Ask, Beat, Beaten, Claim, ClaimOrPart, Claimed, Facts, FetchPart, Held, Message,
    Received, Unreadable, Verdict, WorkerId,
};
use crate::service::owner::Owner;

/// How long a request may wait for the task that it is about. A worker waits longer, so that it
/// gets the answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3);
/// The same for heartbeats, which come each second.
const BEATEN_WITHIN: Duration = Duration::from_millis(700);
/// Pause after a fault of the bus.
const AFTER_FAULT: Duration = Duration::from_secs(1);
/// Most requests that are answered at the same time. Others wait.
const MAX_REQUESTS: usize = 1_024;
/// The same for questions, which wait for budgets and endpoints and must not hold up heartbeats.
const MAX_QUESTIONS: usize = 16_384;

/// A request to the owner of one task.
pub(super) enum Command {
    Claim(Claim, oneshot::Sender<Claimed>),
    Part(FetchPart, oneshot::Sender<Claimed>),
    Facts(Facts, oneshot::Sender<Received>),
    Ask(Ask, oneshot::Sender<Answer>),
    Beat(WorkerId, Held, oneshot::Sender<Verdict>),
}

/// The sender of a message is not the one that the message names.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("the message names another worker than its address")]
    OtherWorker,
}

/// Answers requests until `stop` is cancelled.
pub(super) async fn serve(owner: &Arc<Owner>, stop: &CancellationToken) {
    while !stop.is_cancelled() {
        match owner.bus.serve(&owner.replica).await {
            Ok(requests) => tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = answer_all(owner, requests) => {}
            },
            Err(cause) => warn!(%cause, "workers cannot reach this host"),
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(AFTER_FAULT) => {}
        }
    }
}

async fn answer_all(owner: &Arc<Owner>, mut requests: mpsc::Receiver<Request>) {
    let (mut answering, mut questions) = (JoinSet::new(), JoinSet::new());
    loop {
        let has_room = answering.len() < MAX_REQUESTS && questions.len() < MAX_QUESTIONS;
        tokio::select! {
            biased;
            Some(_) = answering.join_next(), if !answering.is_empty() => {}
            Some(_) = questions.join_next(), if !questions.is_empty() => {}
            request = requests.recv(), if has_room => {
                let Some(request) = request else { return };
                let of_kind = match request.address.operation {
                    Operation::Meter => &mut questions,
                    Operation::Claim | Operation::Facts | Operation::Beat => &mut answering,
                };
                let owner = Arc::clone(owner);
                let answered = async move { answer(&owner, request).await };
                of_kind.spawn(supervised("cluster request", answered).map(drop));
            }
        }
    }
}

async fn answer(owner: &Owner, request: Request) {
    let Request {
        address,
        message,
        reply,
    } = request;
    let worker = address.worker.as_str();
    owner.contact().heard_worker();
    let answered = match address.operation {
        Operation::Claim => claim(owner, worker, message).await,
        Operation::Facts => facts(owner, worker, message).await,
        Operation::Meter => ask(owner, worker, message).await,
        Operation::Beat => beat(owner, worker, message).await,
    };
    match answered {
        // A worker that has gone does not wait for its answer.
        Ok(Some(answer)) => {
            let _ = reply.send(answer);
        }
        Ok(None) => {}
        Err(cause) => debug!(worker, %cause, "a request of a worker was refused"),
    }
}

/// Drops the message, which may be large, before the answer is waited for.
fn read<M: Message>(message: Bytes) -> Result<M, Refused> {
    Ok(wire::read(&message)?)
}

fn check_sender(worker: &str, named: &WorkerId) -> Result<(), Refused> {
    match named.worker == worker {
        true => Ok(()),
        false => Err(Refused::OtherWorker),
    }
}

/// The answer of a task's owner: `gone` if there is no such task, none if it takes too long.
async fn of_task<A>(
    owner: &Owner,
    offer: &str,
    gone: A,
    within: Duration,
    command: impl FnOnce(oneshot::Sender<A>) -> Command,
) -> Option<A> {
    let Some(task) = owner.task(offer) else {
        return Some(gone);
    };
    let (reply, answer) = oneshot::channel();
    let asked = async {
        if task.send(command(reply)).await.is_err() {
            return Some(gone);
        }
        answer.await.ok()
    };
    tokio::time::timeout(within, asked).await.ok().flatten()
}

async fn claim(owner: &Owner, worker: &str, message: Bytes) -> Result<Option<Bytes>, Refused> {
    let claim = match read(message)? {
        ClaimOrPart::Claim(claim) => claim,
        ClaimOrPart::Part(fetch) => return part(owner, worker, fetch).await,
    };
    check_sender(worker, &claim.worker)?;
    if let Err(reason) = owner.permit(&claim) {
        debug!(worker, %reason, "a worker asked for a task that it may not execute");
        let answer = Claimed::Forbidden { reason };
        owner.metrics.claimed(Some(&answer));
        return Ok(Some(wire::write(&answer)?));
    }
    let offer = claim.offer.clone();
    let command = |reply| Command::Claim(claim, reply);
    let answer = of_task(owner, &offer, Claimed::Gone, ANSWERED_WITHIN, command).await;
    owner.metrics.claimed(answer.as_ref());
    Ok(answer.map(|it| wire::write(&it)).transpose()?)
}

async fn part(owner: &Owner, worker: &str, fetch: FetchPart) -> Result<Option<Bytes>, Refused> {
    check_sender(worker, &fetch.proof.worker)?;
    let offer = fetch.proof.offer.clone();
    let command = |reply| Command::Part(fetch, reply);
    let answer = of_task(owner, &offer, Claimed::Gone, ANSWERED_WITHIN, command).await;
    Ok(answer.map(|it| wire::write(&it)).transpose()?)
}

async fn facts(owner: &Owner, worker: &str, message: Bytes) -> Result<Option<Bytes>, Refused> {
    let read: Result<Facts, Refused> = read(message).and_then(|facts: Facts| {
        check_sender(worker, &facts.proof.worker)?;
        Ok(facts)
    });
    let facts = read.inspect_err(|_| owner.metrics.facts_refused())?;
    let (offer, from) = (facts.proof.offer.clone(), facts.from);
    let command = |reply| Command::Facts(facts, reply);
    let gone = Received::Superseded;
    let answer = of_task(owner, &offer, gone, ANSWERED_WITHIN, command).await;
    owner.metrics.answered_facts(from, answer.as_ref());
    Ok(answer.map(|it| wire::write(&it)).transpose()?)
}

async fn ask(owner: &Owner, worker: &str, message: Bytes) -> Result<Option<Bytes>, Refused> {
    let ask: Ask = read(message)?;
    check_sender(worker, &ask.proof.worker)?;
    let (offer, has_facts) = (ask.proof.offer.clone(), ask.facts.is_some());
    let command = |reply| Command::Ask(ask, reply);
    let answer = of_task(owner, &offer, Answer::Superseded, ANSWERED_WITHIN, command).await;
    if has_facts && answer == Some(Answer::Superseded) {
        owner.metrics.answered_facts(0, Some(&Received::Superseded));
    }
    Ok(Some(wire::write(&answer.unwrap_or(Answer::Wait))?))
}

async fn beat(owner: &Owner, worker: &str, message: Bytes) -> Result<Option<Bytes>, Refused> {
    let Beat { worker: id, held } = read(message)?;
    check_sender(worker, &id)?;
    let verdicts = held.into_iter().map(|held| {
        let (id, offer) = (id.clone(), held.offer.clone());
        async move {
            let command = |reply| Command::Beat(id, held, reply);
            let verdict = of_task(owner, &offer, Verdict::Drop, BEATEN_WITHIN, command);
            verdict.await.unwrap_or(Verdict::Pause)
        }
    });
    let held = join_all(verdicts).await;
    Ok(Some(wire::write(&Beaten { held })?))
}
