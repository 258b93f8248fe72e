//! Reading event streams.

use axum::response::Response;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use serde_json::Value;
use touchstone_openwop::wire::Major;

use crate::support::asyncapi;

#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    pub id: String,
    pub event: String,
    pub data: Value,
}

impl Frame {
    /// Sequences of the entries in the frame.
    pub fn sequences(&self) -> Vec<u64> {
        let one = |document: &Value| document["sequence"].as_u64().unwrap();
        match &self.data {
            Value::Array(documents) => documents.iter().map(one).collect(),
            document => vec![one(document)],
        }
    }
}

/// An open stream.
pub struct Frames {
    major: Major,
    body: axum::body::Body,
    buffer: BytesMut,
}

impl Frames {
    pub fn of(response: Response) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-cache");
        let major = match response.headers()["openwop-version"].to_str().unwrap() {
            "1.0" => Major::V1,
            _ => Major::V2,
        };
        Self {
            major,
            body: response.into_body(),
            buffer: BytesMut::new(),
        }
    }

    /// The next frame; `None` when the stream has ended.
    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            while let Some(block) = self.block() {
                if block.starts_with(b":") {
                    continue;
                }
                let frame = parse(std::str::from_utf8(&block).unwrap());
                asyncapi::check_frame(self.major, &frame.event, &frame.data);
                return Some(frame);
            }
            let Some(chunk) = self.body.frame().await else {
                assert!(self.buffer.is_empty(), "the stream ends within a frame");
                return None;
            };
            self.buffer
                .extend_from_slice(&chunk.unwrap().into_data().unwrap());
        }
    }

    /// Waits for the next comment. A frame before it fails the test.
    pub async fn comment(&mut self) {
        loop {
            if let Some(block) = self.block() {
                assert!(block.starts_with(b":"), "{block:?}");
                return;
            }
            let chunk = self.body.frame().await.expect("the stream goes on");
            self.buffer
                .extend_from_slice(&chunk.unwrap().into_data().unwrap());
        }
    }

    /// The rest of the stream.
    pub async fn rest(mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        frames
    }

    fn block(&mut self) -> Option<Bytes> {
        let end = self.buffer.windows(2).position(|pair| pair == b"\n\n")?;
        let block = self.buffer.split_to(end + 2).freeze();
        Some(block.slice(..end))
    }
}

fn parse(block: &str) -> Frame {
    let (mut id, mut event, mut data) = (None, None, None);
    for line in block.lines() {
        let (field, value) = line.split_once(": ").unwrap();
        let place = match field {
            "id" => &mut id,
            "event" => &mut event,
            "data" => &mut data,
            other => panic!("unexpected field {other}"),
        };
        assert!(place.replace(value.to_owned()).is_none(), "{field} twice");
    }
    Frame {
        id: id.unwrap(),
        event: event.unwrap(),
        data: serde_json::from_str(&data.unwrap()).unwrap(),
    }
}
