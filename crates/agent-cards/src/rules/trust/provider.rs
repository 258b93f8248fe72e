//! The agent's provider: 10 points each for a name and a site, and 5 if the site answers.

use serde::Serialize;
use url::Url;

use crate::rules::document::Card;
use crate::rules::finding::{Code, Finding, Findings};
use crate::rules::web_url;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Provider {
    pub score: u64,
    pub max_score: u64,
    pub has_organization: bool,
    /// Whether the card has the provider's URL, over https.
    pub has_url: bool,
    /// Whether the site answers; `None` if it was not called.
    pub url_reachable: Option<bool>,
}

/// The provider's site, if its URL can be called.
pub fn site(card: &Card) -> Option<Url> {
    card.provider_text("url").and_then(web_url::parse_https)
}

pub(super) fn score(card: &Card, reachable: Option<bool>, findings: &mut Findings) -> Provider {
    let has_organization = card.provider_text("organization").is_some();
    let has_url = site(card).is_some();
    let url_reachable = reachable.filter(|_| has_url);
    if !has_organization {
        findings.push(Finding::new(
            Code::ProviderOrganizationMissing,
            "/provider/organization",
            "The card names no provider; add `provider.organization`.",
        ));
    }
    if !has_url {
        findings.push(Finding::new(
            Code::ProviderUrlMissing,
            "/provider/url",
            "`provider.url` is not an https URL; give the provider's site.",
        ));
    }
    if url_reachable == Some(false) {
        findings.push(Finding::new(
            Code::ProviderUrlUnreachable,
            "/provider/url",
            "The provider's site did not answer, or the page does not exist; correct \
            `provider.url` or the site.",
        ));
    }
    Provider {
        score: 10 * u64::from(has_organization)
            + 10 * u64::from(has_url)
            + 5 * u64::from(url_reachable == Some(true)),
        max_score: 25,
        has_organization,
        has_url,
        url_reachable,
    }
}
