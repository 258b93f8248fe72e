//! Who acted, as major 2 shows it (OpenWOP v2 identity §1): an opaque id instead of the stored
//! principal.

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use touchstone_kit::hex::hex_prefix;

/// The prefix of the principals of people who sign in.
const SIGNED_IN: &str = "oidc:";

/// The issuer of API keys.
pub const API_KEYS: &str = "urn:touchstone:api-key";
/// The issuer of sessions of people.
pub const SESSIONS: &str = "urn:touchstone:session";
/// The issuer of all subjects in logs from before major 2.
const OLD: &str = "urn:openwop:legacy";

/// An actor. The set of members is closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject<'a> {
    pub issuer: &'static str,
    pub subject_id: String,
    pub tenant: &'a str,
    pub lane: &'static str,
    pub kind: &'static str,
}

impl<'a> Subject<'a> {
    /// The subject of a principal.
    pub fn of(tenant: &'a str, principal: &str) -> Self {
        let (issuer, lane) = if principal.starts_with(SIGNED_IN) {
            (SESSIONS, "session")
        } else {
            (API_KEYS, "api-key")
        };
        Self {
            issuer,
            subject_id: id(tenant, principal),
            tenant,
            lane,
            kind: "user",
        }
    }

    /// The subject of a principal in a log from before major 2.
    pub fn of_old_log(tenant: &'a str, principal: &str) -> Self {
        Self {
            issuer: OLD,
            lane: "api-key",
            ..Self::of(tenant, principal)
        }
    }
}

/// The `subjectId` of a principal: the same for everything that the principal does in its tenant. It
/// does not reveal the principal.
pub fn id(tenant: &str, principal: &str) -> String {
    let hash = Sha256::new()
        .chain_update(tenant)
        .chain_update([0])
        .chain_update(principal);
    hex_prefix(&hash.finalize(), 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_key_is_shown_without_its_name() {
        let shown = serde_json::to_value(Subject::of("acme", "key_1")).unwrap();
        let expected = json!({
            "issuer": "urn:touchstone:api-key",
            "subjectId": id("acme", "key_1"),
            "tenant": "acme",
            "lane": "api-key",
            "kind": "user",
        });
        assert_eq!(shown, expected);
        assert!(!shown.to_string().contains("key_1"));
    }

    #[test]
    fn a_person_has_the_lane_of_sessions() {
        let subject = Subject::of("acme", "oidc:dana");
        assert_eq!((subject.issuer, subject.lane), (SESSIONS, "session"));
        let old = Subject::of_old_log("acme", "oidc:dana");
        assert_eq!((old.issuer, old.lane), ("urn:openwop:legacy", "api-key"));
        assert_eq!(old.subject_id, subject.subject_id);
    }

    #[test]
    fn ids_of_subjects_belong_to_one_tenant() {
        let ids = [
            id("acme", "key_1"),
            id("acme", "key_2"),
            id("other", "key_1"),
        ];
        assert!(ids.iter().all(|id| id.len() == 32));
        assert!(ids[0] != ids[1] && ids[0] != ids[2]);
        assert_eq!(ids[0], id("acme", "key_1"));
        // The boundary between the two parts counts.
        assert_ne!(id("a", "bc"), id("ab", "c"));
    }
}
