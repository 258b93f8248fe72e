//! What is written about the agent: three links of 5 points.

use serde::Serialize;

use crate::domain::card::document::Card;
use crate::domain::card::finding::{Code, Finding, Findings};
use crate::domain::card::web_url;

/// Points for documentation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Documentation {
    /// Points.
    pub score: u64,
    /// The most there are.
    pub max_score: u64,
    /// Whether there is a link to documentation.
    pub has_documentation_url: bool,
    /// Whether there is one to the terms.
    pub has_terms_of_service: bool,
    /// Whether there is one to what becomes of data.
    pub has_privacy_policy: bool,
}

pub(super) fn score(card: &Card, findings: &mut Findings) -> Documentation {
    let mut has = |name: &str, code| {
        let given = card.text(name).and_then(web_url::parse_http).is_some();
        if !given {
            findings.push(Finding::new(
                code,
                format!("/{name}"),
                format!("`{name}` is no http or https URL; link to the page."),
            ));
        }
        given
    };
    let has_documentation_url = has("documentationUrl", Code::DocumentationUrlMissing);
    let has_terms_of_service = has("termsOfServiceUrl", Code::TermsOfServiceUrlMissing);
    let has_privacy_policy = has("privacyPolicyUrl", Code::PrivacyPolicyUrlMissing);
    let links = [
        has_documentation_url,
        has_terms_of_service,
        has_privacy_policy,
    ];
    Documentation {
        score: 5 * links.into_iter().filter(|has| *has).count() as u64,
        max_score: 15,
        has_documentation_url,
        has_terms_of_service,
        has_privacy_policy,
    }
}
