//! Taking turns when a port has no place left: a connection that holds one is asked to end, so that those who wait outside
//! get in before they give up.
//!
//! A program keeps its connections open as long as it can, and a small budget has few places: without turns the first
//! clients would keep all others out. Whoever has long been silent goes first. Where all are busy, who has been here longest
//! goes after the next answer, which says so: a client opens another connection then, and nothing is lost.
//!
//! Who never asked for anything is no client yet. One a turn and a second of patience for each let 300 of them keep a client
//! out of 32 MB for nine seconds: all of them go at once, and sooner.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::limits::{TURN_BODY, TURN_FIRST, TURN_SILENCE, TURN_TIME};

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
    /// It said something.
    spoke: AtomicBool,
    /// It asked for something, now or before.
    met: AtomicBool,
    /// Milliseconds since it came, and one: since when the rest of a body is waited for; 0: it isn't.
    owes: AtomicU64,
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

/// Tells whether a connection has a request that is being answered.
pub struct Answering(Arc<Guest>);

/// Tells whether a request waits for its client, to send on.
#[derive(Clone)]
pub struct Owing(Arc<Guest>);

impl Turns {
    fn here(&self) -> MutexGuard<'_, Vec<Arc<Guest>>> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn enter(self: &Arc<Turns>) -> Stay {
        let guest = Arc::new(Guest {
            came: Instant::now(),
            heard: AtomicU64::new(0),
            busy: AtomicU32::new(0),
            spoke: AtomicBool::new(false),
            met: AtomicBool::new(false),
            owes: AtomicU64::new(0),
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
        let untold = || here.iter().filter(|guest| !guest.told.load(Ordering::Relaxed));
        let mut gone = 0;
        for stranger in untold().filter(|guest| !guest.is_met() && guest.is_silent(now)) {
            stranger.leave();
            gone += 1;
        }
        if gone > 0 {
            return;
        }
        let silent = untold().filter(|guest| guest.is_silent(now));
        if let Some(silent) = silent.max_by_key(|guest| guest.silence(now)) {
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
        let owes = self.owes.load(Ordering::Relaxed);
        let heard = match (self.is_busy(), owes) {
            (true, 0) => return Duration::ZERO,
            (true, since) => since - 1,
            (false, _) => self.heard.load(Ordering::Relaxed),
        };
        now.saturating_duration_since(self.came + Duration::from_millis(heard))
    }

    /// Whether it may be asked to leave while others wait.
    fn is_silent(&self, now: Instant) -> bool {
        let patience = match (self.is_busy(), self.is_met()) {
            (true, _) => TURN_BODY,
            (false, true) => TURN_SILENCE,
            (false, false) if self.spoke.load(Ordering::Relaxed) => TURN_TIME,
            (false, false) => TURN_FIRST,
        };
        self.silence(now) >= patience
    }

    fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) > 0
    }

    fn is_met(&self) -> bool {
        self.met.load(Ordering::Relaxed)
    }

    /// Milliseconds since it came.
    fn age(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.came).as_millis();
        u64::try_from(since).unwrap_or(u64::MAX)
    }

    fn hear(&self, at: Instant) {
        self.heard.store(self.age(at), Ordering::Relaxed);
    }

    fn leave(&self) {
        self.leaves.store(true, Ordering::Relaxed);
        self.told.store(true, Ordering::Relaxed);
        self.asked.notify_one();
    }
}

impl Stay {
    pub fn busy(&self) -> Busy {
        self.guest.met.store(true, Ordering::Relaxed);
        self.guest.busy.fetch_add(1, Ordering::Relaxed);
        Busy(self.guest.clone())
    }

    /// Whether nothing is being answered, nor was a moment ago; nor is more of a body to be expected.
    pub fn is_silent(&self) -> bool {
        self.guest.is_silent(Instant::now())
    }

    /// For who wants to know whether something is being answered.
    pub fn answering(&self) -> Answering {
        Answering(self.guest.clone())
    }

    /// Its first bytes are there.
    pub fn speaks(&self) {
        self.guest.spoke.store(true, Ordering::Relaxed);
    }

    /// Whether it ever asked for something.
    pub fn is_met(&self) -> bool {
        self.guest.is_met()
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

    /// For who reads the body. One body after the other: of HTTP/1.
    pub fn owing(&self) -> Owing {
        Owing(self.0.clone())
    }

    /// Ends the connection once everything is answered, where answers can't say so.
    pub fn leave_if_told(&self) {
        if self.leaves() {
            self.0.leave();
        }
    }
}

impl Answering {
    pub fn is_busy(&self) -> bool {
        self.0.is_busy()
    }
}

impl Owing {
    /// Nothing of the body is there, or something came.
    pub fn waits(&self, waits: bool) {
        if !waits {
            self.0.owes.store(0, Ordering::Relaxed);
        } else if self.0.owes.load(Ordering::Relaxed) == 0 {
            // Asked again and again while nothing comes, it is the first time that counts.
            let since = self.0.age(Instant::now()).saturating_add(1);
            self.0.owes.store(since, Ordering::Relaxed);
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
        stays.iter().for_each(|stay| drop(stay.busy()));
        let (_first_busy, came) = (stays[1].busy(), stays[2].guest.came);
        stays[2].guest.hear(came);
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
    fn who_never_asked_goes_first_and_all_at_once() {
        let turns = Arc::new(Turns::default());
        let stays = [turns.enter(), turns.enter(), turns.enter()];
        drop(stays[1].busy());
        let told = || {
            stays
                .each_ref()
                .map(|stay| stay.guest.told.load(Ordering::Relaxed))
        };
        stays[2].speaks();
        let (first, last) = (stays[0].guest.came, stays[2].guest.came);
        turns.ask_at(first + TURN_FIRST / 2);
        assert_eq!(told(), [false; 3]);
        turns.ask_at(last + TURN_FIRST);
        assert_eq!(told(), [true, false, false]);
        turns.ask_at(last + TURN_TIME);
        assert_eq!(told(), [true, false, true]);
    }

    #[test]
    fn who_owes_a_body_goes_after_a_while() {
        let turns = Arc::new(Turns::default());
        let stay = turns.enter();
        let (busy, came) = (stay.busy(), stay.guest.came);
        let expect = |told: bool| {
            turns.ask_at(came + 2 * TURN_BODY);
            assert_eq!(stay.guest.told.load(Ordering::Relaxed), told);
        };
        expect(false);
        busy.owing().waits(true);
        busy.owing().waits(false);
        expect(false);
        busy.owing().waits(true);
        let since = stay.guest.owes.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(3));
        busy.owing().waits(true);
        assert_eq!(stay.guest.owes.load(Ordering::Relaxed), since);
        expect(true);
    }

    #[test]
    fn who_left_is_asked_no_more() {
        let turns = Arc::new(Turns::default());
        drop(turns.enter());
        assert!(turns.here().is_empty());
    }
}
