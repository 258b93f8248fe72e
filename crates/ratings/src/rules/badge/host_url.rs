//! The address at which verifiers of badges reach a host (AAAF badges).

use url::{Host, Url};
use uuid::Uuid;

use crate::credential::did::{Signatory, did_web};
use touchstone_kit::keys::PublicKey;

/// The address of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostUrl {
    base_url: String,
    /// `host` or `host:port` under which DID documents are served over HTTPS, if the host has a
    /// public name.
    authority: Option<String>,
}

/// Not an address that badges can refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be an http or https address such as https://assess.example.org, without path, query \
    or user"
)]
pub struct InvalidHostUrl;

impl HostUrl {
    /// A host that is known only by its listen address.
    pub fn listening(address: &str) -> Self {
        Self {
            base_url: format!("http://{address}"),
            authority: None,
        }
    }

    /// Whether people reach the host over TLS.
    pub fn is_secure(&self) -> bool {
        self.base_url.starts_with("https://")
    }

    /// A host with a public address.
    ///
    /// # Errors
    /// [`InvalidHostUrl`].
    pub fn public(address: &str) -> Result<Self, InvalidHostUrl> {
        let url: Url = address.parse().map_err(|_| InvalidHostUrl)?;
        let bare = matches!(url.scheme(), "http" | "https")
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none();
        let host = url.host_str().filter(|_| bare).ok_or(InvalidHostUrl)?;
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        // A did:web resolver requires a domain name and HTTPS.
        let named = matches!(url.host(), Some(Host::Domain(name)) if name.contains('.'));
        Ok(Self {
            base_url: format!("{}://{authority}", url.scheme()),
            authority: (url.scheme() == "https" && named).then_some(authority),
        })
    }

    /// The base URL, without a trailing slash.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The address at which a badge is verified.
    pub fn verification(&self, badge: Uuid) -> String {
        format!("{}{}", self.base_url, verification_path(badge))
    }

    /// The base URL of the host that verifies a badge at this address; `None` for any other
    /// address.
    pub fn verified_at(url: &str, badge: Uuid) -> Option<&str> {
        url.strip_suffix(&verification_path(badge))
    }

    /// The DID of an organization under the host's public name; `None` without one.
    pub fn did(&self, organization: &str) -> Option<String> {
        let authority = self.authority.as_ref()?;
        Some(did_web(authority, organization))
    }

    /// The signatory of an organization: its `did:web` if it has one, otherwise the key itself.
    pub fn signatory(&self, organization: &str, key: &PublicKey) -> Signatory {
        match self.did(organization) {
            Some(did) => Signatory::by_web(did, key),
            None => Signatory::by_key(key),
        }
    }
}

fn verification_path(badge: Uuid) -> String {
    format!("/api/v1/badges/{badge}/verify")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(
        "https://assess.example.org",
        "https://assess.example.org",
        Some("did:web:assess.example.org:orgs:o")
    )]
    #[case(
        "https://assess.example.org/",
        "https://assess.example.org",
        Some("did:web:assess.example.org:orgs:o")
    )]
    #[case(
        "https://assess.example.org:8443",
        "https://assess.example.org:8443",
        Some("did:web:assess.example.org%3A8443:orgs:o")
    )]
    #[case("http://assess.example.org", "http://assess.example.org", None)]
    #[case("https://localhost:7800", "https://localhost:7800", None)]
    #[case("https://192.0.2.7", "https://192.0.2.7", None)]
    fn only_an_https_address_has_a_did_web(
        #[case] address: &str,
        #[case] base_url: &str,
        #[case] did: Option<&str>,
    ) {
        let place = HostUrl::public(address).unwrap();
        assert_eq!(
            (place.base_url(), place.did("o").as_deref()),
            (base_url, did)
        );
    }

    #[rstest]
    #[case("assess.example.org")]
    #[case("ftp://assess.example.org")]
    #[case("https://assess.example.org/aaaf")]
    #[case("https://assess.example.org?x")]
    #[case("https://u:p@assess.example.org")]
    fn unusable_public_addresses_are_rejected(#[case] address: &str) {
        assert_eq!(HostUrl::public(address), Err(InvalidHostUrl));
    }
}
