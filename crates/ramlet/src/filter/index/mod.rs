//! Payload indexes: the keys of a payload, the key ranges that a condition needs, and the candidate rows of a whole filter.
//!
//! An index is a sorted set of `key ++ row (u32 big endian)`. Keys start with a tag:
//!
//! | tag | key | rows with it |
//! |---|---|---|
//! | 1 | a value of the index's kind, in its order | have that value |
//! | 2 | f64 in its order (integer indexes only) | have a number that isn't an `i64` |
//! | 2 | - (text indexes only) | have more tokens than are kept |
//! | 3 | - | have a value that isn't null and has no key under 1 or 2 |
//! | 4 | - | have a null |
//! | 5 | - | have something other than null and empty arrays |
//!
//! Values under 1: keyword, UTF-8 with 0 written as `00 FF` and ended by `00 01` (cut after 512 bytes, then ended by
//! `00 02` and a hash of the whole); integer and datetime (microseconds), i64 with its sign flipped; float, in IEEE
//! total order with one zero; bool, one byte; uuid, 16 bytes; geo, the Z-order of latitude and longitude in 32 bits
//! each; text, each of its tokens as a keyword. All big endian.
//!
//! The tags make an index complete: whatever could match a condition has some key, so a plan is never wrong, however
//! the payloads' types are mixed.

mod cover;
mod estimate;
mod facet;
mod field_indexes;
mod keys;
mod names;
mod order;
mod plan;
mod range;
mod resolve;
mod resolved;
mod tokens;

pub use estimate::{Cardinality, estimate};
pub use facet::{FacetValue, facet_range, facet_value, keyword_with_key};
pub use field_indexes::FieldIndexes;
pub use keys::{KEY_BYTES_MAX, emit_keys, emit_text_keys, is_presence, is_value};
pub(super) use names::{elements_of, names_of};
pub use order::{order_range, order_value, order_values_of};
pub use plan::{IndexPlan, plan};
pub use range::KeyRange;
pub use resolve::resolve;
pub use resolved::Resolved;
