//! Isolation of tenants (RFC 0048 §C, §D; RFC 0093 §A.3).
//!
//! A seam reaches the caller's tenant and tenants below it. No key belongs to a tenant below: the
//! name of a key's tenant has no slash.

use serde_json::{Value, json};

use crate::conformance::{Seams, closed, required};
use touchstone_host::service::access::Caller;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TenantId, WebhookId};
use touchstone_openwop::wire::Major;
use touchstone_runs::service::runs::create::Dedup;

/// The fixture whose runs are read.
const NOOP: &str = "conformance-noop";
/// A tenant without runs.
const ELSEWHERE: &str = "elsewhere";
const MOST_NAME_BYTES: usize = 64;

impl Seams {
    /// The snapshot of a new run of the caller.
    ///
    /// # Errors
    /// Those of creating a run.
    pub async fn owned_run(&self, caller: &Caller) -> Result<Value, Problem> {
        let run = self.idle_run(caller).await?;
        self.runs.snapshot(&caller.tenant, &run).await
    }

    /// The result of reading a run of the caller from another tenant: the snapshot, or the refusal.
    ///
    /// # Errors
    /// Those of creating a run; an internal error.
    pub async fn read_from_elsewhere(
        &self,
        caller: &Caller,
    ) -> Result<Result<Value, Problem>, Problem> {
        let run = self.idle_run(caller).await?;
        let tenant = below(&caller.tenant, ELSEWHERE);
        match self.runs.snapshot(&tenant, &run).await {
            Err(problem) if problem.code != ErrorCode::NotFound => Err(problem),
            read => Ok(read),
        }
    }

    /// Calls the API as a tenant below the caller's: `{tenantId, surface: "webhooks", op, args?}`.
    /// `register` creates a subscription, `list` lists the tenant's, `unregister` removes
    /// `args.webhookId`.
    ///
    /// # Errors
    /// `not_found` for another surface; `validation_error`; those of the use case.
    pub async fn surface(&self, caller: &Caller, body: &Value) -> Result<Value, Problem> {
        if body.get("surface").and_then(Value::as_str) != Some("webhooks") {
            return Err(Problem::new(
                ErrorCode::NotFound,
                "`surface` must be `webhooks`",
            ));
        }
        let members = closed(body, &["tenantId", "surface", "op", "args"])?;
        let name = required(members, "tenantId")?;
        let sound = (1..=MOST_NAME_BYTES).contains(&name.len())
            && name
                .bytes()
                .all(|octet| octet.is_ascii_alphanumeric() || b"._-".contains(&octet));
        if !sound {
            return Err(Problem::validation(
                "tenantId",
                format!(
                    "`tenantId` must have 1 to {MOST_NAME_BYTES} letters, digits, `.`, `_` and `-`"
                ),
            ));
        }
        let member = Caller {
            tenant: below(&caller.tenant, name),
            ..caller.clone()
        };
        let nothing = json!({});
        let args = members.get("args").unwrap_or(&nothing);
        match required(members, "op")? {
            "register" => {
                let made = self.webhooks.register(&member, args, Major::V1).await?;
                Ok(json!({"webhookId": made.webhook.id}))
            }
            "list" => {
                let found = self.webhooks.list(&member.tenant).await?;
                let shown: Vec<Value> = found
                    .iter()
                    .map(|webhook| json!({"webhookId": webhook.id, "url": webhook.url.as_str()}))
                    .collect();
                Ok(json!({"webhooks": shown}))
            }
            "unregister" => {
                let id = WebhookId::from(required(closed(args, &["webhookId"])?, "webhookId")?);
                self.webhooks.remove(&member, None, &id).await?;
                Ok(json!({}))
            }
            _ => Err(Problem::validation(
                "op",
                "`op` must be `register`, `list` or `unregister`",
            )),
        }
    }

    async fn idle_run(&self, caller: &Caller) -> Result<RunId, Problem> {
        let body = json!({"workflowId": NOOP});
        let created = self
            .runs
            .create(caller, &body, Dedup::Off, Major::V1, None)
            .await?;
        Ok(created.run_id)
    }
}

fn below(tenant: &TenantId, name: &str) -> TenantId {
    TenantId::from(format!("{tenant}/{name}"))
}
