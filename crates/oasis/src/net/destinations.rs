//! The permitted destinations: for calls to a provider, and for the agent's operations.

use url::{Origin, Url};

use crate::net::response_error::ResponseError;
use touchstone_host::net::address::AddressScope;
use touchstone_host::net::check;
use touchstone_host::net::error::Error;

/// The destinations that the operator permitted for one provider.
pub(super) struct AllowedDestinations {
    /// Ends with a slash, so that relative URLs are below it.
    base: Url,
    agents: Vec<Origin>,
}

impl AllowedDestinations {
    /// A provider at `url` whose agent endpoints may have its origin or one of `agents`.
    pub(super) fn new(url: Url, agents: Vec<Origin>) -> Result<Self, Error> {
        check(&url, AddressScope::Private)?;
        let mut base = url;
        base.path_segments_mut()
            .map_err(|()| PATHLESS)?
            .pop_if_empty()
            .push("");
        Ok(Self { base, agents })
    }

    pub(super) fn below(&self, call: &str) -> Result<Url, Error> {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .map_err(|()| PATHLESS)?
            .pop_if_empty()
            .extend(["v1", call]);
        Ok(url)
    }

    /// The URL for the agent's operations, if the operator permitted its origin. The provider's
    /// response alone is not enough: the provider could make this host contact arbitrary addresses.
    pub(super) fn agent(&self, endpoint: &str) -> Result<Url, ResponseError> {
        let url = self
            .base
            .join(endpoint)
            .map_err(|_| ResponseError::Endpoint)?;
        check(&url, AddressScope::Private).map_err(|_| ResponseError::Endpoint)?;
        let origin = url.origin();
        if origin != self.base.origin() && !self.agents.contains(&origin) {
            return Err(ResponseError::Origin);
        }
        Ok(url)
    }
}

const PATHLESS: Error = Error::Url("it cannot have a path");

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn agent(endpoint: &str) -> Result<String, String> {
        let url = |text: &str| text.parse::<Url>().unwrap();
        let agents = ["http://desk.example:8080", "https://desk.example"];
        let agents = agents.map(|text| url(text).origin()).to_vec();
        let places = AllowedDestinations::new(url("http://127.0.0.1:7/oasis"), agents).unwrap();
        places
            .agent(endpoint)
            .map(Into::into)
            .map_err(|error| error.to_string())
    }

    #[rstest]
    #[case("/env/e-1/ops", "http://127.0.0.1:7/env/e-1/ops")]
    #[case("env/e-1/ops", "http://127.0.0.1:7/oasis/env/e-1/ops")]
    #[case("?env=e-1", "http://127.0.0.1:7/oasis/?env=e-1")]
    #[case("http://127.0.0.1:7/ops", "http://127.0.0.1:7/ops")]
    #[case("http://desk.example:8080/ops", "http://desk.example:8080/ops")]
    #[case("https://desk.example/ops", "https://desk.example/ops")]
    #[case("HTTPS://DESK.EXAMPLE:443/ops", "https://desk.example/ops")]
    fn agent_endpoints_at_allowed_origins_are_accepted(#[case] endpoint: &str, #[case] url: &str) {
        assert_eq!(agent(endpoint), Ok(url.to_owned()));
    }

    #[rstest]
    #[case::other_port("http://127.0.0.1:8/ops")]
    #[case::other_scheme("https://127.0.0.1:7/ops")]
    #[case::other_host("http://127.0.0.2:7/ops")]
    #[case::other_name("http://localhost:7/ops")]
    #[case::without_scheme("//192.0.2.1/ops")]
    #[case::backslashes("\\\\192.0.2.1\\ops")]
    #[case::tab_between("/\t/192.0.2.1/ops")]
    #[case::longer_name("http://desk.example.evil.example:8080/ops")]
    #[case::other_port_of_a_name("http://desk.example/ops")]
    #[case::metadata("http://169.254.169.254/latest")]
    fn agent_endpoints_at_other_origins_are_rejected(#[case] endpoint: &str) {
        let refused = Err("agent_endpoint has an origin that is not allowed".to_owned());
        assert_eq!(agent(endpoint), refused);
    }

    #[rstest]
    #[case::file("file:///etc/passwd")]
    #[case::credentials("http://canary@127.0.0.1:7/ops")]
    #[case::password("//:canary@127.0.0.1:7/ops")]
    #[case::no_host("http://")]
    #[case::group("http://224.0.0.1/")]
    fn unusable_agent_endpoints_are_rejected(#[case] endpoint: &str) {
        let refused = Err("agent_endpoint is not a usable URL".to_owned());
        assert_eq!(agent(endpoint), refused);
    }

    #[rstest]
    #[case("http://127.0.0.1:7", "http://127.0.0.1:7/v1/observe")]
    #[case("http://127.0.0.1:7/oasis", "http://127.0.0.1:7/oasis/v1/observe")]
    #[case("http://127.0.0.1:7/oasis/", "http://127.0.0.1:7/oasis/v1/observe")]
    fn call_paths_are_appended_to_the_provider_url(#[case] url: &str, #[case] expected: &str) {
        let places = AllowedDestinations::new(url.parse().unwrap(), Vec::new()).unwrap();
        assert_eq!(places.below("observe").unwrap().as_str(), expected);
    }
}
