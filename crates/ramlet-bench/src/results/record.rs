//! Raw results, kept in `records/YYYY-MM-DD-<machine>/` and never edited.

use std::fs;
use std::io::Result;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::Machine;

/// Where the results of a day on a machine go.
#[derive(Debug, Clone)]
pub struct Record {
    directory: PathBuf,
    machine: Machine,
}

impl Record {
    /// `root` is the repository's `records/`.
    pub fn new(root: &Path, machine: Machine, now: SystemTime) -> Record {
        let days = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 86_400;
        let directory = root.join(format!("{}-{}", date(days), machine.name()));
        Record { directory, machine }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes `NAME.json`: `results` beside the machine's figures. An older result of that name keeps it; this one is `NAME-2.json`.
    pub fn write(&self, name: &str, results: &Value) -> Result<PathBuf> {
        fs::create_dir_all(&self.directory)?;
        let free = (1..)
            .map(|number| match number {
                1 => self.directory.join(format!("{name}.json")),
                _ => self.directory.join(format!("{name}-{number}.json")),
            })
            .find(|path| !path.exists());
        let path = free.unwrap_or_else(|| self.directory.join(format!("{name}.json")));
        let mut text = serde_json::to_vec_pretty(&json!({ "machine": self.machine, "results": results }))?;
        text.push(b'\n');
        fs::write(&path, text)?;
        Ok(path)
    }
}

/// `YYYY-MM-DD` of a day counted from 1970-01-01 (Hinnant's civil-from-days).
pub fn date(days: u64) -> String {
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let in_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * in_year + 2) / 153;
    let of_month = in_year - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..=9 => (year + era * 400, month + 3),
        _ => (year + era * 400 + 1, month - 9),
    };
    format!("{year:04}-{month:02}-{of_month:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (days, text) in [
            (0, "1970-01-01"),
            (11_016, "2000-02-29"),
            (20_777, "2026-11-20"),
            (19_722, "2023-12-31"),
        ] {
            assert_eq!(date(days), text);
        }
    }
}
