//! Documentation of the agent: three links of 5 points each.

use serde::Serialize;

use crate::rules::document::Card;
use crate::rules::finding::{Code, Finding, Findings};
use crate::rules::web_url;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Documentation {
    pub score: u64,
    pub max_score: u64,
    pub has_documentation_url: bool,
    pub has_terms_of_service: bool,
    pub has_privacy_policy: bool,
}

pub(super) fn score(card: &Card, findings: &mut Findings) -> Documentation {
    let mut has = |name: &str, code| {
        let given = card.text(name).and_then(web_url::parse_http).is_some();
        if !given {
            findings.push(Finding::new(
                code,
                format!("/{name}"),
                format!("`{name}` is not an http or https URL; link to the page."),
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
