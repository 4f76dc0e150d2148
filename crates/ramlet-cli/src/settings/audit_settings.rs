//! The audit log's settings, and its files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::ValueEnum;
use ramlet::Engine;
use ramlet_io::{Period, RollingBounds, RollingFiles};
use ramlet_server::Audit;

use crate::args::{Rotation, ServeArgs};
use crate::settings::Sources;
use crate::size::ByteSize;

const FILES: usize = 7;
const FILE_BYTES: u64 = 100_000_000;

/// Where the log goes, and how much of it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSettings {
    pub dir: PathBuf,
    pub bounds: RollingBounds,
    /// Addresses are those that `X-Forwarded-For` names.
    pub trusts_forwarded: bool,
}

impl AuditSettings {
    /// `None`: no log is written.
    pub fn decide(args: &ServeArgs, said: &Sources, data: &Path) -> Result<Option<AuditSettings>> {
        let truth = |flag: Option<bool>, key: &str| match flag {
            Some(told) => Ok(Some(told)),
            None => said.truth(key),
        };
        if truth(args.audit, "audit")? != Some(true) {
            return Ok(None);
        }
        let dir = match &args.audit_dir {
            Some(dir) => Some(dir.clone()),
            None => said.find("audit_dir").map(|found| found.value.into()),
        };
        Ok(Some(AuditSettings {
            dir: dir.unwrap_or_else(|| data.join("audit")),
            bounds: RollingBounds {
                period: period(args.audit_rotation, said)?,
                file_bytes: file_bytes(args.audit_file_size, said)?,
                files: files(args.audit_files, said)?,
            },
            trusts_forwarded: truth(args.audit_forwarded, "audit_forwarded")?.unwrap_or(false),
        }))
    }

    /// Begins the log; a directory that can't be written is told now.
    pub fn start(&self, engine: &Engine) -> Result<Arc<Audit>> {
        let opened = RollingFiles::open(&self.dir, "audit", self.bounds);
        let mut files = opened.with_context(|| format!("the audit log, {}", self.dir.display()))?;
        let sink = Box::new(move |lines: &[u8], now: &str| files.append(lines, now));
        let elastic = engine.budget().elastic;
        Audit::start(engine.ledger(), elastic, sink, self.trusts_forwarded).context("the audit log")
    }
}

fn period(flag: Option<Rotation>, said: &Sources) -> Result<Period> {
    let rotation = match (flag, said.find("audit_rotation")) {
        (Some(rotation), _) => rotation,
        (None, None) => Rotation::Daily,
        (None, Some(found)) => Rotation::from_str(&found.value, true)
            .map_err(|_| found.wrong(&"it is neither daily nor hourly"))?,
    };
    Ok(match rotation {
        Rotation::Daily => Period::Day,
        Rotation::Hourly => Period::Hour,
    })
}

fn files(flag: Option<usize>, said: &Sources) -> Result<usize> {
    let files = match (flag, said.find("audit_files")) {
        (Some(files), _) => files,
        (None, None) => FILES,
        (None, Some(found)) => found
            .value
            .parse()
            .map_err(|_| found.wrong(&"it is not a number"))?,
    };
    // As in the API: none is one.
    Ok(files.max(1))
}

fn file_bytes(flag: Option<ByteSize>, said: &Sources) -> Result<u64> {
    match (flag, said.find("audit_file_size")) {
        (Some(size), _) => Ok(size.0),
        (None, None) => Ok(FILE_BYTES),
        (None, Some(found)) => match found.value.parse::<ByteSize>() {
            Ok(size) => Ok(size.0),
            Err(why) => Err(found.wrong(&why)),
        },
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};
    use crate::settings::environment;

    fn decide(line: &str, env: &[(&str, &str)]) -> Result<Option<AuditSettings>> {
        let Command::Serve(args) = Cli::try_parse_from(line.split(' '))?.command else {
            panic!("{line} is no serve");
        };
        AuditSettings::decide(&args, &environment(env), Path::new("data"))
    }

    #[test]
    fn the_audit_log_by_every_name() {
        assert_eq!(decide("ramlet serve", &[]).unwrap(), None);
        let by_default = AuditSettings {
            dir: "data/audit".into(),
            bounds: RollingBounds {
                period: Period::Day,
                file_bytes: FILE_BYTES,
                files: FILES,
            },
            trusts_forwarded: false,
        };
        let theirs = [
            ("QDRANT__AUDIT__ENABLED", "true"),
            ("QDRANT__AUDIT__DIR", "elsewhere"),
            ("QDRANT__AUDIT__ROTATION", "hourly"),
            ("QDRANT__AUDIT__MAX_LOG_FILES", "0"),
            ("QDRANT__AUDIT__TRUST_FORWARDED_HEADERS", "true"),
        ];
        for (line, env) in [("ramlet serve --audit", &[][..]), ("ramlet serve", &theirs[..1])] {
            assert_eq!(decide(line, env).unwrap(), Some(by_default.clone()), "{line}");
        }
        let bounds = |files, file_bytes| RollingBounds {
            period: Period::Hour,
            file_bytes,
            files,
        };
        let settings = decide("ramlet serve", &theirs).unwrap().unwrap();
        assert_eq!(
            (settings.dir, settings.bounds, settings.trusts_forwarded),
            ("elsewhere".into(), bounds(1, FILE_BYTES), true)
        );
        let line =
            "ramlet serve --audit-dir here --audit-files 9 --audit-file-size 2MB --audit-forwarded off";
        let settings = decide(line, &theirs).unwrap().unwrap();
        assert_eq!(
            (settings.dir, settings.bounds, settings.trusts_forwarded),
            ("here".into(), bounds(9, 2_000_000), false)
        );
        assert_eq!(decide("ramlet serve --audit off", &theirs).unwrap(), None);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (name, value) in [
            ("QDRANT__AUDIT__ENABLED", "maybe"),
            ("RAMLET_AUDIT_ROTATION", "weekly"),
            ("RAMLET_AUDIT_FILES", "some"),
            ("RAMLET_AUDIT_FILE_SIZE", "large"),
        ] {
            let line = match name.ends_with("ENABLED") {
                true => "ramlet serve",
                false => "ramlet serve --audit",
            };
            let error = decide(line, &[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(&format!("{name}={value}")), "{error}");
        }
    }
}
