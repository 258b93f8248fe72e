//! A decoder of server-sent events, limited to the parts that OpenWOP stream modes use: `id`,
//! `event`, `data`, and frames that batch several event documents in one array.

use serde_json::Value;

use crate::cli::exit::Failure;

/// Maximum size of a frame in bytes.
const MAX_FRAME: usize = 64 << 20;

/// Splits the bytes of a stream into event documents, whatever their chunking.
#[derive(Debug, Default)]
pub struct Decoder {
    line: Vec<u8>,
    data: Vec<u8>,
}

impl Decoder {
    /// Adds bytes and returns the event documents completed by them.
    ///
    /// # Errors
    /// A frame's data is not JSON, or a frame is too large.
    pub fn feed(&mut self, octets: &[u8]) -> Result<Vec<Value>, Failure> {
        let mut documents = Vec::new();
        for &octet in octets {
            if octet != b'\n' {
                self.line.push(octet);
                continue;
            }
            if self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
            let line = std::mem::take(&mut self.line);
            if line.is_empty() {
                self.finish(&mut documents)?;
            } else if let Some(data) = line.strip_prefix(b"data:") {
                if !self.data.is_empty() {
                    self.data.push(b'\n');
                }
                self.data
                    .extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
            }
        }
        if self.line.len() + self.data.len() > MAX_FRAME {
            return Err(malformed("a frame is too large"));
        }
        Ok(documents)
    }

    fn finish(&mut self, documents: &mut Vec<Value>) -> Result<(), Failure> {
        let data = std::mem::take(&mut self.data);
        if data.is_empty() {
            return Ok(());
        }
        match serde_json::from_slice(&data) {
            Ok(Value::Array(batch)) => documents.extend(batch),
            Ok(document) => documents.push(document),
            Err(_) => return Err(malformed("a frame is not JSON")),
        }
        Ok(())
    }
}

fn malformed(what: &str) -> Failure {
    Failure::not_done(
        "unexpected_answer",
        format!("the event stream is malformed: {what}"),
    )
    .or_try("check that --server names an OpenWOP host")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const STREAM: &str = ": keepalive\n\nid: 1\nevent: run.started\ndata: {\"sequence\":1}\n\n\
        id: 3\r\nevent: batch\r\ndata:[{\"sequence\":2},\r\ndata: {\"sequence\":3}]\r\n\r\n";

    proptest! {
        #[test]
        fn however_it_is_cut_the_documents_are_the_same(mut cuts in proptest::collection::vec(0..STREAM.len(), 0..8)) {
            cuts.push(STREAM.len());
            cuts.sort_unstable();
            let mut decoder = Decoder::default();
            let mut documents = Vec::new();
            let mut from = 0;
            for cut in cuts {
                documents.extend(decoder.feed(&STREAM.as_bytes()[from..cut]).unwrap());
                from = cut;
            }
            prop_assert_eq!(documents, vec![json!({"sequence": 1}), json!({"sequence": 2}), json!({"sequence": 3})]);
        }
    }

    #[test]
    fn a_frame_without_json_is_refused() {
        let failure = Decoder::default().feed(b"data: <html>\n\n").unwrap_err();
        assert_eq!(failure.code, "unexpected_answer");
    }
}
