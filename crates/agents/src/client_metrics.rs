//! The client metrics of the semantic conventions for generative AI, which OTLP exports
//! (docs/telemetry.md), under the names that Prometheus gives them. Tenants and endpoints choose
//! names of models, so the number of different ones is limited.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::call_metrics::{outcome_of, provider_of};
use crate::calls::CallRole;
use crate::ports::model::{ModelBinding, ModelError};
use crate::rules::{ModelReply, TokenUsage};
use crate::spans;
use touchstone_host::otlp::exports_metrics;
use touchstone_host::telemetry::{names, record};

/// Maximum combinations of models and addresses in one process. Others are counted together.
const MAX_SUBJECTS: usize = 100;
/// The model of calls that are counted together.
const OTHER: &str = "_OTHER";

/// The labels of a call.
type Labels = Vec<(&'static str, String)>;

/// Records an attempt.
pub(crate) fn attempted(
    binding: &ModelBinding,
    role: CallRole,
    result: Result<&ModelReply, &ModelError>,
    took: Duration,
) {
    if !exports_metrics() {
        return;
    }
    let mut labels = labels_of(binding, role, result.ok());
    if let Err(error) = result {
        labels.push(("error_type", outcome_of(error).as_str().to_owned()));
    }
    record(names::GEN_AI_SECONDS, labels, took.as_secs_f64());
}

/// Records the tokens that the endpoint reported.
pub(crate) fn used(binding: &ModelBinding, role: CallRole, reply: &ModelReply, usage: &TokenUsage) {
    if !exports_metrics() {
        return;
    }
    let labels = labels_of(binding, role, Some(reply));
    for (kind, tokens) in [("input", usage.input), ("output", usage.output)] {
        let mut labels = labels.clone();
        labels.push(("gen_ai_token_type", kind.to_owned()));
        #[expect(clippy::cast_precision_loss, reason = "a plausible number of tokens")]
        record(names::GEN_AI_TOKENS, labels, tokens as f64);
    }
}

fn labels_of(binding: &ModelBinding, role: CallRole, reply: Option<&ModelReply>) -> Labels {
    let info = binding.model.info();
    let mut subject: Labels = vec![
        ("gen_ai_provider_name", info.provider.clone()),
        ("gen_ai_request_model", info.model.clone()),
    ];
    let response = reply.and_then(|reply| reply.response.model.clone());
    subject.extend(response.map(|model| ("gen_ai_response_model", model)));
    if let Some((host, port)) = spans::server(binding) {
        subject.push(("server_address", host));
        subject.extend(port.map(|port| ("server_port", port.to_string())));
    }
    if !is_counted(&subject) {
        subject = vec![
            (
                "gen_ai_provider_name",
                provider_of(&info.provider).to_owned(),
            ),
            ("gen_ai_request_model", OTHER.to_owned()),
        ];
    }
    let operation = spans::operation(role, &info.provider);
    subject.push(("gen_ai_operation_name", operation.to_owned()));
    subject
}

/// Whether the subject has labels of its own: it has them already, or there is room for another.
fn is_counted(subject: &Labels) -> bool {
    static COUNTED: Mutex<Option<HashSet<Labels>>> = Mutex::new(None);
    let mut counted = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let counted = counted.get_or_insert_default();
    counted.contains(subject) || counted.len() < MAX_SUBJECTS && counted.insert(subject.clone())
}
