//! Access to the other collections that a query names for examples and groups. Queries don't know the engine.

use std::sync::Arc;

use super::Scratch;
use super::request::LookupLocation;
use crate::error::Result;
use crate::read::view::View;
use crate::state::core::Core;
use crate::types::{PayloadSelector, PointId, Record, VectorSelector};

/// Collections by name or alias. `NotFound` in the words that the API has for those of a query.
pub trait OtherCollections {
    /// Whether this is the name of the collection that has this core.
    fn is_own(&self, name: &str, own: &Arc<Core>) -> Result<bool>;

    /// What is read of the place's shards now.
    fn view_of(&self, place: &LookupLocation) -> Result<Arc<View>>;

    /// A point of the collection, if it has it.
    fn point_of(
        &self,
        name: &str,
        id: PointId,
        parts: (&PayloadSelector, &VectorSelector),
        scratch: &mut Scratch,
    ) -> Result<Option<Record>>;
}
