//! The message bus as one process sees it: messages are lost, late, repeated and imitated.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use crate::ports::bus::{Bus, BusError, Delivery, Receipt, Request};
use crate::rules::access::pools::Pool;
use crate::rules::lane::Lane;
use crate::rules::subjects::{Address, Operation};
use crate::rules::wire::{
    self, Ask, Assignment, Claim, Claimed, End, Ending, Facts, Frame, Proof, Question, Token,
};
use crate::service::tests::support::earlier;
use crate::simulation::schedule::Node;
use crate::simulation::world::{Granted, World};

/// How long a request is under way at most, with the answer of an owner.
const UNDER_WAY: Duration = Duration::from_secs(60);
/// How long a bus that is down lets a process wait.
const DOWN: Duration = Duration::from_secs(1);

pub struct SimulatedBus {
    pub world: Arc<World>,
    pub node: Node,
}

fn later(work: impl Future<Output = ()> + Send + 'static) {
    #[expect(clippy::disallowed_methods, reason = "ends with the simulation")]
    drop(tokio::spawn(work));
}

fn failed() -> BusError {
    BusError::Failed("no connection".to_owned())
}

fn worker_of(node: Node) -> usize {
    match node {
        Node::Worker(worker) => worker,
        Node::Host(host) => panic!("host {host} sends a request"),
    }
}

#[async_trait]
impl Bus for SimulatedBus {
    async fn publish(&self, lane: &Lane, replica: &str, message: Bytes) -> Result<(), BusError> {
        let (world, node) = (&self.world, self.node);
        world.running(node).await;
        if !world.has_queues(node) {
            tokio::time::sleep(DOWN).await;
            return Err(failed());
        }
        world.trace(|| format!("{replica} publishes {}", text(&message)));
        let delays = world.transit(Some(node), None, None);
        for delay in delays {
            let (bus, lane) = (world.bus.clone(), lane.clone());
            let (replica, message) = (replica.to_owned(), message.clone());
            later(async move {
                tokio::time::sleep(delay).await;
                let _ = bus.publish(&lane, &replica, message).await;
            });
        }
        Ok(())
    }

    async fn waiting(&self, lane: &Lane) -> Result<u64, BusError> {
        self.world.running(self.node).await;
        if !self.world.has_queues(self.node) {
            tokio::time::sleep(DOWN).await;
            return Err(failed());
        }
        self.world.bus.waiting(lane).await
    }

    async fn filled(&self, pool: &Pool) -> Result<BTreeSet<String>, BusError> {
        self.world.running(self.node).await;
        if !self.world.has_queues(self.node) {
            tokio::time::sleep(DOWN).await;
            return Err(failed());
        }
        self.world.bus.filled(pool).await
    }

    async fn pull(
        &self,
        lane: &Lane,
        most: usize,
        longest: Duration,
    ) -> Result<Vec<Delivery>, BusError> {
        let (world, node) = (&self.world, self.node);
        world.running(node).await;
        if !world.has_queues(node) {
            tokio::time::sleep(DOWN).await;
            return Err(failed());
        }
        let taken = world.bus.pull(lane, most, longest).await?;
        let mut arrived = Vec::new();
        for Delivery {
            message,
            deliveries,
            receipt,
        } in taken
        {
            let delays = world.transit(None, Some(node), None);
            if delays.is_empty() || !world.has_queues(node) {
                continue;
            }
            let receipt = Box::new(SimulatedReceipt {
                world: Arc::clone(world),
                node,
                receipt,
            });
            arrived.push(Delivery {
                message,
                deliveries,
                receipt,
            });
        }
        world.running(node).await;
        Ok(arrived)
    }

    async fn request(
        &self,
        address: &Address,
        message: Bytes,
        longest: Duration,
    ) -> Result<Bytes, BusError> {
        let (world, node) = (&self.world, self.node);
        world.running(node).await;
        let receiver = world.state().replicas.get(&address.replica).copied();
        let receiver = receiver.ok_or(BusError::NoResponder)?;
        if world.is_forging() {
            self.forge(address, &message);
        }
        let delays = world.transit(Some(node), Some(receiver), Some(address.operation));
        if delays.is_empty() {
            world.trace(|| format!("lost: {address} {}", text(&message)));
        }
        let (reply, answer) = oneshot::channel();
        let mut reply = Some(reply);
        for delay in delays {
            let delivered = deliver(
                Arc::clone(world),
                [node, receiver],
                address.clone(),
                message.clone(),
                delay,
            );
            // Only the first answer is awaited.
            let reply = reply.take();
            later(async move {
                let answer = delivered.await;
                if let (Some(answer), Some(reply)) = (answer, reply) {
                    let _ = reply.send(answer);
                }
            });
        }
        let answered = async {
            match answer.await {
                Ok(answer) => answer,
                Err(_) => std::future::pending().await,
            }
        };
        let answer = tokio::time::timeout(longest, answered).await;
        world.running(node).await;
        answer.unwrap_or(Err(BusError::NoAnswer))
    }

    async fn serve(&self, replica: &str) -> Result<mpsc::Receiver<Request>, BusError> {
        let owned = (replica.to_owned(), self.node);
        self.world.state().replicas.extend([owned]);
        self.world.bus.serve(replica).await
    }
}

/// Brings a request to its owner, and the answer back. `None` if it is lost.
async fn deliver(
    world: Arc<World>,
    [sender, receiver]: [Node; 2],
    address: Address,
    message: Bytes,
    delay: Duration,
) -> Option<Result<Bytes, BusError>> {
    tokio::time::sleep(delay).await;
    world.running(receiver).await;
    world.trace(|| format!("arrives: {address} {}", text(&message)));
    let claim = match address.operation {
        Operation::Claim => wire::read::<Claim>(&message).ok(),
        _ => None,
    };
    if world.schedule.earlier
        && address.operation == Operation::Meter
        && is_of_this_version(&message)
    {
        world.violated(format!("an earlier version is asked: {}", text(&message)));
    }
    let answer = world.bus.request(&address, message, UNDER_WAY).await;
    let answer = match world.schedule.earlier {
        true => answer.map(|it| earlier(&it)),
        false => answer,
    };
    if answer == Err(BusError::NoAnswer) {
        return None;
    }
    if let (Some(claim), Ok(answer)) = (claim, &answer) {
        note_grant(&world, worker_of(sender), claim, answer);
    }
    world.running(receiver).await;
    let back = world.transit(Some(receiver), Some(sender), Some(address.operation));
    let described = answer.as_deref().map_or("no responder".into(), text);
    world.trace(|| match back.is_empty() {
        true => format!("lost answer: {address} {described}"),
        false => format!("answer: {address} {described}"),
    });
    tokio::time::sleep(*back.first()?).await;
    Some(answer)
}

/// Whether an owner of an earlier version would not understand a message, or would not record its facts.
fn is_of_this_version(message: &Bytes) -> bool {
    let asked = wire::read::<Ask>(message);
    asked.is_ok_and(|it| {
        it.facts.is_some() || matches!(it.question, Question::ReserveAndCall { .. })
    })
}

/// Remembers which worker holds an attempt.
fn note_grant(world: &World, worker: usize, claim: Claim, answer: &[u8]) {
    let Ok(Claimed::Granted(grant)) = wire::read::<Claimed>(answer) else {
        return;
    };
    let at = world.now();
    let mut state = world.state();
    let known = |it: &Granted| it.invocation == grant.invocation;
    if state.grants.iter().any(known) {
        return;
    }
    state.grants.push(Granted {
        task: Assignment::read(&grant.task).unwrap().node.to_string(),
        offer: claim.offer,
        invocation: grant.invocation,
        worker,
        at,
    });
}

impl SimulatedBus {
    /// Sends facts that look like those of a worker, without its token or from another worker.
    fn forge(&self, address: &Address, message: &Bytes) {
        let mut address = address.clone();
        let Some(message) = self.forged(&mut address, message) else {
            return;
        };
        let bus = self.world.bus.clone();
        later(async move {
            let _ = bus.request(&address, message, UNDER_WAY).await;
        });
    }

    fn forged(&self, address: &mut Address, message: &Bytes) -> Option<Bytes> {
        match address.operation {
            Operation::Facts => {
                let mut facts = wire::read::<Facts>(message).ok()?;
                facts.frames = vec![Frame::Ended(Ending {
                    end: End::Decided {
                        output: json!("forged"),
                    },
                    schema_valid: None,
                    latency_ms: 0,
                })];
                self.disguise(address, &mut facts.proof)?;
                wire::write(&facts).ok()
            }
            Operation::Meter => {
                let mut ask = wire::read::<Ask>(message).ok()?;
                // Its facts once more, as if they were later ones.
                let facts = ask.facts.as_mut()?;
                facts.from += facts.frames.len() as u64;
                self.disguise(address, &mut ask.proof)?;
                wire::write(&ask).ok()
            }
            Operation::Claim | Operation::Beat => None,
        }
    }

    /// Makes the proof one that an owner must not accept. `None` if nothing is forged this time.
    fn disguise(&self, address: &mut Address, proof: &mut Proof) -> Option<()> {
        match self.world.random(0..=3) {
            0 => proof.token = Token::new(&[9; 32]),
            1 => {
                address.worker = "w9".to_owned();
                proof.worker.worker = "w9".to_owned();
            }
            2 => proof.worker.epoch = "epoch_of_an_earlier_start".to_owned(),
            _ => return None,
        }
        Some(())
    }
}

struct SimulatedReceipt {
    world: Arc<World>,
    node: Node,
    receipt: Box<dyn Receipt>,
}

#[async_trait]
impl Receipt for SimulatedReceipt {
    async fn acknowledge(self: Box<Self>) {
        let Self {
            world,
            node,
            receipt,
        } = *self;
        world.running(node).await;
        let arrives = !world.transit(Some(node), None, None).is_empty();
        if arrives && world.has_queues(node) {
            receipt.acknowledge().await;
        }
    }

    async fn release(self: Box<Self>, after: Duration) {
        self.receipt.release(after).await;
    }
}

/// A message in a trace.
fn text(message: &[u8]) -> String {
    String::from_utf8_lossy(message).chars().take(300).collect()
}
