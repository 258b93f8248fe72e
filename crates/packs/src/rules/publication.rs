//! The packs that the host's registry publishes, and its documents (OpenWOP node-packs §Registry
//! HTTP API, registry-operations §Signing keychain).
//!
//! Nothing is published unless the operator names a tenant and pack names. A version that the
//! tenant has installed is published if its name is covered and its signature was verified with a
//! key that the operator still trusts.

use std::collections::BTreeMap;

use jiff::Timestamp;
use semver::Version;
use serde_json::{Map, Value, json};

use super::inventory::PackFacts;
use super::name::{Namespaces, PackId};
use crate::rules::verify::{SignatureCoverage, SigningMethod, Trust, TrustMode};
use touchstone_kit::ids::TenantId;
use touchstone_kit::keys::PublicKey;
use touchstone_openwop::pack::{Endpoints, RegistryDiscovery, SigningKey};

/// The operator's publication settings.
#[derive(Clone, Debug)]
pub struct Publication {
    /// The tenant whose installed packs are published.
    pub tenant: TenantId,
    /// The pack names to publish.
    pub namespaces: Namespaces,
    /// The operator's current trust, which may have changed since a pack was installed.
    pub trust: Trust,
}

impl Publication {
    pub fn covers(&self, facts: &PackFacts) -> bool {
        self.namespaces.cover(&facts.name)
            && facts.signature.coverage != SignatureCoverage::None
            && self.trusts(facts)
    }

    fn trusts(&self, facts: &PackFacts) -> bool {
        let key_id = facts.signature.key_id.as_deref();
        let trusted = key_id.and_then(|id| self.trust.keys.find(id, &facts.name).ok());
        // The key id may name another key by now.
        let is_same = trusted.is_some_and(|it| signer(facts) == Some(it.key));
        let id = PackId::new(&facts.name, &facts.version);
        let approved = || id.is_some_and(|id| self.trust.approves(&id));
        is_same && (self.trust.mode != TrustMode::Allowlist || approved())
    }
}

#[derive(Clone, Debug)]
pub struct Release {
    pub facts: PackFacts,
    pub version: Version,
    /// The time of installation, when the registry began to serve the version.
    pub published_at: Timestamp,
}

impl Release {
    fn file(&self, extension: &str) -> String {
        let (name, version) = (&self.facts.name, &self.facts.version);
        format!("/v1/packs/{name}/-/{version}.{extension}")
    }

    fn summary(&self) -> Value {
        json!({
            "tarballUrl": self.file("tgz"),
            "tarballSha256": self.facts.integrity,
            "manifestUrl": self.file("json"),
            "signatureUrl": self.file("sig"),
            "publishedAt": self.published_at,
            "signed": true,
            "signingMethod": self.facts.signature.method,
            "keyId": self.facts.signature.key_id,
        })
    }
}

/// The key that signed a pack, if the signature is recorded. Packs installed by earlier versions of
/// this host have no recorded signature.
fn signer(facts: &PackFacts) -> Option<PublicKey> {
    let signature = facts.checked_signature.as_ref()?;
    PublicKey::from_text(&signature.public_key).ok()
}

/// The preferred version: the highest that is not a pre-release, else the highest.
pub fn latest(releases: &[Release]) -> Option<&Release> {
    releases
        .iter()
        .max_by(|a, b| rank(&a.version).cmp(&rank(&b.version)))
}

fn rank(version: &Version) -> (bool, &Version) {
    (version.pre.is_empty(), version)
}

/// `GET /v1/packs/{name}`: the versions of one pack.
pub fn catalogue(latest: &Release, manifest: &Value, releases: &[Release]) -> Value {
    let versions: Map<String, Value> = releases
        .iter()
        .map(|release| (release.facts.version.clone(), release.summary()))
        .collect();
    let mut document = json!({
        "name": latest.facts.name,
        "kind": latest.facts.kind,
        "latest": latest.facts.version,
        "dist-tags": {"latest": latest.facts.version},
        "versions": versions,
    });
    carry(&mut document, manifest, &["description"]);
    document
}

/// Entry of a pack in a list or in search results: its latest version.
pub fn listed(latest: &Release, manifest: &Value) -> Value {
    let mut document = json!({
        "name": latest.facts.name,
        "version": latest.facts.version,
        "kind": latest.facts.kind,
        "tarballSha256": latest.facts.integrity,
    });
    carry(
        &mut document,
        manifest,
        &["description", "keywords", "agents"],
    );
    document
}

/// Whether a search term occurs in name, description or keywords, ignoring case.
pub fn matches(manifest: &Value, term: &str) -> bool {
    let term = term.to_lowercase();
    let has = |value: &Value| {
        value
            .as_str()
            .is_some_and(|text| text.to_lowercase().contains(&term))
    };
    let keywords = manifest.get("keywords").and_then(Value::as_array);
    ["name", "description"]
        .iter()
        .filter_map(|member| manifest.get(*member))
        .chain(keywords.into_iter().flatten())
        .any(has)
}

/// `GET /v1/packs/{name}/-/{version}.json`: the manifest of the archive and the registry's
/// additions.
pub fn served(release: &Release, manifest: &Value) -> Value {
    let mut document = manifest.clone();
    let Some(members) = document.as_object_mut() else {
        return document;
    };
    // Under `manual` the signed manifest itself names the method and the key.
    if release.facts.signature.method == Some(SigningMethod::Ed25519) {
        let signing = json!({"method": "ed25519", "keyId": release.facts.signature.key_id});
        members.insert("signing".to_owned(), signing);
    }
    members.insert("integrity".to_owned(), json!(release.facts.integrity));
    members.insert("publishedAt".to_owned(), json!(release.published_at));
    members.insert("tarballUrl".to_owned(), json!(release.file("tgz")));
    members.insert("signatureUrl".to_owned(), json!(release.file("sig")));
    document
}

/// `GET /v1/packs/{name}/-/keychain`: the keys that signed published versions of a pack.
pub fn keychain(name: &str, releases: &[Release]) -> Value {
    let mut since: BTreeMap<&str, (PublicKey, Timestamp)> = BTreeMap::new();
    for (key_id, key, release) in signed(releases) {
        let entry = since.entry(key_id).or_insert((key, release.published_at));
        entry.1 = entry.1.min(release.published_at);
    }
    let keys: Vec<Value> = since
        .iter()
        .map(|(key_id, (key, since))| {
            json!({"kid": key_id, "algorithm": "ed25519", "publicKey": spki(key), "validFrom": since})
        })
        .collect();
    let namespace: Vec<&str> = name.split('.').take(2).collect();
    json!({"namespace": namespace.join("."), "keys": keys})
}

/// `/.well-known/openwop-registry`: the URL templates, and which key may sign which of the
/// published names.
pub fn discovery(releases: &[Release]) -> RegistryDiscovery {
    let mut keys: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (key_id, _, release) in signed(releases) {
        let names = keys.entry(key_id).or_default();
        if !names.contains(&release.facts.name) {
            names.push(release.facts.name.clone());
        }
    }
    let signing_keys = keys
        .into_iter()
        .map(|(key_id, permitted_namespaces)| SigningKey {
            key_id: key_id.to_owned(),
            algorithm: "ed25519".to_owned(),
            public_key_url: Some(format!("/keys/{key_id}.pub")),
            permitted_namespaces,
            status: "active".to_owned(),
        })
        .collect();
    RegistryDiscovery {
        endpoints: Endpoints {
            pack_metadata: "/v1/packs/{name}".to_owned(),
            ..Endpoints::default()
        },
        signing_keys,
    }
}

/// The key with this id, if it signed a published version.
pub fn key(releases: &[Release], wanted: &str) -> Option<PublicKey> {
    signed(releases).find_map(|(key_id, key, _)| (key_id == wanted).then_some(key))
}

/// Each version with its key. Key ids that are not allowed in a URL are left out.
fn signed(releases: &[Release]) -> impl Iterator<Item = (&str, PublicKey, &Release)> {
    let plain = |id: &&str| {
        let sound = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
        !id.is_empty() && id.bytes().all(sound)
    };
    releases.iter().filter_map(move |release| {
        let key_id = release.facts.signature.key_id.as_deref().filter(plain)?;
        Some((key_id, signer(&release.facts)?, release))
    })
}

/// Base64 of the SPKI encoding: a PEM document without its header and footer.
fn spki(key: &PublicKey) -> String {
    key.to_pem()
        .lines()
        .filter(|line| !line.starts_with("-----"))
        .collect()
}

fn carry(document: &mut Value, manifest: &Value, members: &[&str]) {
    let Some(document) = document.as_object_mut() else {
        return;
    };
    for member in members {
        if let Some(value) = manifest.get(*member) {
            document.insert((*member).to_owned(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::trust::key_ring::KeyOrigin;
    use crate::rules::verify::SignatureState;
    use rstest::rstest;
    use touchstone_kit::keys::SecretKey;
    use touchstone_openwop::pack::LockedSignature;

    fn release(version: &str) -> Release {
        Release {
            facts: PackFacts {
                name: "vendor.acme.triage".to_owned(),
                version: version.to_owned(),
                kind: "node".to_owned(),
                integrity: "sha256-x".to_owned(),
                signature: SignatureState {
                    method: Some(SigningMethod::Ed25519),
                    key_id: Some("acme-1".to_owned()),
                    key_origin: Some(KeyOrigin::Pinned),
                    coverage: SignatureCoverage::Tarball,
                },
                checked_signature: Some(LockedSignature {
                    algorithm: "ed25519".to_owned(),
                    public_key: SecretKey::from_random([7; 32]).public().to_base64(),
                    value: String::new(),
                }),
                degraded: Vec::new(),
                dependencies: BTreeMap::new(),
                warnings: Vec::new(),
                agents: Vec::new(),
                suites: Vec::new(),
                extensions: serde_json::Map::new(),
            },
            version: Version::parse(version).unwrap(),
            published_at: Timestamp::UNIX_EPOCH,
        }
    }

    fn trust(key_id: &str, secret: u8, namespaces: Namespaces) -> Trust {
        let mut trust = Trust::default();
        let key = SecretKey::from_random([secret; 32]).public();
        trust.keys.pin(key_id, key, namespaces);
        trust
    }

    fn publication(namespaces: &[&str], trust: Trust) -> Publication {
        Publication {
            tenant: "acme".into(),
            namespaces: Namespaces::These(namespaces.iter().map(|&it| it.to_owned()).collect()),
            trust,
        }
    }

    #[rstest]
    #[case::covered(&["vendor.acme.*"], true)]
    #[case::named(&["vendor.acme.triage"], true)]
    #[case::another(&["vendor.acme.other", "vendor.acmetriage.*"], false)]
    #[case::nothing(&[], false)]
    fn only_names_that_the_operator_lists_are_published(
        #[case] namespaces: &[&str],
        #[case] published: bool,
    ) {
        let publication = publication(namespaces, trust("acme-1", 7, Namespaces::Any));
        let mut release = release("1.0.0");
        assert_eq!(publication.covers(&release.facts), published);
        release.facts.signature.coverage = SignatureCoverage::None;
        assert!(!publication.covers(&release.facts), "unsigned");
    }

    #[rstest]
    #[case::trusted("acme-1", 7, Namespaces::Any, true)]
    #[case::dropped("acme-2", 7, Namespaces::Any, false)]
    #[case::replaced("acme-1", 8, Namespaces::Any, false)]
    #[case::for_another_name("acme-1", 7, Namespaces::These(vec!["vendor.acme.other".to_owned()]), false)]
    fn only_what_a_trusted_key_signed_is_published(
        #[case] key_id: &str,
        #[case] secret: u8,
        #[case] namespaces: Namespaces,
        #[case] published: bool,
    ) {
        let publication = publication(&["vendor.acme.*"], trust(key_id, secret, namespaces));
        let mut release = release("1.0.0");
        assert_eq!(publication.covers(&release.facts), published);
        release.facts.checked_signature = None;
        assert!(!publication.covers(&release.facts), "not on record");
    }

    #[rstest]
    #[case::named("vendor.acme.triage", true)]
    #[case::this_version("vendor.acme.triage@1.0.0", true)]
    #[case::another_version("vendor.acme.triage@1.1.0", false)]
    fn under_an_allowlist_only_approved_packs_are_published(
        #[case] approved: &str,
        #[case] published: bool,
    ) {
        let trust = Trust {
            mode: TrustMode::Allowlist,
            approved: vec![approved.to_owned()],
            ..trust("acme-1", 7, Namespaces::Any)
        };
        let publication = publication(&["vendor.acme.*"], trust);
        assert_eq!(publication.covers(&release("1.0.0").facts), published);
    }

    #[test]
    fn the_latest_version_is_not_a_pre_release() {
        let releases = ["1.9.0", "2.0.0-rc.1", "1.10.0"].map(release);
        assert_eq!(latest(&releases).unwrap().facts.version, "1.10.0");
        let only = [release("2.0.0-rc.1")];
        assert_eq!(latest(&only).unwrap().facts.version, "2.0.0-rc.1");
    }

    #[rstest]
    #[case("TRIAGE", true)]
    #[case("mail", true)]
    #[case("support", true)]
    #[case("", true)]
    #[case("secret", false)]
    fn search_covers_name_description_and_keywords(#[case] term: &str, #[case] found: bool) {
        let manifest = json!({
            "name": "vendor.acme.triage", "description": "Sorts mail.", "keywords": ["support"],
            "agents": [{"systemPrompt": "secret"}],
        });
        assert_eq!(matches(&manifest, term), found);
    }

    #[test]
    fn a_key_is_listed_for_the_published_names_it_signed_and_no_others() {
        let mut odd = release("1.1.0");
        odd.facts.signature.key_id = Some("../acme".to_owned());
        let found = discovery(&[release("1.0.0"), release("1.2.0"), odd]);
        assert_eq!(found.signing_keys.len(), 1);
        let key = &found.signing_keys[0];
        assert_eq!(key.permitted_namespaces, ["vendor.acme.triage"]);
        assert_eq!(key.public_key_url.as_deref(), Some("/keys/acme-1.pub"));
        assert_eq!(
            keychain("vendor.acme.triage", &[release("1.0.0")])["namespace"],
            "vendor.acme"
        );
    }
}
