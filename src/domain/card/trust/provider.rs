//! Who stands behind the agent: a name and a site of 10 points each, and 5 if the site answers.

use serde::Serialize;
use url::Url;

use crate::domain::card::document::Card;
use crate::domain::card::finding::{Code, Finding, Findings};
use crate::domain::card::web_url;

/// Points for the provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Provider {
    /// Points.
    pub score: u64,
    /// The most there are.
    pub max_score: u64,
    /// Whether there is a name.
    pub has_organization: bool,
    /// Whether there is a site, over https.
    pub has_url: bool,
    /// Whether the site answers; `None` if nobody asked it.
    pub url_reachable: Option<bool>,
}

/// The provider's site, if it is one to be asked.
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
            "Nobody is named as the provider; add `provider.organization`.",
        ));
    }
    if !has_url {
        findings.push(Finding::new(
            Code::ProviderUrlMissing,
            "/provider/url",
            "`provider.url` is no https URL; give the provider's site.",
        ));
    }
    if url_reachable == Some(false) {
        findings.push(Finding::new(
            Code::ProviderUrlUnreachable,
            "/provider/url",
            "The provider's site did not answer, or has no such page; correct `provider.url` or the site.",
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
