//! Embeddings on the OpenAI wire: `POST {base_url}/embeddings`.
//!
//! An embedding model is a model whose messages are the texts and whose reply is the list of their
//! vectors, so its calls are retried, metered, limited, cached and recorded like all others.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::endpoint::dialect::{Dialect, Fallbacks};
use crate::model::endpoint::{EndpointProtocol, HttpModel};
use crate::model::openai::chunks;
use crate::model::wire::reported;
use crate::model::wire::reported::{Count, Reported};
use crate::model::wire::tool_names::ToolNames;
use crate::rules::{Message, ModelReply, ModelRequest, TokenUsage};

/// An embedding model on this wire; its base URL ends before `/embeddings`.
pub type EmbeddingModel = HttpModel<Embeddings>;

#[derive(Debug)]
pub enum Embeddings {}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    input: Vec<&'a str>,
}

#[derive(Deserialize)]
struct Reply {
    data: Vec<Item>,
    #[serde(default, deserialize_with = "reported::object")]
    usage: Reported<Usage>,
}

#[derive(Deserialize)]
struct Item {
    /// Its position in the request; some servers leave it out and keep the order.
    #[serde(default)]
    index: Option<usize>,
    embedding: Value,
}

#[derive(Clone, Copy, Deserialize)]
struct Usage {
    #[serde(default)]
    prompt_tokens: Count,
}

impl Usage {
    fn tokens(self) -> Reported<TokenUsage> {
        match self.prompt_tokens {
            Reported::Valid(input) => Reported::Valid(TokenUsage {
                input: input.0,
                ..TokenUsage::default()
            }),
            Reported::Absent => Reported::Absent,
            Reported::Invalid => Reported::Invalid,
        }
    }
}

impl EndpointProtocol for Embeddings {
    // Embeddings are never streamed.
    type StreamedReply = chunks::Chunks;

    const PATH: &'static [&'static str] = &["embeddings"];
    const FALLBACKS: Fallbacks = Fallbacks {
        json_object: false,
        completion_tokens: false,
    };

    fn write(
        model: &str,
        request: &ModelRequest<'_>,
        _names: &ToolNames<'_>,
        _dialect: Dialect,
    ) -> serde_json::Result<Vec<u8>> {
        let texts = request.messages.iter().filter_map(|message| match message {
            Message::User(text) => Some(&**text),
            _ => None,
        });
        serde_json::to_vec(&Request {
            model,
            input: texts.collect(),
        })
    }

    /// The reply's text is a JSON array with the vector of each text, in order.
    fn read(body: &[u8], _names: &ToolNames<'_>) -> Option<ModelReply> {
        let Reply { mut data, usage } = reported::parse(body)?;
        if data.iter().any(|item| item.index.is_some()) {
            data.sort_by_key(|item| item.index);
        }
        let vectors = data.into_iter().map(|item| item.embedding).collect();
        let usage = usage.and_then(Usage::tokens);
        Some(ModelReply {
            text: Some(Value::Array(vectors).to_string()),
            usage_invalid: matches!(usage, Reported::Invalid),
            usage: usage.valid(),
            ..ModelReply::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::rules::similarity::{most_similar, read_vectors};

    fn read(body: &Value) -> Option<ModelReply> {
        Embeddings::read(body.to_string().as_bytes(), &ToolNames::new(&[]))
    }

    #[test]
    fn vectors_are_in_the_order_of_the_texts() {
        let reply = read(&json!({"data": [
            {"index": 1, "embedding": [0.5]}, {"index": 0, "embedding": [1, 0]}],
            "usage": {"prompt_tokens": 7, "total_tokens": 7}}))
        .unwrap();
        assert_eq!(reply.text.as_deref(), Some("[[1,0],[0.5]]"));
        assert_eq!(reply.usage.map(|it| (it.input, it.output)), Some((7, 0)));
        let unnumbered = read(&json!({"data": [{"embedding": [2]}, {"embedding": [1]}]})).unwrap();
        assert_eq!(unnumbered.text.as_deref(), Some("[[2],[1]]"));
        assert!(unnumbered.usage.is_none() && !unnumbered.usage_invalid);
    }

    #[rstest]
    #[case(json!({}))]
    #[case(json!({"data": "none"}))]
    #[case(json!({"data": [{"index": 0}]}))]
    #[case(json!([]))]
    fn an_answer_without_vectors_is_not_a_reply(#[case] body: Value) {
        assert!(read(&body).is_none());
    }

    #[test]
    fn negative_usage_is_invalid() {
        let reply = read(&json!({"data": [], "usage": {"prompt_tokens": -1}})).unwrap();
        assert!(reply.usage_invalid);
    }

    proptest! {
        #[test]
        fn an_answer_of_any_bytes_has_a_similarity_from_0_to_1_or_none(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            vectors in proptest::collection::vec(proptest::collection::vec(any::<f64>(), 0..4), 0..4),
        ) {
            let data: Vec<Value> = vectors.iter().map(|it| json!({"embedding": it})).collect();
            for body in [bytes, json!({"data": data}).to_string().into_bytes()] {
                let reply = Embeddings::read(&body, &ToolNames::new(&[]));
                let vectors = reply.and_then(|it| read_vectors(&it.text?));
                let similarity = vectors.as_deref().and_then(most_similar);
                prop_assert!(similarity.is_none_or(|it| (0.0..=1.0).contains(&it)));
            }
        }
    }
}
