//! A cluster whose members announce themselves: a worker, and another replica with a run.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use touchstone_agents::rules::worker_labels::WorkerLabels;
use touchstone_cluster::ports::announcements::{Announced, Announcements};
use touchstone_cluster::ports::bus::{Bus, BusError, Delivery, Request};
use touchstone_cluster::ports::queues::{Queue, Queues};
use touchstone_cluster::rules::access::pools::Pool;
use touchstone_cluster::rules::announcements::Topic;
use touchstone_cluster::rules::lane::Lane;
use touchstone_cluster::rules::presence::{
    Presence, ReplicaState, RunTasks, Unserved, WorkerState,
};
use touchstone_cluster::rules::subjects::Address;
use touchstone_cluster::rules::wire;
use touchstone_cluster::service::Cluster;
use touchstone_cluster::service::owner::Owner;
use touchstone_cluster::service::presence::Membership;
use touchstone_cluster::service::signals::ReplicaSignals;
use touchstone_host::system::{SystemClock, SystemIds};

/// Delivers the announcements of the members, and nothing else.
struct Members;

fn members() -> [(&'static str, Presence); 2] {
    let worker = WorkerState {
        capacity: 32,
        free: 5,
        models: vec!["openai model `m` at https://models.example/v1".to_owned()],
        draining: false,
        labels: WorkerLabels::parse("gpu").unwrap(),
        largest: 0,
    };
    let run = RunTasks {
        run: "run_elsewhere".into(),
        tenant: "globex".into(),
        offered: 4,
        held: 27,
        labels: WorkerLabels::parse("gpu,region=eu").unwrap(),
        unserved: Some(Unserved::Labels),
    };
    let worker = Presence {
        version: "1.0.0".to_owned(),
        worker: Some(worker),
        replica: None,
    };
    let replica = Presence {
        version: "1.1.0".to_owned(),
        worker: None,
        replica: Some(ReplicaState {
            runs: vec![run],
            further_runs: 0,
        }),
    };
    [("worker-1", worker), ("host_other", replica)]
}

#[async_trait]
impl Announcements for Members {
    async fn announce(&self, _: Topic, _: &str, _: Bytes) -> Result<(), BusError> {
        Ok(())
    }

    async fn listen(&self, _: Topic) -> Result<mpsc::Receiver<Announced>, BusError> {
        let (sender, announced) = mpsc::channel(2);
        tokio::spawn(async move {
            loop {
                for (name, presence) in members() {
                    let announced = Announced::Message {
                        sender: name.to_owned(),
                        message: wire::write(&presence).unwrap(),
                    };
                    if sender.send(announced).await.is_err() {
                        return;
                    }
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        Ok(announced)
    }

    async fn order(&self, _: &str, _: Bytes) -> Result<(), BusError> {
        Err(BusError::NoResponder)
    }

    async fn orders(&self, _: &str) -> Result<mpsc::Receiver<Bytes>, BusError> {
        Err(BusError::NoResponder)
    }
}

#[async_trait]
impl Bus for Members {
    async fn publish(&self, _: &Lane, _: &str, _: Bytes) -> Result<(), BusError> {
        Err(BusError::NoResponder)
    }

    async fn waiting(&self, _: &Lane) -> Result<u64, BusError> {
        Err(BusError::NoResponder)
    }

    async fn filled(&self, _: &Pool) -> Result<BTreeSet<String>, BusError> {
        Err(BusError::NoResponder)
    }

    async fn pull(&self, _: &Lane, _: usize, _: Duration) -> Result<Vec<Delivery>, BusError> {
        Err(BusError::NoResponder)
    }

    async fn request(&self, _: &Address, _: Bytes, _: Duration) -> Result<Bytes, BusError> {
        Err(BusError::NoResponder)
    }

    async fn serve(&self, _: &str) -> Result<mpsc::Receiver<Request>, BusError> {
        Err(BusError::NoResponder)
    }
}

#[async_trait]
impl Queues for Members {
    async fn queues(&self) -> Result<Vec<Queue>, BusError> {
        Ok(vec![Queue {
            pool: "shared".to_owned(),
            lane: "h0123456789abcdef0123456789abcdef".to_owned(),
            waiting: 3,
            unacknowledged: 1,
            pulls: 2,
        }])
    }
}

/// The cluster of a host, once it has heard all members.
pub async fn cluster() -> Cluster {
    let (bus, clock, ids) = (
        Arc::new(Members),
        Arc::new(SystemClock),
        Arc::new(SystemIds),
    );
    let owner = Owner::new(bus.clone(), clock.clone(), ids, Duration::from_secs(10));
    let signals = ReplicaSignals::new(bus.clone(), owner.replica().to_owned());
    let membership = Arc::new(Membership::new(
        bus.clone(),
        clock,
        Arc::clone(owner.contact()),
    ));
    let listening = membership.clone();
    tokio::spawn(async move {
        let presence = || members()[1].1.clone();
        let stop = CancellationToken::new();
        listening.take_part("host_this", presence, &stop).await;
    });
    while membership.members().len() < members().len() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Cluster {
        owner: Arc::new(owner),
        signals: Arc::new(signals),
        membership,
        queues: bus,
        gauges: Arc::default(),
    }
}
