//! Cursors of `GET /runs` (OpenWOP v2 runs, List): a position in the list, authenticated together
//! with the tenant and the filters. A cursor of another tenant or another list is not one.
//!
//! `base64url(HMAC-SHA256(tenant, filters, position) position)`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::json;
use sha2::Sha256;

use super::fold::RunStatus;
use super::listing::RunPosition;
use touchstone_kit::ids::TenantId;

/// Length of the authentication code in bytes.
const CODE_BYTES: usize = 32;

/// The list that a cursor belongs to.
#[derive(Clone, Copy, Debug)]
pub struct ListOf<'a> {
    pub tenant: &'a TenantId,
    pub workflow_id: Option<&'a str>,
    pub status: Option<RunStatus>,
}

/// The host's secret is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the secret of cursors cannot be used")]
pub struct NoCursor;

impl ListOf<'_> {
    /// The cursor that continues after a position.
    ///
    /// # Errors
    /// Never: HMAC takes keys of every length.
    pub fn cursor(&self, secret: &[u8; 32], position: &RunPosition) -> Result<String, NoCursor> {
        let position = position.encode();
        let code = self.code(secret, &position)?.finalize().into_bytes();
        Ok(URL_SAFE_NO_PAD.encode([code.as_slice(), position.as_bytes()].concat()))
    }

    /// The position in a cursor of this list; `None` for any other text.
    pub fn position(&self, secret: &[u8; 32], cursor: &str) -> Option<RunPosition> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let (code, position) = bytes.split_at_checked(CODE_BYTES)?;
        let position = str::from_utf8(position).ok()?;
        // In constant time, before anything is parsed.
        self.code(secret, position).ok()?.verify_slice(code).ok()?;
        RunPosition::decode(position)
    }

    fn code(&self, secret: &[u8; 32], position: &str) -> Result<Hmac<Sha256>, NoCursor> {
        let status = self.status.map(RunStatus::as_str);
        let authenticated = json!([self.tenant.as_str(), self.workflow_id, status, position]);
        let mut code = Hmac::new_from_slice(secret).map_err(|_| NoCursor)?;
        code.update(authenticated.to_string().as_bytes());
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use proptest::prelude::*;

    const SECRET: [u8; 32] = [1; 32];

    fn position() -> RunPosition {
        RunPosition {
            created_at: Timestamp::from_microsecond(1_800_000_000_000_000).unwrap(),
            run_id: "run_0199c0de-1".into(),
        }
    }

    #[test]
    fn a_cursor_continues_its_own_list_only() {
        let (acme, globex) = (TenantId::from("acme"), TenantId::from("globex"));
        let list = ListOf {
            tenant: &acme,
            workflow_id: Some("conformance-noop"),
            status: Some(RunStatus::Completed),
        };
        let cursor = list.cursor(&SECRET, &position()).unwrap();
        assert_eq!(list.position(&SECRET, &cursor), Some(position()));
        assert_eq!(list.position(&[2; 32], &cursor), None);
        let others = [
            ListOf {
                tenant: &globex,
                ..list
            },
            ListOf {
                workflow_id: None,
                ..list
            },
            ListOf {
                workflow_id: Some("conformance-delay"),
                ..list
            },
            ListOf {
                status: None,
                ..list
            },
            ListOf {
                status: Some(RunStatus::Failed),
                ..list
            },
        ];
        for other in others {
            assert_eq!(other.position(&SECRET, &cursor), None, "{other:?}");
        }
    }

    proptest! {
        #[test]
        fn a_changed_cursor_is_refused(place in 0usize..1000, to in "[A-Za-z0-9_-]") {
            let tenant = TenantId::from("acme");
            let list = ListOf { tenant: &tenant, workflow_id: None, status: None };
            let cursor = list.cursor(&SECRET, &position()).unwrap();
            let place = place % cursor.len();
            let mut changed = cursor.clone();
            changed.replace_range(place..=place, &to);
            let expected = (changed == cursor).then(position);
            prop_assert_eq!(list.position(&SECRET, &changed), expected);
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,200}") {
            let tenant = TenantId::from("acme");
            let list = ListOf { tenant: &tenant, workflow_id: None, status: None };
            prop_assert_eq!(list.position(&SECRET, &text), None);
        }
    }
}
