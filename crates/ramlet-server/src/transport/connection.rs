//! The data of a connection.

use std::sync::Arc;

use ramlet_memory::Reservation;
use tokio::sync::OwnedSemaphorePermit;

use super::eviction::EvictionGuard;
use crate::access::audit::Peer;
use crate::threads::balancer::Meter;

/// The bytes that a connection holds, and its place: given back in this order, so that who waits for the place finds the bytes.
pub type Paid = (Reservation, OwnedSemaphorePermit);

/// What goes with a connection.
pub struct Place {
    pub _paid: Paid,
    pub peer: Peer,
    pub guard: EvictionGuard,
    pub meter: Arc<Meter>,
}
