//! TLS: a rejected certificate is reported differently from an unreachable agent.

use std::sync::Arc;

use rstest::rstest;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;

use super::agent::{Agent, Spoken};
use super::{asked, codes, document};

pub const AUTHORITY: &str = include_str!("keys/authority.pem");
const KEY: &str = include_str!("keys/agent-key.pem");

/// A TLS acceptor with one of our certificates.
pub fn acceptor(name: &str) -> TlsAcceptor {
    let pem = match name {
        "agent" => include_str!("keys/agent.pem"),
        "expired" => include_str!("keys/expired.pem"),
        "elsewhere" => include_str!("keys/elsewhere.pem"),
        _ => include_str!("keys/self-signed.pem"),
    };
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

#[rstest]
#[case::expired("expired")]
#[case::of_another_name("elsewhere")]
#[case::self_signed("self-signed")]
// This host trusts no such authority.
#[case::of_an_unknown_authority("agent")]
#[tokio::test]
async fn an_agent_with_an_invalid_certificate_is_tested_and_reported(#[case] certificate: &str) {
    let agent = Agent::listen(&[], Some(acceptor(certificate)), Spoken::Http1).await;
    let document = document(&asked(&agent, &agent.card()).await);
    assert_eq!(document["availability"]["total"], 95, "{document:#}");
    assert_eq!(codes(&document), ["TLS_INVALID"]);
    // A site with an invalid certificate does not count as answering.
    assert_eq!(
        document["trust"]["breakdown"]["provider"]["urlReachable"],
        false
    );
}

#[tokio::test]
async fn grpc_goes_over_tls_too() {
    let agent = Agent::listen(&[], Some(acceptor("self-signed")), Spoken::Http2).await;
    let mut card = agent.card();
    card["preferredTransport"] = json!("GRPC");
    card["url"] = json!(agent.base());
    card["additionalInterfaces"] = Value::Null;
    let document = document(&asked(&agent, &card).await);
    assert_eq!(document["availability"]["total"], 95, "{document:#}");
    assert_eq!(codes(&document), ["TLS_INVALID"]);
}

#[tokio::test]
async fn a_server_without_tls_has_no_handshake() {
    let agent = Agent::start(&[]).await;
    let mut card = agent.card();
    card["url"] = json!(agent.base().replace("http:", "https:"));
    card["additionalInterfaces"] = Value::Null;
    let document = document(&asked(&agent, &card).await);
    assert_eq!(document["availability"]["total"], 0, "{document:#}");
    assert_eq!(codes(&document), ["ENDPOINT_UNREACHABLE"]);
}
