//! The processes of a simulation: hosts and workers with the services of this crate.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use touchstone_agents::budget::Limits;
use touchstone_agents::model::ModelCatalog;
use touchstone_agents::ports::agent::InvocationEnd;
use touchstone_agents::rules::WORKERS_UNREACHABLE;
use touchstone_agents::rules::worker_labels::WorkerLabels;
use touchstone_agents::runtime::Runtime;
use touchstone_kit::ids::RunId;

use crate::rules::access::pools::Pool;
use crate::rules::presence::EVERY;
use crate::service::owner::{ClusterRuntime, LOG_CLOSED, Owner};
use crate::service::tests::support::{Account, Task};
use crate::service::worker::{Worker, WorkerSettings};
use crate::simulation::database::LEASE;
use crate::simulation::model::{SimulatedModel, endpoint};
use crate::simulation::network::SimulatedBus;
use crate::simulation::schedule::{FaultKind, Node};
use crate::simulation::world::World;
use crate::simulation::writer::{TaskSink, Writer};

/// Pause before a host looks at the run again.
const LOOK: Duration = Duration::from_millis(500);
/// How long a worker that is asked to stop may finish its tasks.
const DRAIN: Duration = Duration::from_secs(3);

/// Starts a process, and stops and starts it as the schedule says.
pub async fn supervise(world: Arc<World>, node: Node) {
    let mut stops = world.schedule.faults.clone();
    stops.retain(|fault| {
        fault.kind == FaultKind::Killed(node)
            || matches!(fault.kind, FaultKind::Drained(worker) if Node::Worker(worker) == node)
    });
    stops.sort_by_key(|fault| fault.from);
    for fault in stops {
        let (mut process, stop) = (JoinSet::new(), CancellationToken::new());
        process.spawn(run(Arc::clone(&world), node, stop.clone()));
        world.sleep_until(fault.from).await;
        world.trace(|| format!("{:?}", fault.kind));
        if matches!(fault.kind, FaultKind::Drained(_)) {
            stop.cancel();
            let _ = tokio::time::timeout(DRAIN * 2, process.join_next()).await;
        }
        process.shutdown().await;
        world.sleep_until(fault.to).await;
        world.trace(|| format!("{node:?} starts again"));
    }
    run(world, node, CancellationToken::new()).await;
}

async fn run(world: Arc<World>, node: Node, stop: CancellationToken) {
    world.running(node).await;
    match node {
        Node::Host(host) => run_host(world, host, stop).await,
        Node::Worker(worker) => run_worker(world, worker, stop).await,
    }
}

async fn run_worker(world: Arc<World>, number: usize, stop: CancellationToken) {
    let node = Node::Worker(number);
    let model = Arc::new(SimulatedModel::new(Arc::clone(&world), node));
    let models = ModelCatalog::default().answered_by(model, endpoint());
    let settings = WorkerSettings {
        name: format!("w{number}"),
        concurrency: world.schedule.places,
        drain: DRAIN,
        pools: vec![Pool::shared()],
        labels: WorkerLabels::default(),
        largest: 0,
    };
    let (clock, ids) = (world.clock(node), Arc::clone(&world.ids));
    let bus = Arc::new(SimulatedBus { world, node });
    let worker = Worker::new(bus, clock, ids, &models, Vec::new(), settings);
    Arc::new(worker).run(stop).await;
}

async fn run_host(world: Arc<World>, number: usize, stop: CancellationToken) {
    let node = Node::Host(number);
    let bus = Arc::new(SimulatedBus {
        world: Arc::clone(&world),
        node,
    });
    let (clock, ids) = (world.clock(node), Arc::clone(&world.ids));
    let hold = Duration::from_millis(world.schedule.hold);
    let owner = Arc::new(Owner::new(bus, Arc::clone(&clock), ids, hold));
    let runtime = ClusterRuntime {
        owner: Arc::clone(&owner),
        local: Runtime::default(),
    };
    let executing = async {
        loop {
            world.running(node).await;
            let (claimed_at, now) = (clock.uptime(), world.now());
            let reached = world.has_database(number);
            let fence = reached.then(|| world.state().database.claim(now)).flatten();
            if let Some(fence) = fence {
                world.trace(|| format!("h{number} claims the run, fence {fence}"));
                let writer = Writer::new(Arc::clone(&world), number, fence, claimed_at);
                if execute(&world, &runtime, &writer).await == Executed::CutOff {
                    tokio::time::sleep(Duration::from_millis(LEASE)).await;
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    let contact = Arc::clone(owner.contact());
    // As hosts announce themselves to each other.
    let announcing = async {
        loop {
            if world.hears_itself(node) {
                contact.bus_answered();
            }
            tokio::time::sleep(EVERY).await;
        }
    };
    tokio::select! {
        biased;
        () = owner.serve(stop) => {}
        () = executing => {}
        () = announcing => {}
    }
}

/// Why the execution of a run has ended.
#[derive(PartialEq, Eq)]
enum Executed {
    Stopped,
    /// The host does not reach its workers, and leaves the run to another one.
    CutOff,
}

/// Executes the tasks of the run that have no score, as long as this host holds the run.
async fn execute(world: &Arc<World>, runtime: &ClusterRuntime, writer: &Writer) -> Executed {
    let limits = Limits {
        max_tokens: world.schedule.max_tokens,
        ..Limits::default()
    };
    let (spent, tasks) = {
        let state = world.state();
        (state.database.spent(), state.database.open_tasks())
    };
    let meter = Account::resumed(limits, spent);
    let binding = || SimulatedModel::new(Arc::clone(world), Node::Host(0)).binding();
    let cut_off = &CancellationToken::new();
    let works = stream::iter(tasks).for_each_concurrent(world.schedule.at_once, |(id, calls)| {
        let (meter, task) = (
            &meter,
            Task {
                run: RunId::from("run_1"),
                id,
                invocation: world.ids.mint("inv"),
                tenant: "acme".to_owned(),
                input: json!({"calls": calls}),
                model: binding(),
                labels: WorkerLabels::default(),
                recorded: None,
            },
        );
        async move {
            writer.close_invocation(&task.id);
            if writer.may_call().await.is_err() {
                return;
            }
            let sink = TaskSink {
                writer,
                task: &task.id,
            };
            let result = task.run(runtime, meter, &sink).await;
            match &result.end {
                InvocationEnd::Unjudged { reason } if reason == LOG_CLOSED => {}
                InvocationEnd::Unjudged { reason } if reason == WORKERS_UNREACHABLE => {
                    cut_off.cancel();
                }
                _ => writer.score(&task.id, result.end),
            }
        }
    });
    let left = async {
        cut_off.cancelled().await;
        let _ = writer.flush().await;
        world.trace(|| format!("h{} leaves the run", writer.host));
        world.state().database.release(writer.fence);
    };
    let finished = async {
        works.await;
        let _ = writer.flush().await;
    };
    tokio::select! {
        biased;
        () = writer.closed.cancelled() => {}
        () = writer.append() => {}
        () = writer.renew() => {}
        () = left => {}
        () = finished => {}
    }
    let reserved = meter.reserved.load(Ordering::Relaxed);
    if reserved > 0 {
        world.violated(format!("{reserved} estimates stay reserved"));
    }
    match cut_off.is_cancelled() {
        true => Executed::CutOff,
        false => Executed::Stopped,
    }
}
