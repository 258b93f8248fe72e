//! The trusted keys, and the pack names that each key is trusted for.

use std::collections::BTreeMap;

use crate::rules::name::Namespaces;
use crate::rules::{Refusal, Stage};
use touchstone_kit::error::ErrorCode;
use touchstone_kit::keys::PublicKey;
use touchstone_openwop::pack::{RegistryDiscovery, SigningKey};

/// How a key came to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyOrigin {
    /// The operator's own configuration.
    Pinned,
    /// The registry's unsigned discovery document.
    Discovery,
}

#[derive(Clone, Debug)]
struct Listed {
    entry: SigningKey,
    octets: Option<Vec<u8>>,
}

/// The keys of one registry and the operator's pinned keys, which take precedence. All key ids are
/// looked up here.
#[derive(Clone, Debug, Default)]
pub struct KeyRing {
    pinned: BTreeMap<String, (PublicKey, Namespaces)>,
    listed: BTreeMap<String, Listed>,
}

/// A key that may sign a given pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedKey {
    pub key_id: String,
    pub key: PublicKey,
    pub origin: KeyOrigin,
}

impl KeyRing {
    /// Trusts a key for some pack names, whatever a registry lists under its id.
    pub fn pin(&mut self, key_id: impl Into<String>, key: PublicKey, namespaces: Namespaces) {
        self.pinned.insert(key_id.into(), (key, namespaces));
    }

    pub fn is_empty(&self) -> bool {
        self.pinned.is_empty() && self.listed.is_empty()
    }

    /// Whether the operator pinned this key id, in which case the key need not be fetched from the
    /// registry.
    pub fn is_pinned(&self, key_id: &str) -> bool {
        self.pinned.contains_key(key_id)
    }

    /// Adds the keys of a discovery document. [`KeyRing::supply`] adds their bytes later.
    pub fn list(&mut self, discovery: &RegistryDiscovery) {
        for entry in &discovery.signing_keys {
            let listed = Listed {
                entry: entry.clone(),
                octets: None,
            };
            self.listed.insert(entry.key_id.clone(), listed);
        }
    }

    pub fn entry(&self, key_id: &str) -> Option<&SigningKey> {
        self.listed.get(key_id).map(|listed| &listed.entry)
    }

    /// Adds the key file of a listed key.
    pub fn supply(&mut self, key_id: &str, file: Vec<u8>) {
        if let Some(listed) = self.listed.get_mut(key_id) {
            listed.octets = Some(file);
        }
    }

    /// The key with this id, if it may sign this pack.
    ///
    /// # Errors
    /// `signature_unknown_key` if the key is not listed or not active,
    /// `pack_namespace_unauthorized` if the key is not granted the name, `pack_signature_invalid`
    /// if it is not an Ed25519 key.
    pub fn find(&self, key_id: &str, pack_name: &str) -> Result<TrustedKey, Refusal> {
        let refuse = |code, reason: String| Err(Refusal::new(code, Stage::Signature, reason));
        let foreign = || {
            refuse(
                ErrorCode::PackNamespaceUnauthorized,
                format!(
                    "the key `{}` may not sign packs of this name",
                    shown(key_id)
                ),
            )
        };
        if let Some((key, namespaces)) = self.pinned.get(key_id) {
            if !namespaces.cover(pack_name) {
                return foreign();
            }
            let (key_id, key) = (key_id.to_owned(), key.clone());
            return Ok(TrustedKey {
                key_id,
                key,
                origin: KeyOrigin::Pinned,
            });
        }
        let Some(Listed { entry, octets }) = self.listed.get(key_id) else {
            return refuse(
                ErrorCode::SignatureUnknownKey,
                format!("the key `{}` is not among the trusted keys", shown(key_id)),
            );
        };
        if entry.status != "active" {
            return refuse(
                ErrorCode::SignatureUnknownKey,
                format!("the key `{}` is no longer active", shown(key_id)),
            );
        }
        if entry.algorithm != "ed25519" {
            return refuse(
                ErrorCode::PackSignatureInvalid,
                format!(
                    "the key `{}` does not use the algorithm ed25519",
                    shown(key_id)
                ),
            );
        }
        if !Namespaces::These(entry.permitted_namespaces.clone()).cover(pack_name) {
            return foreign();
        }
        let Some(octets) = octets else {
            return refuse(
                ErrorCode::SignatureUnknownKey,
                format!("the registry does not serve the key `{}`", shown(key_id)),
            );
        };
        match PublicKey::from_pem(octets) {
            Ok(key) => Ok(TrustedKey {
                key_id: key_id.to_owned(),
                key,
                origin: KeyOrigin::Discovery,
            }),
            Err(fault) => refuse(
                ErrorCode::PackSignatureInvalid,
                format!("the key `{}` {fault}", shown(key_id)),
            ),
        }
    }
}

/// A key id made safe for messages: it comes from an untrusted document.
fn shown(key_id: &str) -> String {
    key_id
        .chars()
        .take(64)
        .map(|c| {
            if c.is_ascii_alphanumeric() || "-_.:/@".contains(c) {
                c
            } else {
                '?'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use touchstone_kit::keys::SecretKey;

    fn secret() -> SecretKey {
        SecretKey::from_random([7; 32])
    }

    fn discovery(status: &str, algorithm: &str) -> RegistryDiscovery {
        serde_json::from_value(serde_json::json!({"signingKeys": [{
            "keyId": "k", "algorithm": algorithm, "status": status, "permittedNamespaces": ["community.x.*"]
        }]}))
        .unwrap()
    }

    #[rstest]
    #[case::active("active", "ed25519", "k", "community.x.pack", None)]
    #[case::revoked(
        "revoked",
        "ed25519",
        "k",
        "community.x.pack",
        Some(ErrorCode::SignatureUnknownKey)
    )]
    #[case::no_status(
        "",
        "ed25519",
        "k",
        "community.x.pack",
        Some(ErrorCode::SignatureUnknownKey)
    )]
    #[case::algorithm(
        "active",
        "rsa",
        "k",
        "community.x.pack",
        Some(ErrorCode::PackSignatureInvalid)
    )]
    #[case::unlisted(
        "active",
        "ed25519",
        "../keys/k",
        "community.x.pack",
        Some(ErrorCode::SignatureUnknownKey)
    )]
    #[case::foreign(
        "active",
        "ed25519",
        "k",
        "community.y.pack",
        Some(ErrorCode::PackNamespaceUnauthorized)
    )]
    fn a_listed_key_signs_what_it_was_granted(
        #[case] status: &str,
        #[case] algorithm: &str,
        #[case] key_id: &str,
        #[case] pack: &str,
        #[case] refused: Option<ErrorCode>,
    ) {
        let mut ring = KeyRing::default();
        ring.list(&discovery(status, algorithm));
        ring.supply("k", secret().public().to_pem().into_bytes());
        assert_eq!(
            ring.find(key_id, pack).err().map(|refusal| refusal.code),
            refused
        );
    }

    #[test]
    fn a_pin_overrides_the_registry() {
        let mut ring = KeyRing::default();
        ring.list(&discovery("active", "ed25519"));
        ring.supply("k", secret().public().to_pem().into_bytes());
        let own = SecretKey::from_random([9; 32]).public();
        ring.pin(
            "k",
            own.clone(),
            Namespaces::These(vec!["community.x.mine".into()]),
        );
        assert_eq!(ring.find("k", "community.x.mine").unwrap().key, own);
        let refused = ring.find("k", "community.x.pack").unwrap_err();
        assert_eq!(refused.code, ErrorCode::PackNamespaceUnauthorized);
    }
}
