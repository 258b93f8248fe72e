//! The event stream of a run. A frame has one event document or, if they are batched, several in an
//! array.

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use serde_json::Value;

use crate::cli::exit::Failure;
use crate::net::sse;
use crate::net::sse::{Limits, Source};

const LIMITS: Limits = Limits {
    stream: u64::MAX,
    event: 64 << 20,
};

struct Body(BoxStream<'static, Result<Bytes, Failure>>);

impl Source for Body {
    type Error = Failure;

    async fn piece(&mut self, _: usize) -> Result<Option<Bytes>, Failure> {
        self.0.next().await.transpose()
    }
}

/// The data of each frame.
pub fn frames(
    body: BoxStream<'static, Result<Bytes, Failure>>,
) -> BoxStream<'static, Result<String, sse::Error<Failure>>> {
    sse::events(Body(body), LIMITS).boxed()
}

/// The event documents of a frame.
///
/// # Errors
/// The data is not JSON.
pub fn documents(frame: &str) -> Result<Vec<Value>, Failure> {
    if frame.is_empty() {
        return Ok(Vec::new());
    }
    match serde_json::from_str(frame) {
        Ok(Value::Array(batch)) => Ok(batch),
        Ok(document) => Ok(vec![document]),
        Err(_) => Err(malformed("a frame is not JSON")),
    }
}

pub fn malformed(what: &str) -> Failure {
    Failure::not_done(
        "unexpected_answer",
        format!("the event stream is malformed: {what}"),
    )
    .or_try("check that --server names an OpenWOP host")
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, stream};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const STREAM: &str = ": keepalive\n\nid: 1\nevent: run.started\ndata: {\"sequence\":1}\n\n\
        id: 3\r\nevent: batch\r\ndata:[{\"sequence\":2},\r\ndata: {\"sequence\":3}]\r\n\r\n";

    proptest! {
        #[test]
        fn sse_documents_do_not_depend_on_chunk_boundaries(mut cuts in proptest::collection::vec(0..STREAM.len(), 0..8)) {
            cuts.push(STREAM.len());
            cuts.sort_unstable();
            let mut from = 0;
            let pieces: Vec<_> = cuts
                .into_iter()
                .map(|cut| Ok(Bytes::from_static(&STREAM.as_bytes()[std::mem::replace(&mut from, cut)..cut])))
                .collect();
            let read = frames(stream::iter(pieces).boxed()).collect::<Vec<_>>();
            let documents: Vec<Value> = read
                .now_or_never()
                .unwrap()
                .into_iter()
                .flat_map(|frame| documents(&frame.unwrap()).unwrap())
                .collect();
            prop_assert_eq!(documents, vec![json!({"sequence": 1}), json!({"sequence": 2}), json!({"sequence": 3})]);
        }
    }

    #[test]
    fn a_frame_without_json_is_refused() {
        let failure = documents("<html>").unwrap_err();
        assert_eq!(failure.code, "unexpected_answer");
    }
}
