//! Finds the other collections that a query names.

use std::sync::Arc;

use super::Scratch;
use super::others::OtherCollections;
use super::request::LookupLocation;
use crate::collection::Collection;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::read::view::View;
use crate::state::core::Core;
use crate::types::{PayloadSelector, PointId, Record, VectorSelector};

impl Engine {
    fn other(&self, name: &str) -> Result<Arc<Collection>> {
        self.collection(name)
            .map_err(|_| Error::not_found(format!("Not found: Collection {name} not found")))
    }
}

impl OtherCollections for Engine {
    fn is_own(&self, name: &str, own: &Arc<Core>) -> Result<bool> {
        Ok(Arc::ptr_eq(self.other(name)?.core(), own))
    }

    fn view_of(&self, place: &LookupLocation) -> Result<Arc<View>> {
        let collection = self.other(&place.collection)?;
        collection.within(&place.shards)?.live_view()
    }

    fn point_of(
        &self,
        name: &str,
        id: PointId,
        (payload, vectors): (&PayloadSelector, &VectorSelector),
        scratch: &mut Scratch,
    ) -> Result<Option<Record>> {
        let found = self.other(name)?.retrieve(&[id], payload, vectors, scratch)?;
        Ok(found.into_iter().next())
    }
}
