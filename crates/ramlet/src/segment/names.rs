//! File names of a collection's directory. Our files have a form that foreign ones don't.

use ramlet_format::{Component, block};

/// `00000012.v0`: segment 12, vector slot 0.
pub fn segment_file(segment: u64, component: Component) -> String {
    format!("{segment:08}.{}", suffix(component))
}

/// The deletes of a segment, one file per version.
pub fn deletes_file(segment: u64, version: u64) -> String {
    format!("{segment:08}.del-{version:08}")
}

/// Scratch files of a job: removed by the job, or at the next open.
pub const SCRATCH_PREFIX: &str = "tmp-";

/// The checksum seed of a file: its blocks are valid in no other one.
pub fn seed(segment: u64, component: Component) -> u64 {
    block::seed(segment, component.code())
}

fn suffix(component: Component) -> String {
    let stem = stem(component);
    match component.slot() {
        Some(slot) => format!("{stem}{slot}"),
        None => stem.into(),
    }
}

/// What stands between the dot and the slot.
fn stem(component: Component) -> &'static str {
    match component {
        Component::Ids => "ids",
        Component::IdFilter => "idf",
        Component::RowIds => "row",
        Component::Vector { .. } => "v",
        Component::Presence { .. } => "has",
        Component::Position { .. } => "pos",
        Component::Centroids { .. } => "cen",
        Component::Payload => "pay",
        Component::Versions => "ver",
        Component::FieldIndex { .. } => "x",
        Component::Codes { .. } => "cod",
        Component::Extended { .. } => "fin",
        Component::ExtendedLow { .. } => "low",
        Component::Product { .. } => "pq",
        Component::Residual { .. } => "rst",
        Component::Sq8 { .. } => "cmp",
        Component::VectorByTenant { .. } => "ten",
        Component::Graph { .. } => "gra",
        Component::GraphMeta { .. } => "gme",
        Component::VectorRecords { .. } => "rec",
        Component::PartStarts { .. } => "par",
        Component::Postings { .. } => "pst",
        Component::Terms { .. } => "trm",
        Component::TextTerms { .. } => "twd",
        Component::TextLists { .. } => "tls",
        Component::TextLengths { .. } => "tln",
        Component::TextPositions { .. } => "tps",
        Component::Deletes => "del",
    }
}

/// Whether a file of this name is one that we write (and may remove when no manifest names it).
pub fn is_ours(name: &str) -> bool {
    if name.starts_with(SCRATCH_PREFIX) {
        return true;
    }
    let Some((number, suffix)) = name.split_once('.') else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_of = |component: Component| match (suffix.strip_prefix(stem(component)), component) {
        (None, _) => false,
        (Some(version), Component::Deletes) => version.strip_prefix('-').is_some_and(is_number),
        (Some(slot), _) => match component.slot() {
            Some(_) => is_number(slot),
            None => slot.is_empty(),
        },
    };
    number.len() >= 8 && is_number(number) && Component::KINDS.into_iter().any(is_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_and_foreign() {
        for kind in Component::KINDS {
            let name = segment_file(3, kind);
            // Files of deletes have a version.
            assert_eq!(is_ours(&name), kind != Component::Deletes, "{name}");
        }
        for name in [
            segment_file(3, Component::Vector { slot: 12 }),
            segment_file(123456789, Component::Payload),
            deletes_file(1, 2),
            "tmp-7".into(),
        ] {
            assert!(is_ours(&name), "{name}");
        }
        for name in [
            "notes.txt",
            "00000001",
            "00000001.vec",
            "00000001.ids2",
            "00000001.x",
            "00000001.del-",
            "1.ids",
            "MANIFEST-000000000001",
            "LOCK",
        ] {
            assert!(!is_ours(name), "{name}");
        }
    }
}
