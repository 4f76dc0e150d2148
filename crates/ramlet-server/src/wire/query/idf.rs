//! `params.idf`: which points' statistics weigh a sparse query.

use std::fmt;

use ramlet::{Idf, SparseStatistics};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use crate::wire::filter::WireFilter;

/// `"global"`, or a filter of points as `corpus`.
#[derive(Debug)]
pub struct WireIdf(pub Idf);

fn counted<'de, A: MapAccess<'de>>(statistics: SparseStatistics, mut map: A) -> Result<WireIdf, A::Error> {
    while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(WireIdf(Idf::Counted(statistics)))
}

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
                    match key.as_str() {
                        "corpus" => corpus = Some(map.next_value::<WireFilter>()?),
                        // Our own: what shards of a collection counted together.
                        "statistics" => return counted(map.next_value()?, map),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                let corpus = corpus.ok_or_else(|| A::Error::missing_field("corpus"))?;
                Ok(WireIdf(Idf::Corpus(Box::new(corpus))))
            }
        }
        d.deserialize_any(V)
    }
}
