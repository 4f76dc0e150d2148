//! Processes and their requests, one step after the other, in an order that a seed decides.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::Mutant;
use super::random::Random;
use super::store::{Objects, Op, Reply};

/// How a schedule goes; drawn anew for each.
struct Weather {
    /// In a thousand: a request that fails without effect, one whose sender gives up while it is on its way, an answer that is lost.
    fails: u32,
    times_out: u32,
    loses: u32,
    /// A request that is late, a process that stalls or dies when an answer comes.
    late: u32,
    stalls: u32,
    dies: u32,
}

struct Request {
    id: usize,
    process: usize,
    op: Op,
    not_before: u32,
    reply: Option<Reply>,
    /// Its sender waits no more.
    orphan: bool,
}

/// A value that was acknowledged, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledged {
    pub slot: u64,
    pub value: u32,
}

/// Everything of a schedule that processes share.
pub struct World {
    pub objects: Objects,
    pub random: Random,
    pub mutant: Mutant,
    pub acknowledged: Vec<Acknowledged>,
    /// What replicas had in all when they had applied a slot.
    pub replicas: Vec<(u64, Vec<u32>)>,
    /// What went wrong on the way.
    pub faults: Vec<String>,
    /// Prints what takes effect.
    traced: bool,
    weather: Weather,
    requests: Vec<Request>,
    replies: Vec<Option<Reply>>,
    values: u32,
    step: u32,
    running: usize,
}

pub type Shared = Rc<RefCell<World>>;
type Process = Pin<Box<dyn Future<Output = ()>>>;

impl World {
    pub fn new(seed: u64, mutant: Mutant, traced: bool) -> Shared {
        let mut random = Random::new(seed);
        let mut upto = |n: u32| random.below(n + 1);
        let weather = Weather {
            fails: upto(80),
            times_out: upto(80),
            loses: upto(80),
            late: upto(200),
            stalls: upto(120),
            dies: upto(25),
        };
        Rc::new(RefCell::new(World {
            objects: Objects::default(),
            random,
            mutant,
            acknowledged: Vec::new(),
            replicas: Vec::new(),
            faults: Vec::new(),
            traced,
            weather,
            requests: Vec::new(),
            replies: Vec::new(),
            values: 0,
            step: 0,
            running: 0,
        }))
    }

    /// A number that nobody else has.
    pub fn unique(&mut self) -> u32 {
        self.values += 1;
        self.values
    }

    fn send(&mut self, op: Op) -> usize {
        let id = self.replies.len();
        self.replies.push(None);
        let is_late = self.random.in_thousand(self.weather.late);
        let delay = if is_late { self.random.below(150) } else { 0 };
        self.requests.push(Request {
            id,
            process: self.running,
            op,
            not_before: self.step + delay,
            reply: None,
            orphan: false,
        });
        id
    }

    /// Brings one request a step further; the process that has an answer now.
    fn advance(&mut self, asleep: &[u32]) -> Option<usize> {
        let step = self.step;
        // Who sleeps takes no answer; what was sent goes on.
        let is_due = |request: &Request| {
            let waits = request.reply.is_some() && asleep[request.process] > step;
            request.not_before <= step && !waits
        };
        let due = self.requests.iter().filter(|request| is_due(request)).count() as u32;
        if due == 0 {
            return None;
        }
        let chosen = self.random.below(due) as usize;
        let at = (0..self.requests.len())
            .filter(|at| is_due(&self.requests[*at]))
            .nth(chosen)?;
        let weather = &self.weather;
        if self.requests[at].reply.is_some() {
            let request = self.requests.swap_remove(at);
            let lost = self.random.in_thousand(weather.loses);
            let reply = if lost { Some(Reply::Failed) } else { request.reply };
            return self.deliver(request.id, request.process, request.orphan, reply);
        }
        if !self.requests[at].orphan && self.random.in_thousand(weather.fails) {
            let request = self.requests.swap_remove(at);
            return self.deliver(request.id, request.process, false, Some(Reply::Failed));
        }
        if !self.requests[at].orphan && self.random.in_thousand(weather.times_out) {
            let delay = self.random.below(200);
            let request = &mut self.requests[at];
            request.orphan = true;
            request.not_before = step + delay;
            let (id, process) = (request.id, request.process);
            return self.deliver(id, process, false, Some(Reply::Failed));
        }
        let request = &self.requests[at];
        let reply = self.objects.apply(&request.op, &mut self.random);
        if self.traced {
            let late = if request.orphan { ", late" } else { "" };
            println!(
                "{step:4}: {} {:?} -> {reply:?}{late}",
                request.process, request.op
            );
        }
        match self.requests[at].orphan {
            true => drop(self.requests.swap_remove(at)),
            false => self.requests[at].reply = Some(reply),
        }
        None
    }

    fn deliver(&mut self, id: usize, process: usize, orphan: bool, reply: Option<Reply>) -> Option<usize> {
        if orphan {
            return None;
        }
        self.replies[id] = reply;
        Some(process)
    }
}

/// Sends a request and waits for its answer.
pub async fn ask(world: &Shared, op: Op) -> Reply {
    send(world, op).await
}

/// Sends a request: the answer can be waited for later.
pub fn send(world: &Shared, op: Op) -> Answer {
    let id = world.borrow_mut().send(op);
    Answer {
        world: world.clone(),
        id,
    }
}

/// An answer that is to come.
pub struct Answer {
    world: Shared,
    id: usize,
}

impl Future for Answer {
    type Output = Reply;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Reply> {
        match self.world.borrow_mut().replies[self.id].take() {
            Some(reply) => Poll::Ready(reply),
            None => Poll::Pending,
        }
    }
}

/// Runs processes for so many steps. One that dies begins again later, without memory of what it was.
pub fn run(world: &Shared, steps: u32, start: &[&dyn Fn(Shared) -> Process]) {
    let mut processes: Vec<Option<Process>> = start.iter().map(|_| None).collect();
    let mut asleep = vec![0; start.len()];
    for step in 0..steps {
        world.borrow_mut().step = step;
        for (at, process) in processes.iter_mut().enumerate() {
            if process.is_none() && asleep[at] <= step {
                world.borrow_mut().running = at;
                let mut begun = start[at](world.clone());
                if begun
                    .as_mut()
                    .poll(&mut Context::from_waker(Waker::noop()))
                    .is_pending()
                {
                    *process = Some(begun);
                }
            }
        }
        let woken = world.borrow_mut().advance(&asleep);
        let Some(at) = woken else {
            continue;
        };
        let mut now = world.borrow_mut();
        now.running = at;
        let (stalls, dies) = (now.weather.stalls, now.weather.dies);
        if now.random.in_thousand(dies) {
            processes[at] = None;
            asleep[at] = step + now.random.below(40);
            for request in now.requests.iter_mut().filter(|request| request.process == at) {
                request.orphan = true;
                // An answer that nobody waits for.
                request.not_before = request.not_before.max(step);
            }
            now.requests
                .retain(|request| !(request.orphan && request.reply.is_some()));
            continue;
        }
        if now.random.in_thousand(stalls) {
            // It takes the next answer when it wakes up, if it ever does.
            let nap = now.random.below(4);
            asleep[at] = step
                + if nap == 0 {
                    steps
                } else {
                    20 + now.random.below(150)
                };
        }
        drop(now);
        if let Some(process) = &mut processes[at]
            && process
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_ready()
        {
            processes[at] = None;
        }
    }
    drop(processes);
    // What is on its way comes late, or never.
    let mut now = world.borrow_mut();
    let now = &mut *now;
    for request in std::mem::take(&mut now.requests) {
        if request.reply.is_none() && now.random.in_thousand(500) {
            now.objects.apply(&request.op, &mut now.random);
        }
    }
}
