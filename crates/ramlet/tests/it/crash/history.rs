//! Histories of random steps, each with a model of what it leaves behind.

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};

use ramlet::*;
use ramlet_io::SimStorage;

use super::enumerate::{Acknowledged, Trace};
use super::state::{COLLECTION, DIM, EXTRA, Held, State, TAKEN, WIDE};
use crate::support::*;

/// One thing that a client does.
#[derive(Clone, Copy)]
pub enum Step {
    Upsert,
    Delete,
    Overwrite,
    Chain,
    Flush,
    Merge,
    ToggleExtra,
    SetExtra,
    MovePayloads,
    ToggleIndex(&'static str),
    TakeSnapshot,
    RestoreSnapshot,
    DropSnapshot,
    SetAlias,
    DropCollection,
    ToggleKey,
    UpsertIntoKey,
}

use Step::*;

/// Steps and how often each comes.
pub type Mix = &'static [(u64, Step)];

/// Points come and go, segments are written and merged, settings and vectors change.
pub const INGEST: Mix = &[
    (6, Upsert),
    (2, Delete),
    (2, Overwrite),
    (3, Chain),
    (2, Flush),
    (4, Merge),
    (1, MovePayloads),
    (2, ToggleIndex("n")),
    (2, ToggleExtra),
    (2, SetExtra),
];

/// Indexes of all kinds are built over segments and buffers, and dropped.
pub const INDEXES: Mix = &[
    (4, Upsert),
    (1, Delete),
    (1, Overwrite),
    (2, Flush),
    (2, Merge),
    (2, ToggleIndex("n")),
    (2, ToggleIndex("k")),
    (3, ToggleIndex("t")),
];

/// Snapshots are taken and restored, in place of a collection and beside it.
pub const SNAPSHOTS: Mix = &[
    (4, Upsert),
    (1, Delete),
    (1, Flush),
    (1, ToggleIndex("n")),
    (3, TakeSnapshot),
    (4, RestoreSnapshot),
    (1, DropSnapshot),
    (2, SetAlias),
    (1, DropCollection),
];

/// Shards come and go with their points.
pub const KEYS: Mix = &[
    (3, ToggleKey),
    (5, UpsertIntoKey),
    (1, Delete),
    (1, Flush),
    (1, ToggleIndex("n")),
];

/// A collection that is there now and then.
const BESIDE: &str = "d";
const ALIAS: &str = "alias";

pub struct History {
    disk: SimStorage,
    engine: Arc<Engine>,
    model: State,
    /// What each snapshot holds.
    taken: BTreeMap<String, Held>,
    states: Vec<Acknowledged>,
    mix: Mix,
    rng: Rng,
}

impl History {
    /// On an empty disk.
    pub fn new(mix: Mix, seed: u64) -> History {
        let mut history = History::resume(SimStorage::new(), State::default(), BTreeMap::new(), mix, seed);
        let mut settings = config(WIDE, Distance::Dot);
        settings.indexing_threshold = Some(1);
        settings.payload_schema.insert("t".into(), index_of("t"));
        let mut held = Held {
            fields: ["t".to_string()].into(),
            ..Held::default()
        };
        if mix.iter().any(|(_, step)| matches!(step, ToggleKey)) {
            settings.other.insert("sharding_method".into(), "custom".into());
            held.shards = Some(BTreeMap::new());
        }
        history
            .engine
            .create_collection(COLLECTION, settings)
            .expect("creates");
        history.model.collections.insert(COLLECTION.into(), held);
        history.acknowledge();
        history
    }

    /// On a disk that has this much already, and no journal.
    pub fn resume(
        disk: SimStorage,
        model: State,
        taken: BTreeMap<String, Held>,
        mix: Mix,
        seed: u64,
    ) -> History {
        let states = vec![Acknowledged {
            journal: disk.journal_len(),
            state: model.clone(),
        }];
        let engine = open(Arc::new(disk.clone()));
        History {
            disk,
            engine,
            model,
            taken,
            states,
            mix,
            rng: Rng(seed),
        }
    }

    pub fn run(mut self, steps: usize) -> Trace {
        for _ in 0..steps {
            self.step();
            self.acknowledge();
        }
        self.engine.close();
        Trace {
            disk: self.disk,
            states: self.states,
            taken: self.taken,
        }
    }

    fn acknowledge(&mut self) {
        self.states.push(Acknowledged {
            journal: self.disk.journal_len(),
            state: self.model.clone(),
        });
    }

    fn collection(&self) -> Arc<Collection> {
        self.engine.collection(COLLECTION).expect("is there")
    }

    fn held(&mut self) -> &mut Held {
        self.model.collections.get_mut(COLLECTION).expect("is there")
    }

    fn chosen(&mut self) -> Step {
        let mut at = self.rng.below(self.mix.iter().map(|(weight, _)| weight).sum());
        for (weight, step) in self.mix {
            if at < *weight {
                return *step;
            }
            at -= weight;
        }
        unreachable!("it is below the sum")
    }

    fn step(&mut self) {
        match self.chosen() {
            Upsert => {
                let points = self.points();
                keep(&mut self.held().points, &points);
                self.collection().update(upsert(points)).expect("upserts");
            }
            Delete => self.delete(),
            Overwrite => self.overwrite(),
            Chain => self.chain(),
            Flush => self.collection().flush().expect("flushes"),
            Merge => self.collection().wait_idle().expect("merges"),
            ToggleExtra => self.toggle_extra(),
            SetExtra => self.set_extra(),
            MovePayloads => self.move_payloads(),
            ToggleIndex(field) => self.toggle_index(field),
            TakeSnapshot => self.take_snapshot(),
            RestoreSnapshot => self.restore_snapshot(),
            DropSnapshot => self.drop_snapshot(),
            SetAlias => self.set_alias(),
            DropCollection => self.drop_collection(),
            ToggleKey => self.toggle_key(),
            UpsertIntoKey => self.upsert_into_key(),
        }
    }

    /// Small ones, many at once, and such that a log file is soon full, or too short for them.
    fn points(&mut self) -> Vec<Point> {
        let (count, filler) = match self.rng.below(8) {
            0 => (30, 0),
            1 => (4, 6_000),
            2 => (1, 66_000),
            _ => (1 + self.rng.below(6), 0),
        };
        let text = "x".repeat(filler);
        let rng = &mut self.rng;
        let point = |_| {
            let (id, vector) = (rng.below(40), rng.vector(WIDE));
            let (n, k, w) = (rng.below(9), rng.below(3), rng.below(3));
            point(
                id,
                vector,
                &format!("{{\"n\":{n},\"k\":\"k{k}\",\"t\":\"w{w}\",\"x\":\"{text}\"}}"),
            )
        };
        (0..count).map(point).collect()
    }

    fn delete(&mut self) {
        let ids: Vec<u64> = (0..1 + self.rng.below(5)).map(|_| self.rng.below(40)).collect();
        let remove = |points: &mut Contents| {
            ids.iter().for_each(|id| {
                points.remove(&PointId::Num(*id));
            });
        };
        let held = self.held();
        remove(&mut held.points);
        let Some(shards) = &mut held.shards else {
            self.collection().update(delete(&ids)).expect("deletes");
            return;
        };
        // In one of them: an update of several isn't one moment.
        let Some((key, points)) = shards.iter_mut().next() else {
            return;
        };
        remove(points);
        let key = key.clone();
        self.shard(&key).update(delete(&ids)).expect("deletes");
    }

    fn overwrite(&mut self) {
        let payload = format!("{{\"n\":{}}}", 100 + self.rng.below(9));
        let Some((&id, point)) = self.held().points.iter_mut().next() else {
            return;
        };
        point.1 = payload.clone();
        let overwritten = self.collection().update(UpdateOp::OverwritePayload {
            payload: payload.into_bytes(),
            points: PointsSelector::Ids(vec![id]),
        });
        overwritten.expect("overwrites");
    }

    /// Updates that are queued together, of which one may fail: then those behind it change nothing.
    fn chain(&mut self) {
        const MISSING: PointId = PointId::Num(1_000_000);
        let (chain, mut told, mut is_broken) = (UpdateChain::default(), Vec::new(), false);
        let collection = self.collection();
        for number in 0..2 + self.rng.below(5) {
            let some = match self.rng.below(8) {
                0 => MISSING,
                _ => self.held().points.keys().next().copied().unwrap_or(MISSING),
            };
            let payload = format!("{{\"n\":{}}}", 200 + number);
            let op = match self.rng.below(3) {
                0 => upsert(self.points()),
                1 => UpdateOp::Delete(PointsSelector::Ids(vec![some])),
                _ => UpdateOp::OverwritePayload {
                    payload: payload.clone().into_bytes(),
                    points: PointsSelector::Ids(vec![some]),
                },
            };
            let points = &mut self.held().points;
            match &op {
                _ if is_broken => {}
                UpdateOp::Upsert { points: new, .. } => keep(points, new),
                UpdateOp::Delete(_) => drop(points.remove(&some)),
                _ => match points.get_mut(&some) {
                    Some(point) => point.1 = payload,
                    None => is_broken = true,
                },
            }
            let (tell, heard) = mpsc::channel();
            let disk = self.disk.clone();
            let done = move |result: Result<UpdateResult>| {
                let _ = tell.send((result.is_ok(), disk.journal_len()));
            };
            let queued = collection.submit_behind(&chain, &op, Box::new(done));
            queued.expect("is queued");
            told.push((heard, !is_broken, self.model.clone()));
        }
        for (heard, is_done, state) in told {
            let (is_ok, journal) = heard.recv().expect("an answer");
            assert_eq!(is_ok, is_done);
            self.states.push(Acknowledged { journal, state });
        }
    }

    fn toggle_extra(&mut self) {
        let held = self.held();
        held.has_extra = !held.has_extra;
        if held.has_extra {
            let new = config(DIM, Distance::Dot).vectors.remove(DEFAULT_VECTOR);
            let new = NewVector::Dense(Box::new(new.expect("just made")));
            self.collection().create_vector_name(EXTRA, &new).expect("adds");
            return;
        }
        let points = held.points.values_mut();
        points.for_each(|(vector, _)| vector.truncate(WIDE));
        self.collection().delete_vector_name(EXTRA).expect("drops");
    }

    fn set_extra(&mut self) {
        let held = self.model.collections.get_mut(COLLECTION).expect("is there");
        if !held.has_extra {
            return;
        }
        let mut points = Vec::new();
        for (id, (vector, _)) in held.points.iter_mut().step_by(2) {
            let extra = self.rng.vector(DIM);
            vector.truncate(WIDE);
            vector.extend_from_slice(&extra);
            points.push((*id, vec![(EXTRA.to_string(), extra.into())]));
        }
        let set = self
            .collection()
            .update(UpdateOp::UpdateVectors { points, filter: None });
        set.expect("gives points a second vector");
    }

    fn move_payloads(&mut self) {
        let held = self.held();
        let moved = Some(!held.on_disk_payload.unwrap_or_default());
        held.on_disk_payload = moved;
        let change = &mut |config: &mut CollectionConfig| {
            config.on_disk_payload = moved;
            Ok(())
        };
        self.engine
            .update_collection(COLLECTION, change)
            .expect("changes settings");
    }

    fn toggle_index(&mut self, field: &str) {
        let collection = self.collection();
        if self.held().fields.remove(field) {
            collection.delete_payload_index(field).expect("drops an index");
            return;
        }
        self.held().fields.insert(field.into());
        collection
            .create_payload_index(field, index_of(field))
            .expect("builds an index");
    }

    fn take_snapshot(&mut self) {
        let held = self.held().clone();
        let taken = self
            .engine
            .create_snapshot(TAKEN, 1_700_000_000)
            .expect("takes a snapshot");
        self.taken.insert(taken.name.clone(), held);
        self.model.snapshots.insert(taken.name);
    }

    /// One of those that are listed.
    fn snapshot(&mut self) -> Option<String> {
        let count = self.model.snapshots.len() as u64;
        let at = self.rng.below(count.max(1)) as usize;
        self.model.snapshots.iter().nth(at).cloned()
    }

    fn restore_snapshot(&mut self) {
        let Some(name) = self.snapshot() else {
            return;
        };
        let into = [COLLECTION, BESIDE][self.rng.below(2) as usize];
        let file = self.engine.open_snapshot(TAKEN, &name).expect("is listed");
        self.engine
            .recover_collection(into, &file, None)
            .expect("restores");
        self.model
            .collections
            .insert(into.into(), self.taken[&name].clone());
    }

    fn drop_snapshot(&mut self) {
        let Some(name) = self.snapshot() else {
            return;
        };
        self.engine
            .delete_snapshot(TAKEN, &name)
            .expect("removes a snapshot");
        self.model.snapshots.remove(&name);
    }

    fn set_alias(&mut self) {
        let names: Vec<_> = self.model.collections.keys().cloned().collect();
        let collection = names[self.rng.below(names.len() as u64) as usize].clone();
        self.model.aliases = vec![(ALIAS.into(), collection.clone())];
        let create = AliasOp::Create {
            alias: ALIAS.into(),
            collection,
        };
        self.engine.change_aliases(&[create]).expect("sets an alias");
    }

    fn drop_collection(&mut self) {
        self.engine.delete_collection(BESIDE).expect("drops");
        self.model.collections.remove(BESIDE);
        self.model.aliases.retain(|(_, collection)| collection != BESIDE);
    }

    fn shard(&self, key: &str) -> Arc<Collection> {
        let key = ShardKey::Word(key.trim_matches('"').into());
        self.collection()
            .within(&ShardSelection::Keys(vec![key]))
            .expect("is there")
    }

    fn toggle_key(&mut self) {
        let key = ["a", "b", "z"][self.rng.below(3) as usize];
        let shown = ShardKey::Word(key.into()).to_string();
        let shards = self.held().shards.as_mut().expect("it has keys");
        if shards.remove(&shown).is_some() {
            let dropped = self
                .engine
                .delete_shard_key(COLLECTION, &ShardKey::Word(key.into()));
            assert!(dropped.expect("drops a key"));
            return;
        }
        shards.insert(shown, Contents::new());
        self.engine
            .create_shard_key(COLLECTION, &ShardKey::Word(key.into()))
            .expect("creates a key");
    }

    fn upsert_into_key(&mut self) {
        let points = self.points();
        let at = self.rng.below(2) as usize;
        let shards = self.held().shards.as_mut().expect("it has keys");
        let Some((key, held)) = shards.iter_mut().nth(at) else {
            return;
        };
        keep(held, &points);
        let key = key.clone();
        self.shard(&key).update(upsert(points)).expect("upserts");
    }
}

fn keep(held: &mut Contents, points: &[Point]) {
    for point in points {
        let payload = String::from_utf8(point.payload.clone()).expect("JSON is UTF-8");
        let vector = point.vectors[0].1.dense().expect("dense").to_vec();
        held.insert(point.id, (vector, payload));
    }
}

fn index_of(field: &str) -> FieldIndex {
    let (kind, params) = match field {
        "t" => (
            FieldKind::Text,
            Some(serde_json::json!({"type": "text", "scoring": true, "phrase_matching": true})),
        ),
        // Rows lie in its order.
        "k" => (
            FieldKind::Keyword,
            Some(serde_json::json!({"type": "keyword", "is_tenant": true})),
        ),
        _ => (FieldKind::Integer, None),
    };
    FieldIndex { kind, params }
}
