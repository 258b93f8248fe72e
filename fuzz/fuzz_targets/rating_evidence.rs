//! An untrusted file of evidence: rejected with a line and a reason, or scored, with every score
//! between 0 and 1.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use touchstone_ratings::rules::evidence::list;
use touchstone_ratings::rules::{Assessment, Config, Dimension, Event, Scored, score};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let listed = match list(text) {
        Ok(listed) => listed,
        Err(fault) => {
            assert!(
                fault.line > 0 && !fault.reason.is_empty(),
                "refused without a place or a reason"
            );
            return;
        }
    };
    let config = listed
        .options
        .get("config")
        .map_or_else(|| Ok(Config::default()), Config::read);
    let Ok(config) = config else {
        return;
    };
    for event in &listed.events {
        assert!(
            Event::read(&event.document()).is_ok(),
            "does not survive being written"
        );
    }
    let last = listed
        .events
        .iter()
        .map(|event| event.timestamp)
        .max()
        .unwrap_or_default();
    let overrides = listed
        .options
        .get("overrides")
        .and_then(|it| serde_json::from_value(it.clone()).ok());
    let overrides: Vec<_> = overrides.unwrap_or_default();
    let active = listed
        .events
        .iter()
        .find_map(|event| event.assessment_id.clone());
    for dimension in Dimension::PERFORMANCE
        .into_iter()
        .chain(Dimension::CAPABILITY)
    {
        let start = "-009000-01-01T00:00:00Z".parse().expect("a time");
        let kind = "single_dimension";
        let Ok(assessment) = Assessment::new(active.clone(), kind, Some(dimension), start, last)
        else {
            return;
        };
        let found = score(&listed.events, &assessment, &config, &overrides);
        if let Ok(Scored::Single(found)) = &found {
            let raw = found.result.raw.expect("scored");
            assert!((0.0..=1.0).contains(&raw), "{dimension}: {raw}");
        }
        assert_eq!(
            found,
            score(&listed.events, &assessment, &config, &overrides)
        );
        let _ = json!(found.ok()).to_string();
    }
});
