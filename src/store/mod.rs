//! Event log, work queue and records.
