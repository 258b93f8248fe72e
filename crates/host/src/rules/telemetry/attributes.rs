//! Attributes of spans, logs and metrics.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};

/// Maximum bytes of a string; the rest is cut off. Limits the memory of captured content.
const LONGEST: usize = 32 << 10;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct AttributeValue(Value);

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        let end = text.floor_char_boundary(LONGEST);
        Self(Value::StringValue(
            text.get(..end).unwrap_or_default().to_owned(),
        ))
    }
}

impl From<&String> for AttributeValue {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<bool> for AttributeValue {
    fn from(value: bool) -> Self {
        Self(Value::BoolValue(value))
    }
}

impl From<i64> for AttributeValue {
    fn from(number: i64) -> Self {
        Self(Value::IntValue(number))
    }
}

impl From<u64> for AttributeValue {
    fn from(number: u64) -> Self {
        Self(Value::IntValue(i64::try_from(number).unwrap_or(i64::MAX)))
    }
}

impl From<u32> for AttributeValue {
    fn from(number: u32) -> Self {
        Self(Value::IntValue(number.into()))
    }
}

impl From<usize> for AttributeValue {
    fn from(number: usize) -> Self {
        Self::from(number as u64)
    }
}

impl From<f64> for AttributeValue {
    fn from(number: f64) -> Self {
        Self(Value::DoubleValue(number))
    }
}

impl From<&[&str]> for AttributeValue {
    fn from(texts: &[&str]) -> Self {
        let values = texts.iter().map(|text| value_of(*text)).collect();
        Self(Value::ArrayValue(ArrayValue { values }))
    }
}

pub fn value_of(value: impl Into<AttributeValue>) -> AnyValue {
    AnyValue {
        value: Some(value.into().0),
    }
}

pub fn attribute(name: &str, value: impl Into<AttributeValue>) -> KeyValue {
    KeyValue {
        key: name.to_owned(),
        value: Some(value_of(value)),
        ..KeyValue::default()
    }
}
