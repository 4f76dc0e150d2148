//! `params.idf`: which points' statistics weigh a sparse query.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use crate::error::{ApiError, ApiResult};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WireIdf {
    /// Those of the whole collection.
    #[default]
    Global,
    /// Those of the points that a filter matches: not built, and scores would be others.
    Corpus,
}

impl WireIdf {
    pub fn check(self) -> ApiResult<()> {
        match self {
            WireIdf::Global => Ok(()),
            WireIdf::Corpus => Err(ApiError::unsupported("`params.idf.corpus`")),
        }
    }
}

impl<'de> Deserialize<'de> for WireIdf {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<WireIdf, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = WireIdf;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"global\" or {\"corpus\": ..}")
            }
            fn visit_unit<E: Error>(self) -> Result<WireIdf, E> {
                Ok(WireIdf::Global)
            }
            fn visit_str<E: Error>(self, scope: &str) -> Result<WireIdf, E> {
                match scope {
                    "global" => Ok(WireIdf::Global),
                    other => Err(E::unknown_variant(other, &["global"])),
                }
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WireIdf, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(WireIdf::Corpus)
            }
        }
        d.deserialize_any(V)
    }
}
