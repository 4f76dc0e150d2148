//! The machine's profile: one format ([`Machine`]), one place (`machine.json` in the data directory), one way to measure it,
//! for `serve`, `plan` and `machine` alike.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ramlet::plan::Machine;
use ramlet_io::{DiskProbe, PROBE_FILE_BYTES, Storage};
use ramlet_memory::{Consumer, Ledger};

use crate::output::note;

/// Reads and buffers of the probe, and the data of the processor's calibration.
const MEMORY: u64 = 3 << 20;
/// Long enough for thousands of reads one by one.
const TIME: Duration = Duration::from_secs(2);
/// A server's first seconds belong to whoever waits for it; one that is stopped sooner isn't measured.
const DELAY: Duration = Duration::from_secs(10);

/// Measures the disk under `storage` for two seconds, and the processor for a tenth of one.
pub fn measure(storage: &dyn Storage, memory: Option<&Consumer>) -> ramlet::Result<Machine> {
    let start = Instant::now();
    Machine::measure(&DiskProbe {
        storage,
        now: &|| start.elapsed(),
        file_bytes: PROBE_FILE_BYTES,
        time: TIME,
        memory,
        seed: u64::from(std::process::id()),
    })
}

/// The profile in a data directory, which needn't be there; None with a line on standard error when it can't be used.
pub fn beside(data: &Path) -> Option<Machine> {
    let path = data.join(Machine::FILE);
    let machine = match std::fs::read(&path) {
        Ok(json) => Machine::parse(&json),
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => Err(error.to_string()),
    };
    machine
        .inspect_err(|why| note!("{} isn't used: {why}", path.display()))
        .ok()
}

/// Fills `slot`: at once from the data directory, else, if it may, by measuring on a thread of its own.
pub fn provide(
    storage: Arc<dyn Storage>,
    ledger: &Arc<Ledger>,
    may_measure: bool,
    slot: &Arc<OnceLock<Machine>>,
) {
    match Machine::load(storage.as_ref()) {
        Ok(Some(machine)) => {
            let _ = slot.set(machine);
            return;
        }
        Ok(None) => {}
        Err(error) => tracing::warn!("the machine's profile can't be read: {error}"),
    }
    if !may_measure {
        return;
    }
    let (ledger, slot) = (ledger.clone(), slot.clone());
    let spawned = std::thread::Builder::new().name("probe".into()).spawn(move || {
        std::thread::sleep(DELAY);
        match within(storage.as_ref(), &ledger) {
            Ok(machine) => {
                let disk = &machine.disk;
                tracing::info!(
                    "measured: {:.0} random reads a second, {:.0} us each alone, {:.1} us of CPU",
                    disk.iops_depth64,
                    disk.latency_us_p50,
                    disk.cpu_us_depth64
                );
                let _ = slot.set(machine);
            }
            Err(why) => tracing::warn!("the machine isn't measured, plans assume another one: {why}"),
        }
    });
    if let Err(error) = spawned {
        tracing::warn!("the machine isn't measured: {error}");
    }
}

/// Measures within the server's budget, and keeps the profile.
fn within(storage: &dyn Storage, ledger: &Arc<Ledger>) -> Result<Machine, String> {
    let consumer = ledger.consumer("machine probe", MEMORY);
    // Held while it measures: the calibration's data, and what the writer of the file buffers.
    let _held = consumer
        .reserve(MEMORY - (1 << 20))
        .map_err(|refused| refused.to_string())?;
    let machine = measure(storage, Some(&consumer)).map_err(|error| error.to_string())?;
    machine.store(storage).map_err(|error| error.to_string())?;
    Ok(machine)
}
