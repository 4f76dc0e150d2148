//! The data of a connection.

use std::sync::Arc;

use ramlet_memory::Reservation;
use tokio::sync::OwnedSemaphorePermit;

use crate::audit::Peer;
use crate::balancer::Meter;
use crate::eviction::EvictionGuard;

/// The bytes that a connection holds, and its place: given back in this order, so that who waits for the place finds the bytes.
pub type Paid = (Reservation, OwnedSemaphorePermit);

/// What goes with a connection.
pub struct Place {
    pub _paid: Paid,
    pub peer: Peer,
    pub guard: EvictionGuard,
    pub meter: Arc<Meter>,
}
