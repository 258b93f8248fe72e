//! Scoring: matchers, thresholds, summary, gates.
