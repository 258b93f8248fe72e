//! `touchstone rating badge verify`: verify a badge offline.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use crate::credential;
use crate::credential::baking;
use crate::credential::baking::extract;
use crate::credential::did::DidDocument;
use crate::credential::proof;
use crate::render::badge::is_picture_of;
use crate::rules::badge::agreement;
use crate::rules::badge::agreement::Agreement;
use crate::rules::badge::{Verification, VerificationContext, badge_from_credential, verify};
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::files;
use touchstone_host::cli::terminal::Terminal;
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::render::words::plain;
use touchstone_host::system::SystemClock;

const EXAMPLES: &str = "\
Reads files only and makes no network request. The signature proves which issuer id signed the
badge; it does not prove the issuer's name. Compare the id with the one you know.

Exit codes: 0 valid, 1 invalid, 2 bad input.

Examples:
  touchstone rating badge verify badge.png
  touchstone rating badge verify badge.svg --status-list list.json
  touchstone rating badge verify badge.json --issuer-document did.json --json";

/// Verify a rating badge offline: signature, picture, dates and revocation
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Badge file: JSON credential, JSON badge, or SVG or PNG picture that contains one
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// JSON file with the issuer's current status list; without it, revocation is not checked
    #[arg(long, value_name = "FILE")]
    status_list: Option<PathBuf>,
    /// JSON file with the DID document of a did:web issuer; not needed for did:key
    #[arg(long, value_name = "FILE")]
    issuer_document: Option<PathBuf>,
}

pub fn run(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    let PresentedBadge {
        credential,
        matches_credential,
        agreement,
    } = badge(&arguments.file)?;
    let list = arguments.status_list.as_deref().map(document).transpose()?;
    let documents: Vec<DidDocument> = match &arguments.issuer_document {
        Some(file) => vec![did_document(file)?],
        None => Vec::new(),
    };
    let presented_with = VerificationContext {
        status_list: list.as_ref(),
        documents: &documents,
        ..VerificationContext::default()
    };
    let verification = verify(&credential, &presented_with, SystemClock.now());
    let verification = verification
        .in_picture(matches_credential.unwrap_or(true))
        .in_document(&agreement.altered);
    let report = VerificationReport::new(&credential, &verification, &agreement.unsigned);
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&report);
    } else {
        report.print(terminal);
    }
    Ok(if verification.valid {
        Exit::Good
    } else {
        Exit::Negative
    })
}

/// The result of a verification. Claims of the badge are reliable only if it is valid.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VerificationReport<'a> {
    ok: bool,
    #[serde(flatten)]
    verification: &'a Verification,
    credential_id: Option<&'a str>,
    name: Option<&'a str>,
    agent: Value,
    issuer: Value,
    valid_from: Option<&'a str>,
    valid_until: Option<&'a str>,
    /// Members of a JSON badge that its credential does not cover.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    unsigned_members: &'a [String],
}

impl<'a> VerificationReport<'a> {
    fn new(
        credential: &'a Value,
        verification: &'a Verification,
        unsigned_members: &'a [String],
    ) -> Self {
        let text = |pointer: &str| credential.pointer(pointer).and_then(Value::as_str);
        Self {
            ok: verification.valid,
            verification,
            credential_id: text("/id"),
            name: text("/name"),
            agent: json!({
                "id": text("/credentialSubject/id"),
                "name": text("/credentialSubject/identifier/0/identityHash"),
            }),
            issuer: json!({"id": proof::issuer(credential), "name": text("/issuer/name")}),
            valid_from: text("/validFrom"),
            valid_until: text("/validUntil"),
            unsigned_members,
        }
    }

    fn print(&self, terminal: &Terminal) {
        let colors = terminal.colors();
        let stated = |value: Option<&str>| plain(value.unwrap_or("?"));
        let party = |party: &Value| {
            format!(
                "{} ({})",
                stated(party["name"].as_str()),
                stated(party["id"].as_str())
            )
        };
        let (mark, word) = if self.ok {
            (colors.good("✓"), "the badge is valid")
        } else {
            (colors.bad("✗"), "the badge is not valid")
        };
        terminal.print(&format!("{mark} {word}: {}", stated(self.name)));
        terminal.print(&format!("  agent   {}", party(&self.agent)));
        terminal.print(&format!("  issuer  {}", party(&self.issuer)));
        terminal.print(&format!(
            "  valid   {} to {}",
            stated(self.valid_from),
            stated(self.valid_until)
        ));
        for reason in &self.verification.reasons {
            terminal.print(&format!("  {}: {}", reason.code, plain(&reason.message)));
        }
        if !self.unsigned_members.is_empty() {
            let members = plain(&self.unsigned_members.join(", "));
            terminal.note(&format!("  not covered by the signature: {members}"));
        }
        if self.verification.revoked.is_none() {
            terminal.note("  revocation not checked; use --status-list FILE");
        }
    }
}

struct PresentedBadge {
    credential: Value,
    /// Whether the picture matches its credential; `None` without a picture and for other kinds of
    /// credentials.
    matches_credential: Option<bool>,
    /// How the JSON badge around the credential compares with it.
    agreement: Agreement,
}

fn badge(file: &Path) -> Result<PresentedBadge, Failure> {
    let bytes = files::read(file, baking::MAX_OCTETS as u64)?;
    let unusable = |fault: String| {
        Failure::bad_input(
            "no_badge",
            format!("{} does not contain a badge: {fault}", file.display()),
        )
        .or_try("use a JSON credential, or an SVG or PNG picture that contains one")
    };
    let text = extract(&bytes).map_err(|fault| unusable(fault.to_string()))?;
    let credential = credential::parse(&text).map_err(|fault| unusable(fault.to_string()))?;
    if let Some(inner) = agreement::credential(&credential) {
        return Ok(PresentedBadge {
            credential: inner.clone(),
            matches_credential: None,
            agreement: agreement::compared(&credential, inner),
        });
    }
    let is_picture = text != bytes;
    let stated = std::str::from_utf8(&text).ok().filter(|_| is_picture);
    let drawn = stated.zip(badge_from_credential(&credential));
    let matches_credential = drawn.map(|(stated, badge)| is_picture_of(&bytes, &badge, stated));
    Ok(PresentedBadge {
        credential,
        matches_credential,
        agreement: Agreement::default(),
    })
}

fn document(file: &Path) -> Result<Value, Failure> {
    let bytes = files::read(file, credential::MAX_OCTETS as u64)?;
    credential::parse(&bytes).map_err(|fault| {
        Failure::bad_input(
            "no_document",
            format!("{} is not a JSON document: {fault}", file.display()),
        )
    })
}

fn did_document(file: &Path) -> Result<DidDocument, Failure> {
    serde_json::from_value(document(file)?).map_err(|fault| {
        Failure::bad_input(
            "no_did_document",
            format!("{} is not a DID document: {fault}", file.display()),
        )
        .or_try("download the document from the URL of the issuer's did:web")
    })
}
