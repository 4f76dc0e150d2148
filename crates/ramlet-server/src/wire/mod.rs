//! The API's JSON, typed: what comes in becomes the engine's nouns while it is parsed.
//!
//! Unknown fields are passed over, as the API does; null is the same as absent. A known feature that isn't built is
//! refused by name.

pub mod collection;
pub mod explain;
pub mod explain_shards;
pub mod explain_words;
pub mod facet;
pub mod filter;
pub mod has_value;
pub mod index;
pub mod inference;
pub mod info;
pub mod memory;
pub mod name_rules;
pub mod order;
pub mod points;
pub mod query;
pub mod search_settings;
pub mod selectors;
pub mod shard_key;
pub mod sparse;
pub mod stored_settings;
pub mod updates;
pub mod vector;
pub mod vector_names;
pub mod vector_params;
