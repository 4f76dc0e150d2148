//! Settings of sparse vectors: of their creation, and what of them is changed later.

use std::collections::BTreeMap;

use ramlet::settings::Placement;
use ramlet::{CollectionConfig, Datatype, Modifier, SparseVectorParams};
use serde::{Deserialize, Serialize};

use super::name_rules::check_vector_name;
use super::stored_settings::put;
use super::vector_params::datatype;
use crate::error::{ApiError, ApiResult};

/// `sparse_vectors` of a collection.
pub type WireSparseVectors = BTreeMap<String, WireSparse>;

/// One sparse vector's parameters.
#[derive(Debug, Default, Deserialize)]
pub struct WireSparse {
    modifier: Option<Modifier>,
    index: Option<WireIndex>,
}

#[derive(Debug, Deserialize)]
struct WireIndex {
    full_scan_threshold: Option<usize>,
    on_disk: Option<bool>,
    memory: Option<Placement>,
    datatype: Option<String>,
}

/// The same as it is kept.
#[derive(Debug, Serialize)]
struct KeptIndex {
    #[serde(skip_serializing_if = "Option::is_none")]
    full_scan_threshold: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_disk: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Placement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    datatype: Option<Datatype>,
}

impl WireSparse {
    /// Lays what is given over what there is.
    fn put(&self, path: &str, params: &mut SparseVectorParams) -> ApiResult<()> {
        params.modifier = self.modifier.or(params.modifier);
        let Some(index) = &self.index else { return Ok(()) };
        if let Some(name @ ("turbo4" | "turbo8" | "turbo16")) = index.datatype.as_deref() {
            let what = format!("sparse vectors do not support the datatype {name}");
            return Err(ApiError::wrong_input(what));
        }
        let kept = KeptIndex {
            full_scan_threshold: index.full_scan_threshold,
            on_disk: index.on_disk,
            memory: index.memory,
            datatype: index.datatype.as_deref().map(|d| datatype(path, d)).transpose()?,
        };
        put(&mut params.other, "index", &Some(kept))
    }
}

/// Of a new collection.
pub fn sparse_config(wire: Option<WireSparseVectors>) -> ApiResult<BTreeMap<String, SparseVectorParams>> {
    let mut out = BTreeMap::new();
    for (name, wire) in wire.into_iter().flatten() {
        check_vector_name(&name)?;
        let mut params = SparseVectorParams::default();
        wire.put(&format!("sparse_vectors.{name}.index"), &mut params)?;
        out.insert(name, params);
    }
    Ok(out)
}

/// Changes those that there are.
pub fn change_sparse(wire: &WireSparseVectors, config: &mut CollectionConfig) -> ApiResult<()> {
    for (name, wire) in wire {
        let params = config
            .sparse_vectors
            .get_mut(name)
            .ok_or_else(|| ApiError::wrong_input(format!("Not existing vector name error: {name}")))?;
        wire.put(&format!("sparse_vectors.{name}.index"), params)?;
    }
    Ok(())
}
