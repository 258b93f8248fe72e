//! The body of `POST /api/v1/webhooks`. The URL's target is not checked here, because that takes a
//! resolver.

use serde_json::Value;
use url::Url;

use super::Topic;
use touchstone_kit::error::Problem;
use touchstone_kit::fields::{Fields, Nulls};
use touchstone_kit::webhook::registration::address;

const MAX_TOPIC: usize = 64;

/// The requested webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    pub url: Url,
    /// The topics, each once, in the order of [`Topic::ALL`].
    pub events: Vec<Topic>,
}

impl Registration {
    /// Reads the body. Without `event_types` or `events` the webhook gets every topic.
    ///
    /// # Errors
    /// `validation_error` that names the field.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let fields = Fields::closed(body, "", &["url", "event_types", "events"], Nulls::Wrong)?;
        let url = fields
            .text("url")?
            .ok_or_else(|| fields.invalid("url", "is required"))?;
        let url = address("url", url)?;
        let member = fields.either("events", "event_types")?;
        let Some(listed) = fields.texts(member, Topic::ALL.len(), MAX_TOPIC)? else {
            return Ok(Self {
                url,
                events: Topic::ALL.to_vec(),
            });
        };
        let known = |name: &String| Topic::parse(name);
        if listed.is_empty() || listed.iter().any(|name| known(name).is_none()) {
            let names: Vec<&str> = Topic::ALL.iter().map(|topic| topic.as_str()).collect();
            let message = format!("must list at least one of {}", names.join(", "));
            return Err(fields.invalid(member, &message));
        }
        let wanted: Vec<Topic> = listed.iter().filter_map(known).collect();
        let all = Topic::ALL.iter().copied();
        Ok(Self {
            url,
            events: all.filter(|topic| wanted.contains(topic)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!([]), "")]
    #[case(json!({"events": ["badge.expired"]}), "url")]
    #[case(json!({"url": "nowhere"}), "url")]
    #[case(json!({"url": null}), "url")]
    #[case(json!({"url": "https://example.com/", "events": []}), "events")]
    #[case(json!({"url": "https://example.com/", "events": ["badge.eaten"]}), "events")]
    #[case(json!({"url": "https://example.com/", "events": "badge.expired"}), "events")]
    #[case(json!({"url": "https://example.com/", "secret": "whsec_"}), "secret")]
    #[case(json!({"url": "https://example.com/", "event_types": ["badge.eaten"]}), "event_types")]
    #[case(json!({"url": "https://example.com/", "events": ["badge.expired"], "event_types": ["badge.expired"]}), "event_types")]
    fn invalid_webhook_registrations_are_rejected_by_field(
        #[case] body: Value,
        #[case] field: &str,
    ) {
        let problem = Registration::parse(&body).unwrap_err();
        assert_eq!(problem.details["field"], field, "{problem}");
    }

    #[test]
    fn a_webhook_without_event_types_receives_all_events() {
        let url = "https://example.com/";
        let all = Registration::parse(&json!({"url": url})).unwrap();
        assert_eq!(all.events, Topic::ALL);
        let events = ["badge.expired", "assessment.failed", "badge.expired"];
        let some = Registration::parse(&json!({"url": url, "events": events})).unwrap();
        assert_eq!(some.events, [Topic::AssessmentFailed, Topic::BadgeExpired]);
        let stated = Registration::parse(&json!({"url": url, "event_types": events})).unwrap();
        assert_eq!(stated, some);
    }
}
