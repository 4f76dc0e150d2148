//! File descriptors: each segment of a collection keeps a dozen open, and what a shell gives is often 1,024.

use anyhow::{Result, bail};

/// Limits below this are told of at the start: some hundred collections come close.
const SMALL: u64 = 4096;

/// With fewer a server of one collection can't take connections.
const LEAST: u64 = 64;

/// Raises the limit as far as this process may. Nothing here waits in `select`, which is what the small one is for.
pub fn raise() -> Result<()> {
    match ramlet_io::system::raise_open_files() {
        Ok((_, now)) if now < LEAST => bail!(
            "{now} file descriptors are allowed, a server needs {LEAST} at least: raise the limit (`ulimit -n 4096`, or `LimitNOFILE=` of a systemd unit)"
        ),
        Ok((before, now)) if now < SMALL => tracing::warn!(
            "{now} file descriptors are allowed ({before} before the limit was raised): enough for some dozens of collections"
        ),
        Ok((before, now)) if before < SMALL => {
            tracing::info!("the limit of file descriptors was raised from {before} to {now}")
        }
        Ok(_) => {}
        Err(error) => tracing::warn!("the limit of file descriptors can't be raised: {error}"),
    }
    Ok(())
}
