//! Asks an embedding model how similar texts are.
//!
//! ```text
//! per comparison:
//!   [touchstone.model.retried]*
//!   provider.usage [touchstone.usage.estimated]
//! ```
//!
//! Only the similarity is recorded, not the vectors.

use serde_json::Value;

use crate::calls::{CallRole, Calls, seed};
use crate::ports::agent::{EventSink, Meter};
use crate::ports::model::ModelBinding;
use crate::rules::activity::Activity;
use crate::rules::similarity::{most_similar, read_vectors};
use crate::rules::{Message, ModelReply, ModelRequest, TaskHint};
use touchstone_kit::ids::{RunId, TaskId, TenantId};

/// A text of a task, and the texts to compare it with.
#[derive(Clone, Copy)]
pub struct SimilarityRequest<'a> {
    pub tenant: &'a TenantId,
    pub run: &'a RunId,
    pub task: &'a TaskId,
    /// The agent's input.
    pub input: &'a Value,
    /// The embedding model.
    pub model: &'a ModelBinding,
    /// The assertion that is decided, such as `1.0`.
    pub assertion: &'a str,
    pub text: &'a str,
    pub others: &'a [&'a str],
}

/// The cosine similarity of the text and the most similar of the others, 0.0..=1.0. Records the
/// usage. Dropping the future cancels it.
///
/// # Errors
/// Why there is none, as a label: `embeddings_malformed` for a reply without usable vectors,
/// `budget_exhausted` if the meter refused.
pub async fn similarity(
    request: SimilarityRequest<'_>,
    meter: &dyn Meter,
    sink: &dyn EventSink,
) -> Result<f64, String> {
    let texts = std::iter::once(&request.text).chain(request.others);
    let messages: Vec<Message> = texts.map(|text| Message::User((*text).into())).collect();
    let info = request.model.model.info();
    let provider_key = format!("{}:embeddings:{}", info.provider, request.assertion);
    let activity = Activity {
        tenant: request.tenant,
        run: request.run,
        node: request.task.as_str(),
        ordinal: 1,
        provider_key: &provider_key,
    };
    let asked = ModelRequest {
        messages,
        // Embeddings have no output tokens.
        max_tokens: Some(0),
        task: Some(TaskHint {
            id: request.task,
            input: request.input,
            turn: 0,
        }),
        ..ModelRequest::default()
    };
    let calls = Calls {
        binding: request.model,
        role: CallRole::Embeddings,
        meter,
        sink,
        cause: None,
        task: request.task,
        seed: seed(&format!("{}/{}", request.task, request.assertion)),
    };
    let count = 1 + request.others.len();
    let read = |reply: &ModelReply| {
        let vectors = reply.text.as_deref().and_then(read_vectors)?;
        most_similar(&vectors).filter(|_| vectors.len() == count)
    };
    calls.ask_for(1, asked, |_| activity.id(), read).await
}
