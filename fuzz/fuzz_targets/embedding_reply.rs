//! The response of an embedding model: a similarity between 0 and 1, or none.

#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use touchstone_agents::model::endpoint::EndpointProtocol as _;
use touchstone_agents::model::openai::embeddings::Embeddings;
use touchstone_agents::model::wire::tool_names::ToolNames;
use touchstone_agents::rules::similarity::{most_similar, read_vectors};

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some(reply) = Embeddings::read(data, &ToolNames::new(&[])) else {
        return Corpus::Reject;
    };
    let vectors = reply.text.as_deref().and_then(read_vectors);
    if let Some(similarity) = vectors.as_deref().and_then(most_similar) {
        assert!((0.0..=1.0).contains(&similarity), "{similarity}");
    }
    Corpus::Keep
});
