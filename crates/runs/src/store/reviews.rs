//! Queues of human reviews: answers, labels, claims.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::ports::reviews::{Labelled, ListedReview};
use crate::rules::review::{Label, Review, ReviewClaim, ReviewItem};
use touchstone_host::audit::Decision;
use touchstone_host::ports::idempotency::IdempotencyCompletion;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::audit::record;
use touchstone_host::store::convert::{Column, column};
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::{Transaction, query};
use touchstone_kit::ids::{TaskId, TenantId};

const INSERT: &str = "INSERT INTO review_queue (id, tenant, run_number, settings)
    SELECT $1, $2, number, $4 FROM run WHERE run_id = $3 AND tenant = $2 AND deleted_at IS NULL
    RETURNING number";
const INSERT_ITEM: &str = "INSERT INTO review_item (queue, number, task) VALUES ($1, $2, $3)";
const FIND: &str = "SELECT settings, closed_at FROM review_queue WHERE id = $1 AND tenant = $2";
const LIST: &str = "SELECT q.number, q.settings, q.closed_at,
        (SELECT COUNT(*) FROM review_label l WHERE l.queue = q.number)
    FROM review_queue q WHERE q.tenant = $1 AND q.number < $2 ORDER BY q.number DESC LIMIT $3";
const ITEMS: &str =
    "SELECT i.number, i.task FROM review_item i JOIN review_queue q ON q.number = i.queue
    WHERE q.id = $1 ORDER BY i.number";
const LABELS: &str =
    "SELECT l.item, l.document FROM review_label l JOIN review_queue q ON q.number = l.queue
    WHERE q.id = $1 ORDER BY l.item, l.principal";
const CLAIMS: &str = "SELECT c.item, c.principal, c.until FROM review_claim c JOIN review_queue q ON q.number = c.queue
    WHERE q.id = $1 ORDER BY c.item, c.principal";
/// Locks the row, so that labels and claims of one queue are serialized.
const LOCK: &str = "UPDATE review_queue SET tenant = tenant WHERE id = $1 AND tenant = $2
    RETURNING number, closed_at";
const HAS_ITEM: &str = "SELECT number FROM review_item WHERE queue = $1 AND number = $2";
const OTHER_LABELS: &str =
    "SELECT COUNT(*) FROM review_label WHERE queue = $1 AND item = $2 AND principal <> $3";
const OWN_LABELS: &str =
    "SELECT COUNT(*) FROM review_label WHERE queue = $1 AND item = $2 AND principal = $3";
/// Claims of people who have not labelled the answer.
const OTHER_CLAIMS: &str = "SELECT COUNT(*) FROM review_claim c
    WHERE c.queue = $1 AND c.item = $2 AND c.principal <> $3 AND c.until > $4
        AND NOT EXISTS (SELECT 1 FROM review_label l
            WHERE l.queue = c.queue AND l.item = c.item AND l.principal = c.principal)";
const PUT_LABEL: &str =
    "INSERT INTO review_label (queue, item, principal, document) VALUES ($1, $2, $3, $4)
    ON CONFLICT (queue, item, principal) DO UPDATE SET document = excluded.document";
const PUT_CLAIM: &str =
    "INSERT INTO review_claim (queue, item, principal, until) VALUES ($1, $2, $3, $4)
    ON CONFLICT (queue, item, principal) DO UPDATE SET until = excluded.until";
const DROP_CLAIM: &str =
    "DELETE FROM review_claim WHERE queue = $1 AND item = $2 AND principal = $3";
const DROP_OWN_CLAIM: &str = "DELETE FROM review_claim WHERE principal = $3 AND item = $2
    AND queue = (SELECT number FROM review_queue WHERE id = $1)";
const CLOSE: &str = "UPDATE review_queue SET closed_at = $3
    WHERE id = $1 AND tenant = $2 AND closed_at IS NULL";

const SETTINGS: Column = column("review_queue", "settings");

fn review_of(settings: &str, closed_at: Option<i64>) -> Result<Review, StoreError> {
    let mut review: Review = SETTINGS.document(settings)?;
    let time = |at| column("review_queue", "closed_at").time(at);
    review.closed_at = closed_at.map(time).transpose()?;
    Ok(review)
}

/// Stores a queue with its answers, together with the audit entry and the response to the request,
/// all or nothing.
pub async fn create(
    database: &Database,
    tenant: &TenantId,
    review: &Review,
    tasks: &[TaskId],
    decision: &Decision,
    completes: Option<&IdempotencyCompletion>,
) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().await?;
    record(&mut transaction, tenant, decision).await?;
    let queue: Option<i64> = query(INSERT)
        .bind(&review.review_id)
        .bind(tenant.as_str())
        .bind(review.run_id.as_str())
        .bind(SETTINGS.text(review)?)
        .fetch_optional(&mut transaction)
        .await?;
    let queue = queue.ok_or_else(|| column("review_queue", "run_number").inconsistent())?;
    for (number, task) in (1_i64..).zip(tasks) {
        query(INSERT_ITEM)
            .bind(queue)
            .bind(number)
            .bind(task.as_str())
            .execute(&mut transaction)
            .await?;
    }
    if let Some(completion) = completes {
        database
            .complete_within(&mut transaction, completion)
            .await?;
    }
    transaction.commit().await
}

/// A queue of this tenant.
pub async fn find(
    database: &Database,
    tenant: &TenantId,
    id: &str,
) -> Result<Option<Review>, StoreError> {
    let row: Option<(String, Option<i64>)> = query(FIND)
        .bind(id)
        .bind(tenant.as_str())
        .fetch_optional(database.readers())
        .await?;
    let found = row.map(|(settings, closed_at)| review_of(&settings, closed_at));
    found.transpose()
}

/// The queues of a tenant with a number below `before`, newest first.
pub async fn list(
    database: &Database,
    tenant: &TenantId,
    before: Option<i64>,
    limit: u32,
) -> Result<Vec<ListedReview>, StoreError> {
    let rows: Vec<(i64, String, Option<i64>, i64)> = query(LIST)
        .bind(tenant.as_str())
        .bind(before.unwrap_or(i64::MAX))
        .bind(i64::from(limit))
        .fetch_all(database.readers())
        .await?;
    let listed = |(number, settings, closed_at, labels): (i64, String, Option<i64>, i64)| {
        Ok(ListedReview {
            number,
            review: review_of(&settings, closed_at)?,
            labels: column("review_label", "item").number(labels)?,
        })
    };
    rows.into_iter().map(listed).collect()
}

/// The answers of a queue with their labels and claims, in order.
pub async fn items(database: &Database, id: &str) -> Result<Vec<ReviewItem>, StoreError> {
    let rows: Vec<(i64, String)> = query(ITEMS).bind(id).fetch_all(database.readers()).await?;
    let labels: Vec<(i64, String)> = query(LABELS).bind(id).fetch_all(database.readers()).await?;
    let claims: Vec<(i64, String, i64)> =
        query(CLAIMS).bind(id).fetch_all(database.readers()).await?;
    let mut items = BTreeMap::new();
    for (number, task) in rows {
        let item = ReviewItem {
            number: column("review_item", "number").number(number)?,
            task: TaskId::from(task),
            labels: Vec::new(),
            claims: Vec::new(),
        };
        items.insert(number, item);
    }
    for (number, document) in labels {
        let label: Label = column("review_label", "document").document(&document)?;
        if let Some(item) = items.get_mut(&number) {
            item.labels.push(label);
        }
    }
    for (number, principal, until) in claims {
        let until = column("review_claim", "until").time(until)?;
        if let Some(item) = items.get_mut(&number) {
            item.claims.push(ReviewClaim { principal, until });
        }
    }
    Ok(items.into_values().collect())
}

/// Locks a queue. `None` if the tenant has no such queue.
async fn lock(
    transaction: &mut Transaction,
    tenant: &TenantId,
    id: &str,
) -> Result<Option<(i64, Option<i64>)>, StoreError> {
    query(LOCK)
        .bind(id)
        .bind(tenant.as_str())
        .fetch_optional(transaction)
        .await
}

async fn count(
    transaction: &mut Transaction,
    sql: &'static str,
    (queue, item): (i64, u32),
    principal: &str,
) -> Result<i64, StoreError> {
    query(sql)
        .bind(queue)
        .bind(i64::from(item))
        .bind(principal)
        .fetch_one(transaction)
        .await
}

/// Keeps an answer for a person until the claim ends. False if others have taken all places.
pub async fn claim(
    database: &Database,
    tenant: &TenantId,
    review: &Review,
    item: u32,
    claim: &ReviewClaim,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let mut transaction = database.begin_write().await?;
    let Some((queue, None)) = lock(&mut transaction, tenant, &review.review_id).await? else {
        transaction.rollback().await?;
        return Ok(false);
    };
    let who = claim.principal.as_str();
    let labels = count(&mut transaction, OTHER_LABELS, (queue, item), who).await?;
    let claims: i64 = query(OTHER_CLAIMS)
        .bind(queue)
        .bind(i64::from(item))
        .bind(who)
        .bind(now.as_microsecond())
        .fetch_one(&mut transaction)
        .await?;
    if labels + claims >= i64::from(review.labellers) {
        transaction.rollback().await?;
        return Ok(false);
    }
    query(PUT_CLAIM)
        .bind(queue)
        .bind(i64::from(item))
        .bind(who)
        .bind(claim.until.as_microsecond())
        .execute(&mut transaction)
        .await?;
    transaction.commit().await?;
    Ok(true)
}

/// Ends a person's claim.
pub async fn release(
    database: &Database,
    id: &str,
    item: u32,
    principal: &str,
) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().await?;
    query(DROP_OWN_CLAIM)
        .bind(id)
        .bind(i64::from(item))
        .bind(principal)
        .execute(&mut transaction)
        .await?;
    transaction.commit().await
}

/// Records a person's label, or changes it while the answer lacks labels of others, together with
/// the audit entry and the response to the request.
pub async fn label(
    database: &Database,
    tenant: &TenantId,
    review: &Review,
    item: u32,
    label: &Label,
    decision: &Decision,
    completes: Option<&IdempotencyCompletion>,
) -> Result<Labelled, StoreError> {
    let mut transaction = database.begin_write().await?;
    let outcome = put(&mut transaction, tenant, review, item, label).await?;
    if outcome != Labelled::Recorded {
        transaction.rollback().await?;
        return Ok(outcome);
    }
    record(&mut transaction, tenant, decision).await?;
    if let Some(completion) = completes {
        database
            .complete_within(&mut transaction, completion)
            .await?;
    }
    transaction.commit().await?;
    Ok(Labelled::Recorded)
}

async fn put(
    transaction: &mut Transaction,
    tenant: &TenantId,
    review: &Review,
    item: u32,
    label: &Label,
) -> Result<Labelled, StoreError> {
    let queue = match lock(transaction, tenant, &review.review_id).await? {
        None => return Ok(Labelled::Missing),
        Some((_, Some(_))) => return Ok(Labelled::Closed),
        Some((queue, None)) => queue,
    };
    let known: Option<i64> = query(HAS_ITEM)
        .bind(queue)
        .bind(i64::from(item))
        .fetch_optional(&mut *transaction)
        .await?;
    if known.is_none() {
        return Ok(Labelled::Missing);
    }
    let who = label.principal.as_str();
    let others = count(transaction, OTHER_LABELS, (queue, item), who).await?;
    let own = count(transaction, OWN_LABELS, (queue, item), who).await?;
    if others + own >= i64::from(review.labellers) {
        return Ok(Labelled::Complete);
    }
    query(PUT_LABEL)
        .bind(queue)
        .bind(i64::from(item))
        .bind(who)
        .bind(column("review_label", "document").text(label)?)
        .execute(&mut *transaction)
        .await?;
    query(DROP_CLAIM)
        .bind(queue)
        .bind(i64::from(item))
        .bind(who)
        .execute(&mut *transaction)
        .await?;
    Ok(Labelled::Recorded)
}

/// Ends labelling, together with the audit entry and the response to the request. False if the
/// queue is closed already.
pub async fn close(
    database: &Database,
    tenant: &TenantId,
    id: &str,
    decision: &Decision,
    completes: Option<&IdempotencyCompletion>,
) -> Result<bool, StoreError> {
    let mut transaction = database.begin_write().await?;
    let closed = query(CLOSE)
        .bind(id)
        .bind(tenant.as_str())
        .bind(decision.at.as_microsecond())
        .execute(&mut transaction)
        .await?;
    if closed == 0 {
        transaction.rollback().await?;
        return Ok(false);
    }
    record(&mut transaction, tenant, decision).await?;
    if let Some(completion) = completes {
        database
            .complete_within(&mut transaction, completion)
            .await?;
    }
    transaction.commit().await?;
    Ok(true)
}
