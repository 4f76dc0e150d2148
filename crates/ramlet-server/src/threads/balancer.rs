//! Load balancing of the connection threads: how busy each is, and which connections it hands over.
//!
//! Connections are dealt before anybody knows what they are for. Two clients that search without pause may come to the thread
//! of one core while the other's holds a writer that mostly waits: half of the speed, for as long as they stay. So each
//! connection's time on its thread is measured, and who has much more to do than another gives away what makes them even.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pin_project_lite::pin_project;

use crate::limits::{MOVE_GAIN, MOVE_PERIOD};

/// The load of all threads, by which connections are balanced.
#[derive(Debug)]
pub struct Balancer {
    /// Nanoseconds that each has spent on its connections.
    spent: Vec<AtomicU64>,
    /// Connections that were given away.
    moved: AtomicU64,
}

/// What a connection has cost.
#[derive(Debug)]
pub struct Meter {
    balancer: Arc<Balancer>,
    /// Nanoseconds.
    spent: AtomicU64,
    /// Its calls are tasks of their own, and stay where they are when it moves.
    apart: AtomicBool,
    /// The thread it is to move to.
    to: AtomicUsize,
}

const NOWHERE: usize = usize::MAX;

/// What one of the threads remembers.
struct Here {
    /// Its connections, and what each had cost at the last look.
    meters: Vec<(Arc<Meter>, u64)>,
    /// What all threads had spent then.
    spent: Vec<u64>,
    looked: Instant,
}

thread_local! {
    static INDEX: Cell<Option<usize>> = const { Cell::new(None) };
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
}

/// Which of the threads that hold connections this is, if it is one.
pub fn here() -> Option<usize> {
    INDEX.get()
}

impl Balancer {
    pub fn new(threads: usize) -> Balancer {
        Balancer {
            spent: (0..threads).map(|_| AtomicU64::new(0)).collect(),
            moved: AtomicU64::new(0),
        }
    }

    /// How many threads hold connections.
    pub fn threads(&self) -> usize {
        self.spent.len()
    }

    /// Connections that were given to another thread since the start.
    pub fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// From now on this thread is number `index`.
    pub fn enter(&self, index: usize) {
        INDEX.set(Some(index));
        HERE.set(Some(Here {
            meters: Vec::new(),
            spent: self.all(),
            looked: Instant::now(),
        }));
    }

    fn all(&self) -> Vec<u64> {
        self.spent.iter().map(|n| n.load(Ordering::Relaxed)).collect()
    }
}

impl Meter {
    pub fn new(balancer: Arc<Balancer>) -> Arc<Meter> {
        Arc::new(Meter {
            balancer,
            spent: AtomicU64::new(0),
            apart: AtomicBool::new(false),
            to: AtomicUsize::new(NOWHERE),
        })
    }

    /// The connection is this thread's now.
    pub fn connection_arrived(self: &Arc<Meter>) {
        self.to.store(NOWHERE, Ordering::Relaxed);
        let spent = self.spent.load(Ordering::Relaxed);
        HERE.with_borrow_mut(|here| {
            if let Some(here) = here {
                here.meters.push((self.clone(), spent));
            }
        });
    }

    /// It isn't any more.
    pub fn connection_left(self: &Arc<Meter>) {
        HERE.with_borrow_mut(|here| {
            if let Some(here) = here {
                here.meters.retain(|(meter, _)| !Arc::ptr_eq(meter, self));
            }
        });
    }

    /// Its calls are tasks of their own.
    pub fn calls_are_apart(&self) {
        self.apart.store(true, Ordering::Relaxed);
    }

    pub fn are_calls_apart(&self) -> bool {
        self.apart.load(Ordering::Relaxed)
    }

    /// The thread that it is to move to.
    pub fn to(&self) -> Option<usize> {
        let to = self.to.load(Ordering::Relaxed);
        (to != NOWHERE).then_some(to)
    }

    /// It was given to another thread.
    pub fn has_moved(&self) {
        self.balancer.moved.fetch_add(1, Ordering::Relaxed);
    }

    /// Polls `future` on this connection's account.
    pub fn measure<T>(&self, poll: impl FnOnce() -> Poll<T>) -> Poll<T> {
        let start = Instant::now();
        let polled = poll();
        let end = Instant::now();
        let spent = u64::try_from((end - start).as_nanos()).unwrap_or(u64::MAX);
        self.spent.fetch_add(spent, Ordering::Relaxed);
        if let Some(all) = here().and_then(|index| self.balancer.spent.get(index)) {
            all.fetch_add(spent, Ordering::Relaxed);
        }
        HERE.with_borrow_mut(|here| {
            if let Some(here) = here
                && end - here.looked >= MOVE_PERIOD
            {
                here.look(&self.balancer, end);
            }
        });
        polled
    }
}

impl Here {
    /// Looks at what was spent since the last time, and tells connections to move if that would make the threads more even.
    fn look(&mut self, balancer: &Balancer, now: Instant) {
        let window = now - self.looked;
        self.looked = now;
        let share = |ns: u64| Duration::from_nanos(ns).div_duration_f64(window);
        let all = balancer.all();
        let mut threads: Vec<f64> = all
            .iter()
            .zip(&self.spent)
            .map(|(now, before)| share(now - before))
            .collect();
        self.spent = all;
        let connections: Vec<f64> = self
            .meters
            .iter_mut()
            .map(|(meter, before)| {
                let spent = meter.spent.load(Ordering::Relaxed);
                share(spent - std::mem::replace(before, spent))
            })
            .collect();
        let Some(index) = here() else { return };
        // Without those that have left meanwhile.
        threads[index] = connections.iter().sum();
        let (to, given) = give_away(index, &threads, &connections);
        for i in given {
            self.meters[i].0.to.store(to, Ordering::Relaxed);
        }
    }
}

/// Which of `connections`, the loads of those of thread `here`, it should give to which other of `threads`. Loads are shares of
/// a thread's time.
fn give_away(here: usize, threads: &[f64], connections: &[f64]) -> (usize, Vec<usize>) {
    let least = (0..threads.len()).min_by(|&a, &b| threads[a].total_cmp(&threads[b]));
    let to = least.unwrap_or(here);
    let mut given = Vec::new();
    let mut by_load: Vec<usize> = (0..connections.len()).collect();
    by_load.sort_by(|&a, &b| connections[b].total_cmp(&connections[a]));
    let before = threads[here] - threads[to];
    let mut uneven = before;
    for i in by_load {
        // Below 0 it is the other that has more to do.
        let then = uneven - 2.0 * connections[i];
        if then.abs() < uneven.abs() {
            given.push(i);
            uneven = then;
        }
    }
    if before - uneven.abs() < MOVE_GAIN {
        given.clear();
    }
    (to, given)
}

pin_project! {
    /// A call, measured on its connection's account.
    pub struct Measured<F> {
        #[pin]
        future: F,
        meter: Arc<Meter>,
    }
}

impl<F: Future> Future for Measured<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let future = this.future;
        this.meter.measure(|| future.poll(cx))
    }
}

/// Starts a connection's calls as tasks of their own, on the thread that holds it.
#[derive(Clone)]
pub struct Calls(pub Arc<Meter>);

impl<F> hyper::rt::Executor<F> for Calls
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        let meter = self.0.clone();
        tokio::spawn(Measured { future, meter });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gives_away_what_makes_it_even_with_the_idlest() {
        // Two that search and one that mostly waits.
        assert_eq!(give_away(0, &[0.98, 0.05], &[0.5, 0.48]), (1, vec![0]));
        // Not its only one, nor what would only turn it round.
        assert_eq!(give_away(0, &[0.98, 0.0], &[0.98]), (1, vec![]));
        assert_eq!(give_away(0, &[0.98, 0.05], &[0.95, 0.01, 0.02]), (1, vec![]));
        // Even enough.
        assert_eq!(give_away(0, &[0.98, 0.9], &[0.5, 0.48]), (1, vec![]));
        // The others have more to do.
        assert_eq!(give_away(1, &[0.98, 0.6, 0.7], &[0.3, 0.3]), (1, vec![]));
        // Not so many that it turns round, ...
        assert_eq!(give_away(0, &[0.98, 0.02], &[0.6, 0.2, 0.18]), (1, vec![0]));
        // ... but several small ones, to the idlest.
        let small = [0.24, 0.26, 0.25, 0.25];
        assert_eq!(give_away(1, &[0.4, 1.0, 0.0], &small), (2, vec![1, 2]));
    }

    #[test]
    fn many_that_are_small_are_evened_out_too() {
        let (to, given) = give_away(0, &[1.0, 0.0], &[0.02; 50]);
        assert_eq!((to, given.len()), (1, 25));
    }

    #[test]
    fn a_connection_is_told_to_move_once_its_thread_has_looked() {
        let balancer = Arc::new(Balancer::new(2));
        balancer.enter(0);
        let meters = [(); 2].map(|()| Meter::new(balancer.clone()));
        meters.iter().for_each(Meter::connection_arrived);
        let work = |meter: &Arc<Meter>| {
            let _ = meter.measure(|| {
                std::thread::sleep(MOVE_PERIOD * 5 / 8);
                Poll::Ready(())
            });
        };
        // One that leaves takes with it what it has cost.
        let gone = Meter::new(balancer.clone());
        gone.connection_arrived();
        work(&gone);
        gone.connection_left();
        work(&meters[0]);
        assert_eq!(meters.each_ref().map(|m| m.to()), [None; 2]);
        work(&meters[0]);
        work(&meters[1]);
        let told: Vec<usize> = meters.iter().filter_map(|m| m.to()).collect();
        assert_eq!(told, [1]);
        meters.iter().for_each(Meter::connection_left);
        meters.iter().for_each(Meter::connection_arrived);
        assert_eq!(meters.each_ref().map(|m| m.to()), [None; 2]);
        meters.iter().for_each(Meter::connection_left);
        HERE.with_borrow(|here| assert!(here.as_ref().is_some_and(|h| h.meters.is_empty())));
    }
}
