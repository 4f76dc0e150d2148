//! Taking turns when a port has no place left: a connection that holds one is asked to end, so that those who wait outside
//! get in before they give up.
//!
//! A program keeps its connections open as long as it can, and a small budget has few places: without turns the first
//! clients would keep all others out. Whoever has long been silent goes first. Where all are busy, who has been here longest
//! goes after the next answer, which says so: a client opens another connection then, and nothing is lost.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::limits::{TURN_SILENCE, TURN_TIME};

/// Those who hold the places of a port.
#[derive(Default)]
pub struct Turns {
    here: Mutex<Vec<Arc<Guest>>>,
}

/// One of them.
struct Guest {
    came: Instant,
    /// Milliseconds since it came: when it last asked for something or got an answer.
    heard: AtomicU64,
    /// Requests that are being answered.
    busy: AtomicU32,
    /// Its next answer is to be its last.
    leaves: AtomicBool,
    /// It is to end as soon as it can.
    told: AtomicBool,
    asked: Notify,
}

/// A guest's stay, until it is dropped.
pub struct Stay {
    guest: Arc<Guest>,
    turns: Arc<Turns>,
}

/// A request that is being answered.
pub struct Busy(Arc<Guest>);

impl Turns {
    fn here(&self) -> MutexGuard<'_, Vec<Arc<Guest>>> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn enter(self: &Arc<Turns>) -> Stay {
        let guest = Arc::new(Guest {
            came: Instant::now(),
            heard: AtomicU64::new(0),
            busy: AtomicU32::new(0),
            leaves: AtomicBool::new(false),
            told: AtomicBool::new(false),
            asked: Notify::new(),
        });
        self.here().push(guest.clone());
        Stay {
            guest,
            turns: self.clone(),
        }
    }

    /// Somebody waits outside: asks one to leave, if there is one whose turn is over.
    pub fn ask(&self) {
        self.ask_at(Instant::now());
    }

    fn ask_at(&self, now: Instant) {
        let here = self.here();
        let untold = here.iter().filter(|guest| !guest.told.load(Ordering::Relaxed));
        if let Some(silent) = untold.max_by_key(|guest| guest.silence(now))
            && silent.silence(now) >= TURN_SILENCE
        {
            silent.leave();
            return;
        }
        let stays = here.iter().filter(|guest| !guest.leaves.load(Ordering::Relaxed));
        if let Some(first) = stays.min_by_key(|guest| guest.came)
            && now.saturating_duration_since(first.came) >= TURN_TIME
        {
            first.leaves.store(true, Ordering::Relaxed);
        }
    }
}

impl Guest {
    /// How long nothing was heard of it.
    fn silence(&self, now: Instant) -> Duration {
        if self.busy.load(Ordering::Relaxed) > 0 {
            return Duration::ZERO;
        }
        let heard = self.came + Duration::from_millis(self.heard.load(Ordering::Relaxed));
        now.saturating_duration_since(heard)
    }

    fn hear(&self, at: Instant) {
        let since = at.saturating_duration_since(self.came).as_millis();
        self.heard
            .store(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn leave(&self) {
        self.leaves.store(true, Ordering::Relaxed);
        self.told.store(true, Ordering::Relaxed);
        self.asked.notify_one();
    }
}

impl Stay {
    pub fn busy(&self) -> Busy {
        self.guest.busy.fetch_add(1, Ordering::Relaxed);
        Busy(self.guest.clone())
    }

    /// Whether nothing is being answered, nor was a moment ago.
    pub fn is_silent(&self) -> bool {
        self.guest.silence(Instant::now()) >= TURN_SILENCE
    }

    /// Done when the connection is to end as soon as it has answered what it was asked.
    pub async fn asked(&self) {
        self.guest.asked.notified().await;
    }
}

impl Busy {
    /// Whether this answer is to be the last.
    pub fn leaves(&self) -> bool {
        self.0.leaves.load(Ordering::Relaxed)
    }

    /// Ends the connection once everything is answered, where answers can't say so.
    pub fn leave_if_told(&self) {
        if self.leaves() {
            self.0.leave();
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.hear(Instant::now());
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.turns.here().retain(|guest| !Arc::ptr_eq(guest, &self.guest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_silent_go_first_then_the_oldest_and_nobody_before_its_time() {
        let turns = Arc::new(Turns::default());
        let stays = [turns.enter(), turns.enter(), turns.enter()];
        let (_first_busy, came) = (stays[1].busy(), stays[2].guest.came);
        let expect = |when, leaves: [bool; 3]| {
            turns.ask_at(when);
            let told = stays
                .each_ref()
                .map(|stay| stay.guest.leaves.load(Ordering::Relaxed));
            assert_eq!(told, leaves);
        };
        expect(came, [false; 3]);
        stays[0].guest.hear(came + TURN_TIME);
        // The third is silent; the second as long, but it waits for its answer.
        expect(came + TURN_SILENCE, [false, false, true]);
        for stay in &stays {
            stay.guest.hear(came + TURN_SILENCE);
        }
        expect(came + TURN_SILENCE, [true, false, true]);
        expect(came + TURN_SILENCE, [true; 3]);
        assert!(stays[1].busy().leaves());
    }

    #[test]
    fn who_left_is_asked_no_more() {
        let turns = Arc::new(Turns::default());
        drop(turns.enter());
        assert!(turns.here().is_empty());
    }
}
