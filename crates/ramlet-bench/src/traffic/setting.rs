//! What each query of a measurement asks, on whichever wire.

use serde_json::{Value, json};

/// What is asked, beside the vector.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Setting {
    pub collection: String,
    /// Which of several named vectors.
    pub using: Option<String>,
    /// Results wanted.
    pub k: usize,
    /// The API's `hnsw_ef`; None: the server's own choice.
    pub ef: Option<usize>,
    /// Compare everything: the API's `exact`.
    pub exact: bool,
    /// More of the API's search `params` (quantization, ...).
    pub params: Option<Value>,
    /// `/points/search` of older servers instead of `/points/query`.
    pub old_route: bool,
}

impl Setting {
    /// As people write it: `ef 128`, `exact`, `default`.
    pub fn name(&self) -> String {
        match (self.exact, self.ef) {
            (true, _) => "exact".into(),
            (_, Some(ef)) => format!("ef {ef}"),
            _ => "default".into(),
        }
    }

    /// The API's search `params` with all of it.
    pub(crate) fn params(&self) -> Value {
        let mut params = self.params.clone().unwrap_or_else(|| json!({}));
        if let Some(ef) = self.ef {
            params["hnsw_ef"] = json!(ef);
        }
        if self.exact {
            params["exact"] = json!(true);
        }
        params
    }
}

/// A number for an id that is text: FNV-1a, 64 bits.
pub fn id_of_text(text: &[u8]) -> u64 {
    text.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
