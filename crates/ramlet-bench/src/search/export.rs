//! Results in the forms that users of ann-benchmarks and big-ann-benchmarks know.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};

use crate::traffic::measure::Figures;

/// Columns of ann-benchmarks' `data_export.py` that a measurement from outside can fill; its latencies are in milliseconds.
const COLUMNS: &str = "algorithm,parameters,dataset,count,k-nn,qps,p50,p95,p99,p999";

/// One line a run.
pub fn write_csv(path: &Path, algorithm: &str, dataset: &str, k: usize, runs: &[Figures]) -> Result<()> {
    fs::write(path, csv(algorithm, dataset, k, runs)).with_context(|| path.display().to_string())
}

fn csv(algorithm: &str, dataset: &str, k: usize, runs: &[Figures]) -> String {
    let mut text = format!("{COLUMNS}\n");
    for run in runs {
        let setting = match run.rate {
            Some(rate) => format!("{} at {rate}/s", run.setting),
            None => run.setting.clone(),
        };
        let words = [algorithm, &setting, dataset].map(quoted).join(",");
        let numbers = [
            run.recall,
            run.queries_per_s,
            run.latency_ms_p50,
            run.latency_ms_p95,
            run.latency_ms_p99,
            run.latency_ms_p999,
        ];
        let numbers = numbers.map(|n| n.to_string()).join(",");
        text.push_str(&format!("{words},{k},{numbers}\n"));
    }
    text
}

/// RFC 4180.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}

/// big-ann's result of a run: queries and `k` as u32, then `k` row numbers a query, then as many distances. Ids that weren't found are
/// 2^32 - 1; distances aren't told by a search without scores and are written as their rank.
pub fn write_ibin(path: &Path, found: &[Option<Vec<u64>>], k: usize) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(&(found.len() as u32).to_le_bytes())?;
        file.write_all(&(k as u32).to_le_bytes())?;
        for list in found {
            for at in 0..k {
                let id = list.as_ref().and_then(|list| list.get(at)).copied();
                let id = id.and_then(|id| u32::try_from(id).ok()).unwrap_or(u32::MAX);
                file.write_all(&id.to_le_bytes())?;
            }
        }
        for _ in found {
            for at in 0..k {
                file.write_all(&(at as f32).to_le_bytes())?;
            }
        }
        file.flush()
    };
    write().with_context(|| path.display().to_string())
}

/// Seconds of the first answer to each query as `.npy`: ann-benchmarks' `times`. Infinite where there was none.
pub fn write_times(path: &Path, first_ns: &[Option<u64>]) -> Result<()> {
    // The head ends on a multiple of 64 bytes.
    let shape = format!(
        "{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}",
        first_ns.len()
    );
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    let length = (10 + shape.len() + 1).next_multiple_of(64) - 10;
    bytes.extend_from_slice(&(length as u16).to_le_bytes());
    bytes.extend_from_slice(format!("{shape:<width$}\n", width = length - 1).as_bytes());
    for ns in first_ns {
        let seconds = ns.map_or(f32::INFINITY, |ns| (ns as f64 / 1e9) as f32);
        bytes.extend_from_slice(&seconds.to_le_bytes());
    }
    fs::write(path, bytes).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_table() {
        let run = Figures {
            setting: "ef 64".into(),
            queries_per_s: 1500.5,
            recall: 0.95,
            latency_ms_p99: 4.0,
            ..Figures::default()
        };
        let text = csv(
            "ramlet, here",
            "glove",
            10,
            &[
                run.clone(),
                Figures {
                    rate: Some(100.0),
                    ..run
                },
            ],
        );
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].split(',').count(), 10);
        assert_eq!(lines[1], "\"ramlet, here\",ef 64,glove,10,0.95,1500.5,0,0,4,0");
        assert!(lines[2].contains("ef 64 at 100/s"));
    }

    #[test]
    fn found_rows_read_back() {
        let path = std::env::temp_dir().join(format!("ramlet-bench-test-{}.ibin", std::process::id()));
        write_ibin(&path, &[Some(vec![7, 3]), None], 3).expect("written");
        let bytes = fs::read(&path).expect("read");
        fs::remove_file(&path).expect("removed");
        let words: Vec<u32> = bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|w| u32::from_le_bytes(*w))
            .collect();
        let none = u32::MAX;
        assert_eq!(words[..8], [2, 3, 7, 3, none, none, none, none]);
        assert_eq!(words.len(), 2 + 12);
    }
}
