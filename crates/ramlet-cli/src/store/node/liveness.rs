//! Whether the owner of the log lives, and which node tries first to follow it: when to try, never what is true.
//!
//! Silence is counted in looks that found nothing, not in time that went by: a node that was stopped, or cut off from the store, has heard no silence.

use std::time::{Duration, Instant};

use ramlet_server::PeerNode;
use ramlet_store::Sha;
use ramlet_store::shard::{Card, Work};

/// A look counts for no more silence than this.
const LOOK_MAX: Duration = Duration::from_millis(500);
/// An owner says that it lives so often in the time after which it is followed.
const BEATS: u32 = 3;
/// The next candidate tries such a part of that time later: as long as a takeover may take.
const TURNS: u32 = 4;
/// A node that doesn't own the log says what it is so much more rarely, where all nodes have the same data.
const ANNOUNCE: u32 = 3;
/// So many times in which it should have said something, and a node counts as gone.
const MISSED: u32 = 3;
/// For placement it counts as gone after so many times of a takeover's silence: a wrong guess costs a download.
const LOST: u32 = 2;
/// Its card is removed when it is gone for long.
const GONE: Duration = Duration::from_secs(3_600);

/// How often things are done, of the time after which a silent owner is followed.
#[derive(Debug, Clone, Copy)]
pub struct Rhythm {
    after: Duration,
    is_divided: bool,
}

impl Rhythm {
    /// `is_divided`: nodes of a divided store are placed by what they say, so all of them say it as often as owners do.
    pub fn new(takeover_after: Duration, is_divided: bool) -> Rhythm {
        Rhythm {
            after: takeover_after,
            is_divided,
        }
    }

    /// After so long a silent owner is followed.
    pub fn after(&self) -> Duration {
        self.after
    }

    /// Between two signs of life of an owner.
    pub fn beat(&self) -> Duration {
        self.after / BEATS
    }

    /// Between two cards of any other node.
    pub fn announce(&self) -> Duration {
        match self.is_divided {
            true => self.beat(),
            false => self.looks(),
        }
    }

    /// Between two looks at the cards of the own log.
    pub fn looks(&self) -> Duration {
        self.after * ANNOUNCE
    }

    /// A node that is silent for so long isn't asked any more.
    pub fn gone(&self) -> Duration {
        self.looks() * MISSED
    }

    /// One that is silent for so long has no place in a shard any more.
    pub fn lost(&self) -> Duration {
        self.after * LOST
    }
}

/// How long a candidate has heard nothing of the owner.
pub struct Vigil {
    rhythm: Rhythm,
    quiet: Duration,
    looked: Instant,
    /// The silence at the last look at the owner's card, and what the card said.
    card_at: Duration,
    beat: Option<u64>,
}

impl Vigil {
    pub fn new(rhythm: Rhythm) -> Vigil {
        Vigil {
            rhythm,
            quiet: Duration::ZERO,
            looked: Instant::now(),
            card_at: Duration::ZERO,
            beat: None,
        }
    }

    /// There was something new, or no look was possible.
    pub fn heard(&mut self) {
        (self.quiet, self.card_at, self.looked) = (Duration::ZERO, Duration::ZERO, Instant::now());
    }

    /// A look found nothing new.
    pub fn silent(&mut self) {
        self.quiet += self.looked.elapsed().min(LOOK_MAX);
        self.looked = Instant::now();
    }

    pub fn wants_card(&self) -> bool {
        self.quiet >= self.card_at + self.rhythm.beat()
    }

    /// The owner's card; `None`: it has none.
    pub fn card(&mut self, card: Option<&Card>) {
        self.card_at = self.quiet;
        let beat = card.map(|card| card.beat);
        match card.map(|card| card.work) {
            // It won't come back under this epoch.
            Some(Work::Left) => self.quiet = self.quiet.max(self.rhythm.after),
            _ if beat != self.beat => self.heard(),
            _ => {}
        }
        self.beat = beat;
    }

    /// Whether this node may try, where so many others come first.
    pub fn is_over(&self, turn: u32) -> bool {
        self.quiet >= self.rhythm.after + self.rhythm.after / TURNS * turn
    }
}

/// Another node, and for how long it says nothing new.
pub struct Peer {
    pub card: Card,
    pub quiet: Duration,
    /// It said something since it was seen first.
    pub was_heard: bool,
}

impl Peer {
    /// What is told of it; `owns`: as this node knows.
    pub fn told(&self, owns: bool) -> PeerNode {
        PeerNode {
            node: self.card.node.clone(),
            url: self.card.url.clone(),
            owns,
            slot: self.card.slot,
            memory_bytes: self.card.memory_bytes,
            disk_bytes: self.card.disk_bytes,
            builds: self.card.builds,
            quiet: self.quiet,
        }
    }
}

/// All others.
#[derive(Default)]
pub struct Peers {
    all: Vec<Peer>,
    looked: Option<Instant>,
}

impl Peers {
    /// Takes the cards that are there now. Where nothing is new, the time since the look before is silence, up to `most`: who was stopped itself heard none.
    pub fn look(&mut self, cards: Vec<Card>, own: &str, most: Duration) {
        let since = self.looked.map_or(Duration::ZERO, |at| at.elapsed().min(most));
        self.looked = Some(Instant::now());
        let mut before = std::mem::take(&mut self.all);
        let others = cards.into_iter().filter(|card| card.node != own);
        self.all = others
            .map(|card| {
                let known = before.iter().position(|peer| peer.card.node == card.node);
                let known = known.map(|at| before.swap_remove(at));
                let (quiet, was_heard) = match known {
                    None => (Duration::ZERO, false),
                    Some(peer) if peer.card.beat == card.beat => (peer.quiet + since, peer.was_heard),
                    Some(_) => (Duration::ZERO, true),
                };
                Peer {
                    card,
                    quiet,
                    was_heard,
                }
            })
            .collect();
    }

    /// Those that have not said that they ended.
    pub fn here(&self) -> impl Iterator<Item = &Peer> {
        self.all.iter().filter(|peer| peer.card.work != Work::Left)
    }

    /// Those that live, as far as is known, where so long a silence is none.
    pub fn alive(&self, most: Duration) -> impl Iterator<Item = &Peer> {
        self.here().filter(move |peer| peer.quiet < most)
    }

    /// Ids of those that were for long.
    pub fn gone(&self) -> Vec<String> {
        let gone = self.all.iter().filter(|peer| peer.quiet > GONE);
        gone.map(|peer| peer.card.node.clone()).collect()
    }

    /// The node whose card says that it owns the log in this epoch, or did to its end.
    pub fn owner(&self, epoch: u64) -> Option<&Card> {
        let mut all = self.all.iter().map(|peer| &peer.card);
        all.find(|card| card.work != Work::Follows && card.epoch == epoch)
    }
}

/// How many of `others` try before `own`: those of a higher rank. `silent` is the node that they would follow.
pub fn turn<'a>(
    own: &Card,
    others: impl Iterator<Item = &'a Card>,
    (log, silent): (&str, Option<&str>),
) -> u32 {
    let epoch = own.epoch;
    let mine = rank(own, (log, epoch));
    // One without a URL has no data yet.
    let others =
        others.filter(|card| card.is_candidate && !card.url.is_empty() && Some(&*card.node) != silent);
    others.filter(|card| rank(card, (log, epoch)) > mine).count() as u32
}

/// Weighted rendezvous: a node with twice the memory is the first twice as often, and everybody reckons the same.
fn rank(card: &Card, (log, epoch): (&str, u64)) -> f64 {
    let hash = Sha::of(format!("{log} {epoch} {}", card.node).as_bytes());
    let bits = u64::from_le_bytes(hash.0[..8].try_into().expect("eight bytes"));
    let drawn = ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    card.memory_bytes as f64 / -drawn.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(node: &str, memory_bytes: u64) -> Card {
        Card {
            node: node.to_owned(),
            url: "http://a".to_owned(),
            epoch: 1,
            slot: 1,
            beat: 1,
            memory_bytes,
            is_candidate: true,
            ..Card::default()
        }
    }

    #[test]
    fn each_candidate_has_a_turn_of_its_own() {
        let all: Vec<Card> = (0..5).map(|n| card(&format!("n{n}"), 64)).collect();
        let of = |own: &Card| {
            let others = all.iter().filter(|card| card.node != own.node);
            turn(own, others, ("log", None))
        };
        let mut turns: Vec<u32> = all.iter().map(of).collect();
        turns.sort_unstable();
        assert_eq!(turns, [0, 1, 2, 3, 4]);
        // Nobody waits for the silent one, or for those that only read.
        let first = all.iter().find(|card| of(card) == 0).expect("one is the first");
        let second = all.iter().find(|card| of(card) == 1).expect("one is the second");
        assert_eq!(turn(second, [first].into_iter(), ("log", Some(&first.node))), 0);
        let reads = Card {
            is_candidate: false,
            ..first.clone()
        };
        let begins = Card {
            url: String::new(),
            ..first.clone()
        };
        assert_eq!(turn(second, [&reads, &begins].into_iter(), ("log", None)), 0);
    }

    #[test]
    fn memory_is_weight() {
        let (small, large) = (card("small", 64), card("large", 192));
        let firsts = (0..2_000).filter(|epoch| {
            let large = Card {
                epoch: *epoch,
                ..large.clone()
            };
            turn(&large, [&small].into_iter(), ("log", None)) == 0
        });
        let firsts = firsts.count();
        assert!((1_400..1_600).contains(&firsts), "{firsts}");
    }

    #[test]
    fn only_looks_are_silence() {
        let mut vigil = Vigil::new(Rhythm::new(Duration::from_secs(6), false));
        let stopped = Instant::now().checked_sub(Duration::from_secs(100));
        vigil.looked = stopped.expect("the machine runs for longer");
        vigil.silent();
        assert!(!vigil.is_over(0) && !vigil.wants_card());
        vigil.quiet = Duration::from_secs(7);
        assert!(vigil.is_over(0) && !vigil.is_over(1) && vigil.wants_card());
        // The owner lives, though it has nothing to write; then it says that it goes.
        vigil.card(Some(&card("owner", 64)));
        assert!(!vigil.is_over(0));
        vigil.card(Some(&Card {
            work: Work::Left,
            ..card("owner", 64)
        }));
        assert!(vigil.is_over(0) && !vigil.is_over(1));
    }

    #[test]
    fn a_node_is_lost_by_what_is_seen_of_it() {
        let second = Duration::from_secs(1);
        let beat = |beat| {
            vec![Card {
                beat,
                ..card("other", 64)
            }]
        };
        let mut peers = Peers::default();
        let stopped = || Instant::now().checked_sub(100 * second);
        let lost = |peers: &Peers| peers.alive(3 * second).count() == 0;
        peers.look(beat(1), "own", second);
        // Whoever was stopped heard no silence: a look counts for no more than its most.
        for _ in 0..2 {
            peers.looked = stopped();
            peers.look(beat(1), "own", second);
            assert!(!lost(&peers) && !peers.all[0].was_heard);
        }
        peers.looked = stopped();
        peers.look(beat(1), "own", second);
        assert!(lost(&peers));
        peers.look(beat(2), "own", second);
        assert!(!lost(&peers) && peers.all[0].was_heard);
        peers.look(
            vec![Card {
                work: Work::Left,
                ..card("other", 64)
            }],
            "own",
            second,
        );
        assert!(lost(&peers));
    }
}
