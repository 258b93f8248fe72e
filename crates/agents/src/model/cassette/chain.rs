//! The hash chain over the lines of a cassette. Each line begins with the digest over all lines up
//! to it, so that a changed, missing or moved line is detected, and the last link identifies the
//! whole cassette.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use touchstone_kit::hex::hex;
use touchstone_kit::keys::{PublicKey, SecretKey};

/// Separates these digests and signatures from all others.
const RECIPE: &[u8] = b"touchstone:cassette:v2";
/// The beginning of a line, before its link.
const HEAD: &str = "{\"chain\":\"";
/// The text after the link.
const NECK: &str = "\",";
/// Hexadecimal digits of a link.
const LINK_CHARS: usize = 64;

/// The digest over the lines so far.
#[derive(Clone, Debug)]
pub struct Chain([u8; 32]);

impl Default for Chain {
    fn default() -> Self {
        Self(Sha256::digest(RECIPE).into())
    }
}

impl Chain {
    /// Prepends the link to a line, which must be a JSON object with members.
    pub fn link(&mut self, line: &str) -> String {
        self.take(line);
        let members = line.strip_prefix('{').unwrap_or(line);
        format!("{HEAD}{}{NECK}{members}", hex(&self.0))
    }

    /// Removes and verifies the link of a line.
    ///
    /// # Errors
    /// The line has no link, or the link does not match its content and the lines before it.
    pub fn unlink(&mut self, text: &str) -> Result<String, String> {
        let linked = text
            .strip_prefix(HEAD)
            .and_then(|rest| rest.split_at_checked(LINK_CHARS))
            .and_then(|(link, rest)| Some((link, rest.strip_prefix(NECK)?)));
        let Some((link, members)) = linked else {
            return Err(
                "it does not begin with the member `chain`, so its integrity cannot be verified; \
                record the cassette again"
                    .to_owned(),
            );
        };
        let line = format!("{{{members}");
        self.take(&line);
        if hex(&self.0) == link {
            Ok(line)
        } else {
            Err(
                "its digest does not match: this line was changed, or one before it was changed, moved or removed"
                    .to_owned(),
            )
        }
    }

    /// `sha256-<base64>` over the lines so far.
    pub fn digest(&self) -> String {
        format!("sha256-{}", STANDARD.encode(self.0))
    }

    /// Signs the lines so far.
    pub fn sign(&self, key: &SecretKey) -> String {
        STANDARD.encode(key.sign(&self.message()))
    }

    /// Whether `signature` over the lines so far verifies with `key`.
    pub fn is_signed_by(&self, key: &PublicKey, signature: &str) -> bool {
        let signature = STANDARD.decode(signature);
        signature.is_ok_and(|signature| key.verifies(&self.message(), &signature))
    }

    fn message(&self) -> Vec<u8> {
        [RECIPE, b"\n", &self.0].concat()
    }

    fn take(&mut self, line: &str) {
        let mut digest = Sha256::new();
        digest.update(self.0);
        digest.update(line.as_bytes());
        self.0 = digest.finalize().into();
    }
}
