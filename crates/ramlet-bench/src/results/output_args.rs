//! Where the results of an experiment go, beside the table on standard output.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use crate::{Machine, Record};

/// Where the results go, beside the table on standard output.
#[derive(Debug, Clone, Default, Args)]
pub struct OutputArgs {
    /// Write all figures as JSON to this file, beside the machine's (`ram`: each row as soon as it is measured)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draw the curves as SVG into this directory
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
    /// Keep the figures under this directory, in YYYY-MM-DD-MACHINE/NAME.json
    #[arg(long, value_name = "DIR")]
    pub records: Option<PathBuf>,
}

/// What becomes the file at `path` when it is whole.
fn unfinished(path: &Path) -> PathBuf {
    let mut new = path.to_path_buf().into_os_string();
    new.push(".new");
    new.into()
}

/// Makes a directory that results go to, if there is none. Fails, naming the flag, where nothing can be written.
pub(crate) fn check_directory(flag: &str, path: &Path) -> Result<()> {
    let tried = path.join(format!(".ramlet-bench-{}", std::process::id()));
    std::fs::create_dir_all(path)
        .and_then(|()| std::fs::File::create(&tried))
        .and_then(|_| std::fs::remove_file(&tried))
        .with_context(|| format!("{flag} {}", path.display()))
}

impl OutputArgs {
    /// Fails when the results couldn't be written in the end: to be asked first.
    pub fn check(&self) -> Result<()> {
        let parent = |path: &Path| match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
            _ => PathBuf::from("."),
        };
        if let Some(path) = &self.json {
            let directory = parent(path);
            if !directory.is_dir() {
                bail!(
                    "--json {}: {} is not a directory",
                    path.display(),
                    directory.display()
                );
            }
            if path.is_dir() {
                bail!("--json {}: a directory; it takes a file", path.display());
            }
            let new = unfinished(path);
            std::fs::File::create(&new)
                .and_then(|_| std::fs::remove_file(&new))
                .with_context(|| format!("--json {}", path.display()))?;
        }
        for (flag, path) in [("--plots", &self.plots), ("--records", &self.records)] {
            if let Some(path) = path {
                check_directory(flag, path)?;
            }
        }
        Ok(())
    }

    /// Keeps what there is so far in the JSON file: of a run that is stopped it stays. The file is whole at any moment.
    pub fn keep_so_far(&self, results: &Value) -> Result<()> {
        let Some(path) = &self.json else {
            return Ok(());
        };
        let mut text = serde_json::to_vec_pretty(
            &serde_json::json!({ "machine": Machine::here(), "results": results }),
        )?;
        text.push(b'\n');
        let new = unfinished(path);
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, path));
        if written.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        written.with_context(|| path.display().to_string())
    }

    /// Writes `results` wherever they were asked for; `name` is that of the record. Says where on standard error.
    pub fn keep(&self, name: &str, results: &Value) -> Result<()> {
        self.keep_so_far(results)?;
        if let Some(path) = &self.json {
            eprintln!("{}", path.display());
        }
        if let Some(root) = &self.records {
            let record = Record::new(root, Machine::here(), SystemTime::now());
            let path = record
                .write(name, results)
                .with_context(|| root.display().to_string())?;
            eprintln!("{}", path.display());
        }
        Ok(())
    }

    /// Draws `plot` as `NAME.svg` if plots were asked for.
    pub fn draw(&self, name: &str, plot: &crate::Plot) -> Result<()> {
        let Some(directory) = &self.plots else {
            return Ok(());
        };
        std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        let path = directory.join(format!("{name}.svg"));
        plot.write_svg(&path)?;
        eprintln!("{}", path.display());
        Ok(())
    }
}
