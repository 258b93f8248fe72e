//! Refusals of NATS servers. They arrive apart from the request that was refused, which gets no
//! answer.

/// A permission that a NATS user does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub action: &'static str,
    pub subject: String,
}

impl Refusal {
    /// Reads the text of a server's error: `Permissions Violation for Publish to "a.b"`. `None` if
    /// the error is another one.
    pub fn parse(error: &str) -> Option<Self> {
        let (_, refused) = error.split_once("Permissions Violation for ")?;
        let (action, rest) = match refused.split_once(' ')? {
            ("Publish", rest) => ("publish to", rest),
            ("Subscription", rest) => ("subscribe to", rest),
            _ => return None,
        };
        let (_, quoted) = rest.split_once('"')?;
        let (subject, _) = quoted.split_once('"')?;
        Some(Self {
            action,
            subject: subject.to_owned(),
        })
    }

    /// The subject without the ids of single messages and processes, so that similar refusals are
    /// counted as one.
    pub fn kind(&self) -> String {
        let tokens: Vec<&str> = self.subject.split('.').collect();
        let kept = match tokens.as_slice() {
            ["$JS", "ACK", ..] => 3,
            ["$JS", ..] => tokens.len().min(6),
            _ => 2,
        };
        let kept: Vec<&str> = tokens.into_iter().take(kept).collect();
        format!("{} {}", self.action, kept.join("."))
    }
}

/// What to do about a connection that fails with this error, if it is known.
pub fn remedy(error: &str) -> Option<&'static str> {
    let is = |known: &str| error.to_ascii_lowercase().contains(known);
    if is("authorization violation") || is("failed signing nonce") {
        return Some("check `nkey_file` or `credentials_file`, and the users of the NATS servers");
    }
    is("tls error").then_some("check `ca_file` and the certificates of the NATS servers")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(
        "nats: Permissions Violation for Publish to \"ts1.claim.host_1.w1\"",
        "publish to",
        "ts1.claim.host_1.w1",
        "publish to ts1.claim"
    )]
    #[case(
        "Permissions Violation for Subscription to \"ts1.inbox.w2.>\"",
        "subscribe to",
        "ts1.inbox.w2.>",
        "subscribe to ts1.inbox"
    )]
    #[case(
        "Permissions Violation for Subscription to \"a.b\" using queue \"q\"",
        "subscribe to",
        "a.b",
        "subscribe to a.b"
    )]
    #[case(
        "Permissions Violation for Publish to \"$JS.ACK.TS1_Q_b.h1.1.2.3.4.5\"",
        "publish to",
        "$JS.ACK.TS1_Q_b.h1.1.2.3.4.5",
        "publish to $JS.ACK.TS1_Q_b"
    )]
    fn a_refusal_names_the_subject(
        #[case] error: &str,
        #[case] action: &str,
        #[case] subject: &str,
        #[case] kind: &str,
    ) {
        let refusal = Refusal::parse(error).unwrap();
        assert_eq!(
            (refusal.action, refusal.subject.as_str()),
            (action, subject)
        );
        assert_eq!(refusal.kind(), kind);
    }

    #[rstest]
    #[case("nats: authorization violation", Some("nkey_file"))]
    #[case("nats: TLS error", Some("ca_file"))]
    #[case("nats: IO error", None)]
    fn known_faults_of_a_connection_have_a_remedy(
        #[case] error: &str,
        #[case] expected: Option<&str>,
    ) {
        let remedy = remedy(error);
        assert_eq!(remedy.is_some(), expected.is_some());
        assert!(
            remedy
                .unwrap_or_default()
                .contains(expected.unwrap_or_default())
        );
    }

    #[rstest]
    #[case("")]
    #[case("Authorization Violation")]
    #[case("Permissions Violation for Publish to")]
    #[case("Permissions Violation for Publish to \"a")]
    fn other_errors_are_not_refusals(#[case] error: &str) {
        assert_eq!(Refusal::parse(error), None);
    }
}
