//! File names of a collection's directory. All ours are told from foreign ones by their form.

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
    match component {
        Component::Ids => "ids".into(),
        Component::IdFilter => "idf".into(),
        Component::RowIds => "row".into(),
        Component::Vector { slot } => format!("v{slot}"),
        Component::Presence { slot } => format!("has{slot}"),
        Component::Position { slot } => format!("pos{slot}"),
        Component::Centroids { slot } => format!("cen{slot}"),
        Component::Payload => "pay".into(),
        Component::Versions => "ver".into(),
        Component::FieldIndex { slot } => format!("x{slot}"),
        Component::Codes { slot } => format!("cod{slot}"),
        Component::Fine { slot } => format!("fin{slot}"),
        Component::FineLow { slot } => format!("low{slot}"),
        Component::Product { slot } => format!("pq{slot}"),
        Component::Rest { slot } => format!("rst{slot}"),
        Component::Compact { slot } => format!("cmp{slot}"),
        Component::Graph { slot } => format!("gra{slot}"),
        Component::GraphMeta { slot } => format!("gme{slot}"),
        Component::VectorRecords { slot } => format!("rec{slot}"),
        Component::PartStarts { slot } => format!("par{slot}"),
        Component::Postings { slot } => format!("pst{slot}"),
        Component::Terms { slot } => format!("trm{slot}"),
        Component::TextTerms { slot } => format!("twd{slot}"),
        Component::TextLists { slot } => format!("tls{slot}"),
        Component::TextLengths { slot } => format!("tln{slot}"),
        Component::TextPositions { slot } => format!("tps{slot}"),
        Component::Deletes => "del".into(),
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
    let known = ["ids", "idf", "row", "pay", "ver"].contains(&suffix)
        || [
            "v", "has", "pos", "cen", "cod", "fin", "low", "pq", "rst", "gra", "gme", "rec", "par", "pst",
            "trm", "twd", "tls", "tln", "tps", "x", "del-",
        ]
        .iter()
        .any(|p| {
            suffix
                .strip_prefix(p)
                .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
        });
    known && number.len() >= 8 && number.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_and_foreign() {
        for name in [
            segment_file(3, Component::Vector { slot: 12 }),
            segment_file(123456789, Component::Payload),
            segment_file(3, Component::TextLengths { slot: 1 }),
            segment_file(3, Component::TextPositions { slot: 1 }),
            deletes_file(1, 2),
            "tmp-7".into(),
        ] {
            assert!(is_ours(&name), "{name}");
        }
        for name in [
            "notes.txt",
            "00000001",
            "00000001.vec",
            "1.ids",
            "MANIFEST-000000000001",
            "LOCK",
        ] {
            assert!(!is_ours(name), "{name}");
        }
    }
}
