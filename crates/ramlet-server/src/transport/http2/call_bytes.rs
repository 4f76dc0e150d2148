//! What a call over HTTP/2 takes beside its message: taken as soon as its head is there.
//!
//! A connection has many calls at once, each with a head of up to 16 KiB that its client may leave without a body for as long as
//! the server waits for one. HTTP/1 has one head a connection, in the connection's own bytes.

use axum::http::Request;
use ramlet_memory::OverBudget;
use tokio::sync::OwnedSemaphorePermit;

use crate::app::App;
use crate::limits;
use crate::request::growing_reservation::GrowingReservation;

/// The bytes of a call, or its place among those who wait for them.
pub enum Entry {
    GrowingReservation(GrowingReservation),
    Waits(OwnedSemaphorePermit),
}

impl Entry {
    /// Never waits: the next head is decoded only when this one is on the account, in the line, or gone.
    pub fn of<B>(request: &Request<B>, app: &App) -> Result<Entry, OverBudget> {
        let more = head_bytes(request).saturating_sub(limits::CALL_HEAD_BYTES);
        let bytes = limits::CALL_BYTES + more;
        // Looked at first, so that who waits is not counted as refused. Long heads don't wait: the line has no room for them.
        if more == 0
            && app.requests.available() < bytes
            && let Ok(place) = app.waiting.clone().try_acquire_owned()
        {
            return Ok(Entry::Waits(place));
        }
        let mut held = GrowingReservation::default();
        held.at_least(bytes, &app.requests)?;
        Ok(Entry::GrowingReservation(held))
    }

    /// The bytes, which come free in time or don't.
    pub async fn held(self, app: &App) -> Result<GrowingReservation, OverBudget> {
        match self {
            Entry::GrowingReservation(held) => Ok(held),
            Entry::Waits(_place) => GrowingReservation::in_time(limits::CALL_BYTES, &app.requests).await,
        }
    }
}

/// What a head takes in memory: its texts, and the table of its fields.
fn head_bytes<B>(request: &Request<B>) -> u64 {
    let fields = request.headers().iter();
    let fields: u64 = fields
        .map(|(name, value)| name.as_str().len() as u64 + value.len() as u64 + limits::HEADER_BYTES)
        .sum();
    let path = request.uri().path_and_query();
    fields + path.map_or(0, |path| path.as_str().len() as u64)
}
