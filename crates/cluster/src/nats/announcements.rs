//! Announcements on core NATS.

use std::time::Duration;

use async_nats::client::RequestErrorKind;
use async_nats::connection::State;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::sync::{mpsc, watch};
use touchstone_host::background;

use crate::nats::{NatsBus, fault};
use crate::ports::announcements::{Announced, Announcements};
use crate::ports::bus::BusError;
use crate::rules::announcements::Topic;
use crate::rules::subjects;

/// Announcements that may wait for their listener.
const MAX_WAITING: usize = 1_024;
/// How long an announcement may wait for its place in the connection.
const SENT_WITHIN: Duration = Duration::from_secs(1);
/// How long it takes at most until a server says that no worker receives an order.
const REFUSED_WITHIN: Duration = Duration::from_secs(1);

#[async_trait]
impl Announcements for NatsBus {
    async fn announce(&self, topic: Topic, sender: &str, message: Bytes) -> Result<(), BusError> {
        let client = &self.connected().await?.client;
        // Without a connection, the client would keep the message and send it much later.
        if client.connection_state() != State::Connected {
            return Err(fault(&"not connected"));
        }
        let sent = client.publish(topic.subject(sender), message);
        let sent = tokio::time::timeout(SENT_WITHIN, sent).await;
        let sent = sent.map_err(|_| BusError::NoAnswer)?;
        sent.map_err(|cause| fault(&cause))
    }

    async fn listen(&self, topic: Topic) -> Result<mpsc::Receiver<Announced>, BusError> {
        let connected = self.connected().await?;
        let subscribed = connected.client.subscribe(topic.pattern()).await;
        let subscriber = subscribed.map_err(|cause| fault(&cause))?;
        let (sender, announced) = mpsc::channel(MAX_WAITING);
        let connections = self.connections.subscribe();
        // Ends when the receiver is dropped.
        drop(background::spawn(
            "cluster announcements",
            receive(topic, subscriber, connections, sender),
        ));
        Ok(announced)
    }

    async fn order(&self, worker: &str, message: Bytes) -> Result<(), BusError> {
        let client = &self.connected().await?.client;
        if client.connection_state() != State::Connected {
            return Err(fault(&"not connected"));
        }
        // A worker may not write to inboxes of hosts, so it does not answer. The server answers if no
        // worker receives the order.
        let request = async_nats::Request::new()
            .payload(message)
            .timeout(Some(REFUSED_WITHIN));
        let refused = client.send_request(subjects::orders(worker), request);
        // The limit of the request begins only once the connection takes it.
        let refused = tokio::time::timeout(SENT_WITHIN + REFUSED_WITHIN, refused).await;
        match refused.map_err(|_| BusError::NoAnswer)? {
            Ok(_) => Ok(()),
            Err(cause) => match cause.kind() {
                RequestErrorKind::TimedOut => Ok(()),
                RequestErrorKind::NoResponders => Err(BusError::NoResponder),
                _ => Err(fault(&cause)),
            },
        }
    }

    async fn orders(&self, worker: &str) -> Result<mpsc::Receiver<Bytes>, BusError> {
        let client = &self.connected().await?.client;
        let subscribed = client.subscribe(subjects::orders(worker)).await;
        let mut subscriber = subscribed.map_err(|cause| fault(&cause))?;
        let (sender, orders) = mpsc::channel(1);
        let receiving = async move {
            loop {
                let message = tokio::select! {
                    () = sender.closed() => return,
                    message = subscriber.next() => message,
                };
                let Some(message) = message else { return };
                if sender.send(message.payload).await.is_err() {
                    return;
                }
            }
        };
        drop(background::spawn("cluster orders", receiving));
        Ok(orders)
    }
}

impl NatsBus {
    /// Waits for up to a second until all messages have left this process.
    pub async fn flush(&self) {
        if let Some(connected) = self.connected.get() {
            // Without a connection, nothing can be done.
            let _ = tokio::time::timeout(SENT_WITHIN, connected.client.flush()).await;
        }
    }
}

async fn receive(
    topic: Topic,
    mut subscriber: async_nats::Subscriber,
    mut connections: watch::Receiver<u64>,
    sender: mpsc::Sender<Announced>,
) {
    loop {
        let announced = tokio::select! {
            () = sender.closed() => return,
            Ok(()) = connections.changed() => Announced::Reconnected,
            message = subscriber.next() => {
                let Some(message) = message else { return };
                let Some(from) = topic.sender(&message.subject) else {
                    continue;
                };
                Announced::Message {
                    sender: from.to_owned(),
                    message: message.payload,
                }
            }
        };
        if sender.send(announced).await.is_err() {
            return;
        }
    }
}
