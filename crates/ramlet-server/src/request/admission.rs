//! Admission of a request: its key, the key's access, and the memory that it reserves.

use std::sync::Arc;
use std::time::Instant;

use axum::http::{HeaderMap, StatusCode};
use ramlet::Scratch;

use super::growing_reservation::GrowingReservation;
use crate::access::audit_record::{AuditRecord, Subject};
use crate::access::auth::{Access, Grant};
use crate::app::App;
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::threads::slots::on_slot;

/// What a request was admitted with.
pub struct Admitted {
    pub grant: Grant,
    /// Held until the engine is done with what the body became, even when the client is gone by then.
    pub held: Arc<GrowingReservation>,
}

/// Who asks, and the record of the request in the audit log; refused where the key opens no routes of this kind.
pub fn enter(
    app: &App,
    access: Access,
    subject: Subject<'_>,
    headers: &HeaderMap,
) -> ApiResult<(Grant, AuditRecord)> {
    let (grant, authorised) = app.keys.caller(access, headers);
    let record = AuditRecord::of(app.audit.as_ref(), subject, headers, &grant);
    match authorised {
        Ok(()) => Ok((grant, record)),
        Err(e) => {
            record.key_refused(&e);
            Err(e)
        }
    }
}

/// Refuses what a token doesn't open of a kind of route, with the collection that it is asked for. The record tells both.
pub async fn admit(
    app: &App,
    (grant, record): (&Grant, &AuditRecord),
    (access, collection): (Access, Option<&str>),
    start: Instant,
) -> ApiResult<()> {
    let admitted = match grant.check(access, collection) {
        Ok(()) => confirm(app, grant, start + limits::READ_TIMEOUT).await,
        refused => refused,
    };
    match &admitted {
        Ok(()) => record.record_allowed(),
        Err(e) => record.failed(e),
    }
    admitted
}

/// Refuses a token whose point isn't there any more.
async fn confirm(app: &App, grant: &Grant, deadline: Instant) -> ApiResult<()> {
    const WORDS: &str = "Invalid JWT, stateful validation failed";
    let Some(exists) = grant.value_exists() else {
        return Ok(());
    };
    if app.node.as_ref().is_some_and(|node| node.shards.is_some()) {
        // Its points are of several shards.
        let what = format!(
            "Forbidden: `value_exists` of a token isn't possible where collections are divided, {WORDS}"
        );
        return Err(ApiError::new(StatusCode::FORBIDDEN, what));
    }
    let Ok(collection) = app.collection(&exists.collection).await else {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            format!("Forbidden: {WORDS}"),
        ));
    };
    let filter = exists.filter.clone();
    let count = move |scratch: &mut Scratch| Ok(collection.count(Some(&filter), true, scratch)?);
    match on_slot(&app.engine, deadline, count).await? {
        0 => Err(ApiError::new(StatusCode::UNAUTHORIZED, WORDS)),
        _ => Ok(()),
    }
}
