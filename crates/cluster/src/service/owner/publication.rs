//! How a task gets into its queue: its turns, and the messages that offer it.

use bytes::Bytes;
use futures_util::FutureExt as _;

use crate::ports::bus::BusError;
use crate::rules::lane::Lane;
use crate::rules::wire::{self, Offered};
use crate::service::owner::Owner;
use crate::service::owner::task::{OwnedTask, Waited};

/// What became of a message to a queue.
pub(super) enum Published {
    Stored,
    /// The queue has messages, so that this one is probably among them.
    Skipped,
}

impl OwnedTask<'_> {
    /// Waits for the turn of the task, after which it is put into its queue.
    pub(super) fn await_turn(&mut self, ahead: bool) {
        let (tenant, run) = (self.invocation.tenant, self.invocation.run);
        let turn = self.owner.schedule.turn(self.lane, tenant, run, ahead);
        let turn = turn.map(|it| Waited::Turn(it.ok()));
        self.waiting.push(turn.boxed());
    }

    /// Puts the task into its queue. Unless `certainly`, only if the queue is empty: the message of
    /// the task may be among the others.
    pub(super) fn publish(&mut self, certainly: bool) {
        if certainly {
            self.is_stored = false;
        }
        self.offer.published(self.owner.clock.uptime());
        let (owner, lane) = (self.owner, self.lane);
        let offered = Offered {
            replica: owner.replica.clone(),
            offer: self.offer_id.to_owned(),
        };
        let Ok(message) = wire::write(&offered) else {
            return;
        };
        let publish = async move { publish(owner, lane, message, certainly).await };
        self.waiting.push(publish.map(Waited::Published).boxed());
    }
}

async fn publish(
    owner: &Owner,
    lane: &Lane,
    message: Bytes,
    certainly: bool,
) -> Result<Published, BusError> {
    if !certainly && owner.bus.waiting(lane).await? > 0 {
        return Ok(Published::Skipped);
    }
    owner.bus.publish(lane, &owner.replica, message).await?;
    Ok(Published::Stored)
}
