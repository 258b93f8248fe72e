//! Debug bundles (OpenWOP debug-bundle): one run in one document, masked and limited in size.

use std::sync::Arc;

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::rules::run::annotation::MAX_ANNOTATION_OCTETS;
use crate::rules::run::bundle::Redactor;
use crate::rules::run::record::{RunRecord, Work};
use crate::rules::run::snapshot::snapshot;
use crate::service::projections::Projections;
use crate::service::runs::Runs;
use crate::store;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::fault::internal;
use touchstone_host::store::database::Database;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_openwop::annotation::Annotation;
use touchstone_openwop::bundle::{BUNDLE_VERSION, BundleHost, BundleMetrics, CutTo, DebugBundle};
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::v1::event::project;

/// Maximum size of a bundle, in bytes.
pub const MAX_BUNDLE: usize = 8_000_000;
/// Maximum size of its annotations, in bytes; masked text may be longer than the original.
const MAX_ANNOTATIONS: usize = MAX_ANNOTATION_OCTETS as usize;
/// Events read at a time.
const PAGE: u32 = 1024;

pub struct Bundles {
    runs: Arc<Runs>,
    store: Arc<Database>,
    projections: Arc<Projections>,
    clock: Arc<dyn Clock>,
}

/// The part of a log that a bundle holds.
struct BundledEvents {
    events: Vec<Box<RawValue>>,
    to: Option<CutTo>,
}

impl Bundles {
    pub fn new(
        runs: Arc<Runs>,
        store: Arc<Database>,
        projections: Arc<Projections>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            runs,
            store,
            projections,
            clock,
        }
    }

    /// The bundle of a run as it is now, with only the first `most` events of its log if given.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn bundle(
        &self,
        tenant: &TenantId,
        run: &RunId,
        max_events: Option<u64>,
    ) -> Result<DebugBundle, Problem> {
        let record = self.runs.record(tenant, run).await?;
        let cancelling = store::queue::cancel_requested(&self.store, run).await;
        let cancelling = cancelling.map_err(|cause| internal(&cause))?.is_some();
        let (events, shown) = self
            .projections
            .with_state(run, |state| {
                let shown = snapshot(self.runs.library.kinds, &record, state, cancelling);
                (state.sequence, serde_json::to_value(shown))
            })
            .await
            .map_err(|cause| internal(&cause))?;
        let shown = shown.map_err(|cause| internal(&cause))?;
        let cost = shown.pointer("/metrics/openwopCost").cloned();
        let mut redactor = Redactor::default();
        let run_shown = redactor.run(&record, shown);
        let (annotations, all_annotations) = self.annotations(run, &mut redactor).await?;
        let mut bundle = DebugBundle {
            bundle_version: BUNDLE_VERSION,
            generated_at: self.clock.now(),
            host: BundleHost {
                name: "touchstone",
                version: env!("CARGO_PKG_VERSION"),
                vendor: "touchstone",
            },
            run: run_shown,
            events: Vec::new(),
            annotations,
            spans: [],
            metrics: BundleMetrics {
                openwop_cost: cost,
                node_count: match &record.spec.work {
                    Work::Eval(eval) => eval.tasks.len(),
                    Work::Workflow(workflow) => workflow.definition.nodes.len(),
                    Work::Journal => 0,
                },
                event_count: usize::MAX,
            },
            redaction_applied: true,
            redaction_mode: "mask",
            truncated: true,
            truncated_reason: Some(CutTo::Annotations),
            truncated_original_count: Some(u64::MAX),
        };
        // Serialized with the longest possible values, so that the remaining bytes are really left
        // for events.
        let around = serde_json::to_vec(&bundle).map_err(|cause| internal(&cause))?;
        let left = MAX_BUNDLE.saturating_sub(around.len());
        let bundled = self
            .events(&record, events, max_events, left, &mut redactor)
            .await?;
        bundle.truncated_reason = bundled
            .to
            .or((!all_annotations).then_some(CutTo::Annotations));
        bundle.truncated = bundle.truncated_reason.is_some();
        bundle.truncated_original_count = bundled.to.map(|_| events);
        bundle.metrics.event_count = bundled.events.len();
        bundle.events = bundled.events;
        bundle.redaction_applied = redactor.applied();
        Ok(bundle)
    }

    /// The annotations, masked, and whether they are complete.
    async fn annotations(
        &self,
        run: &RunId,
        redactor: &mut Redactor,
    ) -> Result<(Vec<Annotation>, bool), Problem> {
        let found = store::annotations::list(&self.store, run, 0).await;
        let found = found.map_err(|cause| internal(&cause))?;
        let all = found.len();
        let mut kept = Vec::new();
        let mut bytes = 0;
        for record in found {
            let annotation = redactor.annotation(record.annotation);
            let written = serde_json::to_vec(&annotation);
            bytes += written.map_err(|cause| internal(&cause))?.len();
            if bytes > MAX_ANNOTATIONS {
                break;
            }
            kept.push(annotation);
        }
        let whole = kept.len() == all;
        Ok((kept, whole))
    }

    async fn events(
        &self,
        record: &RunRecord,
        end: u64,
        max_events: Option<u64>,
        mut left: usize,
        redactor: &mut Redactor,
    ) -> Result<BundledEvents, Problem> {
        let (run, is_eval) = (&record.run_id, record.spec.work.is_eval());
        let numbers = record.log.under(Major::V1);
        let wanted = max_events.map_or(end, |most| most.min(end));
        let mut bundled = BundledEvents {
            events: Vec::new(),
            to: (wanted < end).then_some(CutTo::MaxEvents),
        };
        let mut after = 0;
        while after < wanted {
            let limit = u32::try_from(wanted - after).map_or(PAGE, |left| left.min(PAGE));
            let page = store::runs::read(&self.store, run, after, limit).await;
            let page = page.map_err(|cause| internal(&cause))?;
            if page.is_empty() {
                return Err(lacks_events());
            }
            for event in &page {
                after += 1;
                if event.sequence != after {
                    return Err(lacks_events());
                }
                let numbered = project(numbers, &event.body);
                let shown = match numbered.and_then(|it| redactor.event(is_eval, &it)) {
                    Ok(shown) => shown,
                    Err(_) => {
                        let sequence = numbers.sequence(event.sequence);
                        unreadable(sequence).map_err(|cause| internal(&cause))?
                    }
                };
                let bytes = shown.get().len() + 1;
                if bytes > left {
                    bundled.to = Some(CutTo::SizeCap);
                    return Ok(bundled);
                }
                left -= bytes;
                bundled.events.push(shown);
            }
        }
        Ok(bundled)
    }
}

/// The placeholder for an event that cannot be read.
fn unreadable(sequence: u64) -> serde_json::Result<Box<RawValue>> {
    to_raw_value(&json!({"sequence": sequence, "type": "touchstone.unreadable"}))
}

/// The log ends early or has a gap: the rest must not pass for the whole log.
fn lacks_events() -> Problem {
    internal(&StoreError::Inconsistent {
        table: "event",
        column: "sequence",
    })
}
