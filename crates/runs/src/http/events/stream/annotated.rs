//! `run.annotated`: a live message in the streams of a run (RFC 0056), in the envelope of an event.
//!
//! It is not an entry of the log: its `sequence` and the frame's id are the position the stream has
//! reached, so a client that resumes misses nothing and gets nothing twice. Later clients read
//! annotations from the list of annotations.

use bytes::Bytes;
use serde_json::json;

use crate::http::RunsApi;
use crate::ports::annotations::AnnotationRecord;
use crate::service::log_reader::filter::Filter;
use crate::store;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::fault::chain;
use touchstone_kit::ids::RunId;
use touchstone_openwop::events::{ENGINE_VERSION, SCHEMA_VERSION};

const KIND: &str = "run.annotated";

/// The annotations one stream has sent.
pub struct AnnotationFeed {
    /// The number of the last one sent; `None` for a stream without annotations.
    last_sent: Option<u64>,
}

impl AnnotationFeed {
    /// Only annotations created from now on.
    ///
    /// # Errors
    /// The store failed.
    pub async fn from_now_on(
        state: &RunsApi,
        run: &RunId,
        filter: Filter,
        ended: bool,
    ) -> Result<Self, StoreError> {
        let last_sent = if filter.passes(KIND) && !ended {
            Some(store::annotations::last_number(&state.host.store, run).await?)
        } else {
            None
        };
        Ok(Self { last_sent })
    }

    /// The frames of annotations created since the last call.
    pub async fn frames(
        &mut self,
        state: &RunsApi,
        run: &RunId,
        position: u64,
        batched: bool,
    ) -> Vec<Bytes> {
        let Some(last_sent) = &mut self.last_sent else {
            return Vec::new();
        };
        let new = match store::annotations::list(&state.host.store, run, *last_sent).await {
            Ok(new) => new,
            Err(cause) => {
                // The annotations can still be listed; the stream is about the log.
                tracing::warn!(run_id = %run, cause = chain(&cause), "could not read annotations");
                return Vec::new();
            }
        };
        if let Some(last) = new.last() {
            *last_sent = last.number;
        }
        new.iter()
            .map(|record| frame(run, position, record, batched))
            .collect()
    }
}

fn frame(run: &RunId, position: u64, record: &AnnotationRecord, batched: bool) -> Bytes {
    let annotation = &record.annotation;
    let document = json!({
        "eventId": annotation.annotation_id,
        "runId": run,
        "type": KIND,
        "timestamp": annotation.created_at,
        "sequence": position,
        "schemaVersion": SCHEMA_VERSION,
        "engineVersion": ENGINE_VERSION,
        "payload": annotation,
    });
    let text = if batched {
        format!("id: {position}\nevent: batch\ndata: [{document}]\n\n")
    } else {
        format!("id: {position}\nevent: {KIND}\ndata: {document}\n\n")
    };
    text.into()
}
