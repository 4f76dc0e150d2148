//! Power loss at every moment of a history. Whatever the disk kept of the writes that weren't synced: the engine opens, what was
//! acknowledged is there, what was never sent isn't.
//!
//! What an engine finds depends on the disk alone. So each distinct disk is opened once, and what was found is compared
//! with what is allowed at every moment at which the disk may be left like this.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use ramlet::*;
use ramlet_io::{CrashState, SimStorage};

use super::state::{Held, State, TAKEN, WIDE, look};
use crate::support::*;

/// What there was after an update was acknowledged, and how much of the journal there was then.
pub struct Acknowledged {
    pub journal: usize,
    pub state: State,
}

/// A history that has ended.
pub struct Trace {
    pub disk: SimStorage,
    /// The first is of before the first step.
    pub states: Vec<Acknowledged>,
    /// What each snapshot holds.
    pub taken: BTreeMap<String, Held>,
}

/// How densely one looks.
#[derive(Clone, Copy)]
pub struct Density {
    /// States of each moment, beside the four extremes.
    pub random: usize,
    /// One distinct disk of so many goes on. So do the extremes of each distinct list of segments and collections.
    pub goes_on: u128,
    pub until: Option<Instant>,
}

/// What was looked at.
#[derive(Default)]
pub struct Tally {
    pub histories: usize,
    /// Pairs of a moment and a state that it may leave.
    pub states: usize,
    /// Disks that were opened.
    pub distinct: usize,
    /// Those that went on.
    pub went_on: usize,
}

struct Enumeration<'a> {
    trace: &'a Trace,
    density: Density,
    /// What was acknowledged, each state once.
    states: Vec<&'a State>,
    /// Numbers in `states`, one for each of `trace.states`.
    acknowledged: Vec<usize>,
    /// By fingerprint: the number in `states` of what was found.
    found: BTreeMap<u128, usize>,
    /// Fingerprints of lists whose extremes have gone on, and which of them.
    lists: BTreeSet<(u128, usize)>,
}

/// Looks at every moment of a history, or at those before the time is over.
pub fn enumerate(trace: &Trace, density: Density, tally: &mut Tally) {
    let mut enumeration = Enumeration::new(trace, density);
    let mut points = trace.disk.crash_points();
    tally.histories += 1;
    for at in trace.states[0].journal..=trace.disk.journal_len() {
        points.go_to(at);
        for number in 0..EXTREMES + density.random {
            if density.is_over() {
                return;
            }
            let state = points.state(at as u64, number);
            enumeration.check(&Case { at, number, state }, tally);
        }
    }
}

/// Disks that a history may have left at about `count` moments, and what is on each.
pub fn survivors(trace: &Trace, seed: u64, count: usize) -> Vec<(SimStorage, State)> {
    let enumeration = Enumeration::new(trace, Density::SPARSE);
    let mut points = trace.disk.crash_points();
    let step = (trace.disk.journal_len() / count).max(1);
    let moments = (step / 2..=trace.disk.journal_len()).step_by(step);
    let survivor = |at| {
        points.go_to(at);
        let number = (at + seed as usize) % (EXTREMES * 2);
        let state = points.state(seed, number);
        let case = Case { at, number, state };
        let (found, _) = enumeration.open(&case);
        (case.state.disk(), found)
    };
    moments.map(survivor).collect()
}

/// States of each moment that come first: all or nothing of the names, and of the bytes.
const EXTREMES: usize = 4;

impl Density {
    const SPARSE: Density = Density {
        random: 0,
        goes_on: u128::MAX,
        until: None,
    };

    pub fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// A moment, and one of the states that it may leave.
struct Case {
    at: usize,
    number: usize,
    state: CrashState,
}

impl<'a> Enumeration<'a> {
    fn new(trace: &'a Trace, density: Density) -> Enumeration<'a> {
        let (mut states, mut acknowledged): (Vec<&State>, Vec<usize>) = Default::default();
        for Acknowledged { state, .. } in &trace.states {
            let known = states.iter().position(|known| *known == state);
            acknowledged.push(known.unwrap_or(states.len()));
            if known.is_none() {
                states.push(state);
            }
        }
        Enumeration {
            trace,
            density,
            states,
            acknowledged,
            found: BTreeMap::new(),
            lists: BTreeSet::new(),
        }
    }

    fn check(&mut self, case: &Case, tally: &mut Tally) {
        tally.states += 1;
        let fingerprint = case.state.fingerprint();
        if let Some(found) = self.found.get(&fingerprint) {
            let is_allowed = self.allowed(case.at).contains(found);
            assert!(is_allowed, "{}", self.wrong(case, self.states[*found]));
            return;
        }
        tally.distinct += 1;
        let (state, found) = self.open(case);
        self.found.insert(fingerprint, found);
        if self.is_to_go_on(case, fingerprint) {
            tally.went_on += 1;
            self.go_on(case, fingerprint, state);
        }
    }

    /// What there is, and its number among those that are allowed.
    fn open(&self, case: &Case) -> (State, usize) {
        let disk = Arc::new(case.state.disk());
        let engine = Engine::open_without_threads(disk, options(64 * MB));
        let engine = engine.unwrap_or_else(|e| panic!("{}: does not open: {e}", self.place(case)));
        let found = look(&engine);
        let allowed = self.allowed(case.at).iter();
        let number = allowed.copied().find(|number| *self.states[*number] == found);
        let number = number.unwrap_or_else(|| panic!("{}", self.wrong(case, &found)));
        (found, number)
    }

    /// States that a disk which crashed at `at` may have: of the last acknowledged update, or of the one under way. Of several that are
    /// acknowledged together, of each.
    fn allowed(&self, at: usize) -> &[usize] {
        let states = &self.trace.states;
        let last = states.iter().rposition(|s| s.journal <= at).unwrap_or(0);
        let next = states.get(last + 1).map(|s| s.journal);
        let under_way = states[last + 1..].iter().take_while(|s| Some(s.journal) == next);
        &self.acknowledged[last..=last + under_way.count()]
    }

    fn is_to_go_on(&mut self, case: &Case, fingerprint: u128) -> bool {
        let is_extreme = case.number < EXTREMES;
        let is_list = |name: &str| name.starts_with("MANIFEST") || name.starts_with("CATALOG");
        let is_new = is_extreme
            && self
                .lists
                .insert((case.state.fingerprint_of(&is_list), case.number));
        is_new || fingerprint.is_multiple_of(self.density.goes_on)
    }

    /// It takes updates, and what it has survives an orderly restart, or another power loss.
    fn go_on(&self, case: &Case, chance: u128, mut expected: State) {
        let disk = case.state.disk();
        let engine = open(Arc::new(disk.clone()));
        self.check_snapshots(&engine, case, &expected);
        for (name, held) in &mut expected.collections {
            let mut collection = engine.collection(name).expect("is open");
            let points = match &mut held.shards {
                None => &mut held.points,
                Some(shards) => {
                    // A number: no history has such a key.
                    let key = ShardKey::Number(5);
                    engine.create_shard_key(name, &key).expect("goes on");
                    let selection = ShardSelection::Keys(vec![key.clone()]);
                    collection = collection.within(&selection).expect("just made");
                    shards.entry(key.to_string()).or_default()
                }
            };
            let added = vec![point(999, vec![1.0; WIDE], "{}")];
            collection.update(upsert(added)).expect("goes on");
            points.insert(PointId::Num(999), (vec![1.0; WIDE], "{}".into()));
            if chance >> 64 & 3 > 0 {
                collection.flush().expect("flushes");
            }
        }
        engine.close();
        drop(engine);
        let disk = match chance >> 66 & 1 {
            0 => disk,
            _ => disk.crash_states(disk.journal_len(), 0, 0).swap_remove(0),
        };
        let found = look(&open(Arc::new(disk)));
        assert!(
            found == expected,
            "{}: after going on there is {}, not {}",
            self.place(case),
            found.summary(),
            expected.summary()
        );
    }

    /// Each is restored beside the others.
    fn check_snapshots(&self, engine: &Engine, case: &Case, expected: &State) {
        const RESTORED: &str = "restored";
        for name in &expected.snapshots {
            let file = engine.open_snapshot(TAKEN, name).expect("is listed");
            let restored = engine.recover_collection(RESTORED, &file, None);
            restored.unwrap_or_else(|e| panic!("{}: snapshot {name}: {e}", self.place(case)));
            let found = look(engine).collections.remove(RESTORED);
            assert!(
                found.as_ref() == Some(&self.trace.taken[name]),
                "{}: snapshot {name} holds something else",
                self.place(case)
            );
            engine.delete_collection(RESTORED).expect("drops");
        }
    }

    fn place(&self, case: &Case) -> String {
        let effects = self.trace.disk.effects();
        let before = &effects[case.at.saturating_sub(6)..case.at];
        format!("crash point {}, state {}, after {before:?}", case.at, case.number)
    }

    fn wrong(&self, case: &Case, found: &State) -> String {
        let allowed = self.allowed(case.at).iter();
        let allowed: Vec<_> = allowed.map(|number| self.states[*number].summary()).collect();
        format!(
            "{}: found {}\nallowed {allowed:#?}",
            self.place(case),
            found.summary()
        )
    }
}
