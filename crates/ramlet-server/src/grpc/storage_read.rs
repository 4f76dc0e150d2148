//! `qdrant.StorageRead`: raw bytes of a shard's files, for programs that keep copies of the API server's own files.
//!
//! The files here have another form, and such a program would take a list of them for a shard of its own. So a call goes through
//! the same checks as any read, of key, collection and shard, and is then told that this isn't implemented.

use std::sync::Arc;
use std::time::Instant;

use axum::http::{HeaderMap, StatusCode};
use hyper::body::Incoming;
use ramlet_proto::Message;
use ramlet_proto::qdrant::FileLengthRequest;

use super::frame::Messages;
use crate::access::audit_record::Subject;
use crate::access::auth::Access;
use crate::app::App;
use crate::bodies::body_rule::BodyRule;
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::request::admission::{admit, enter};
use crate::request::growing_reservation::GrowingReservation;

/// The methods, and their names in the audit log.
const METHODS: [(&str, &str); 7] = [
    ("/qdrant.StorageRead/ListFiles", "list_files"),
    ("/qdrant.StorageRead/FileExists", "file_exists"),
    ("/qdrant.StorageRead/FileLength", "file_length"),
    ("/qdrant.StorageRead/ReadBytes", "read_bytes"),
    ("/qdrant.StorageRead/ReadBytesStream", "read_bytes_stream"),
    ("/qdrant.StorageRead/ReadWhole", "read_whole"),
    ("/qdrant.StorageRead/ReadBatch", "read_batch"),
];
const RULE: BodyRule = BodyRule {
    cap: limits::CONFIG_BODY_BYTES,
    ..BodyRule::QUERY
};

/// The audit log's name of a method of this service.
pub fn name_of(path: &str) -> Option<&'static str> {
    METHODS
        .iter()
        .find(|(method, _)| *method == path)
        .map(|(_, name)| *name)
}

/// Why a call gets no bytes.
pub async fn refusal(app: &Arc<App>, subject: Subject<'_>, headers: &HeaderMap, body: Incoming) -> ApiError {
    match refused(app, subject, headers, body).await {
        Ok(refusal) => refusal,
        Err(e) => e,
    }
}

/// The refusal for a caller who may read the collection. Names and shards stand in the same fields of all these messages.
async fn refused(
    app: &Arc<App>,
    subject: Subject<'_>,
    headers: &HeaderMap,
    body: Incoming,
) -> ApiResult<ApiError> {
    let start = Instant::now();
    let (grant, mut record) = enter(app, Access::Read, subject, headers)?;
    let mut held = GrowingReservation::default();
    let message = Messages::new(headers, body)?
        .single(RULE, &mut held, &app.requests)
        .await?;
    let request = FileLengthRequest::decode(message).map_err(ApiError::wrong_input)?;
    let name = &request.collection_name;
    record.about(Some(name));
    admit(app, (&grant, &record), (Access::Read, Some(name)), start).await?;
    let collection = app.collection(name).await?;
    let number = request.shard_id;
    let has = match collection.shard_infos() {
        None => number == 0,
        Some(infos) => infos.iter().any(|info| info.number == number),
    };
    if !has {
        return Err(ApiError::not_found(format!(
            "Shard {number} of collection {name}"
        )));
    }
    Ok(ApiError::new(
        StatusCode::NOT_IMPLEMENTED,
        format!(
            "Shard {number} of collection {name} can't be read file by file: Ramlet's files have a form of their own. \
             A snapshot can be downloaded"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::reflection;
    use super::*;

    #[test]
    fn the_methods_are_those_that_reflection_tells() {
        assert_eq!(
            reflection::methods_of("qdrant.StorageRead"),
            METHODS.map(|(path, _)| path)
        );
    }
}
