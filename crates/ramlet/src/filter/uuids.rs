//! UUIDs, however they are written: with dashes or without, in either case.

pub(in crate::filter) fn parse_uuid(text: &str) -> Option<u128> {
    uuid::Uuid::try_parse(text).ok().map(|u| u.as_u128())
}
