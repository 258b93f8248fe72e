//! Requests to an OpenID provider, also to addresses that its discovery document names.
//!
//! The operator chose the address of the issuer. The document chooses the others: they get the client
//! secret, codes and tokens, and the keys that decide who a person is come from there. So they need
//! TLS if the issuer has it, and private addresses are reached only if the issuer's own is private.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::BoxFuture;
use openidconnect::http::{HeaderMap, Method, Response};
use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};
use url::{Host, Url};

use touchstone_host::net;
use touchstone_host::net::AddressScope;

/// Time for one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Largest document of a provider, in bytes.
const MAX_DOCUMENT: u64 = 1 << 20;

pub struct Transport {
    issuer: Url,
    /// For the issuer's own host.
    own: net::Client,
    /// For other hosts, if the issuer's address is private.
    private: net::Client,
    /// For other hosts, if it is not.
    public: net::Client,
}

impl Transport {
    /// # Errors
    /// [`net::Error::Setup`].
    pub fn new(issuer: &Url) -> Result<Self, net::Error> {
        let client = |reach| {
            net::Client::new(net::Policy {
                reach,
                max_response_bytes: MAX_DOCUMENT,
                ..net::Policy::model(TIMEOUT, 2)
            })
        };
        Ok(Self {
            issuer: issuer.clone(),
            own: client(AddressScope::Private)?,
            private: client(AddressScope::Opened)?,
            public: client(AddressScope::Public)?,
        })
    }

    /// # Errors
    /// See [`net::Error`].
    pub async fn get(&self, url: &Url, headers: &HeaderMap) -> Result<net::Answer, net::Error> {
        self.client_for(url).await?.get(url, headers).await
    }

    /// The client that may send a request there.
    async fn client_for(&self, url: &Url) -> Result<&net::Client, net::Error> {
        if self.issuer.scheme() == "https" && url.scheme() != "https" {
            let fault = "the provider names an address without https";
            return Err(net::Error::Url(fault));
        }
        if url.host() == self.issuer.host() {
            return Ok(&self.own);
        }
        match self.issuer_is_private().await {
            true => Ok(&self.private),
            false => Ok(&self.public),
        }
    }

    /// Whether the issuer has private addresses alone. A name that does not resolve is not private.
    async fn issuer_is_private(&self) -> bool {
        let is_private = |address: IpAddr| !net::is_public(address.to_canonical());
        let name = match self.issuer.host() {
            Some(Host::Ipv4(ip)) => return is_private(ip.into()),
            Some(Host::Ipv6(ip)) => return is_private(ip.into()),
            Some(Host::Domain(name)) => name,
            None => return false,
        };
        let port = self.issuer.port_or_known_default().unwrap_or_default();
        let Ok(found) = tokio::net::lookup_host((name, port)).await else {
            return false;
        };
        let mut found = found.map(|address| is_private(address.ip())).peekable();
        found.peek().is_some() && found.all(|private| private)
    }

    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, net::Error> {
        let (parts, body) = request.into_parts();
        let url = Url::parse(&parts.uri.to_string());
        let url = url.map_err(|_| net::Error::Url("the provider gave no address"))?;
        let client = self.client_for(&url).await?;
        let answer = match parts.method {
            Method::POST => client.post(&url, &parts.headers, body).await?,
            _ => client.get(&url, &parts.headers).await?,
        };
        let mut response = Response::new(answer.body.to_vec());
        *response.headers_mut() = answer.headers;
        let status = answer.status.try_into();
        *response.status_mut() = status.map_err(|_| net::Error::Status(answer.status))?;
        Ok(response)
    }
}

impl<'c> AsyncHttpClient<'c> for Transport {
    type Error = net::Error;
    type Future = BoxFuture<'c, Result<HttpResponse, net::Error>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.send(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// Whether a provider may name an address: the scheme and a literal address.
    async fn may_name(issuer: &str, url: &str) -> bool {
        let transport = Transport::new(&issuer.parse().unwrap()).unwrap();
        let url: Url = url.parse().unwrap();
        let client = transport.client_for(&url).await;
        client.is_ok_and(|client| client.check(&url).is_ok())
    }

    #[rstest]
    #[case::same_host("https://8.8.8.8/staff", "https://8.8.8.8/token", true)]
    #[case::another_public_host("https://8.8.8.8", "https://9.9.9.9/keys", true)]
    #[case::without_tls("https://8.8.8.8", "http://8.8.8.8/token", false)]
    #[case::loopback("https://8.8.8.8", "https://127.0.0.1/token", false)]
    #[case::private("https://8.8.8.8", "https://10.0.0.7/token", false)]
    #[case::metadata("https://8.8.8.8", "https://169.254.169.254/latest", false)]
    #[case::private_issuer("https://10.0.0.5", "https://10.0.0.7/token", true)]
    #[case::private_issuer_without_tls("https://10.0.0.5", "http://10.0.0.7/token", false)]
    #[case::metadata_of_a_private_issuer("https://10.0.0.5", "https://169.254.169.254/", false)]
    #[case::on_this_machine("http://127.0.0.1:4000", "http://127.0.0.1:4001/token", true)]
    #[tokio::test]
    async fn a_provider_names_only_addresses_like_its_own(
        #[case] issuer: &str,
        #[case] url: &str,
        #[case] allowed: bool,
    ) {
        assert_eq!(may_name(issuer, url).await, allowed);
    }
}
