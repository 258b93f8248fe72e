//! Optional lanes, which workers find by their messages and whose consumers JetStream removes.

use std::collections::BTreeSet;
use std::time::Duration;

use async_nats::jetstream;
use bytes::Bytes;
use touchstone_agents::rules::worker_labels::WorkerLabels;
use touchstone_agents::rules::{EndpointPin, ModelIdentity, ModelPin};

use super::server::Server;
use crate::nats::{NatsBus, Role};
use crate::ports::bus::Bus as _;
use crate::rules::access::pools::Pool;
use crate::rules::lane::Lane;

/// The lane of tasks that need these labels.
fn lane(labels: &str) -> Lane {
    let model = ModelIdentity {
        model: ModelPin {
            provider: "openai".to_owned(),
            model: "m".to_owned(),
        },
        endpoint: Some(EndpointPin {
            url: None,
            digest: "d".to_owned(),
        }),
    };
    let labels = WorkerLabels::parse(labels).unwrap();
    Lane::with(&Pool::shared(), &model, None, labels.as_slice(), false).unwrap()
}

fn names(lanes: &[&Lane]) -> BTreeSet<String> {
    lanes.iter().map(|it| it.name().to_owned()).collect()
}

/// Removes the consumer of a lane, as JetStream does if no worker has pulled from it for long.
async fn remove(server: &Server, lane: &Lane) {
    let address = server.settings("nats").nats.unwrap();
    let client = async_nats::connect(address).await.unwrap();
    let context = jetstream::new(client);
    let stream = lane.pool().stream();
    let removed = context.delete_consumer_from_stream(lane.name(), stream);
    removed.await.unwrap();
}

#[tokio::test]
async fn the_messages_of_a_removed_consumer_are_found_again() {
    let Some(server) = Server::start("").await else {
        return;
    };
    let host = NatsBus::new(server.settings("nats"), Role::Host);
    let worker = NatsBus::new(server.settings("nats"), Role::Worker("w1".to_owned()));
    let (pool, gpu, eu) = (Pool::shared(), lane("gpu"), lane("region=eu"));
    for (lane, message) in [(&gpu, "one"), (&eu, "two")] {
        let message = Bytes::from_static(message.as_bytes());
        host.publish(lane, "host_1", message).await.unwrap();
    }
    assert_eq!(worker.filled(&pool).await.unwrap(), names(&[&gpu, &eu]));
    let taken = worker.pull(&gpu, 4, Duration::ZERO).await.unwrap();
    assert_eq!(taken.len(), 1);
    let others = worker.pull(&gpu, 4, Duration::ZERO).await.unwrap();
    assert_eq!(others.len(), 0, "it does not wait");
    drop(taken);

    // Its message was delivered and not acknowledged.
    remove(&server, &gpu).await;
    assert_eq!(host.waiting(&gpu).await, Ok(1));
    let taken = worker.pull(&gpu, 4, Duration::ZERO).await.unwrap();
    let [delivery] = <[_; 1]>::try_from(taken).ok().unwrap();
    assert_eq!(delivery.message, "one");
    delivery.receipt.acknowledge().await;
    let taken = async {
        while worker.filled(&pool).await.unwrap() != names(&[&eu]) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let taken = tokio::time::timeout(Duration::from_secs(60), taken);
    taken.await.unwrap();
}
