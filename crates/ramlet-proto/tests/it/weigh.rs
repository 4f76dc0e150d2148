//! What is reckoned for a message is what decoding it takes, or more: for honest messages, random ones and hostile ones.

use bytes::Bytes;
use ramlet_proto::qdrant as q;
use ramlet_proto::wire::{put_bytes, put_message, put_uint};
use ramlet_proto::{Malformed, Message, Shaped};

use crate::counting::peak_of;

/// Deterministic numbers (xorshift).
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// The most bytes that decoding held at once, beside what was reckoned.
fn check<M: Message + Default + Shaped>(message: &[u8], what: &str) {
    let body = Bytes::copy_from_slice(message);
    let Ok(weight) = M::SHAPE.weigh(message) else {
        return;
    };
    let mut decoded = None;
    let held = peak_of(|| decoded = M::decode(body).ok());
    let bound = weight.bytes;
    assert!(
        held <= bound,
        "{what}: {held} bytes held, {bound} reckoned, {} of message",
        message.len()
    );
}

fn check_all(message: &[u8], what: &str) {
    check::<q::UpsertPoints>(message, what);
    check::<q::QueryPoints>(message, what);
    check::<q::UpdateBatchPoints>(message, what);
    check::<q::CreateCollection>(message, what);
    check::<q::RecommendBatchPoints>(message, what);
}

#[test]
fn lists_of_nothing_are_reckoned() {
    for field in 1..=20u8 {
        for n in [1, 3, 5, 1000, 40_000] {
            let message = [field << 3 | 2, 0].repeat(n);
            check_all(&message, &format!("{n} times an empty field {field}"));
        }
    }
}

#[test]
fn random_messages_are_reckoned() {
    let mut rng = Rng(0x9e37_79b9_7f4a_7c15);
    for round in 0..3_000 {
        let mut out = Vec::new();
        random(&mut rng, 5, &mut out);
        check_all(&out, &format!("round {round}"));
    }
}

fn random(rng: &mut Rng, depth: u64, out: &mut Vec<u8>) {
    for _ in 0..rng.below(6) {
        let number = 1 + rng.below(12) as u32;
        match rng.below(4) {
            0 => put_uint(out, number, rng.next() >> rng.below(64)),
            1 => {
                let bytes: Vec<u8> = (0..rng.below(40)).map(|_| b'a' + rng.below(20) as u8).collect();
                put_bytes(out, number, &bytes);
            }
            _ if depth > 0 => {
                for _ in 0..=rng.below(8) {
                    let _ = put_message::<()>(out, number, |out| {
                        random(rng, depth - 1, out);
                        Ok(())
                    });
                }
            }
            _ => {}
        }
    }
}

#[test]
fn points_are_reckoned_near_what_they_take() {
    let point = |n: u64| q::PointStruct {
        id: Some(q::PointId {
            point_id_options: Some(q::point_id::PointIdOptions::Num(n)),
        }),
        payload: Vec::new(),
        vectors: Some(q::Vectors {
            vectors_options: Some(q::vectors::VectorsOptions::Vector(q::Vector {
                vector: Some(q::vector::Vector::Dense(q::DenseVector { data: vec![0.5; 100] })),
                ..Default::default()
            })),
        }),
    };
    let message = q::UpsertPoints {
        points: (0..1000).map(point).collect(),
        ..Default::default()
    };
    let bytes = message.encode_to_vec();
    check::<q::UpsertPoints>(&bytes, "points");
    let reckoned = q::UpsertPoints::SHAPE.weigh(&bytes).unwrap().bytes;
    assert!(
        reckoned < 6 * bytes.len() as u64,
        "{reckoned} for {}",
        bytes.len()
    );
}

#[test]
fn ids_in_lists_are_leaves() {
    let id = |n| q::PointId {
        point_id_options: Some(q::point_id::PointIdOptions::Num(n)),
    };
    let ids = q::PointsIdsList {
        ids: (0..1000).map(id).collect(),
    };
    let bytes = ids.encode_to_vec();
    let weight = q::PointsIdsList::SHAPE.weigh(&bytes).unwrap();
    assert_eq!((weight.leaves, weight.elements), (1000, 0));
    // A filter's conditions hold more.
    let filter = q::Filter {
        must: vec![q::Condition::default(); 3],
        ..Default::default()
    };
    let weight = q::Filter::SHAPE.weigh(&filter.encode_to_vec()).unwrap();
    assert_eq!((weight.leaves, weight.elements), (0, 3));
}

#[test]
fn depth_and_faults_are_told() {
    let mut deep = Vec::new();
    for _ in 0..100 {
        let mut outer = Vec::new();
        put_bytes(&mut outer, 1, &deep);
        deep = outer;
    }
    let mut query = Vec::new();
    put_bytes(&mut query, 2, &deep);
    assert_eq!(q::QueryPoints::SHAPE.weigh(&query), Err(Malformed::Deep));
    assert_eq!(q::QueryPoints::SHAPE.weigh(&[0x12, 9]), Err(Malformed::Broken));
    assert!(q::QueryPoints::SHAPE.weigh(&[]).is_ok());
}
