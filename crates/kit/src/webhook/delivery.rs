//! One delivery: its body and its signed headers (OpenWOP webhooks, RFC 0165 §C, RFC 0201 §C).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::SCHEME_V1;
use super::secret::{Secret, Secrets};
use crate::hex::{hex, hex_prefix};
use crate::ids::{RunId, TenantId, WebhookId};

/// A delivery that is ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Header names in lower case, with their values.
    pub headers: Vec<(&'static str, String)>,
    /// The exact bytes that are signed.
    pub body: Vec<u8>,
}

/// An event for a subscription.
#[derive(Clone, Copy, Debug)]
pub struct Addressed<'a> {
    pub webhook: &'a WebhookId,
    /// The tenant that owns the run.
    pub tenant: &'a TenantId,
    pub run: &'a RunId,
    /// The event's sequence number in the run's log.
    pub sequence: u64,
    /// The event's type, as the receiver knows it.
    pub kind: &'a str,
    /// The event's document, byte for byte as readers of the log see it.
    pub event: &'a [u8],
    /// `None` for subscriptions of OpenWOP v1.
    pub bound: Option<BoundIds<'a>>,
}

/// Ids with their tenant: subscriptions of OpenWOP v2 know no others.
#[derive(Clone, Copy, Debug)]
pub struct BoundIds<'a> {
    pub webhook: &'a str,
    pub run: &'a str,
}

impl Delivery {
    /// Builds and signs a delivery. `standard` adds the headers of Standard Webhooks.
    pub fn of(event: &Addressed<'_>, secrets: &Secrets, standard: bool, now: Timestamp) -> Self {
        let body = body(event);
        let timestamp = now.as_second().to_string();
        // During an overlap, the `v1` signature stays with the previous secret, which receivers
        // certainly have.
        let signing = secrets.overlapping(now).unwrap_or(&secrets.current);
        let mac = hmac(
            signing.expose().as_bytes(),
            &[timestamp.as_bytes(), b".", &body],
        );
        let signature = format!("sha256={}", hex(&mac));
        let mut headers = vec![("content-type", "application/json".to_owned())];
        let webhook = event.bound.map_or(event.webhook.as_str(), |it| it.webhook);
        for (name, value) in [
            (["x-openwop-webhook-id", "openwop-webhook-id"], webhook),
            (["x-openwop-event-type", "openwop-event-type"], event.kind),
            (
                ["x-openwop-timestamp", "openwop-timestamp"],
                timestamp.as_str(),
            ),
            (
                ["x-openwop-signature", "openwop-signature"],
                signature.as_str(),
            ),
            (
                [
                    "x-openwop-signature-algorithm",
                    "openwop-signature-algorithm",
                ],
                SCHEME_V1,
            ),
        ] {
            headers.extend(name.map(|name| (name, value.to_owned())));
        }
        if standard {
            let id = message_id(event.webhook, event.run, event.sequence);
            headers.extend(standard_headers(&id, secrets, &body, now));
        }
        Self { headers, body }
    }

    /// The request that asks an endpoint to confirm that it wants deliveries (RFC 0201 §D). It is
    /// not a delivery and names no event type.
    pub fn verification(id: &str, challenge: &str, secrets: &Secrets, now: Timestamp) -> Self {
        let body =
            serde_json::json!({"type": "openwop.webhook.verification", "challenge": challenge})
                .to_string()
                .into_bytes();
        let mut headers = vec![("content-type", "application/json".to_owned())];
        headers.extend(standard_headers(id, secrets, &body, now));
        Self { headers, body }
    }
}

/// The id of one event for one subscription: the same at every attempt, and unique (RFC 0201 §C).
pub fn message_id(webhook: &WebhookId, run: &RunId, sequence: u64) -> String {
    format!("msg_{}", delivery_digest(webhook, run, sequence))
}

/// The id of the delivery of one event to one subscription: the same at every attempt, and unique.
pub fn delivery_id(webhook: &WebhookId, run: &RunId, sequence: u64) -> String {
    format!("dlv_{}", delivery_digest(webhook, run, sequence))
}

fn delivery_digest(webhook: &WebhookId, run: &RunId, sequence: u64) -> String {
    let mut digest = Sha256::new();
    digest.update(webhook.as_str().as_bytes());
    digest.update([0]);
    digest.update(run.as_str().as_bytes());
    digest.update([0]);
    digest.update(sequence.to_be_bytes());
    hex_prefix(&digest.finalize(), 40)
}

/// The Standard Webhooks headers for a message with this id and body, signed by every secret that
/// is valid at this time.
pub fn standard_headers(
    id: &str,
    secrets: &Secrets,
    body: &[u8],
    now: Timestamp,
) -> [(&'static str, String); 3] {
    let timestamp = now.as_second().to_string();
    // A secret of another form is skipped: it has no key, and anyone could sign with an empty one.
    let entry = |secret: &Secret| {
        let key = secret.standard_key()?;
        let mac = hmac(
            &key,
            &[id.as_bytes(), b".", timestamp.as_bytes(), b".", body],
        );
        Some(format!("v1,{}", STANDARD.encode(mac)))
    };
    let signatures: Vec<String> = std::iter::once(&secrets.current)
        .chain(secrets.overlapping(now))
        .filter_map(entry)
        .collect();
    [
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", timestamp.clone()),
        ("webhook-signature", signatures.join(" ")),
    ]
}

/// `{"runId", "workspaceId", "type", "event"}` with the event byte for byte as in the log. `type`
/// repeats the event's type at the top level, where receivers of Standard Webhooks look for it. Under
/// OpenWOP v2, the body has `runId` and `event` only: an owner without a workspace has no
/// `workspaceId`.
fn body(event: &Addressed<'_>) -> Vec<u8> {
    let text = |text: &str| Value::from(text).to_string();
    let head = match event.bound {
        None => {
            let (run, tenant) = (text(event.run.as_str()), text(event.tenant.as_str()));
            let kind = text(event.kind);
            format!("{{\"runId\":{run},\"workspaceId\":{tenant},\"type\":{kind},\"event\":")
        }
        Some(ids) => format!("{{\"runId\":{},\"event\":", text(ids.run)),
    };
    let mut body = head.into_bytes();
    body.extend_from_slice(event.event);
    body.push(b'}');
    body
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    // HMAC accepts keys of any length and hashes longer ones first.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return Vec::new();
    };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1_614_265_330).unwrap()
    }

    fn header<'a>(delivery: &'a Delivery, name: &str) -> Option<&'a str> {
        delivery
            .headers
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.as_str())
    }

    fn deliver(secrets: &Secrets, standard: bool, now: Timestamp) -> Delivery {
        deliver_as(None, secrets, standard, now)
    }

    fn deliver_as(
        bound: Option<BoundIds<'_>>,
        secrets: &Secrets,
        standard: bool,
        now: Timestamp,
    ) -> Delivery {
        Delivery::of(
            &Addressed {
                webhook: &"wh_1".into(),
                tenant: &"acme".into(),
                run: &"run_1".into(),
                sequence: 7,
                kind: "run.completed",
                event: br#"{"b":1,"a":"\u00fc"}"#,
                bound,
            },
            secrets,
            standard,
            now,
        )
    }

    /// RFC 4231, test case 2.
    #[test]
    fn the_mac_is_hmac_sha256() {
        assert_eq!(
            hex(&hmac(
                b"Jefe",
                &[b"what do ya want ".as_slice(), b"for nothing?"]
            )),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    /// The example from the Standard Webhooks documentation.
    #[test]
    fn the_standard_signature_is_that_of_the_published_example() {
        let secret = Secret::standard("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let [.., (_, signature)] = standard_headers(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            &Secrets::of(secret),
            br#"{"test": 2432232314}"#,
            now(),
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn the_body_carries_the_event_byte_for_byte() {
        let delivery = deliver(&Secrets::of(Secret::minted([7; 32])), false, now());
        assert_eq!(
            delivery.body,
            br#"{"runId":"run_1","workspaceId":"acme","type":"run.completed","event":{"b":1,"a":"\u00fc"}}"#
        );
    }

    #[test]
    fn a_subscription_of_v2_knows_ids_with_their_tenant() {
        let secrets = Secrets::of(Secret::minted([7; 32]));
        let bound = BoundIds {
            webhook: "acme/wh_1",
            run: "acme/run_1",
        };
        let delivery = deliver_as(Some(bound), &secrets, true, now());
        assert_eq!(
            delivery.body,
            br#"{"runId":"acme/run_1","event":{"b":1,"a":"\u00fc"}}"#
        );
        for name in ["x-openwop-webhook-id", "openwop-webhook-id"] {
            assert_eq!(header(&delivery, name), Some("acme/wh_1"));
        }
        let of_v1 = deliver(&secrets, true, now());
        assert_eq!(
            header(&delivery, "webhook-id"),
            header(&of_v1, "webhook-id")
        );
    }

    #[test]
    fn both_header_families_have_the_same_values() {
        let delivery = deliver(&Secrets::of(Secret::minted([7; 32])), false, now());
        for name in [
            "webhook-id",
            "event-type",
            "timestamp",
            "signature",
            "signature-algorithm",
        ] {
            let old = header(&delivery, &format!("x-openwop-{name}"));
            assert!(old.is_some());
            assert_eq!(old, header(&delivery, &format!("openwop-{name}")));
        }
        assert_eq!(header(&delivery, "openwop-signature-algorithm"), Some("v1"));
        assert_eq!(header(&delivery, "openwop-timestamp"), Some("1614265330"));
        assert_eq!(header(&delivery, "webhook-id"), None, "not asked for");
    }

    #[test]
    fn during_a_rotation_both_secrets_sign_and_the_single_signature_is_unchanged() {
        let secret = |octet: u8| {
            Secret::standard(&format!("whsec_{}", STANDARD.encode([octet; 24]))).unwrap()
        };
        let until = Timestamp::from_second(1_614_265_400).unwrap();
        let before = Secrets::of(secret(1));
        let rotated = before.clone().rotated(secret(2), until);
        let alone = |secrets: &Secrets, now| {
            let delivery = deliver(secrets, true, now);
            (
                header(&delivery, "openwop-signature").unwrap().to_owned(),
                header(&delivery, "webhook-signature").unwrap().to_owned(),
            )
        };
        let (old_single, old_entry) = alone(&before, now());
        let (_, new_entry) = alone(&Secrets::of(secret(2)), now());
        let (single, entries) = alone(&rotated, now());
        assert_eq!(single, old_single);
        assert_eq!(entries, format!("{new_entry} {old_entry}"));
        let (single, entries) = alone(&rotated, until);
        assert_eq!((single, entries), alone(&Secrets::of(secret(2)), until));
        // A second rotation retires the oldest secret at once.
        let twice = rotated.rotated(secret(3), until);
        assert_eq!(twice.overlapping(now()), Some(&secret(2)));
    }

    #[test]
    fn a_nonstandard_secret_creates_no_standard_webhooks_signature() {
        let minted = Secret::minted([7; 32]);
        let standard = Secret::standard(&format!("whsec_{}", STANDARD.encode([1; 24]))).unwrap();
        let alone = deliver(&Secrets::of(minted.clone()), true, now());
        assert_eq!(header(&alone, "webhook-signature"), Some(""));
        let until = Timestamp::from_second(1_614_265_400).unwrap();
        let rotated = deliver(
            &Secrets::of(minted).rotated(standard.clone(), until),
            true,
            now(),
        );
        let settled = deliver(&Secrets::of(standard), true, now());
        assert_eq!(
            header(&rotated, "webhook-signature"),
            header(&settled, "webhook-signature")
        );
    }

    #[test]
    fn a_message_id_is_of_one_event_and_one_subscription() {
        let id = message_id(&"wh_1".into(), &"run_1".into(), 7);
        assert_eq!(id, message_id(&"wh_1".into(), &"run_1".into(), 7));
        assert_eq!(id.len(), 44);
        let delivery = delivery_id(&"wh_1".into(), &"run_1".into(), 7);
        assert_eq!(delivery.replace("dlv_", "msg_"), id);
        for other in [
            message_id(&"wh_2".into(), &"run_1".into(), 7),
            message_id(&"wh_1".into(), &"run_2".into(), 7),
            message_id(&"wh_1".into(), &"run_1".into(), 8),
            message_id(&"wh_1\0run_1".into(), &"".into(), 7),
        ] {
            assert_ne!(id, other);
        }
    }
}
