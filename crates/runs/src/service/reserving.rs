//! Waiting for a budget.

use tokio::sync::Notify;

use touchstone_agents::budget::Reserve;
use touchstone_agents::ports::agent::Exhausted;

/// Asks a budget until it grants or refuses. `settled` is notified whenever a call has been
/// settled.
pub async fn reserve(settled: &Notify, ask: impl Fn() -> Reserve) -> Result<(), Exhausted> {
    loop {
        // Subscribe before asking, so that a settlement in between is not missed.
        let settled = settled.notified();
        match ask() {
            Reserve::Granted => return Ok(()),
            Reserve::Exhausted(_) => return Err(Exhausted),
            Reserve::Wait => settled.await,
        }
    }
}
