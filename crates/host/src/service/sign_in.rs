//! Signing in and out of the console, with the entries of the audit log, and sign-ins through an
//! OpenID provider.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::audit::{Decision, Outcome};
use crate::ports::sessions::{OidcGrant, SessionOrigin, SessionRecord, SignInAttempt};
use crate::ports::store::StoreError;
use crate::rules::claims::Identity;
use crate::service::access::Caller;
use crate::service::fault::internal;
use crate::service::sessions::{END_SESSION, NewSession, Sessions, ended, hash};
use crate::store;
use touchstone_kit::error::Problem;
use touchstone_kit::hex::hex_prefix;
use touchstone_kit::ids::{KeyId, TenantId};

pub const SIGN_IN: &str = "console:sign-in";
pub const SIGN_OUT: &str = "console:sign-out";

/// The time that a person has to sign in at the provider.
pub const ATTEMPT_TIME: SignedDuration = SignedDuration::from_mins(10);
/// Longest text of a cookie or a `state` that is looked up; real ones have 43 characters.
const MAX_TEXT: usize = 64;

/// The secrets of one sign-in at a provider.
#[derive(Debug)]
pub struct AttemptSecrets {
    /// Kept in the browser's cookie.
    pub browser: SecretString,
    /// Sent to the provider, which sends it back.
    pub state: SecretString,
}

impl AttemptSecrets {
    /// The provider puts it into the ID token.
    pub fn nonce(&self) -> String {
        self.derived("nonce")
    }

    /// The PKCE verifier, of which the provider first learns only the hash.
    pub fn verifier(&self) -> String {
        self.derived("verifier")
    }

    /// 256 bits that only the browser and this host know.
    fn derived(&self, purpose: &str) -> String {
        let texts = [
            purpose,
            self.browser.expose_secret(),
            self.state.expose_secret(),
        ];
        URL_SAFE_NO_PAD.encode(Sha256::digest(texts.join("\n")))
    }
}

/// Why an attempt that comes back is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptFault {
    /// No attempt has this `state`, or it was used before.
    Unknown,
    /// It began more than ten minutes ago.
    Expired,
    /// Another browser began it.
    OtherBrowser,
}

/// An attempt that came back from the provider.
#[derive(Debug)]
pub struct TakenAttempt {
    pub secrets: AttemptSecrets,
    /// The page to open after sign-in.
    pub to: String,
    /// The session that the browser had before.
    pub session: Option<String>,
}

impl Sessions {
    /// Begins a sign-in at a provider, in a browser that may have a session.
    ///
    /// # Errors
    /// The store failed.
    pub async fn begin_attempt(
        &self,
        to: &str,
        session: Option<String>,
    ) -> Result<AttemptSecrets, Problem> {
        let fresh = || SecretString::from(URL_SAFE_NO_PAD.encode(self.ids.secret()));
        let secrets = AttemptSecrets {
            browser: fresh(),
            state: fresh(),
        };
        let now = self.clock.now();
        let attempt = SignInAttempt {
            state_hash: hash(secrets.state.expose_secret()),
            browser_hash: hash(secrets.browser.expose_secret()),
            to: to.to_owned(),
            session,
            expires_at: now.saturating_add(ATTEMPT_TIME).unwrap_or(now),
        };
        let added = self.store.add_sign_in_attempt(&attempt, now).await;
        added.map_err(|cause| internal(&cause))?;
        Ok(secrets)
    }

    /// Takes the attempt of a `state`, which can be used once, also if the browser is another one.
    ///
    /// # Errors
    /// The store failed.
    pub async fn take_attempt(
        &self,
        state: &str,
        browser: Option<&str>,
    ) -> Result<Result<TakenAttempt, AttemptFault>, Problem> {
        let fits = |text: &str| (1..=MAX_TEXT).contains(&text.len());
        if !fits(state) {
            return Ok(Err(AttemptFault::Unknown));
        }
        let taken = self.store.take_sign_in_attempt(&hash(state)).await;
        let Some(attempt) = taken.map_err(|cause| internal(&cause))? else {
            return Ok(Err(AttemptFault::Unknown));
        };
        let browser = browser.filter(|text| fits(text)).unwrap_or_default();
        if !bool::from(hash(browser).ct_eq(&attempt.browser_hash)) {
            return Ok(Err(AttemptFault::OtherBrowser));
        }
        if attempt.expires_at <= self.clock.now() {
            return Ok(Err(AttemptFault::Expired));
        }
        Ok(Ok(TakenAttempt {
            secrets: AttemptSecrets {
                browser: browser.to_owned().into(),
                state: state.to_owned().into(),
            },
            to: attempt.to,
            session: attempt.session,
        }))
    }

    /// Begins a session of a person whom an OpenID provider named.
    ///
    /// # Errors
    /// `unauthenticated` if the host trusts no provider.
    pub async fn begin_oidc(
        &self,
        issuer: &str,
        identity: Identity,
    ) -> Result<NewSession, Problem> {
        let grant = OidcGrant {
            issuer: issuer.to_owned(),
            settings: self.trust.clone().ok_or_else(ended)?,
            scopes: identity.scopes,
            roles: identity.roles,
        };
        let origin = SessionOrigin::Oidc(grant);
        self.add(identity.tenant, identity.principal, origin).await
    }

    /// Adds a session and the entry of the audit log.
    pub(super) async fn add_recorded(&self, session: &SessionRecord) -> Result<(), StoreError> {
        let entry = Decision {
            reasons: vec![how(&session.origin)],
            ..self.entry(&session.principal, SIGN_IN, &session.id)
        };
        let mut transaction = self.store.begin_write().await?;
        store::audit::record(&mut transaction, &session.tenant, &entry).await?;
        self.end_excess(&mut transaction, session).await?;
        store::sessions::add_session(&mut transaction, session).await?;
        transaction.commit().await
    }

    /// Ends a session; `false` if it had ended. `caller` asked for it, as `action` says.
    ///
    /// # Errors
    /// The store failed.
    pub async fn end_by(&self, caller: &Caller, action: &str, id: &str) -> Result<bool, Problem> {
        let entry = self.entry(&caller.principal, action, id);
        self.end_recorded(&caller.tenant, id, &entry).await
    }

    /// Ends the session that a browser had before it began another one: its token may be known to
    /// others.
    ///
    /// # Errors
    /// The store failed.
    pub async fn end_before(&self, id: &str) -> Result<(), Problem> {
        let found = self.store.session(id).await;
        let Some(session) = found.map_err(|cause| internal(&cause))? else {
            return Ok(());
        };
        let entry = self.entry(&session.principal, SIGN_OUT, id);
        let ended = self.end_recorded(&session.tenant, id, &entry).await;
        ended.map(drop)
    }

    /// Ends a session whose replaced token is still in use.
    pub(super) async fn end_reused(&self, session: &SessionRecord) -> Result<bool, Problem> {
        let reason = "reuse: a token that was replaced is still in use, so it may be stolen";
        let entry = Decision {
            reasons: vec![reason.to_owned()],
            ..self.entry(&session.principal, END_SESSION, &session.id)
        };
        self.end_recorded(&session.tenant, &session.id, &entry)
            .await
    }

    async fn end_recorded(
        &self,
        tenant: &TenantId,
        id: &str,
        entry: &Decision,
    ) -> Result<bool, Problem> {
        let ended = async {
            let mut transaction = self.store.begin_write().await?;
            store::audit::record(&mut transaction, tenant, entry).await?;
            let ended = store::sessions::end_session(&mut transaction, id, entry.at).await?;
            if ended {
                transaction.commit().await?;
            }
            Ok(ended)
        };
        let ended: Result<bool, StoreError> = ended.await;
        ended.map_err(|cause| internal(&cause))
    }

    /// Notes a refused sign-in in the audit log of a tenant: of a person whom the provider named, or
    /// of the holder of a key. Other requests are only counted, because anyone could fill the log with
    /// them.
    ///
    /// # Errors
    /// The store failed.
    pub async fn note_refusal(
        &self,
        tenant: &TenantId,
        principal: &str,
        resource: &str,
        reason: String,
    ) -> Result<(), Problem> {
        let entry = Decision {
            outcome: Outcome::Denied,
            reasons: vec![reason],
            ..self.entry(principal, SIGN_IN, resource)
        };
        let noted = async {
            let mut transaction = self.store.begin_write().await?;
            store::audit::record(&mut transaction, tenant, &entry).await?;
            transaction.commit().await
        };
        noted.await.map_err(|cause| internal(&cause))
    }

    /// Notes that a key was refused which was valid before; its holder knows its secret.
    ///
    /// # Errors
    /// The store failed.
    pub async fn note_refused_key(&self, text: &str, refusal: &Problem) -> Result<(), Problem> {
        let Some(key) = self.keys.presented(text).await? else {
            return Ok(());
        };
        let principal = key.principal.unwrap_or_else(|| key.id.to_string());
        let reason = format!("{}: {}", refusal.code.as_str(), refusal.message);
        self.note_refusal(&key.tenant, &principal, key.id.as_str(), reason)
            .await
    }

    pub(super) fn entry(&self, principal: &str, action: &str, resource: &str) -> Decision {
        Decision {
            at: self.clock.now(),
            principal: principal.to_owned(),
            action: action.to_owned(),
            resource: resource.to_owned(),
            outcome: Outcome::Done,
            reasons: Vec::new(),
            decided_on: None,
            run_id: None,
        }
    }

    /// The id under which the requests of a person without a key are counted, in all its sessions.
    /// Ids of keys are hexadecimal, so no key has it.
    pub(super) fn counted_as(record: &SessionRecord) -> KeyId {
        let person = hash(&format!("{}\n{}", record.tenant, record.principal));
        KeyId::from(format!("person-{}", hex_prefix(&person, 20)))
    }

    /// Deletes attempts that can no longer be used.
    pub(super) async fn forget_attempts(&self, now: Timestamp) -> Result<u64, StoreError> {
        self.store.forget_sign_in_attempts(now).await
    }
}

/// How a session began, for the audit log.
fn how(origin: &SessionOrigin) -> String {
    match origin {
        SessionOrigin::Key { id, .. } => format!("key: with the API key {id}"),
        SessionOrigin::Local => "local: on the machine itself, without a key".to_owned(),
        SessionOrigin::Oidc(grant) => format!("oidc: through {}", grant.issuer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonce_and_verifier_belong_to_one_browser_and_one_attempt() {
        let secrets = |browser: &str, state: &str| AttemptSecrets {
            browser: browser.to_owned().into(),
            state: state.to_owned().into(),
        };
        let first = secrets("a", "b");
        assert_eq!(first.verifier(), secrets("a", "b").verifier());
        let others = [
            first.nonce(),
            secrets("c", "b").verifier(),
            secrets("a", "c").verifier(),
        ];
        for other in others {
            assert_ne!(first.verifier(), other);
        }
        // RFC 7636, section 4.1: 43 to 128 characters.
        assert_eq!(first.verifier().len(), 43);
    }
}
