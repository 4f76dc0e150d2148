//! Which shard of a divided store a node holds, and which nodes hold the others.
//!
//! A new node takes the shard with the fewest nodes. It says so at once, by its card, and looks again: of nodes that are started together and find the same
//! shard, those that others come before take another one. From then on its data directory says which shard it is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ramlet_server::{ShardMap, ShardNode};
use ramlet_store::shard::{Card, Work, cards, remove_card, write_card};
use ramlet_store::{Sha, Store, shard_store};

use super::liveness::{Peers, Rhythm};

/// How long a new node gives others that are started with it to say what they hold.
const SETTLE: Duration = Duration::from_millis(700);
/// So often it chooses.
const ROUNDS: u32 = 8;
/// No two looks at the cards come closer.
const LOOK_MIN: Duration = Duration::from_millis(500);

/// The stores of all shards, and the one that a node holds.
pub struct Places {
    pub own: u32,
    pub stores: Vec<Store>,
}

/// Chooses a shard for a node that has none. `wanted`: the one that its flag or its data directory says.
pub fn choose(
    store: &Store,
    shards: u32,
    (node, memory_bytes): (&str, u64),
    wanted: Option<u32>,
) -> Result<Places> {
    let stores: Vec<Store> = (0..shards).map(|shard| shard_store(store, shard)).collect();
    if let Some(own) = wanted {
        if own >= shards {
            bail!(
                "shard {own} of {store}: it has {shards}, from 0 to {}",
                shards - 1
            );
        }
        return Ok(Places { own, stores });
    }
    let rank = |shard: usize| Sha::of(format!("{store} {shard} {node}").as_bytes()).0;
    for store in &stores {
        store.claim()?;
    }
    let claim = |beat| Card {
        node: node.to_owned(),
        url: String::new(),
        work: Work::Follows,
        epoch: 0,
        slot: 0,
        beat,
        memory_bytes,
        is_candidate: false,
    };
    let mut own = None::<usize>;
    for _ in 0..ROUNDS {
        let mut held = Vec::with_capacity(stores.len());
        for store in &stores {
            let mut cards = cards(store)?;
            cards.retain(|card| card.work != Work::Left);
            held.push(cards);
        }
        let count = |shard: usize| held[shard].iter().filter(|card| card.node != node).count();
        let fewest = (0..stores.len()).min_by_key(|shard| (count(*shard), rank(*shard)));
        let fewest = fewest.context("a store has a shard")?;
        if let Some(own) = own {
            // Those that began before, and of those that begin now the ones with lower ids, stay.
            let stays = |card: &&Card| {
                card.node != node && (!card.url.is_empty() || card.beat > 0 || *card.node < *node)
            };
            let before = held[own].iter().filter(stays).count();
            if before <= count(fewest) || fewest == own {
                // From now on others are those who move.
                write_card(&stores[own], &claim(1))?;
                let own = own as u32;
                return Ok(Places { own, stores });
            }
            remove_card(&stores[own], node)?;
        }
        own = Some(fewest);
        write_card(&stores[fewest], &claim(0))?;
        thread::sleep(SETTLE);
    }
    let own = own.context("a store has a shard")? as u32;
    Ok(Places { own, stores })
}

/// The nodes of all shards, as their cards tell.
pub struct Directory {
    places: Places,
    node: String,
    rhythm: Rhythm,
    known: Mutex<Vec<Peers>>,
    wished: (Mutex<bool>, Condvar),
    stopped: AtomicBool,
}

impl Directory {
    pub fn new(places: Places, node: &str, takeover_after: Duration) -> Arc<Directory> {
        Arc::new(Directory {
            known: Mutex::new(places.stores.iter().map(|_| Peers::default()).collect()),
            places,
            node: node.to_owned(),
            rhythm: Rhythm::new(takeover_after),
            wished: Default::default(),
            stopped: AtomicBool::new(false),
        })
    }

    pub fn own(&self) -> u32 {
        self.places.own
    }

    pub fn count(&self) -> u32 {
        self.places.stores.len() as u32
    }

    fn look_now(&self) {
        for (shard, store) in self.places.stores.iter().enumerate() {
            match cards(store) {
                Ok(cards) => {
                    let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                    known[shard].look(cards, &self.node);
                }
                Err(e) => tracing::debug!("nodes of shard {shard}: {e}"),
            }
        }
    }

    /// Looks, and goes on looking on a thread of its own until the end.
    pub fn run(self: &Arc<Self>) -> Result<JoinHandle<()>> {
        self.look_now();
        let directory = self.clone();
        let thread = thread::Builder::new().name("shards".to_owned());
        let thread = thread.spawn(move || {
            while !directory.stopped.load(Ordering::Acquire) {
                let begun = Instant::now();
                directory.pause(LOOK_MIN.max(directory.rhythm.beat()));
                directory.look_now();
                thread::sleep(LOOK_MIN.saturating_sub(begun.elapsed()));
            }
        });
        thread.context("starting a thread")
    }

    fn pause(&self, longest: Duration) {
        let (wish, wished) = &self.wished;
        let wish = wish.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = wished.wait_timeout_while(wish, longest, |wish| {
            !*wish && !self.stopped.load(Ordering::Acquire)
        });
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }

    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.look();
    }
}

impl ShardMap for Directory {
    fn nodes(&self, shard: u32) -> Vec<ShardNode> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(peers) = known.get(shard as usize) else {
            return Vec::new();
        };
        let alive = || peers.alive(self.rhythm);
        // An owner that was stopped still says that it owns, of an epoch before.
        let owning = alive().filter(|card| card.work == Work::Owns);
        let epoch = owning.map(|card| card.epoch).max();
        alive()
            .map(|card| ShardNode {
                node: card.node.clone(),
                url: card.url.clone(),
                owns: card.work == Work::Owns && Some(card.epoch) == epoch,
                slot: card.slot,
            })
            .collect()
    }

    fn look(&self) {
        let (wish, wished) = &self.wished;
        *wish.lock().unwrap_or_else(PoisonError::into_inner) = true;
        wished.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use ramlet_store::{StoreUrl, open};

    use super::*;

    #[test]
    fn nodes_that_begin_together_take_different_shards() {
        let store = open(&StoreUrl::Memory, true).expect("a store in memory");
        store.claim().expect("it is empty");
        let nodes = 6;
        let taken: Vec<u32> = thread::scope(|scope| {
            let begun: Vec<_> = (0..nodes)
                .map(|n| {
                    let store = store.clone();
                    scope.spawn(move || {
                        let node = format!("{:032x}", 7 * n + 1);
                        choose(&store, 3, (&node, 64), None).expect("memory").own
                    })
                })
                .collect();
            begun
                .into_iter()
                .map(|one| one.join().expect("no panic"))
                .collect()
        });
        for shard in 0..3 {
            let of = taken.iter().filter(|own| **own == shard).count();
            assert_eq!(of, 2, "{taken:?}");
        }
        // One more goes anywhere, and one that knows its shard isn't asked.
        assert!(choose(&store, 3, ("ff", 64), None).expect("memory").own < 3);
        assert_eq!(choose(&store, 3, ("fe", 64), Some(1)).expect("memory").own, 1);
        assert!(choose(&store, 3, ("fe", 64), Some(3)).is_err());
    }
}
