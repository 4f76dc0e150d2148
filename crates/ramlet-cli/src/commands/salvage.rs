//! `ramlet salvage DIR COLLECTION FILE`: what can be read of a damaged collection, as a snapshot.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use ramlet_io::Backend;

use crate::args::SalvageArgs;
use crate::output;

/// Writes the snapshot and says what isn't in it.
pub fn run(args: &SalvageArgs) -> Result<()> {
    let dir = args.dir.display();
    if !args.dir.is_dir() {
        bail!("{dir} is not a directory");
    }
    let Some(name) = args.file.file_name().and_then(|name| name.to_str()) else {
        bail!("{} is not a file name", args.file.display());
    };
    if args.file.exists() {
        bail!("{} exists already", args.file.display());
    }
    let parent = args.file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let open = |path: &Path| {
        let opened = ramlet_io::open_best(path, Backend::Pread);
        opened.with_context(|| format!("opening {}", path.display()))
    };
    let ((storage, _), (out, _)) = (open(&args.dir)?, open(parent)?);
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let found = ramlet::salvage(&storage, &args.collection, &out, name, now)
        .with_context(|| format!("salvaging {} in {dir}", args.collection))?;
    for lost in &found.lost {
        output::line(format_args!("left out: {lost}"))?;
    }
    output::line(format_args!(
        "{}: {} points in segments, {} log groups, {} losses",
        args.file.display(),
        found.points,
        found.groups,
        found.lost.len()
    ))?;
    output::line(format_args!(
        "restore it under a new name first: ramlet serve --data {dir} --snapshot {}:NEW_NAME",
        args.file.display()
    ))?;
    Ok(())
}
