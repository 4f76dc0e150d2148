//! A request's record in the audit log: a line when it is allowed, one when it is denied.

use std::borrow::Cow;
use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};

use super::audit::{Audit, Line, Peer, timestamp};
use super::auth::{Caller, Grant};
use crate::error::ApiError;
use crate::limits;

/// Headers that name a request, the first that is there.
const TRACING_HEADERS: [&str; 3] = ["x-request-id", "x-tracing-id", "traceparent"];

/// What a request is about, as far as its head says.
#[derive(Default)]
pub struct Subject<'a> {
    /// What is done, in the API's words. Without one only a key that is refused leaves a line.
    pub name: Option<&'static str>,
    /// Method and path of the route, or path of the gRPC method.
    pub api: Cow<'a, str>,
    pub collection: Option<String>,
    pub peer: Option<Peer>,
}

/// A request's record; nothing where there is no log.
#[derive(Default)]
pub struct AuditRecord(Option<Box<Entry>>);

struct Entry {
    audit: Arc<Audit>,
    name: Option<&'static str>,
    api: String,
    caller: Caller,
    subject: Option<String>,
    token_hash: Option<String>,
    remote: Option<String>,
    collection: Option<String>,
    tracing_id: Option<String>,
}

impl AuditRecord {
    pub fn of(
        audit: Option<&Arc<Audit>>,
        asks: Subject<'_>,
        headers: &HeaderMap,
        grant: &Grant,
    ) -> AuditRecord {
        let Some(audit) = audit else {
            return AuditRecord::default();
        };
        let named = |name: &str| headers.get(name)?.to_str().ok().map(bounded);
        let forwarded = || named("x-forwarded-for").filter(|_| audit.trusts_forwarded);
        let remote = forwarded().or_else(|| Some(asks.peer?.0.to_canonical().to_string()));
        let (subject, token_hash) = grant.named();
        AuditRecord(Some(Box::new(Entry {
            audit: audit.clone(),
            name: asks.name,
            api: bounded(&asks.api),
            caller: grant.caller(),
            subject: subject.map(bounded),
            token_hash: token_hash.map(str::to_owned),
            remote,
            collection: asks.collection.as_deref().map(bounded),
            tracing_id: TRACING_HEADERS.iter().find_map(|name| named(name)),
        })))
    }

    /// The collection, where the message names it and not the path.
    pub fn about(&mut self, collection: Option<&str>) {
        if let Some(entry) = &mut self.0 {
            entry.collection = collection.map(bounded);
        }
    }

    /// The request is let in.
    pub fn record_allowed(&self) {
        if let Some(entry) = self.0.as_ref().filter(|entry| entry.name.is_some()) {
            entry.note("ok", None);
        }
    }

    /// The request's key isn't one, or doesn't open this kind of route.
    pub fn key_refused(&self, e: &ApiError) {
        if let Some(entry) = &self.0 {
            entry.note("denied", Some(&e.message));
        }
    }

    /// The request failed; that is told where it was for want of rights.
    pub fn failed(&self, e: &ApiError) {
        let for_rights = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&e.status);
        if let Some(entry) = self.0.as_ref().filter(|entry| for_rights && entry.name.is_some()) {
            entry.note("denied", Some(&e.message));
        }
    }
}

impl Entry {
    fn note(&self, result: &str, error: Option<&str>) {
        let error = error.map(bounded);
        self.audit.note(&Line {
            timestamp: timestamp(),
            method: self.name,
            api: &self.api,
            auth_type: match self.caller {
                Caller::Nobody => "None",
                Caller::Admin | Caller::Reader => "ApiKey",
                Caller::Token => "Jwt",
            },
            read_only: self.caller == Caller::Reader,
            subject: self.subject.as_deref(),
            token_hash: self.token_hash.as_deref(),
            remote: self.remote.as_deref(),
            collection: self.collection.as_deref(),
            tracing_id: self.tracing_id.as_deref(),
            result,
            error: error.as_deref(),
        });
    }
}

/// So much of a client's text as a line has room for.
fn bounded(text: &str) -> String {
    text.chars().take(limits::AUDIT_TEXT_CHARS).collect()
}
