//! `RunDebugBundle` (OpenWOP debug-bundle): all there is to know of one run, without what was said in it.

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
    /// When it was made.
    pub generated_at: Timestamp,
    /// Who made it.
    pub host: BundleHost,
    /// The snapshot, with the inputs; the content in it masked.
    pub run: Map<String, Value>,
    /// The log from its beginning; the content in it masked.
    pub events: Vec<Box<RawValue>>,
    /// What people said about the run (RFC 0056); their words masked.
    pub annotations: Vec<Annotation>,
    /// Spans; this host hands its own to a collector and keeps none.
    pub spans: [Value; 0],
    /// Sums.
    pub metrics: BundleMetrics,
    /// Whether anything was masked.
    pub redaction_applied: bool,
    /// How: always `mask`.
    pub redaction_mode: &'static str,
    /// Not everything is in it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// What it was cut to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated_reason: Option<CutTo>,
    /// How many events the log has, if not all of them are in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated_original_count: Option<u64>,
}

/// Who made a bundle.
#[derive(Debug, Serialize)]
pub struct BundleHost {
    /// The implementation.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Whose it is.
    pub vendor: &'static str,
}

/// Sums of a run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleMetrics {
    /// What its model calls came to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub openwop_cost: Option<Value>,
    /// Tasks or nodes.
    pub node_count: usize,
    /// Events in the bundle.
    pub event_count: usize,
}

/// Why a bundle does not hold everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum CutTo {
    /// The caller asked for so many events.
    #[serde(rename = "events_truncated_to_max_events")]
    MaxEvents,
    /// A bundle is not larger than this.
    #[serde(rename = "events_truncated_to_size_cap")]
    SizeCap,
    /// The annotations alone take more than their share.
    #[serde(rename = "annotations_truncated_to_size_cap")]
    Annotations,
}
