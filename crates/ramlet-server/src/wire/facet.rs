//! Facets and distance matrices.

use ramlet::filter::Filter;
use ramlet::{FacetHit, FacetRequest, FacetValue, Matrix, MatrixRequest, ShardSelection};
use serde::Deserialize;

use super::shard_key::WireShards;
use crate::answers::out::Out;
use crate::error::{ApiError, ApiResult};

const FACET_LIMIT: usize = 10;
const MATRIX_SAMPLE: usize = 10;
const MATRIX_LIMIT: usize = 3;

/// `POST /facet`.
#[derive(Debug, Deserialize)]
pub struct WireFacet {
    key: String,
    limit: Option<usize>,
    filter: Option<Filter>,
    /// Counts are exact either way.
    exact: Option<bool>,
    #[serde(default)]
    shard_key: WireShards,
}

impl WireFacet {
    pub fn shards(&self) -> ShardSelection {
        self.shard_key.0.clone()
    }

    /// What is asked, and whether `exact` was.
    pub fn into_request(self) -> ApiResult<(FacetRequest, bool)> {
        let limit = at_least("limit", self.limit.unwrap_or(FACET_LIMIT), 1)?;
        let request = FacetRequest {
            key: self.key,
            limit,
            filter: self.filter,
        };
        Ok((request, self.exact.unwrap_or(false)))
    }
}

/// `POST /points/search/matrix/pairs`, `/offsets`.
#[derive(Debug, Deserialize)]
pub struct WireMatrix {
    filter: Option<Filter>,
    sample: Option<usize>,
    limit: Option<usize>,
    using: Option<String>,
    #[serde(default)]
    shard_key: WireShards,
}

impl WireMatrix {
    pub fn shards(&self) -> ShardSelection {
        self.shard_key.0.clone()
    }

    pub fn into_request(self) -> ApiResult<MatrixRequest> {
        Ok(MatrixRequest {
            sample: at_least("sample", self.sample.unwrap_or(MATRIX_SAMPLE), 2)?,
            limit: at_least("limit", self.limit.unwrap_or(MATRIX_LIMIT), 1)?,
            filter: self.filter,
            using: self.using.unwrap_or_default(),
        })
    }
}

fn at_least(path: &str, value: usize, least: usize) -> ApiResult<usize> {
    if value >= least {
        return Ok(value);
    }
    let what = format!("value {value} invalid, must be {least} or larger");
    Err(ApiError::validation(path, what))
}

pub fn write_facet(hits: &[FacetHit], out: &mut Out) {
    out.raw("{\"hits\":");
    let mut list = out.open_list();
    for hit in hits {
        list.item(|out| {
            out.raw("{\"value\":");
            match &hit.value {
                FacetValue::Bool(value) => out.value(value),
                FacetValue::Int(value) => out.value(value),
                FacetValue::Str(value) => out.value(value),
            }
            out.raw(",\"count\":");
            out.value(&hit.count);
            out.raw("}");
        });
    }
    list.close();
    out.raw("}");
}

/// `{"pairs": [{"a", "b", "score"}]}`.
pub fn write_pairs(matrix: &Matrix, out: &mut Out) {
    out.raw("{\"pairs\":");
    let mut list = out.open_list();
    for (a, nearest) in matrix.ids.iter().zip(&matrix.nearest) {
        for (b, score) in nearest {
            list.item(|out| {
                out.raw("{\"a\":");
                out.value(a);
                out.raw(",\"b\":");
                out.value(&matrix.ids[*b as usize]);
                out.raw(",\"score\":");
                out.value(score);
                out.raw("}");
            });
        }
    }
    list.close();
    out.raw("}");
}

/// The matrix as coordinates and values: `{"offsets_row", "offsets_col", "scores", "ids"}`.
pub fn write_offsets(matrix: &Matrix, out: &mut Out) {
    let cells = || {
        let rows = matrix.nearest.iter().zip(0u64..);
        rows.flat_map(|(nearest, row)| nearest.iter().map(move |(col, score)| (row, *col, *score)))
    };
    out.raw("{\"offsets_row\":");
    numbers(out, cells().map(|(row, _, _)| row));
    out.raw(",\"offsets_col\":");
    numbers(out, cells().map(|(_, col, _)| col));
    out.raw(",\"scores\":");
    numbers(out, cells().map(|(_, _, score)| score));
    out.raw(",\"ids\":");
    out.value(&matrix.ids);
    out.raw("}");
}

fn numbers<T: serde::Serialize>(out: &mut Out, numbers: impl Iterator<Item = T>) {
    let mut list = out.open_list();
    numbers.for_each(|number| list.item(|out| out.value(&number)));
    list.close();
}
