//! What goes with a connection.

use std::sync::Arc;

use ramlet_memory::Reservation;
use tokio::sync::OwnedSemaphorePermit;

use crate::audit::Peer;
use crate::loads::Meter;
use crate::turns::Stay;

/// The bytes that a connection holds, and its place: given back in this order, so that who waits for the place finds the bytes.
pub type Paid = (Reservation, OwnedSemaphorePermit);

/// What goes with a connection.
pub struct Place {
    pub _paid: Paid,
    pub peer: Peer,
    pub stay: Stay,
    pub meter: Arc<Meter>,
}
