//! `params.idf`: which points' statistics weigh a sparse query.

use std::fmt;

use ramlet::Idf;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use crate::wire::filter::WireFilter;

/// `"global"`, or a filter of points as `corpus`.
#[derive(Debug)]
pub struct WireIdf(pub Idf);

impl<'de> Deserialize<'de> for WireIdf {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<WireIdf, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = WireIdf;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"global\" or {\"corpus\": ..}")
            }
            fn visit_str<E: Error>(self, scope: &str) -> Result<WireIdf, E> {
                match scope {
                    "global" => Ok(WireIdf(Idf::Global)),
                    other => Err(E::unknown_variant(other, &["global"])),
                }
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WireIdf, A::Error> {
                let mut corpus = None;
                while let Some(key) = map.next_key::<String>()? {
                    if key == "corpus" {
                        corpus = Some(map.next_value::<WireFilter>()?);
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                let corpus = corpus.ok_or_else(|| A::Error::missing_field("corpus"))?;
                Ok(WireIdf(Idf::Corpus(Box::new(corpus))))
            }
        }
        d.deserialize_any(V)
    }
}
