//! Settings of how vectors are searched: checked as they come in, and kept.

use ramlet::settings::{HnswConfig, IndexKind, Quantization, check_recall, key};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::stored_settings::{StoredSettings, put};
use crate::error::{ApiError, ApiResult};

/// What a collection and a vector have in common.
#[derive(Debug, Default, Deserialize)]
pub struct SearchSettings {
    pub hnsw_config: Option<HnswConfig>,
    /// Called `quantization` by older clients.
    #[serde(alias = "quantization")]
    pub quantization_config: Option<Value>,
    /// Own addition: "ivf", "hnsw" or "auto".
    pub index: Option<IndexKind>,
    /// Own addition: the recall that searches aim at.
    pub recall: Option<f64>,
}

impl SearchSettings {
    /// Lays these over `kept`; `path` is where they stand in the body, with a dot behind it unless empty.
    pub fn put(&self, kept: &mut StoredSettings, path: &str) -> ApiResult<()> {
        self.put_hnsw(kept, path)?;
        put_quantization(kept, self.quantization_config.clone(), path)?;
        put(kept, key::INDEX, &self.index)?;
        if let Some(recall) = self.recall {
            check_recall(recall as f32).map_err(|e| ApiError::validation(format!("{path}recall"), e))?;
        }
        put(kept, key::RECALL, &self.recall)
    }

    fn put_hnsw(&self, kept: &mut StoredSettings, path: &str) -> ApiResult<()> {
        if let Some(hnsw) = &self.hnsw_config {
            hnsw.check()
                .map_err(|(field, what)| ApiError::validation(format!("{path}hnsw_config.{field}"), what))?;
        }
        // The API's way to take a vector's own settings away.
        if !path.is_empty() && self.hnsw_config == Some(HnswConfig::default()) {
            kept.remove(key::HNSW);
            return Ok(());
        }
        put(kept, key::HNSW, &self.hnsw_config)
    }
}

/// `{"scalar" | "product" | "binary" | "turbo": {...}}`, replacing what was; "Disabled" takes it away.
fn put_quantization(kept: &mut StoredSettings, value: Option<Value>, path: &str) -> ApiResult<()> {
    let path = format!("{path}quantization_config");
    let mut map = match value {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::String(s)) if s == "Disabled" => {
            kept.remove(key::QUANTIZATION);
            return Ok(());
        }
        Some(Value::Object(map)) => map,
        Some(_) => return Err(ApiError::format(format!("{path}: an object, or \"Disabled\""))),
    };
    map.retain(|_, value| !value.is_null());
    let quantization = Quantization::deserialize(Value::Object(map)).map_err(|e| {
        let one = "one of `scalar`, `product`, `binary` and `turbo` is given";
        ApiError::format(format!("{path}: {one}: {e}"))
    })?;
    quantization
        .check()
        .map_err(|(field, what)| ApiError::validation(format!("{path}.{field}"), what))?;
    kept.insert(key::QUANTIZATION.to_owned(), to_value(&quantization)?);
    Ok(())
}

fn to_value<T: Serialize>(value: &T) -> ApiResult<Value> {
    serde_json::to_value(value).map_err(ApiError::internal)
}
