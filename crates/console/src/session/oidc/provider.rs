//! The OpenID provider: where to send people, and what it says about those who come back.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use openidconnect::core::{
    CoreAuthenticationFlow, CoreClient, CoreClientAuthMethod, CoreProviderMetadata,
    CoreTokenResponse,
};
use openidconnect::http::header::{ACCEPT, AUTHORIZATION};
use openidconnect::http::{HeaderMap, HeaderValue};
use openidconnect::{
    AuthType, AuthorizationCode, ClientId, ClientSecret, CsrfToken, DiscoveryError,
    EndpointMaybeSet, EndpointNotSet, EndpointSet, IssuerUrl, Nonce, OAuth2TokenResponse as _,
    PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RequestTokenError, Scope,
};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::Mutex;
use url::{Host, Url};

use crate::session::oidc::config::{OidcConfig, is_safe};
use crate::session::oidc::token::{TokenFault, verified};
use crate::session::oidc::transport::Transport;
use touchstone_host::access::Roles;
use touchstone_host::ports::clock::Clock;
use touchstone_host::render::words::plain;
use touchstone_host::rules::claims::{ClaimRules, Claims};
use touchstone_host::service::sign_in::AttemptSecrets;

/// The provider's addresses and keys are read again after this time.
const KEEP: SignedDuration = SignedDuration::from_mins(5);
const KEEP_FAILURE: SignedDuration = SignedDuration::from_secs(5);

/// The library's client with the addresses of the provider.
pub type ReadyClient = CoreClient<
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// A fault of a provider. The text is for the log; it holds no code, token or secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderFault {
    #[error("the provider cannot be reached or is set up wrong: {0}")]
    Unusable(String),
    #[error("the provider refused the code: {0}")]
    Refused(String),
    #[error("the provider's answer is not valid: {0}")]
    Invalid(String),
}

/// The provider's documents as last read, or why they could not be read.
struct Known {
    found: Result<Arc<CoreProviderMetadata>, ProviderFault>,
    since: Timestamp,
}

impl Known {
    /// A failure is remembered for a moment, so that people do not wait for it one after another.
    fn holds(&self, now: Timestamp) -> bool {
        let time = match self.found {
            Ok(_) => KEEP,
            Err(_) => KEEP_FAILURE,
        };
        now.duration_since(self.since).abs() < time
    }
}

pub struct Provider {
    /// The text on the button of the sign-in page.
    pub button: String,
    pub rules: ClaimRules,
    issuer: IssuerUrl,
    client_id: ClientId,
    secret: Option<SecretString>,
    scopes: Vec<String>,
    redirect: RedirectUrl,
    client: Transport,
    clock: Arc<dyn Clock>,
    known: Mutex<Option<Known>>,
}

impl Provider {
    /// `home` is the address at which people reach this host.
    ///
    /// # Errors
    /// A text that names the setting and its rule.
    pub fn new(
        config: &OidcConfig,
        roles: &Roles,
        environment: &dyn Fn(&str) -> Option<String>,
        home: &str,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, String> {
        let (issuer, rules) = config.checked(roles)?;
        let read = |name: &String| {
            let found = environment(name).filter(|secret| !secret.is_empty());
            found.map(SecretString::from).ok_or_else(|| {
                format!(
                    "`console.oidc.client_secret_env` names the environment variable {name}, \
                     which is not set"
                )
            })
        };
        let secret = config.client_secret_env.as_ref().map(read).transpose()?;
        let redirect = redirect(home)?;
        let client = Transport::new(issuer.url()).map_err(|fault| fault.to_string())?;
        Ok(Self {
            button: config.button.trim().to_owned(),
            rules,
            issuer,
            client_id: ClientId::new(config.client_id.clone()),
            secret,
            scopes: config.scopes.clone(),
            redirect,
            client,
            clock,
            known: Mutex::new(None),
        })
    }

    pub fn issuer(&self) -> &str {
        self.issuer.as_str()
    }

    /// The digest of the provider, the client and the mapping: sessions of other settings end.
    pub fn settings(&self) -> String {
        self.rules.digest(self.issuer(), &self.client_id)
    }

    /// Where the browser comes back.
    pub fn redirect(&self) -> &str {
        self.redirect.as_str()
    }

    /// The page of the provider at which a person signs in.
    ///
    /// # Errors
    /// [`ProviderFault::Unusable`].
    pub async fn sign_in_page(&self, secrets: &AttemptSecrets) -> Result<Url, ProviderFault> {
        let metadata = self.metadata(false).await?;
        let page = metadata.authorization_endpoint().url();
        let issuer = self.issuer.url();
        if page.scheme() != "https" && page.scheme() != issuer.scheme() {
            let fault = "its authorization endpoint has no https address".to_owned();
            return Err(ProviderFault::Unusable(fault));
        }
        let verifier = PkceCodeVerifier::new(secrets.verifier());
        let client = self.ready(&metadata);
        let state = CsrfToken::new(secrets.state.expose_secret().to_owned());
        let nonce = Nonce::new(secrets.nonce());
        let flow = CoreAuthenticationFlow::AuthorizationCode;
        let request = client.authorize_url(flow, move || state, move || nonce);
        let scopes = self.scopes.iter().filter(|it| *it != "openid");
        let request = request
            .add_scopes(scopes.map(|it| Scope::new(it.clone())))
            .set_pkce_challenge(PkceCodeChallenge::from_code_verifier_sha256(&verifier));
        let (url, _, _) = request.url();
        Ok(url)
    }

    /// Exchanges a code for the claims of a person.
    ///
    /// # Errors
    /// [`ProviderFault`].
    pub fn claims<'a>(
        &'a self,
        code: &'a str,
        secrets: &'a AttemptSecrets,
    ) -> BoxFuture<'a, Result<Claims, ProviderFault>> {
        Box::pin(self.read_claims(code, secrets))
    }

    async fn read_claims(
        &self,
        code: &str,
        secrets: &AttemptSecrets,
    ) -> Result<Claims, ProviderFault> {
        let metadata = self.metadata(false).await?;
        let token = self.exchange(&metadata, code, secrets).await?;
        let nonce = Nonce::new(secrets.nonce());
        let now = self.clock.now();
        let found = match verified(&self.ready(&metadata), &token, &nonce, now) {
            // The provider may have a new key since its keys were read.
            Err(TokenFault::UnknownKey) => {
                let newer = self.metadata(true).await?;
                verified(&self.ready(&newer), &token, &nonce, now)
            }
            found => found,
        };
        let mut claims = found.map_err(|fault| ProviderFault::Invalid(fault.to_string()))?;
        if self.rules.lack(&claims) {
            self.add_userinfo(&metadata, &token, &mut claims).await?;
        }
        Ok(claims)
    }

    async fn exchange(
        &self,
        metadata: &CoreProviderMetadata,
        code: &str,
        secrets: &AttemptSecrets,
    ) -> Result<CoreTokenResponse, ProviderFault> {
        let client = self.ready(metadata);
        let code = AuthorizationCode::new(code.to_owned());
        let request = client.exchange_code(code);
        let request =
            request.map_err(|_| ProviderFault::Unusable("it has no token endpoint".to_owned()))?;
        let request = request.set_pkce_verifier(PkceCodeVerifier::new(secrets.verifier()));
        request
            .request_async(&self.client)
            .await
            .map_err(|fault| match fault {
                RequestTokenError::ServerResponse(answer) => {
                    ProviderFault::Refused(plain(answer.error().as_ref()))
                }
                RequestTokenError::Request(fault) => ProviderFault::Unusable(fault.to_string()),
                // The other variants may hold the answer, with its tokens.
                _ => ProviderFault::Invalid("it is not an answer of a token endpoint".to_owned()),
            })
    }

    /// Adds what the ID token lacks. Many providers keep groups and names for this endpoint.
    async fn add_userinfo(
        &self,
        metadata: &CoreProviderMetadata,
        token: &CoreTokenResponse,
        claims: &mut Claims,
    ) -> Result<(), ProviderFault> {
        let Some(endpoint) = metadata.userinfo_endpoint() else {
            return Ok(());
        };
        let invalid = || ProviderFault::Invalid("its userinfo is not usable".to_owned());
        let bearer = format!("Bearer {}", token.access_token().secret());
        let mut bearer = HeaderValue::from_str(&bearer).map_err(|_| invalid())?;
        bearer.set_sensitive(true);
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, bearer);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let answer = self.client.get(endpoint.url(), &headers).await;
        let answer = answer.map_err(|fault| ProviderFault::Unusable(fault.to_string()))?;
        if answer.status != 200 {
            return Err(invalid());
        }
        let more: Claims = serde_json::from_slice(&answer.body).map_err(|_| invalid())?;
        // OpenID Connect Core, section 5.3.2: otherwise they may be those of another person.
        if more.get("sub").is_none() || more.get("sub") != claims.get("sub") {
            return Err(invalid());
        }
        for (name, value) in more {
            claims.entry(name).or_insert(value);
        }
        Ok(())
    }

    fn ready(&self, metadata: &CoreProviderMetadata) -> ReadyClient {
        let secret = self.secret.as_ref();
        let secret = secret.map(|it| ClientSecret::new(it.expose_secret().to_owned()));
        let client =
            CoreClient::from_provider_metadata(metadata.clone(), self.client_id.clone(), secret);
        let client = client.set_redirect_uri(self.redirect.clone());
        let methods = metadata.token_endpoint_auth_methods_supported();
        let takes =
            |method: CoreClientAuthMethod| methods.is_none_or(|methods| methods.contains(&method));
        let in_header = takes(CoreClientAuthMethod::ClientSecretBasic);
        match in_header || !takes(CoreClientAuthMethod::ClientSecretPost) {
            true => client.set_auth_type(AuthType::BasicAuth),
            false => client.set_auth_type(AuthType::RequestBody),
        }
    }

    /// The provider's addresses and keys. One request at a time reads them.
    fn metadata(
        &self,
        anew: bool,
    ) -> BoxFuture<'_, Result<Arc<CoreProviderMetadata>, ProviderFault>> {
        Box::pin(self.read_metadata(anew))
    }

    async fn read_metadata(&self, anew: bool) -> Result<Arc<CoreProviderMetadata>, ProviderFault> {
        let mut known = self.known.lock().await;
        let now = self.clock.now();
        if let Some(known) = known.as_ref().filter(|it| !anew && it.holds(now)) {
            return known.found.clone();
        }
        let found = CoreProviderMetadata::discover_async(self.issuer.clone(), &self.client).await;
        let found = found.map(Arc::new).map_err(|fault| {
            ProviderFault::Unusable(match fault {
                DiscoveryError::Request(fault) => fault.to_string(),
                fault => plain(&fault.to_string()),
            })
        });
        *known = Some(Known {
            found: found.clone(),
            since: self.clock.now(),
        });
        found
    }
}

/// The address that the provider sends people back to.
fn redirect(home: &str) -> Result<RedirectUrl, String> {
    let invalid = || {
        format!(
            "`console.oidc` needs an https address in `ratings.public_url` (http only on a loopback \
             address), because codes and cookies travel there; it is `{home}`"
        )
    };
    let url: Url = home.parse().map_err(|_| invalid())?;
    let is_any = match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_unspecified(),
        Some(Host::Ipv6(ip)) => ip.is_unspecified(),
        Some(Host::Domain(_)) => false,
        None => true,
    };
    match is_any || !is_safe(&url) {
        true => Err(invalid()),
        false => RedirectUrl::new(format!("{home}{}", super::CALLBACK)).map_err(|_| invalid()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("https://evals.acme.example", true)]
    #[case("http://127.0.0.1:7800", true)]
    #[case("http://localhost:7800", true)]
    #[case("http://[::1]:7800", true)]
    #[case("http://evals.acme.example", false)]
    #[case("http://10.0.0.7:7800", false)]
    #[case("http://0.0.0.0:7800", false)]
    #[case("https://0.0.0.0:7800", false)]
    fn people_come_back_over_tls(#[case] home: &str, #[case] accepted: bool) {
        let found = redirect(home);
        assert_eq!(found.is_ok(), accepted, "{found:?}");
    }
}
