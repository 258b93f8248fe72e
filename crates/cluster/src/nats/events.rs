//! What NATS reports about the connection, as log lines. A request that a server refuses gets no
//! answer; that it was refused shows only here.

use std::sync::{Mutex, PoisonError};

use async_nats::{Event, ServerError};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::nats::Role;
use crate::rules::pauses::RecentWarnings;
use crate::rules::refusals::{self, Refusal};

pub(super) struct EventLog {
    /// The command that prints the permissions of this process.
    remedy: String,
    begun: Instant,
    recent_warnings: Mutex<RecentWarnings>,
}

impl EventLog {
    pub fn new(role: &Role) -> Self {
        let who = match role {
            Role::Host => "--host".to_owned(),
            Role::Worker(name) => format!("--worker {name}"),
        };
        Self {
            remedy: format!("touchstone cluster credentials {who}"),
            begun: Instant::now(),
            recent_warnings: Mutex::default(),
        }
    }

    pub fn log(&self, event: &Event) {
        match event {
            Event::Connected => info!("connected to NATS"),
            Event::Disconnected => warn!("disconnected from NATS; connecting again"),
            Event::ServerError(cause) => self.log_error(cause),
            Event::ClientError(cause) => {
                let remedy = refusals::remedy(&cause.to_string());
                warn!(%cause, remedy, "the connection to NATS has an error");
            }
            Event::SlowConsumer(_) => {
                warn!(
                    "messages of NATS were dropped, because this process does not read them in time"
                );
            }
            _ => {}
        }
    }

    fn log_error(&self, cause: &ServerError) {
        let text = cause.to_string();
        let Some(refusal) = Refusal::parse(&text) else {
            let remedy = refusals::remedy(&text);
            warn!(cause = text, remedy, "the NATS server reports an error");
            return;
        };
        let mut recent = self
            .recent_warnings
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !recent.is_due(&refusal.kind(), self.begun.elapsed()) {
            return;
        }
        let Refusal { action, subject } = refusal;
        let remedy = &self.remedy;
        warn!(
            subject,
            "the NATS server does not permit this process to {action} the subject; give its NATS \
             user the permissions that `{remedy}` prints for the pools of this process"
        );
    }
}
