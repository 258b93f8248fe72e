//! The limits of an endpoint at a worker: its own ones, and those that the owner keeps for all
//! workers.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use touchstone_agents::ports::model::{EndpointHealth, ModelError, Permit, Permits};

use crate::rules::wire::{Frame, ModelRole};
use crate::service::attempt::Attempt;

/// Asks the owner before each call of an attempt.
pub(super) struct SharedPermits {
    /// The limits of this process.
    pub own: Arc<dyn Permits>,
    pub attempt: Arc<Attempt>,
    pub role: ModelRole,
}

#[async_trait]
impl Permits for SharedPermits {
    async fn acquire(&self) -> Result<Box<dyn Permit>, ModelError> {
        let mut own = self.own.acquire();
        let own = match tokio::task::unconstrained(&mut own).now_or_never() {
            Some(own) => own?,
            None => {
                // The task that holds the permit of this process may wait for one of the owner.
                self.attempt.return_call().await;
                own.await?
            }
        };
        let call = self.attempt.ask_to_call(self.role).await?;
        Ok(Box::new(SharedPermit {
            own: Some(own),
            attempt: Arc::clone(&self.attempt),
            call,
            health: None,
        }))
    }

    /// None: each permit is asked for from the owner.
    fn acquire_now(&self) -> Option<Box<dyn Permit>> {
        None
    }
}

struct SharedPermit {
    own: Option<Box<dyn Permit>>,
    attempt: Arc<Attempt>,
    /// The question that allowed the call.
    call: u64,
    health: Option<EndpointHealth>,
}

impl Permit for SharedPermit {
    fn report(mut self: Box<Self>, health: EndpointHealth) {
        self.health = Some(health);
        if let Some(own) = self.own.take() {
            own.report(health);
        }
    }
}

impl Drop for SharedPermit {
    fn drop(&mut self) {
        self.attempt.push(Frame::Called {
            call: self.call,
            health: self.health,
        });
    }
}
