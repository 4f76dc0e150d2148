//! An engine on any storage, a model of what it should hold, and the comparison.

use std::collections::BTreeMap;
use std::sync::Arc;

use ramlet::*;
use ramlet_io::Storage;
use ramlet_memory::{BudgetRequest, BudgetTable, Ledger};

pub const MB: u64 = 1_000_000;

pub fn options(memory: u64) -> EngineOptions {
    let budget = BudgetTable::plan(BudgetRequest::new(memory, 1)).expect("enough for a test");
    let ledger = Ledger::new(budget.ledger_limit());
    EngineOptions {
        budget,
        ledger,
        seed: 42,
        log_file_bytes: Some(64 << 10),
    }
}

pub fn open(storage: Arc<dyn Storage>) -> Arc<Engine> {
    try_open(storage).expect("opens")
}

/// Refused also where a collection stays closed.
pub fn try_open(storage: Arc<dyn Storage>) -> Result<Arc<Engine>> {
    try_open_within(storage, 64 * MB)
}

pub fn open_within(storage: Arc<dyn Storage>, bytes: u64) -> Arc<Engine> {
    try_open_within(storage, bytes).expect("opens")
}

fn try_open_within(storage: Arc<dyn Storage>, bytes: u64) -> Result<Arc<Engine>> {
    let engine = Engine::open(storage, options(bytes))?;
    match engine.closed_collections().pop() {
        Some((_, why)) => {
            engine.close();
            Err(why)
        }
        None => Ok(engine),
    }
}

pub fn config(dim: usize, distance: Distance) -> CollectionConfig {
    let params = VectorParams {
        size: dim,
        distance,
        datatype: None,
        on_disk: None,
        multivector_config: None,
        other: BTreeMap::new(),
    };
    CollectionConfig {
        vectors: BTreeMap::from([(DEFAULT_VECTOR.to_string(), params)]),
        ..Default::default()
    }
}

pub fn point(id: u64, vector: Vec<f32>, payload: &str) -> Point {
    Point {
        id: PointId::Num(id),
        vectors: vec![(DEFAULT_VECTOR.to_string(), vector.into())],
        payload: payload.as_bytes().to_vec(),
    }
}

pub fn upsert(points: Vec<Point>) -> UpdateOp {
    UpdateOp::Upsert {
        points,
        filter: None,
        mode: UpdateMode::Upsert,
    }
}

/// While a job holds its scratch a large update may have to come again.
pub fn update_patiently(collection: &Collection, update: impl Fn() -> UpdateOp) -> Result<UpdateResult> {
    match collection.update(update()) {
        Err(busy) if busy.kind() == ErrorKind::OverBudget => {
            collection.wait_idle()?;
            collection.update(update())
        }
        done => done,
    }
}

pub fn delete(ids: &[u64]) -> UpdateOp {
    UpdateOp::Delete(PointsSelector::Ids(
        ids.iter().map(|&id| PointId::Num(id)).collect(),
    ))
}

pub fn scroll_request(limit: usize) -> ScrollRequest {
    ScrollRequest {
        filter: None,
        offset: None,
        limit,
        order_by: None,
        with_payload: PayloadSelector::All,
        with_vectors: VectorSelector::All,
    }
}

pub fn search_request(vector: Vec<f32>, limit: usize) -> SearchRequest {
    SearchRequest {
        query: QueryVector::Vector(vector.into()),
        using: DEFAULT_VECTOR.to_string(),
        filter: None,
        params: SearchParams::default(),
        limit,
        offset: 0,
        score_threshold: None,
        with_payload: PayloadSelector::None,
        with_vectors: VectorSelector::None,
    }
}

/// Every point of a collection: id -> (vector, payload).
pub type Contents = BTreeMap<PointId, (Vec<f32>, String)>;

/// Reads everything by scrolling in pages of an odd size.
pub fn contents(collection: &Collection, scratch: &mut Scratch) -> Contents {
    let mut all = Contents::new();
    let mut request = scroll_request(37);
    loop {
        let page = collection.scroll(&request, scratch).expect("scrolls");
        for record in page.points {
            // Of several one after another.
            let vectors = record.vectors.expect("asked for").into_iter();
            let vector = vectors
                .flat_map(|(_, v)| v.into_dense().expect("dense"))
                .collect();
            let payload = String::from_utf8(record.payload.expect("asked for")).expect("JSON is UTF-8");
            assert!(
                all.insert(record.id, (vector, payload)).is_none(),
                "{} came twice",
                record.id
            );
        }
        match page.next {
            Some(next) => request.offset = Some(next),
            None => return all,
        }
    }
}

/// Numbers that look random and are the same every time (xorshift64*).
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 33) % n
    }
    pub fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
    pub fn vector(&mut self, dim: usize) -> Vec<f32> {
        (0..dim).map(|_| self.float()).collect()
    }
}
