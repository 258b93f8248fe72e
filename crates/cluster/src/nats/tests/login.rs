//! TLS and credentials.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use nkeys::KeyPair;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer};
use serde_json::{Value, json};

use super::rights::take;
use super::server::{Server, User, with_users};
use crate::config::ClusterSettings;
use crate::nats::{NatsBus, Role};
use crate::ports::bus::{Bus as _, BusError};
use crate::ports::queues::Queues as _;
use crate::rules::access::permissions::Permissions;
use crate::rules::access::pools::Pool;
use crate::rules::lane::tests::lane;

/// Writes a new certificate authority, and a certificate of it for the loopback address. Returns
/// the files of the authority, of the certificate and of its key.
fn certificates(folder: &Path, name: &str) -> [PathBuf; 3] {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let root = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let server = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let server = server.signed_by(&key, &issuer).unwrap();
    let files = ["ca", "server", "key"].map(|it| folder.join(format!("{name}-{it}.pem")));
    let texts = [root.pem(), server.pem(), key.serialize_pem()];
    for (file, text) in files.iter().zip(texts) {
        std::fs::write(file, text).unwrap();
    }
    files
}

async fn reaches_queues(settings: ClusterSettings) -> Result<(), BusError> {
    let bus = NatsBus::new(settings, Role::Host);
    bus.queues().await.map(drop)
}

#[tokio::test]
async fn a_server_with_tls_accepts_known_keys_and_is_accepted_by_its_authority_only() {
    let folder = tempfile::tempdir().unwrap();
    let [ca, certificate, key] = certificates(folder.path(), "own");
    let [other_ca, ..] = certificates(folder.path(), "other");
    let permissions = Permissions::of_host(&[Pool::shared()]);
    let host = User::new(folder.path(), "host", &permissions);
    let stranger = User::new(folder.path(), "stranger", &permissions);
    let configuration = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\" }}\n{}",
        certificate.display(),
        key.display(),
        with_users(&[&host])
    );
    let Some(server) = Server::start(&configuration).await else {
        return;
    };
    let known = ClusterSettings {
        ca_file: Some(ca),
        nkey_file: Some(host.seed_file),
        ..server.settings("tls")
    };
    let others = [
        ClusterSettings {
            ca_file: None,
            ..known.clone()
        },
        ClusterSettings {
            ca_file: Some(other_ca),
            ..known.clone()
        },
        ClusterSettings {
            nkey_file: Some(stranger.seed_file),
            ..known.clone()
        },
        ClusterSettings {
            nkey_file: None,
            ..known.clone()
        },
        ClusterSettings {
            nats: server.settings("nats").nats,
            ca_file: None,
            ..known.clone()
        },
    ];
    assert_eq!(reaches_queues(known).await, Ok(()));
    let others = others.map(reaches_queues);
    for (number, answer) in futures_util::future::join_all(others)
        .await
        .iter()
        .enumerate()
    {
        assert!(answer.is_err(), "{number}");
    }
}

/// An operator with an account for hosts and workers, and one for the server.
struct Operator {
    operator: KeyPair,
    account: KeyPair,
    system: KeyPair,
}

/// A JWT as NATS servers read it.
fn jwt(issuer: &KeyPair, subject: &KeyPair, name: &str, claims: &Value) -> String {
    let document = json!({
        "jti": name, "iat": 1_700_000_000, "iss": issuer.public_key(), "name": name,
        "sub": subject.public_key(), "nats": claims
    });
    let encoded = |text: String| BASE64_URL_SAFE_NO_PAD.encode(text);
    let header = encoded(json!({"typ": "JWT", "alg": "ed25519-nkey"}).to_string());
    let signed = format!("{header}.{}", encoded(document.to_string()));
    let signature = issuer.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

impl Operator {
    fn new() -> Self {
        Self {
            operator: KeyPair::new_operator(),
            account: KeyPair::new_account(),
            system: KeyPair::new_account(),
        }
    }

    /// The configuration of a server that knows the accounts.
    fn configuration(&self) -> String {
        let mut limits = json!({
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true,
            "conn": -1, "leaf": -1
        });
        let system = self.account_jwt(&self.system, "SYS", &limits);
        for storage in ["mem_storage", "disk_storage", "streams", "consumer"] {
            limits[storage] = json!(-1);
        }
        let account = self.account_jwt(&self.account, "TOUCHSTONE", &limits);
        let claims = json!({
            "type": "operator", "version": 2, "system_account": self.system.public_key()
        });
        let operator = jwt(&self.operator, &self.operator, "operator", &claims);
        format!(
            "operator: {operator}\nsystem_account: {system_key}\nresolver: MEMORY\n\
             resolver_preload: {{ {account_key}: {account}, {system_key}: {system} }}\n",
            system_key = self.system.public_key(),
            account_key = self.account.public_key(),
        )
    }

    fn account_jwt(&self, account: &KeyPair, name: &str, limits: &Value) -> String {
        let claims = json!({"type": "account", "version": 2, "limits": limits});
        jwt(&self.operator, account, name, &claims)
    }

    /// The credentials of a new user.
    fn user(&self, folder: &Path, name: &str, permissions: &Permissions) -> PathBuf {
        let user = KeyPair::new_user();
        let claims = json!({
            "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1,
            "pub": {"allow": permissions.publish}, "sub": {"allow": permissions.subscribe}
        });
        let token = jwt(&self.account, &user, name, &claims);
        let seed = user.seed().unwrap();
        let file = folder.join(format!("{name}.creds"));
        let text = format!(
            "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        std::fs::write(&file, text).unwrap();
        file
    }
}

#[tokio::test]
async fn credentials_with_a_jwt_have_the_same_permissions_as_keys() {
    let folder = tempfile::tempdir().unwrap();
    let (operator, stranger) = (Operator::new(), Operator::new());
    let Some(server) = Server::start(&operator.configuration()).await else {
        return;
    };
    let with = |file: PathBuf| ClusterSettings {
        credentials_file: Some(file),
        ..server.settings("nats")
    };
    let pool = Pool::shared();
    let of_host = Permissions::of_host(std::slice::from_ref(&pool));
    let host = operator.user(folder.path(), "host", &of_host);
    let unknown = stranger.user(folder.path(), "stranger", &of_host);
    assert!(reaches_queues(with(unknown)).await.is_err());
    let host = NatsBus::new(with(host), Role::Host);
    let lane = lane(&pool, "m");
    let message = Bytes::from_static(b"offer");
    host.publish(&lane, "host_1", message.clone())
        .await
        .unwrap();

    let worker = |pool: &str| {
        let pool = Pool::parse(pool).unwrap();
        let permissions = Permissions::of_worker("w1", std::slice::from_ref(&pool));
        let file = operator.user(folder.path(), &format!("w1-{pool}"), &permissions);
        NatsBus::new(with(file), Role::Worker("w1".to_owned()))
    };
    let longest = std::time::Duration::from_secs(5);
    let refused = worker("acme").pull(&lane, 1, longest).await;
    assert!(refused.is_err());
    let taken = take(&worker("shared"), &lane).await;
    assert_eq!(taken.message, message);
}
