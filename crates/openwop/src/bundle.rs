//! `RunDebugBundle` (OpenWOP debug-bundle): everything about one run except task content.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::annotation::Annotation;

/// Version of the bundle's shape.
pub const BUNDLE_VERSION: &str = "1.0";

/// The bundle of a run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DebugBundle {
    /// [`BUNDLE_VERSION`].
    pub bundle_version: &'static str,
    pub generated_at: Timestamp,
    /// The host that created the bundle.
    pub host: BundleHost,
    /// The snapshot, with the inputs; content is masked.
    pub run: Map<String, Value>,
    /// The log from the start; content is masked.
    pub events: Vec<Box<RawValue>>,
    /// Annotations of the run (RFC 0056); free text is masked.
    pub annotations: Vec<Annotation>,
    /// Spans. Always empty: this host exports spans to a collector and does not store them.
    pub spans: [Value; 0],
    pub metrics: BundleMetrics,
    /// Whether anything was masked.
    pub redaction_applied: bool,
    /// Always `mask`.
    pub redaction_mode: &'static str,
    /// Whether parts are missing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The limit that caused the truncation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated_reason: Option<CutTo>,
    /// The number of events in the log, if the bundle does not contain all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated_original_count: Option<u64>,
}

/// The host that created a bundle.
#[derive(Debug, Serialize)]
pub struct BundleHost {
    pub name: &'static str,
    pub version: &'static str,
    pub vendor: &'static str,
}

/// Totals of a run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleMetrics {
    /// The total cost of the model calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub openwop_cost: Option<Value>,
    /// Tasks or nodes.
    pub node_count: usize,
    /// Events in the bundle.
    pub event_count: usize,
}

/// Why a bundle is incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum CutTo {
    /// The caller limited the number of events.
    #[serde(rename = "events_truncated_to_max_events")]
    MaxEvents,
    /// The size limit of bundles.
    #[serde(rename = "events_truncated_to_size_cap")]
    SizeCap,
    /// The annotations alone exceed their share of the limit.
    #[serde(rename = "annotations_truncated_to_size_cap")]
    Annotations,
}
