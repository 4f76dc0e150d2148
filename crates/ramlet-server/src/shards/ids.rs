//! Which shard a point is in.

use ramlet::PointId;

/// The shard of an id, of so many. It never changes: another number of shards is another store.
pub fn shard_of(id: PointId, shards: u32) -> u32 {
    (id.stable_hash() % u64::from(shards)) as u32
}

/// Ids by their shards, each list in the order of the ids.
pub fn divided(ids: impl IntoIterator<Item = PointId>, shards: u32) -> Vec<Vec<PointId>> {
    divided_by(ids, |id| *id, shards)
}

/// What has an id by its shard, each list in the order in which it came.
pub fn divided_by<T>(
    all: impl IntoIterator<Item = T>,
    id_of: impl Fn(&T) -> PointId,
    shards: u32,
) -> Vec<Vec<T>> {
    let mut parts: Vec<Vec<T>> = (0..shards).map(|_| Vec::new()).collect();
    for one in all {
        parts[shard_of(id_of(&one), shards) as usize].push(one);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shard_of_an_id_never_changes() {
        let uuid: PointId = "6f2c1f5e-0c39-4c2a-9d53-b53ab0a3e8a1".parse().expect("a UUID");
        let of = |id| shard_of(id, 1_000);
        // Written down once: data of a store lie where these say.
        assert_eq!(
            [
                of(PointId::Num(0)),
                of(PointId::Num(1)),
                of(PointId::Num(u64::MAX)),
                of(uuid)
            ],
            [213, 332, 667, 550]
        );
    }

    #[test]
    fn shards_get_equal_parts() {
        let parts = divided((0..30_000).map(PointId::Num), 3);
        for part in parts {
            assert!((9_600..10_400).contains(&part.len()), "{}", part.len());
        }
    }
}
