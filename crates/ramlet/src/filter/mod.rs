//! Filters: parsed from the API's JSON ([`Filter`]), compiled ([`CompiledFilter`]), checked against payload bytes, and narrowed by payload
//! indexes ([`index`]).
//!
//! [`CompiledFilter::matches`] is the meaning of a filter; whatever an index answers is either the same or a superset
//! that is checked again. The meaning is that of the API's server on fields without an index, but that the tokens
//! of a text index decide on its field's texts; a type mismatch never matches, an array matches when one of its elements
//! does.

mod access;
mod ast;
mod compile;
mod datetime;
mod field_check;
mod geo;
pub mod index;
mod limits;
mod parse;
mod parse_check;
mod slice;
mod tokens;
mod uuids;
mod words;
mod write;

pub use access::PointAccess;
pub use ast::{
    AnyOf, Condition, DatetimeRange, FieldCheck, FieldCondition, Filter, GeoBoundingBox, GeoPoint,
    GeoPolygon, GeoRadius, Match, MinShould, Phrase, Range, Scalar, ValuesCount,
};
pub use compile::CompiledFilter;
pub use datetime::{format_datetime, parse_datetime};
pub use geo::{EARTH_RADIUS_M, geo_distance_m};
pub use limits::FilterLimits;
pub(crate) use words::FieldWords;
