//! Fields that only matter by being there.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::error::{ApiError, ApiResult};

/// Whether a field was given a value: null, `[]` and `{}` are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HasValue(pub bool);

impl HasValue {
    /// Refuses the request when the field was given.
    pub fn refuse(self, feature: &str) -> ApiResult<()> {
        if self.0 {
            Err(ApiError::unsupported(feature))
        } else {
            Ok(())
        }
    }
}

impl<'de> Deserialize<'de> for HasValue {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<HasValue, D::Error> {
        d.deserialize_any(GivenVisitor)
    }
}

struct GivenVisitor;

impl<'de> Visitor<'de> for GivenVisitor {
    type Value = HasValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E: Error>(self) -> Result<HasValue, E> {
        Ok(HasValue(false))
    }
    fn visit_bool<E: Error>(self, _: bool) -> Result<HasValue, E> {
        Ok(HasValue(true))
    }
    fn visit_u64<E: Error>(self, _: u64) -> Result<HasValue, E> {
        Ok(HasValue(true))
    }
    fn visit_i64<E: Error>(self, _: i64) -> Result<HasValue, E> {
        Ok(HasValue(true))
    }
    fn visit_f64<E: Error>(self, _: f64) -> Result<HasValue, E> {
        Ok(HasValue(true))
    }
    fn visit_str<E: Error>(self, _: &str) -> Result<HasValue, E> {
        Ok(HasValue(true))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<HasValue, A::Error> {
        let mut any = false;
        while seq.next_element::<IgnoredAny>()?.is_some() {
            any = true;
        }
        Ok(HasValue(any))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<HasValue, A::Error> {
        let mut any = false;
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            any = true;
        }
        Ok(HasValue(any))
    }
}
