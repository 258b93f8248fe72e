//! The dialect of an endpoint: request members that it does not accept are dropped, and the adapter
//! remembers this for its lifetime.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::model::endpoint::refusal::Refusal;
use crate::rules::{ModelRequest, ResponseSchema};

/// How the return schema is passed to the endpoint, strictest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ResponseFormat {
    /// The schema itself.
    JsonSchema = 0,
    /// Any JSON object; the instructions contain the schema.
    JsonObject = 1,
    /// No format; the instructions contain the schema.
    None = 2,
}

impl ResponseFormat {
    fn from_level(level: u8) -> Self {
        match level {
            0 => Self::JsonSchema,
            1 => Self::JsonObject,
            _ => Self::None,
        }
    }

    fn weaker(self, json_object: bool) -> Option<Self> {
        match self {
            Self::JsonSchema if json_object => Some(Self::JsonObject),
            Self::JsonSchema | Self::JsonObject => Some(Self::None),
            Self::None => None,
        }
    }
}

/// How requests are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    pub format: ResponseFormat,
    /// Send `max_completion_tokens` instead of `max_tokens`.
    pub completion_tokens: bool,
    /// Send no `temperature`, because the model does not accept it.
    pub unsampled: bool,
    /// Request a streamed answer.
    pub streamed: bool,
}

/// The fallbacks that a protocol has.
#[derive(Clone, Copy, Debug)]
pub struct Fallbacks {
    /// "Any JSON object" as a format.
    pub json_object: bool,
    /// A second name for `max_tokens`.
    pub completion_tokens: bool,
}

impl Dialect {
    /// The dialect to try after a refusal; `None` if `request` has no member to drop for it.
    pub fn after(
        self,
        refusal: Refusal,
        request: &ModelRequest<'_>,
        fallbacks: Fallbacks,
    ) -> Option<Self> {
        match refusal {
            Refusal::ResponseFormat if request.response_schema.is_some() => self
                .format
                .weaker(fallbacks.json_object)
                .map(|format| Self { format, ..self }),
            Refusal::MaxTokens
                if fallbacks.completion_tokens
                    && request.max_tokens.is_some()
                    && !self.completion_tokens =>
            {
                Some(Self {
                    completion_tokens: true,
                    ..self
                })
            }
            Refusal::Temperature if request.temperature.is_some() && !self.unsampled => {
                Some(Self {
                    unsampled: true,
                    ..self
                })
            }
            Refusal::Stream if self.streamed => Some(Self {
                streamed: false,
                ..self
            }),
            _ => None,
        }
    }

    /// The temperature to send.
    pub fn temperature_of(self, request: &ModelRequest<'_>) -> Option<f64> {
        request.temperature.filter(|_| !self.unsampled)
    }

    /// A suffix that distinguishes the bodies of one call; empty for the plain dialect, which is
    /// tried first.
    pub fn suffix(self) -> String {
        let format = self.format as u8;
        let flags = [
            ("c", self.completion_tokens),
            ("t", self.unsampled),
            ("s", self.streamed),
        ];
        let flags: String = flags.iter().filter(|f| f.1).map(|f| f.0).collect();
        if format == 0 && flags.is_empty() {
            String::new()
        } else {
            format!(".{format}{flags}")
        }
    }
}

/// The dialect that an endpoint was found to speak.
#[derive(Debug)]
pub struct KnownDialect {
    format: AtomicU8,
    completion_tokens: AtomicBool,
    unsampled: AtomicBool,
    streamed: AtomicBool,
}

impl KnownDialect {
    /// Nothing is known yet except whether answers should be streamed.
    pub fn new(streamed: bool) -> Self {
        Self {
            format: AtomicU8::default(),
            completion_tokens: AtomicBool::default(),
            unsampled: AtomicBool::default(),
            streamed: AtomicBool::new(streamed),
        }
    }

    pub fn dialect(&self) -> Dialect {
        Dialect {
            format: ResponseFormat::from_level(self.format.load(Ordering::Relaxed)),
            completion_tokens: self.completion_tokens.load(Ordering::Relaxed),
            unsampled: self.unsampled.load(Ordering::Relaxed),
            streamed: self.streamed.load(Ordering::Relaxed),
        }
    }

    /// Concurrent calls learn independently; a member that any of them dropped stays dropped.
    pub fn remember(&self, dialect: Dialect) {
        self.format
            .fetch_max(dialect.format as u8, Ordering::Relaxed);
        self.completion_tokens
            .fetch_or(dialect.completion_tokens, Ordering::Relaxed);
        self.unsampled
            .fetch_or(dialect.unsampled, Ordering::Relaxed);
        self.streamed.fetch_and(dialect.streamed, Ordering::Relaxed);
    }
}

/// A description of the schema, for endpoints that accept no schema.
pub fn described(schema: ResponseSchema<'_>) -> String {
    format!(
        "Your final answer must be one JSON document that satisfies this JSON Schema, without any \
         text or code fence around it:\n{schema}"
    )
}
