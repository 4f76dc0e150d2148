//! A vector that is added to a collection: what of its parameters can't change later.

use std::collections::BTreeMap;

use ramlet::{Datatype, Distance, Modifier, MultiVectorConfig, NewVector, SparseVectorParams, VectorParams};
use serde::Deserialize;

use super::vector_params::{check_size, datatype};
use crate::error::{ApiError, ApiResult};

/// `PUT /collections/{name}/vectors/{vector}`: one of the two.
#[derive(Debug, Deserialize)]
pub struct WireNewVector {
    dense: Option<WireDense>,
    sparse: Option<WireSparse>,
}

#[derive(Debug, Deserialize)]
struct WireDense {
    size: u64,
    distance: Distance,
    multivector_config: Option<MultiVectorConfig>,
    datatype: Option<String>,
}

#[derive(Debug, Deserialize)]
struct WireSparse {
    modifier: Option<Modifier>,
    datatype: Option<String>,
}

impl WireNewVector {
    pub fn into_new(self) -> ApiResult<NewVector> {
        match (self.dense, self.sparse) {
            (Some(dense), None) => Ok(NewVector::Dense(Box::new(VectorParams {
                size: check_size("dense.size", dense.size)?,
                distance: dense.distance,
                datatype: dense.datatype.map(|d| datatype("dense", &d)).transpose()?,
                on_disk: None,
                multivector_config: dense.multivector_config,
                other: BTreeMap::new(),
            }))),
            (None, Some(sparse)) => sparse.into_params().map(NewVector::Sparse),
            _ => Err(ApiError::format("one of `dense` and `sparse` is given")),
        }
    }
}

impl WireSparse {
    fn into_params(self) -> ApiResult<SparseVectorParams> {
        let datatype: Option<Datatype> = self.datatype.map(|d| datatype("sparse", &d)).transpose()?;
        let mut other = BTreeMap::new();
        if let Some(datatype) = datatype {
            other.insert("index".to_owned(), serde_json::json!({ "datatype": datatype }));
        }
        Ok(SparseVectorParams {
            modifier: self.modifier,
            other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> ApiResult<NewVector> {
        serde_json::from_str::<WireNewVector>(text)
            .map_err(ApiError::format)?
            .into_new()
    }

    #[test]
    fn dense_sparse_and_several() {
        let text = r#"{"dense":{"size":3,"distance":"Dot","datatype":"float16","multivector_config":{"comparator":"max_sim"}}}"#;
        let NewVector::Dense(params) = parsed(text).unwrap() else {
            panic!("dense")
        };
        assert_eq!((params.size, params.distance), (3, Distance::Dot));
        assert_eq!(params.datatype, Some(Datatype::Float16));
        assert!(params.multivector_config.is_some());
        let NewVector::Sparse(params) = parsed(r#"{"sparse":{"modifier":"idf"}}"#).unwrap() else {
            panic!("sparse")
        };
        assert_eq!(params.modifier, Some(Modifier::Idf));
    }

    #[test]
    fn neither_both_and_wrong_ones_are_refused() {
        for text in [
            "{}",
            r#"{"dense":{"size":1,"distance":"Dot"},"sparse":{}}"#,
            r#"{"dense":{"size":0,"distance":"Dot"}}"#,
            r#"{"dense":{"size":65537,"distance":"Dot"}}"#,
            r#"{"dense":{"size":1,"distance":"Hamming"}}"#,
            r#"{"dense":{"size":1,"distance":"Dot","datatype":"float8"}}"#,
            r#"{"sparse":{"modifier":"tf"}}"#,
        ] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }
}
