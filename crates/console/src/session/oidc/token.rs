//! Whether an ID token is valid for a sign-in.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use jiff::{SignedDuration, Timestamp};
use openidconnect::core::{
    CoreIdToken, CoreIdTokenVerifier, CoreJwsSigningAlgorithm, CoreTokenResponse,
};
use openidconnect::{
    AccessTokenHash, ClaimsVerificationError, ClientId, Nonce, OAuth2TokenResponse as _,
    SignatureVerificationError, TokenResponse as _,
};

use crate::session::oidc::provider::ReadyClient;
use touchstone_host::render::words::plain;
use touchstone_host::rules::claims::Claims;

/// Clocks of the provider and this host may differ by this.
const SKEW: SignedDuration = SignedDuration::from_secs(60);
/// Signatures by a key that only the provider has: neither `none` nor a shared secret.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// Why an ID token is not valid.
#[derive(Debug, thiserror::Error)]
pub enum TokenFault {
    #[error("it has no ID token")]
    Missing,
    #[error("the ID token is signed by a key that the provider does not publish")]
    UnknownKey,
    #[error("the ID token is not valid: {0}")]
    Refused(String),
}

impl TokenFault {
    fn of(fault: ClaimsVerificationError) -> Self {
        match fault {
            ClaimsVerificationError::SignatureVerification(
                SignatureVerificationError::NoMatchingKey,
            ) => Self::UnknownKey,
            fault => Self::Refused(plain(&fault.to_string())),
        }
    }
}

/// The claims of an ID token that is valid for this client and this sign-in.
///
/// # Errors
/// [`TokenFault`].
pub fn verified(
    client: &ReadyClient,
    token: &CoreTokenResponse,
    nonce: &Nonce,
    now: Timestamp,
) -> Result<Claims, TokenFault> {
    let id_token = token.id_token().ok_or(TokenFault::Missing)?;
    let latest = moment(now.saturating_add(SKEW).unwrap_or(now));
    let earliest = moment(now.saturating_sub(SKEW).unwrap_or(now));
    let verifier = client
        .id_token_verifier()
        .set_allowed_algs(ALGORITHMS)
        .set_time_fn(move || earliest)
        .set_issue_time_verifier_fn(move |issued| match issued <= latest {
            true => Ok(()),
            false => Err("it was issued in the future".to_owned()),
        });
    let claims = id_token.claims(&verifier, nonce).map_err(TokenFault::of)?;
    let is_ours = |party: &ClientId| party == client.client_id();
    if !claims.authorized_party().is_none_or(is_ours) {
        return Err(TokenFault::Refused("it is for another client".to_owned()));
    }
    if let Some(expected) = claims.access_token_hash() {
        let found = access_token_hash(id_token, token, &verifier)?;
        if found != *expected {
            let fault = "the access token belongs to another ID token";
            return Err(TokenFault::Refused(fault.to_owned()));
        }
    }
    payload(id_token).ok_or(TokenFault::Missing)
}

fn access_token_hash(
    id_token: &CoreIdToken,
    token: &CoreTokenResponse,
    verifier: &CoreIdTokenVerifier<'_>,
) -> Result<AccessTokenHash, TokenFault> {
    let refused = |fault: &dyn std::error::Error| TokenFault::Refused(plain(&fault.to_string()));
    let algorithm = id_token.signing_alg().map_err(|it| refused(&it))?;
    let key = id_token.signing_key(verifier).map_err(|it| refused(&it))?;
    AccessTokenHash::from_token(token.access_token(), algorithm, key).map_err(|it| refused(&it))
}

/// All claims of a token whose signature was verified.
fn payload(id_token: &CoreIdToken) -> Option<Claims> {
    let text = id_token.to_string();
    let payload = text.split('.').nth(1)?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
}

fn moment(at: Timestamp) -> DateTime<Utc> {
    DateTime::from_timestamp(at.as_second(), 0).unwrap_or(DateTime::UNIX_EPOCH)
}
