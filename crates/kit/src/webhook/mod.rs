//! Webhook subscriptions: registration, the format of deliveries, and when deliveries stop (OpenWOP
//! webhooks, RFC 0093, RFC 0165, RFC 0201).

pub mod circuit;
pub mod delivery;
pub mod registration;
pub mod schedule;
pub mod secret;

pub use circuit::{Admission, Circuit};
pub use delivery::{Delivery, delivery_id, message_id, standard_headers};
pub use registration::Registration;
pub use secret::{Secret, Secrets};

/// The signature scheme every delivery carries: HMAC-SHA256 of `<timestamp>.<raw body>`.
pub const SCHEME_V1: &str = "v1";
/// The companion scheme a subscription may ask for: Standard Webhooks 1.0.0, symmetric (RFC 0201).
pub const SCHEME_STANDARD: &str = "standard-webhooks-1";
/// The event types sent to the `callbackUrl` of a run: how it ended.
pub const ENDINGS: [&str; 3] = ["run.completed", "run.failed", "run.cancelled"];
/// The supported signature schemes.
pub const SCHEMES: [&str; 2] = [SCHEME_V1, SCHEME_STANDARD];
