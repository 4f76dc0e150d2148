//! The rows with the tokens of a text condition.

use roaring::RoaringBitmap;

use super::field_indexes::{FieldIndexes, KEYS_PER_CANDIDATE, index_of};
use super::keys::{KEYWORD_BYTES, NUMBER, PRESENT, key, keyword_key};
use super::range::KeyRange;
use super::resolved::Resolved;
use crate::error::Error;
use crate::filter::compile::FieldNode;
use crate::filter::field_check::Check;
use crate::filter::tokens::{TokenCheck, Wanted};
use crate::types::FieldKind;

/// Rarest tokens of those that a row must all have that are looked up: few rows have so many of them and not the others.
const TOKENS_SCANNED: usize = 16;

/// The tokens that a condition asks for, and the name of the text index that has them.
pub(super) fn tokens_of<'a>(
    field: &'a FieldNode,
    outer: Option<&str>,
    indexes: &dyn FieldIndexes,
) -> Option<(String, &'a TokenCheck)> {
    let Check::Tokens(tokens) = &field.check else {
        return None;
    };
    match index_of(field, outer, indexes)? {
        (name, FieldKind::Text) if tokens.has_index() => Some((name, tokens)),
        _ => None,
    }
}

/// `whole`: the rows' values are asked, not those of elements.
pub(super) fn resolve_tokens(
    tokens: &TokenCheck,
    name: &str,
    whole: bool,
    indexes: &mut dyn FieldIndexes,
) -> Result<Resolved, Error> {
    if tokens.tokens.is_empty() {
        return Ok(Resolved::none());
    }
    if tokens.are_stopwords {
        let mut rows = RoaringBitmap::new();
        indexes.scan(name, &KeyRange::tags(PRESENT, PRESENT), &mut rows)?;
        return Ok(Resolved::some(rows, false));
    }
    let (rows, all_read) = match tokens.wanted {
        Wanted::Any => {
            let mut rows = RoaringBitmap::new();
            for token in &tokens.tokens {
                indexes.scan(name, &range_of(token), &mut rows)?;
            }
            (rows, true)
        }
        Wanted::All | Wanted::Phrase(_) => rows_with_all(tokens, name, indexes)?,
    };
    // Of these not all tokens are known.
    let mut longest = RoaringBitmap::new();
    indexes.scan(name, &more_tokens(), &mut longest)?;
    let told_apart = tokens.tokens.iter().all(|token| token.len() <= KEYWORD_BYTES);
    let exact = whole && all_read && told_apart && longest.is_empty() && tokens.is_decided_by_tokens();
    Ok(Resolved::some(rows | longest, exact))
}

/// At least the rows with all of the tokens; whether they are no others. The rarest token first, and none that many more rows
/// have than are left.
fn rows_with_all(
    tokens: &TokenCheck,
    name: &str,
    indexes: &mut dyn FieldIndexes,
) -> Result<(RoaringBitmap, bool), Error> {
    let mut by_cost = Vec::with_capacity(tokens.tokens.len());
    for token in &tokens.tokens {
        let range = range_of(token);
        by_cost.push((indexes.estimate(name, &range)?, range));
    }
    by_cost.sort();
    let mut left: Option<RoaringBitmap> = None;
    for (n, (cost, range)) in by_cost.iter().enumerate() {
        let is_short = |rows: &RoaringBitmap| n < TOKENS_SCANNED && cost / KEYS_PER_CANDIDATE <= rows.len();
        match &left {
            Some(rows) if rows.is_empty() => break,
            Some(rows) if !is_short(rows) => return Ok((left.unwrap_or_default(), false)),
            _ => {}
        }
        let mut found = RoaringBitmap::new();
        indexes.scan(name, range, &mut found)?;
        left = Some(match left {
            Some(rows) => rows & found,
            None => found,
        });
    }
    Ok((left.unwrap_or_default(), true))
}

/// At least the number of rows with the tokens.
pub(super) fn estimate_tokens(
    tokens: &TokenCheck,
    name: &str,
    indexes: &mut dyn FieldIndexes,
) -> Result<u64, Error> {
    if tokens.are_stopwords {
        return indexes.estimate(name, &KeyRange::tags(PRESENT, PRESENT));
    }
    let (mut least, mut sum) = (None, 0u64);
    for token in &tokens.tokens {
        let keys = indexes.estimate(name, &range_of(token))?;
        least = Some(least.map_or(keys, |least: u64| least.min(keys)));
        sum = sum.saturating_add(keys);
    }
    let with = match tokens.wanted {
        Wanted::Any => sum,
        Wanted::All | Wanted::Phrase(_) => least.unwrap_or(0),
    };
    Ok(with.saturating_add(indexes.estimate(name, &more_tokens())?))
}

fn range_of(token: &str) -> KeyRange {
    KeyRange::prefix(key(|k| keyword_key(token, k)))
}

/// Rows with more tokens than are kept.
fn more_tokens() -> KeyRange {
    KeyRange::tags(NUMBER, NUMBER)
}
