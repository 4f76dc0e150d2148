//! Where a collection's data is told to be, in the API's words.

use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Value, json};

use crate::files::Distance;

/// One row of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Vectors and index in RAM: a limit in which it reads from the disk doesn't serve
    InRam,
    /// The vectors on disk, the index in RAM
    VectorsOnDisk,
    /// Vectors and graph on disk
    AllOnDisk,
    /// As the server chooses
    Auto,
}

/// Of a query in memory nothing is read; a page every forty queries is still called so (the process's own code, faulted back in).
const READ_BYTES_IN_RAM: f64 = 100.0;

impl Placement {
    pub const ALL: [Placement; 4] = [
        Placement::InRam,
        Placement::VectorsOnDisk,
        Placement::AllOnDisk,
        Placement::Auto,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Placement::InRam => "in-ram",
            Placement::VectorsOnDisk => "vectors-on-disk",
            Placement::AllOnDisk => "all-on-disk",
            Placement::Auto => "auto",
        }
    }

    /// The body that makes a collection. `is_ramlet`: our own settings are added, where the API has no word for it.
    pub fn settings(self, dims: usize, distance: Distance, is_ramlet: bool, more: Option<&Value>) -> Value {
        let mut vectors = json!({ "size": dims, "distance": distance.api_name() });
        let mut out = json!({});
        match self {
            Placement::Auto => {}
            Placement::InRam => {
                vectors["on_disk"] = json!(false);
                out["hnsw_config"] = json!({ "on_disk": false });
            }
            Placement::VectorsOnDisk => {
                vectors["on_disk"] = json!(true);
                out["hnsw_config"] = json!({ "on_disk": false });
            }
            Placement::AllOnDisk => {
                vectors["on_disk"] = json!(true);
                out["hnsw_config"] = json!({ "on_disk": true });
                if is_ramlet {
                    // Else its choice would be clusters, whose codes fill what RAM there is.
                    vectors["index"] = json!("hnsw");
                }
            }
        }
        out["vectors"] = vectors;
        if let Some(more) = more {
            merge(&mut out, more);
        }
        out
    }

    /// Whether so many bytes read a query are in its spirit.
    pub fn may_read(self, bytes_per_query: f64) -> bool {
        self != Placement::InRam || bytes_per_query <= READ_BYTES_IN_RAM
    }
}

/// Fields of `more` go over those of `base`, objects field by field.
fn merge(base: &mut Value, more: &Value) {
    match (base, more) {
        (Value::Object(base), Value::Object(more)) => {
            for (key, value) in more {
                merge(base.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (base, more) => *base = more.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_by_the_api_s_names() {
        let of = |placement: Placement, is_ramlet| placement.settings(4, Distance::Cosine, is_ramlet, None);
        assert_eq!(
            of(Placement::Auto, true),
            json!({"vectors":{"size":4,"distance":"Cosine"}})
        );
        let foreign =
            json!({"vectors":{"size":4,"distance":"Cosine","on_disk":true},"hnsw_config":{"on_disk":true}});
        assert_eq!(of(Placement::AllOnDisk, false), foreign);
        assert_eq!(of(Placement::AllOnDisk, true)["vectors"]["index"], "hnsw");
        let more = json!({"vectors":{"on_disk":false},"shard_number":1});
        let merged = Placement::VectorsOnDisk.settings(4, Distance::Dot, true, Some(&more));
        assert_eq!(
            (&merged["vectors"]["on_disk"], &merged["shard_number"]),
            (&json!(false), &json!(1))
        );
        assert_eq!(merged["vectors"]["size"], 4);
    }

    #[test]
    fn only_in_ram_means_no_reads() {
        assert!(Placement::Auto.may_read(1e6) && Placement::InRam.may_read(0.0));
        assert!(!Placement::InRam.may_read(4096.0));
    }
}
