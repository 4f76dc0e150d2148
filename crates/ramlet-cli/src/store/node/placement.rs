//! Which node leaves its shard for another one: a function of what is known, which every node asks.
//!
//! A move is due from a shard that has two nodes more than another. Each one makes the shards more alike, so they come to an end.

use ramlet_store::Sha;

/// A node that may own the log of a shard, and lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    pub node: String,
    pub shard: u32,
    pub owns: bool,
    /// It isn't bound to its shard.
    pub moves: bool,
}

/// Who leaves which shard for which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    pub node: String,
    pub from: u32,
    pub to: u32,
    /// Nobody holds the other shard.
    pub is_urgent: bool,
}

/// The next move, of so many shards.
pub fn due(nodes: &[Placed], shards: u32, store: &str) -> Option<Move> {
    let count = |shard: u32| nodes.iter().filter(|node| node.shard == shard).count();
    let to = (0..shards).min_by_key(|shard| count(*shard))?;
    let has_two_more = |shard: &u32| count(*shard) >= count(to) + 2;
    let may_go = |shard: &u32| nodes.iter().any(|node| node.shard == *shard && node.moves);
    let most = (0..shards).filter(has_two_more).filter(may_go);
    let from = most.max_by_key(|shard| (count(*shard), rank(store, to, &shard.to_string())))?;
    let movers = nodes.iter().filter(|node| node.shard == from && node.moves);
    // An owner that goes is followed by another one: that takes a second or two.
    let mover = movers.min_by_key(|node| (node.owns, rank(store, to, &node.node)))?;
    Some(Move {
        node: mover.node.clone(),
        from,
        to,
        is_urgent: count(to) == 0,
    })
}

/// Everybody reckons the same, and each shard has other first ones.
pub fn rank(store: &str, shard: u32, node: &str) -> [u8; 32] {
    Sha::of(format!("{store} {shard} {node}").as_bytes()).0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A letter for each node: `b` is bound to its shard, `o` owns, `m` moves.
    fn placed(shards: &[&str]) -> Vec<Placed> {
        let mut nodes = Vec::new();
        for (shard, held) in shards.iter().enumerate() {
            for letter in held.chars() {
                nodes.push(Placed {
                    node: format!("{:04}", nodes.len()),
                    shard: shard as u32,
                    owns: letter != 'm',
                    moves: letter != 'b',
                });
            }
        }
        nodes
    }

    fn check(shards: &[&str], expected: Option<(u32, u32, bool)>) {
        let nodes = placed(shards);
        let found = due(&nodes, shards.len() as u32, "store");
        let found = found.inspect(|found| {
            let of = nodes
                .iter()
                .find(|node| node.node == found.node)
                .expect("one of them");
            assert!(of.moves && of.shard == found.from);
            let follower = |node: &Placed| node.shard == found.from && node.moves && !node.owns;
            assert!(
                !of.owns || !nodes.iter().any(follower),
                "the owner stays where another may go"
            );
        });
        let found = found.map(|found| (found.from, found.to, found.is_urgent));
        assert_eq!(found, expected, "{shards:?}");
    }

    #[test]
    fn a_move_is_due_where_two_more_are() {
        check(&["o", "o", "o"], None);
        check(&["om", "o", "o"], None);
        check(&["om", "o", ""], Some((0, 2, true)));
        check(&["omm", "o", "om"], Some((0, 1, false)));
        check(&["om", "om", "ommm"], Some((2, 0, false)));
        check(&["om", "", ""], Some((0, 1, true)));
        check(&["o", "", ""], None);
        check(&["", "o"], None);
        // Who is bound stays; an owner goes where nobody else may.
        check(&["ob", "o", ""], Some((0, 2, true)));
        check(&["bb", "o", ""], None);
        check(&["bbb", "om", ""], Some((1, 2, true)));
    }

    #[test]
    fn moves_come_to_an_end() {
        // Each node acts on what it knew some moves before: that may take more moves, and no end of them never.
        for seed in 0..200u32 {
            let mut nodes: Vec<Placed> = (0..9u32)
                .map(|n| Placed {
                    node: format!("{n:04}"),
                    shard: rank("", seed, &n.to_string())[0] as u32 % 2,
                    owns: false,
                    moves: true,
                })
                .collect();
            let mut known = nodes.clone();
            let mut moves = 0;
            loop {
                // Two at once, of which one knows what was before.
                let both = [due(&nodes, 4, "store"), due(&known, 4, "store")];
                known.clone_from(&nodes);
                let [Some(first), second] = both else { break };
                for moved in [Some(first), second].into_iter().flatten() {
                    let node = nodes.iter_mut().find(|node| node.node == moved.node);
                    node.expect("one of them").shard = moved.to;
                    moves += 1;
                }
                assert!(moves < 40, "seed {seed}");
            }
            let count = |shard| nodes.iter().filter(|node| node.shard == shard).count();
            assert!((0..4).all(|shard| (2..=3).contains(&count(shard))), "{nodes:?}");
        }
    }
}
