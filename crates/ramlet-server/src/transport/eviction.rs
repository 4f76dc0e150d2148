//! Eviction of connections when a port has no free place: a connection is asked to end, so that waiting ones are accepted before they give up.
//!
//! A program keeps its connections open as long as it can, and a small budget has few places: without eviction the first
//! clients would keep all others out. The one that has been idle longest goes first. Where none is idle, the oldest goes
//! after its next answer, which says so. A client opens another connection then, and nothing is lost.
//!
//! A connection that never asked for anything is no client yet. All of them go at once, and sooner. With one at a time, each
//! after a second, 300 of them kept a client out of 32 MB for nine seconds.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::limits::{EVICT_AGE, EVICT_BODY, EVICT_IDLE, EVICT_SILENT};

/// The connections that hold the places of a port.
#[derive(Default)]
pub struct Eviction {
    here: Mutex<Vec<Arc<Connection>>>,
}

/// One of them.
struct Connection {
    came: Instant,
    /// Milliseconds since it came: when it last asked for something or got an answer.
    active: AtomicU64,
    /// Requests that are being answered.
    busy: AtomicU32,
    /// It said something.
    spoke: AtomicBool,
    /// It asked for something, now or before.
    asked: AtomicBool,
    /// Milliseconds since it came, and one: since when the rest of a body is waited for; 0: it isn't.
    body_waits: AtomicU64,
    /// Its next answer is to be its last.
    closing: AtomicBool,
    /// It is to end as soon as it can.
    evicted: AtomicBool,
    notify: Notify,
}

/// A connection holds its place until this is dropped.
pub struct EvictionGuard {
    connection: Arc<Connection>,
    eviction: Arc<Eviction>,
}

/// A request that is being answered.
pub struct InFlight(Arc<Connection>);

/// Tells whether a connection has a request that is being answered.
pub struct Answering(Arc<Connection>);

/// Tells whether a request waits for its client, to send on.
#[derive(Clone)]
pub struct BodyWait(Arc<Connection>);

impl Eviction {
    fn here(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn enter(self: &Arc<Eviction>) -> EvictionGuard {
        let connection = Arc::new(Connection {
            came: Instant::now(),
            active: AtomicU64::new(0),
            busy: AtomicU32::new(0),
            spoke: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            body_waits: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            evicted: AtomicBool::new(false),
            notify: Notify::new(),
        });
        self.here().push(connection.clone());
        EvictionGuard {
            connection,
            eviction: self.clone(),
        }
    }

    /// Somebody waits outside: asks a connection to end, if there is one that may be.
    pub fn evict(&self) {
        self.evict_at(Instant::now());
    }

    fn evict_at(&self, now: Instant) {
        let here = self.here();
        let idle = || {
            let open = here.iter().filter(|one| !one.evicted.load(Ordering::Relaxed));
            open.filter(|one| one.is_idle(now))
        };
        let mut evicted = 0;
        for one in idle().filter(|one| !one.has_sent_request()) {
            one.close();
            evicted += 1;
        }
        if evicted > 0 {
            return;
        }
        if let Some(longest) = idle().max_by_key(|one| one.idle_time(now)) {
            longest.close();
            return;
        }
        let staying = here.iter().filter(|one| !one.closing.load(Ordering::Relaxed));
        if let Some(oldest) = staying.min_by_key(|one| one.came)
            && now.saturating_duration_since(oldest.came) >= EVICT_AGE
        {
            oldest.closing.store(true, Ordering::Relaxed);
        }
    }
}

impl Connection {
    /// How long nothing came of it.
    fn idle_time(&self, now: Instant) -> Duration {
        let body_waits = self.body_waits.load(Ordering::Relaxed);
        let active = match (self.is_busy(), body_waits) {
            (true, 0) => return Duration::ZERO,
            (true, since) => since - 1,
            (false, _) => self.active.load(Ordering::Relaxed),
        };
        now.saturating_duration_since(self.came + Duration::from_millis(active))
    }

    /// Whether it may be evicted while others wait.
    fn is_idle(&self, now: Instant) -> bool {
        let limit = match (self.is_busy(), self.has_sent_request()) {
            (true, _) => EVICT_BODY,
            (false, true) => EVICT_IDLE,
            (false, false) if self.spoke.load(Ordering::Relaxed) => EVICT_AGE,
            (false, false) => EVICT_SILENT,
        };
        self.idle_time(now) >= limit
    }

    fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) > 0
    }

    fn has_sent_request(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Milliseconds since it came.
    fn age(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.came).as_millis();
        u64::try_from(since).unwrap_or(u64::MAX)
    }

    fn touch(&self, at: Instant) {
        self.active.store(self.age(at), Ordering::Relaxed);
    }

    fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.evicted.store(true, Ordering::Relaxed);
        self.notify.notify_one();
    }
}

impl EvictionGuard {
    pub fn in_flight(&self) -> InFlight {
        self.connection.asked.store(true, Ordering::Relaxed);
        self.connection.busy.fetch_add(1, Ordering::Relaxed);
        InFlight(self.connection.clone())
    }

    /// Whether nothing is being answered, nor was a moment ago; nor is more of a body to be expected.
    pub fn is_idle(&self) -> bool {
        self.connection.is_idle(Instant::now())
    }

    /// For who wants to know whether something is being answered.
    pub fn answering(&self) -> Answering {
        Answering(self.connection.clone())
    }

    /// Its first bytes are there.
    pub fn first_bytes(&self) {
        self.connection.spoke.store(true, Ordering::Relaxed);
    }

    /// Whether it ever asked for something.
    pub fn has_sent_request(&self) -> bool {
        self.connection.has_sent_request()
    }

    /// Done when the connection is to end as soon as it has answered what it was asked.
    pub async fn evicted(&self) {
        self.connection.notify.notified().await;
    }
}

impl InFlight {
    /// Whether this answer is to be the last.
    pub fn is_last(&self) -> bool {
        self.0.closing.load(Ordering::Relaxed)
    }

    /// For who reads the body. One body after the other: of HTTP/1.
    pub fn body_wait(&self) -> BodyWait {
        BodyWait(self.0.clone())
    }

    /// Ends the connection once everything is answered, where answers can't say so.
    pub fn close_if_last(&self) {
        if self.is_last() {
            self.0.close();
        }
    }
}

impl Answering {
    pub fn is_busy(&self) -> bool {
        self.0.is_busy()
    }
}

impl BodyWait {
    /// Nothing of the body is there, or something came.
    pub fn waiting(&self, waits: bool) {
        if !waits {
            self.0.body_waits.store(0, Ordering::Relaxed);
        } else if self.0.body_waits.load(Ordering::Relaxed) == 0 {
            // Asked again and again while nothing comes, it is the first time that counts.
            let since = self.0.age(Instant::now()).saturating_add(1);
            self.0.body_waits.store(since, Ordering::Relaxed);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.touch(Instant::now());
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for EvictionGuard {
    fn drop(&mut self) {
        self.eviction
            .here()
            .retain(|connection| !Arc::ptr_eq(connection, &self.connection));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_silent_go_first_then_the_oldest_and_nobody_before_its_time() {
        let eviction = Arc::new(Eviction::default());
        let guards = [eviction.enter(), eviction.enter(), eviction.enter()];
        guards.iter().for_each(|guard| drop(guard.in_flight()));
        let (_first_busy, came) = (guards[1].in_flight(), guards[2].connection.came);
        guards[2].connection.touch(came);
        let expect = |when, leaves: [bool; 3]| {
            eviction.evict_at(when);
            let told = guards
                .each_ref()
                .map(|guard| guard.connection.closing.load(Ordering::Relaxed));
            assert_eq!(told, leaves);
        };
        expect(came, [false; 3]);
        guards[0].connection.touch(came + EVICT_AGE);
        // The third is silent; the second as long, but it waits for its answer.
        expect(came + EVICT_IDLE, [false, false, true]);
        for guard in &guards {
            guard.connection.touch(came + EVICT_IDLE);
        }
        expect(came + EVICT_IDLE, [true, false, true]);
        expect(came + EVICT_IDLE, [true; 3]);
        assert!(guards[1].in_flight().is_last());
    }

    #[test]
    fn who_never_asked_goes_first_and_all_at_once() {
        let eviction = Arc::new(Eviction::default());
        let guards = [eviction.enter(), eviction.enter(), eviction.enter()];
        drop(guards[1].in_flight());
        let told = || {
            guards
                .each_ref()
                .map(|guard| guard.connection.evicted.load(Ordering::Relaxed))
        };
        guards[2].first_bytes();
        let (first, last) = (guards[0].connection.came, guards[2].connection.came);
        eviction.evict_at(first + EVICT_SILENT / 2);
        assert_eq!(told(), [false; 3]);
        eviction.evict_at(last + EVICT_SILENT);
        assert_eq!(told(), [true, false, false]);
        eviction.evict_at(last + EVICT_AGE);
        assert_eq!(told(), [true, false, true]);
    }

    #[test]
    fn who_owes_a_body_goes_after_a_while() {
        let eviction = Arc::new(Eviction::default());
        let guard = eviction.enter();
        let (in_flight, came) = (guard.in_flight(), guard.connection.came);
        let expect = |told: bool| {
            eviction.evict_at(came + 2 * EVICT_BODY);
            assert_eq!(guard.connection.evicted.load(Ordering::Relaxed), told);
        };
        expect(false);
        in_flight.body_wait().waiting(true);
        in_flight.body_wait().waiting(false);
        expect(false);
        in_flight.body_wait().waiting(true);
        let since = guard.connection.body_waits.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(3));
        in_flight.body_wait().waiting(true);
        assert_eq!(guard.connection.body_waits.load(Ordering::Relaxed), since);
        expect(true);
    }

    #[test]
    fn who_left_is_asked_no_more() {
        let eviction = Arc::new(Eviction::default());
        drop(eviction.enter());
        assert!(eviction.here().is_empty());
    }
}
