//! A reservation of the ledger that grows with a request or a response.

use std::time::Duration;

use ramlet_memory::{Consumer, OverBudget, Reservation};
use tokio::time::Instant;

use crate::limits;

/// Bytes held for one request or answer, growing as it does.
#[derive(Default)]
pub struct GrowingReservation {
    reservation: Option<Reservation>,
    /// What it waited for bytes.
    waited: Duration,
}

impl GrowingReservation {
    pub fn bytes(&self) -> u64 {
        self.reservation.as_ref().map_or(0, Reservation::bytes)
    }

    /// How long it waited for others to give bytes back.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Makes sure that at least `bytes` are held.
    pub fn at_least(&mut self, bytes: u64, from: &Consumer) -> Result<(), OverBudget> {
        let more = bytes.saturating_sub(self.bytes());
        if more == 0 {
            return Ok(());
        }
        let grown = match &mut self.reservation {
            Some(reservation) => reservation.grow(more),
            none => from.reserve(more).map(|r| *none = Some(r)),
        };
        // Told as a whole: that is what decides whether waiting would help.
        grown.map_err(|e| OverBudget { asked: bytes, ..e })
    }

    /// Bytes that could be had but are taken are waited for, [`limits::MEMORY_WAIT`] at most; see [`GrowingReservation::until`].
    pub async fn in_time(bytes: u64, from: &Consumer) -> Result<GrowingReservation, OverBudget> {
        let mut held = GrowingReservation::default();
        // Nearly always there is room, and no clock to be read.
        if from.available() >= bytes && held.at_least(bytes, from).is_ok() {
            return Ok(held);
        }
        GrowingReservation::until(Instant::now() + limits::MEMORY_WAIT, bytes, from).await
    }

    /// The same until `deadline`.
    pub async fn until(
        deadline: Instant,
        bytes: u64,
        from: &Consumer,
    ) -> Result<GrowingReservation, OverBudget> {
        let mut held = GrowingReservation::default();
        held.at_least_until(deadline, bytes, from).await.map(|()| held)
    }

    /// Makes sure that at least `bytes` are held, as [`GrowingReservation::in_time`].
    pub async fn at_least_in_time(&mut self, bytes: u64, from: &Consumer) -> Result<(), OverBudget> {
        let more = bytes.saturating_sub(self.bytes());
        if from.available() >= more && self.at_least(bytes, from).is_ok() {
            return Ok(());
        }
        self.at_least_until(Instant::now() + limits::MEMORY_WAIT, bytes, from)
            .await
    }

    /// Only who holds little waits ([`limits::WAIT_BYTES`]). Much that is held already grows at once or not at all
    /// ([`GrowingReservation::at_least`]): those who hold it would wait for each other.
    async fn at_least_until(
        &mut self,
        deadline: Instant,
        bytes: u64,
        from: &Consumer,
    ) -> Result<(), OverBudget> {
        let more = bytes.saturating_sub(self.bytes());
        let may_wait = bytes <= from.cap() && self.bytes() <= limits::WAIT_BYTES;
        let (mut pause, begun) = (*limits::MEMORY_PAUSES.start(), Instant::now());
        loop {
            // Looked at first, so that who waits is not counted as refused each time.
            let waits = may_wait && Instant::now() + pause < deadline;
            if !waits || from.available() >= more {
                match self.at_least(bytes, from) {
                    // Reclaimed memory on its way back.
                    Err(_) if waits => {}
                    done => {
                        self.waited += begun.elapsed();
                        return done;
                    }
                }
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(*limits::MEMORY_PAUSES.end());
        }
    }

    /// Hands over `bytes` of these, or all if there are fewer.
    pub fn split(&mut self, bytes: u64) -> GrowingReservation {
        let part = |held: &mut Reservation| held.split(bytes.min(held.bytes()));
        GrowingReservation {
            reservation: self.reservation.as_mut().map(part),
            waited: Duration::ZERO,
        }
    }

    /// Gives back all but `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        if let Some(held) = &mut self.reservation {
            held.shrink_to(bytes);
        }
    }
}
