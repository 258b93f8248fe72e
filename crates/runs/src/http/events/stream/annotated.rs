//! `run.annotated`: a live message in the streams of a run (RFC 0056), in the envelope of an event.
//!
//! It is not an entry of the log: its `sequence` and the frame's id are the position the stream has
//! reached, so a client that resumes misses nothing and gets nothing twice. Later clients read
//! annotations from the list of annotations.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::http::RunsApi;
use crate::ports::annotations::AnnotationRecord;
use crate::rules::run::record::RunRecord;
use crate::service::log_reader::LogForm;
use crate::service::log_reader::filter::Filter;
use crate::store;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::fault::chain;
use touchstone_openwop::events::{ENGINE_VERSION, SCHEMA_VERSION};
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::id::bound;
use touchstone_openwop::wire::v2;

const KIND: &str = "run.annotated";

/// The annotations one stream has sent.
pub struct AnnotationFeed {
    run: Arc<RunRecord>,
    form: LogForm,
    filter: Filter,
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
        run: &Arc<RunRecord>,
        form: &LogForm,
        filter: Filter,
        ended: bool,
    ) -> Result<Self, StoreError> {
        let last_sent = if filter.passes(form.major, KIND) && !ended {
            Some(store::annotations::last_number(&state.host.store, &run.run_id).await?)
        } else {
            None
        };
        Ok(Self {
            run: run.clone(),
            form: form.clone(),
            filter,
            last_sent,
        })
    }

    /// The frames of annotations created since the last call.
    pub async fn frames(&mut self, state: &RunsApi, position: u64, batched: bool) -> Vec<Bytes> {
        let Some(last_sent) = self.last_sent else {
            return Vec::new();
        };
        let run = &self.run.run_id;
        let new = match store::annotations::list(&state.host.store, run, last_sent).await {
            Ok(new) => new,
            Err(cause) => {
                // The annotations can still be listed; the stream is about the log.
                tracing::warn!(run_id = %run, cause = chain(&cause), "could not read annotations");
                return Vec::new();
            }
        };
        if let Some(last) = new.last() {
            self.last_sent = Some(last.number);
        }
        new.iter()
            .filter_map(|record| self.frame(position, record, batched))
            .collect()
    }

    fn frame(&self, position: u64, record: &AnnotationRecord, batched: bool) -> Option<Bytes> {
        let reached = self.form.numbers().reached(position);
        let document = self.document(reached.unwrap_or_default(), record)?;
        let mode = self.filter.admitting(self.form.major, KIND)?;
        let name = match self.form.major {
            _ if batched => "batch",
            Major::V2 if self.filter.is_mixed() => mode,
            Major::V1 | Major::V2 => KIND,
        };
        // Without an id, a client that resumes begins again.
        let id = reached.map_or_else(String::new, |reached| format!("id: {reached}\n"));
        let data = match batched {
            true => format!("[{document}]"),
            false => document.to_string(),
        };
        Some(format!("{id}event: {name}\ndata: {data}\n\n").into())
    }

    /// `None` if the annotation has no form under the major.
    fn document(&self, sequence: u64, record: &AnnotationRecord) -> Option<Value> {
        let annotation = &record.annotation;
        let mut document = json!({
            "eventId": annotation.annotation_id,
            "runId": self.run.run_id,
            "type": KIND,
            "timestamp": annotation.created_at,
            "sequence": sequence,
            "schemaVersion": SCHEMA_VERSION,
            "engineVersion": ENGINE_VERSION,
            "payload": annotation,
        });
        if self.form.major == Major::V2 {
            let tenant = self.run.tenant.as_str();
            let context = v2::Context { tenant };
            let payload = document.get_mut("payload")?.take();
            let payload = v2::answer("createAnnotation", &context, 201, payload);
            if let Err(cause) = &payload {
                tracing::error!(?cause, "an annotation has no form under major 2");
            }
            let members = document.as_object_mut()?;
            members.insert("payload".to_owned(), payload.ok()?);
            members.insert(
                "runId".to_owned(),
                bound(tenant, self.run.run_id.as_str()).into(),
            );
            let engine: u64 = ENGINE_VERSION.parse().ok()?;
            members.insert("engineVersion".to_owned(), engine.into());
        }
        Some(document)
    }
}
