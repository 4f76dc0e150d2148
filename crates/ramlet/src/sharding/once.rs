//! Returns a point that several shards hold once, as in the API: the first occurrence.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::limits::LIMIT_MAX;
use crate::query::Scratch;
use crate::read::view::View;
use crate::request::SearchResponse;
use crate::types::PointId;

/// What an id takes in the set of those that were seen.
const SEEN_BYTES: u64 = 48;

/// Whether a view has every id once.
pub fn is_once(view: &View) -> bool {
    view.keyed.len() < 2
}

/// `limit` hits behind the first `offset`. `find` gives the first so many, among which ids may come several times: more are asked for
/// until there are enough, at most as many as if each came once for every shard.
pub fn each_once(
    view: &View,
    (limit, offset): (usize, usize),
    scratch: &mut Scratch,
    mut find: impl FnMut(usize, &mut Scratch) -> Result<SearchResponse>,
) -> Result<SearchResponse> {
    let wanted = limit.saturating_add(offset).min(LIMIT_MAX);
    let most = wanted.saturating_mul(view.keyed.len().max(1)).min(LIMIT_MAX);
    let mut asked = wanted;
    loop {
        let mut response = find(asked, scratch)?;
        let found = response.hits.len();
        let _held = scratch.lookup.rare.reserve(found as u64 * SEEN_BYTES)?;
        let mut seen: BTreeSet<PointId> = BTreeSet::new();
        response.hits.retain(|hit| seen.insert(hit.id));
        if response.hits.len() >= wanted || found < asked || asked >= most {
            response.hits.truncate(wanted);
            response.hits.drain(..offset.min(response.hits.len()));
            return Ok(response);
        }
        asked = asked.saturating_mul(2).min(most);
    }
}
