//! Which shard of a divided store a node holds, and which nodes hold the others.
//!
//! A new node takes the shard with the fewest nodes that live: those that said something while it looked. It says so at once, by its card, and looks again: of
//! nodes that are started together and find the same shard, those that others come before take another one. From then on its data directory says which shard
//! it is.
//!
//! Later it leaves that one where another shard needs it more ([`placement`](super::placement)): its card is there first, as that of a new node. Then it ends, and
//! begins anew there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ramlet_server::{PeerNode, ShardMap};
use ramlet_store::shard::{Card, Work, card, cards, remove_card};
use ramlet_store::{Store, shard_store};
use tokio::sync::Notify;

use super::claim::Claim;
use super::liveness::{Peer, Peers, Rhythm};
use super::placement::{Move, Placed, due, rank};

/// How long a new node gives others that are started with it to say what they hold.
const SETTLE: Duration = Duration::from_millis(700);
/// So often it chooses.
const ROUNDS: u32 = 8;
/// No two looks at the cards come closer, and those of a new node.
const LOOK_MIN: Duration = Duration::from_millis(500);
const CENSUS_LOOK: Duration = Duration::from_millis(250);
/// A node that lives says so within so many beats. A start that would take longer takes all for living: who has no place in truth is found out later.
const CENSUS_BEATS: u32 = 2;
const CENSUS_MAX: Duration = Duration::from_secs(15);
/// So many beats a move has to be due before it is made: where a shard has nobody, and where others have more.
const URGENT_BEATS: u32 = 1;
const EVEN_BEATS: u32 = 18;
/// Each node waits so many beats more at most, another number for each shard: what one knows late is another one's move by then.
const SPREAD: u8 = 3;

/// A node that is to have a place.
#[derive(Clone, Copy)]
pub struct Newcomer<'a> {
    pub node: &'a str,
    pub memory_bytes: u64,
    pub is_candidate: bool,
    pub rhythm: Rhythm,
}

impl Newcomer<'_> {
    fn card(&self, chooses: bool) -> Card {
        Card {
            node: self.node.to_owned(),
            memory_bytes: self.memory_bytes,
            is_candidate: self.is_candidate,
            chooses,
            ..Card::default()
        }
    }

    /// Says it twice in the time in which a node that lives is heard once.
    fn claim(&self, store: &Store, chooses: bool) -> Result<Claim> {
        Claim::new(store.clone(), self.card(chooses), self.rhythm.beat() / 2)
    }
}

/// The stores of all shards, and the one that a node holds.
pub struct Places {
    pub own: u32,
    pub stores: Vec<Store>,
    claim: Claim,
    /// The epoch in which this node owned the shard's log when it ended.
    pub owned: Option<u64>,
}

/// Chooses a shard for a node that has none. `wanted`: the one that its flag or its data directory says.
pub fn choose(store: &Store, shards: u32, new: Newcomer<'_>, wanted: Option<u32>) -> Result<Places> {
    let stores: Vec<Store> = (0..shards).map(|shard| shard_store(store, shard)).collect();
    let Some(own) = wanted else {
        for store in &stores {
            store.claim()?;
        }
        let (own, claim) = choose_among(&store.id()?, &stores, new)?;
        return Ok(Places {
            own,
            stores,
            claim,
            owned: None,
        });
    };
    if own >= shards {
        bail!(
            "shard {own} of {store}: it has {shards}, from 0 to {}",
            shards - 1
        );
    }
    let held = &stores[own as usize];
    match new.is_candidate {
        true => held.claim()?,
        false => held.must_be_ours()?,
    }
    // A move that was cut off left a claim elsewhere.
    for other in stores
        .iter()
        .filter(|other| other.to_string() != held.to_string())
    {
        if card(other, new.node)?.is_some_and(|card| card.url.is_empty()) {
            remove_card(other, new.node)?;
        }
    }
    let before = card(held, new.node)?.filter(|card| card.work != Work::Follows);
    let claim = new.claim(held, false)?;
    Ok(Places {
        own,
        stores,
        claim,
        owned: before.map(|card| card.epoch),
    })
}

fn choose_among(whole: &str, stores: &[Store], new: Newcomer<'_>) -> Result<(u32, Claim)> {
    let mut census: Vec<Peers> = stores.iter().map(|_| Peers::default()).collect();
    let look = |census: &mut Vec<Peers>| -> Result<()> {
        for (peers, store) in census.iter_mut().zip(stores) {
            peers.look(cards(store)?, new.node, new.rhythm.beat());
        }
        Ok(())
    };
    let counts = |peer: &&Peer| peer.card.is_candidate || !new.is_candidate;
    let fewest = |count: &dyn Fn(usize) -> usize| {
        let ranked = |shard: &usize| (count(*shard), rank(whole, *shard as u32, new.node));
        (0..stores.len())
            .min_by_key(ranked)
            .context("a store has a shard")
    };
    look(&mut census)?;
    let mut own = fewest(&|shard| census[shard].here().filter(counts).count())?;
    let claim = new.claim(&stores[own], true)?;
    let begun = Instant::now();
    let longest = (new.rhythm.beat() * CENSUS_BEATS).max(SETTLE);
    let is_known = longest <= CENSUS_MAX;
    loop {
        thread::sleep(CENSUS_LOOK);
        look(&mut census)?;
        let are_heard = census.iter().flat_map(Peers::here).all(|peer| peer.was_heard);
        if begun.elapsed() >= longest.min(CENSUS_MAX) || are_heard && begun.elapsed() >= SETTLE {
            break;
        }
    }
    for _ in 0..ROUNDS {
        let lives = |peer: &&Peer| peer.was_heard || !is_known;
        let living = |shard: usize| census[shard].here().filter(lives).filter(counts);
        let fewest = fewest(&|shard| living(shard).count())?;
        // Those that began before, and of those that begin now the ones with lower ids, stay.
        let stays = |peer: &&Peer| !peer.card.chooses || *peer.card.node < *new.node;
        let before = living(own).filter(stays).count();
        if fewest == own || before <= living(fewest).count() {
            break;
        }
        claim.go(stores[fewest].clone())?;
        own = fewest;
        thread::sleep(SETTLE);
        look(&mut census)?;
    }
    claim.settle()?;
    Ok((own as u32, claim))
}

/// How a node stands to the log of its shard.
pub struct Standing {
    pub owns: bool,
    /// It holds nothing that the store lacks, as far as it knows.
    pub may_leave: bool,
}

/// A node on its way to another shard.
struct Leaving {
    to: u32,
    /// The id of that shard's store.
    store: String,
    _claim: Claim,
}

/// What the nodes of all shards say, and the move that this node is about to make.
struct Seen {
    peers: Vec<Peers>,
    looked: Instant,
    due: Option<(Move, Duration)>,
}

/// The nodes of all shards, as their cards tell.
pub struct Directory {
    own: u32,
    stores: Vec<Store>,
    whole: String,
    /// What this node says where it wants to be.
    card: Card,
    moves: bool,
    owns: AtomicBool,
    rhythm: Rhythm,
    seen: Mutex<Seen>,
    claim: Mutex<Option<Claim>>,
    leaving: Mutex<Option<Leaving>>,
    leaves: Notify,
    wished: (Mutex<bool>, Condvar),
    stopped: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Directory {
    /// `whole`: the id of the store of all shards. `moves`: this node isn't bound to its shard.
    pub fn new(places: Places, whole: String, new: Newcomer<'_>, moves: bool) -> Arc<Directory> {
        let peers = places.stores.iter().map(|_| Peers::default()).collect();
        Arc::new(Directory {
            own: places.own,
            stores: places.stores,
            whole,
            card: new.card(true),
            moves,
            owns: AtomicBool::new(false),
            rhythm: new.rhythm,
            seen: Mutex::new(Seen {
                peers,
                looked: Instant::now(),
                due: None,
            }),
            claim: Mutex::new(Some(places.claim)),
            leaving: Mutex::default(),
            leaves: Notify::new(),
            wished: Default::default(),
            stopped: AtomicBool::new(false),
        })
    }

    pub fn own(&self) -> u32 {
        self.own
    }

    pub fn count(&self) -> u32 {
        self.stores.len() as u32
    }

    /// From now on the log says that this node lives.
    pub fn hand_over(&self) {
        if let Some(claim) = locked(&self.claim).take() {
            claim.hand_over();
        }
    }

    /// Whether all shards could be looked at.
    fn look_now(&self) -> bool {
        let most = self.rhythm.beat() + LOOK_MIN;
        let mut is_whole = true;
        for (shard, store) in self.stores.iter().enumerate() {
            match cards(store) {
                Ok(cards) => locked(&self.seen).peers[shard].look(cards, &self.card.node, most),
                Err(e) => {
                    tracing::debug!("nodes of shard {shard}: {e}");
                    is_whole = false;
                }
            }
        }
        is_whole
    }

    /// Looks, and goes on looking on a thread of its own until the end. `standing`: how this node stands to its log.
    pub fn run(self: &Arc<Self>, standing: impl Fn() -> Standing + Send + 'static) -> Result<JoinHandle<()>> {
        self.look_now();
        let directory = self.clone();
        let thread = thread::Builder::new().name("shards".to_owned());
        let thread = thread.spawn(move || {
            while !directory.stopped.load(Ordering::Acquire) {
                let begun = Instant::now();
                directory.pause(LOOK_MIN.max(directory.rhythm.beat()));
                let is_whole = directory.look_now();
                let standing = standing();
                directory.owns.store(standing.owns, Ordering::Release);
                if is_whole
                    && standing.may_leave
                    && let Some(due) = directory.due_for_long()
                    && let Err(e) = directory.leave(&due)
                {
                    tracing::warn!("this node stays in its shard for now: {e:#}");
                }
                thread::sleep(LOOK_MIN.saturating_sub(begun.elapsed()));
            }
        });
        thread.context("starting a thread")
    }

    fn pause(&self, longest: Duration) {
        let (wish, wished) = &self.wished;
        let waited = wished.wait_timeout_while(locked(wish), longest, |wish| {
            !*wish && !self.stopped.load(Ordering::Acquire)
        });
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }

    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.look();
    }

    /// Where candidates are, or soon will be: one that is on its way counts where it goes.
    fn placed(&self, peers: &[Peers]) -> Vec<Placed> {
        let own = &self.card.node;
        let is_claim = |card: &&Card| card.url.is_empty() && (!card.chooses || card.node < *own);
        let alive = |shard: usize| {
            let alive = peers[shard].alive(self.rhythm.lost()).map(|peer| &peer.card);
            alive.filter(|card| card.is_candidate)
        };
        let mut placed = vec![Placed {
            node: own.clone(),
            shard: self.own,
            owns: self.owns.load(Ordering::Acquire),
            moves: self.moves,
        }];
        for by_claim in [true, false] {
            for shard in 0..peers.len() {
                for card in alive(shard).filter(|card| is_claim(card) == by_claim) {
                    let is_new = placed.iter().all(|other| other.node != card.node);
                    if is_new && (by_claim || !card.url.is_empty()) {
                        placed.push(Placed {
                            node: card.node.clone(),
                            shard: shard as u32,
                            owns: card.work == Work::Owns,
                            moves: card.moves,
                        });
                    }
                }
            }
        }
        placed
    }

    fn due(&self, peers: &[Peers]) -> Option<Move> {
        let due = due(&self.placed(peers), self.count(), &self.whole);
        due.filter(|due| due.node == self.card.node)
    }

    /// The move of this node, if it is due for so long that nobody is waited for.
    fn due_for_long(&self) -> Option<Move> {
        let mut seen = locked(&self.seen);
        // Who was stopped itself saw nothing meanwhile.
        let since = seen.looked.elapsed().min(self.rhythm.beat() + LOOK_MIN);
        seen.looked = Instant::now();
        let now = self.moves.then(|| self.due(&seen.peers)).flatten();
        let before = seen.due.take();
        let due = now?;
        let held = match before {
            Some((before, held)) if before == due => held + since,
            _ => Duration::ZERO,
        };
        let least = match due.is_urgent {
            true => URGENT_BEATS,
            false => EVEN_BEATS,
        };
        let spread = u32::from(rank(&self.whole, due.to, &due.node)[31] % (SPREAD + 1));
        let is_over = held >= self.rhythm.beat() * (least + spread);
        seen.due = Some((due.clone(), held));
        is_over.then_some(due)
    }

    /// Goes, unless somebody else came first. Whoever waits for [`Directory::leaves`] ends the process.
    fn leave(&self, due: &Move) -> Result<()> {
        locked(&self.seen).due = None;
        let store = &self.stores[due.to as usize];
        store.claim()?;
        let id = store.id()?;
        let claim = Claim::new(store.clone(), self.card.clone(), self.rhythm.beat() / 2)?;
        thread::sleep(SETTLE.max(self.rhythm.beat()));
        if !self.look_now() || self.due(&locked(&self.seen).peers).as_ref() != Some(due) {
            tracing::info!("shard {}: another node goes there", due.to);
            return Ok(());
        }
        claim.settle()?;
        tracing::info!(
            "shard {} has fewer nodes: this node leaves shard {} for it",
            due.to,
            due.from
        );
        *locked(&self.leaving) = Some(Leaving {
            to: due.to,
            store: id,
            _claim: claim,
        });
        self.stopped.store(true, Ordering::Release);
        self.leaves.notify_one();
        Ok(())
    }

    /// Waits until this node is to go to another shard.
    pub async fn leaves(&self) {
        self.leaves.notified().await;
    }

    /// The shard that this node goes to, and the id of its store.
    pub fn goes_to(&self) -> Option<(u32, String)> {
        let leaving = locked(&self.leaving);
        leaving
            .as_ref()
            .map(|leaving| (leaving.to, leaving.store.clone()))
    }
}

impl ShardMap for Directory {
    fn nodes(&self, shard: u32) -> Vec<PeerNode> {
        let seen = locked(&self.seen);
        let Some(peers) = seen.peers.get(shard as usize) else {
            return Vec::new();
        };
        let alive = || {
            let alive = peers.alive(self.rhythm.gone());
            alive.filter(|peer| !peer.card.url.is_empty())
        };
        // An owner that was stopped still says that it owns, of an epoch before.
        let owning = alive().filter(|peer| peer.card.work == Work::Owns);
        let epoch = owning.map(|peer| peer.card.epoch).max();
        alive()
            .map(|peer| {
                let owns = peer.card.work == Work::Owns && Some(peer.card.epoch) == epoch;
                peer.told(owns)
            })
            .collect()
    }

    fn look(&self) {
        let (wish, wished) = &self.wished;
        *locked(wish) = true;
        wished.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use ramlet_store::shard::write_card;
    use ramlet_store::{StoreUrl, open};

    use super::*;

    fn empty() -> Store {
        let store = open(&StoreUrl::Memory, true).expect("a store in memory");
        store.claim().expect("it is empty");
        store
    }

    fn new(node: &str) -> Newcomer<'_> {
        Newcomer {
            node,
            memory_bytes: 64,
            is_candidate: true,
            rhythm: Rhythm::new(Duration::from_secs(1), true),
        }
    }

    #[test]
    fn nodes_that_begin_together_take_different_shards() {
        let store = empty();
        let nodes = 6;
        let taken: Vec<Places> = thread::scope(|scope| {
            let begun: Vec<_> = (0..nodes)
                .map(|n| {
                    let store = store.clone();
                    scope.spawn(move || {
                        let node = format!("{:032x}", 7 * n + 1);
                        choose(&store, 3, new(&node), None).expect("memory")
                    })
                })
                .collect();
            begun
                .into_iter()
                .map(|one| one.join().expect("no panic"))
                .collect()
        });
        for shard in 0..3 {
            let of = taken.iter().filter(|places| places.own == shard).count();
            assert_eq!(of, 2, "shard {shard}");
        }
        // One more goes anywhere, and one that knows its shard isn't asked.
        assert!(choose(&store, 3, new("ff"), None).expect("memory").own < 3);
        assert_eq!(choose(&store, 3, new("fe"), Some(1)).expect("memory").own, 1);
        assert!(choose(&store, 3, new("fe"), Some(3)).is_err());
    }

    #[test]
    fn who_was_killed_has_no_place() {
        let store = empty();
        let shard = |shard| {
            let store = shard_store(&store, shard);
            store.claim().expect("an empty folder");
            store
        };
        let of = |node: &str| Card {
            node: node.to_owned(),
            url: "http://a".to_owned(),
            work: Work::Owns,
            is_candidate: true,
            ..Card::default()
        };
        // Two that were killed a moment ago, and one that lives.
        for node in ["a", "b"] {
            write_card(&shard(0), &of(node)).expect("memory");
        }
        let lives = Claim::new(shard(1), of("c"), Duration::from_millis(100)).expect("memory");
        assert_eq!(choose(&store, 2, new("d"), None).expect("memory").own, 0);
        // Whoever ends is counted no more; neither are those that only read, by one that may own.
        drop(lives);
        let reads = Card {
            is_candidate: false,
            ..of("e")
        };
        let _reads = Claim::new(shard(1), reads, Duration::from_millis(100)).expect("memory");
        let _lives = Claim::new(shard(0), of("f"), Duration::from_millis(100)).expect("memory");
        assert_eq!(choose(&store, 2, new("g"), None).expect("memory").own, 1);
    }

    /// The directory of a node of shard 0 that may move.
    fn directory(store: &Store, node: &str) -> Arc<Directory> {
        let places = choose(store, 2, new(node), Some(0)).expect("memory");
        let directory = Directory::new(places, "whole".to_owned(), new(node), true);
        directory.hand_over();
        let card = Card {
            url: format!("http://{node}"),
            chooses: false,
            moves: true,
            ..directory.card.clone()
        };
        write_card(&directory.stores[0], &card).expect("memory");
        directory
    }

    #[test]
    fn of_two_that_want_to_go_one_goes() {
        let store = empty();
        let nodes = [directory(&store, "a"), directory(&store, "b")];
        let due: Vec<Option<Move>> = nodes
            .iter()
            .map(|node| {
                node.look_now();
                node.due(&locked(&node.seen).peers)
            })
            .collect();
        // Both know the same, and one of them is to go; the other one believes that it is as well.
        let [first] = due.iter().flatten().collect::<Vec<_>>()[..] else {
            panic!("{due:?}")
        };
        assert_eq!((first.from, first.to, first.is_urgent), (0, 1, true));
        thread::scope(|scope| {
            for node in &nodes {
                let wrong = Move {
                    node: node.card.node.clone(),
                    ..Move::clone(first)
                };
                scope.spawn(move || node.leave(&wrong).expect("memory"));
            }
        });
        let gone = || {
            let gone = nodes.iter().filter(|node| node.goes_to().is_some());
            gone.map(|node| node.card.node.clone()).collect::<Vec<_>>()
        };
        // The one that was wrong may come first, and finds that it isn't to go: then the other one goes the next time.
        if gone().is_empty() {
            let right = nodes.iter().find(|node| node.card.node == first.node);
            right.expect("one of them").leave(first).expect("memory");
        }
        assert_eq!(gone(), std::slice::from_ref(&first.node));
    }
}
