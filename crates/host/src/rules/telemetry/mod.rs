//! Rules of the export of telemetry: settings, sampling, attributes, metrics.

pub mod attributes;
pub mod conventions;
pub mod prometheus;
pub mod sampling;
pub mod settings;
