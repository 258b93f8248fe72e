//! The effects of a run outside of this host (OpenWOP v2 idempotency, "Effect identity").

use crate::rules::run::effects::{Effect, EffectLedger};
use crate::service::runs::Runs;
use crate::store;
use touchstone_host::ports::run_log::reaches_end;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_openwop::events::EventDocument;

/// Events in memory at a time.
const PAGE: u32 = 512;

impl Runs {
    /// The effects of a run, in the order in which it announced them.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn effects(&self, tenant: &TenantId, run: &RunId) -> Result<Vec<Effect>, Problem> {
        let record = self.record(tenant, run).await?;
        let inherited = record.fork.as_ref().map_or(0, |fork| fork.history);
        let mut ledger = EffectLedger::new(tenant, run, inherited);
        // A run of a plain suite without live tools calls none, and its log may be long.
        let kinds = self.library.kinds;
        let eval = record.spec.eval();
        if eval.is_some_and(|eval| !eval.is_live() && kinds.of(eval).is_none()) {
            return Ok(ledger.finish());
        }
        let mut after = 0;
        loop {
            let page = store::runs::read(&self.store, run, after, PAGE).await;
            let page = page.map_err(|cause| internal(&cause))?;
            for stored in &page {
                after = stored.sequence;
                let Ok(document) = EventDocument::read(&stored.body) else {
                    continue;
                };
                if let Ok(Some(event)) = document.event_without_outputs() {
                    ledger.fold(stored.sequence, &document, &event);
                }
            }
            if reaches_end(&page, PAGE) {
                return Ok(ledger.finish());
            }
        }
    }
}
