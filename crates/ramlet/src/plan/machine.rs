//! A machine's speed: measured once, stored beside the data, read by the planner.

use std::time::Duration;

use ramlet_io::system::thread_cpu_time;
use ramlet_io::{DiskFigures, DiskProbe, Storage, system};
use ramlet_kernels::{CodeWidth, GROUP, Kernels, kernels};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::recovery::sidecar;

/// Of the file; one of another version is measured anew.
const VERSION: u32 = 1;

/// A machine, as far as a plan depends on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub version: u32,
    /// Of the processor.
    pub name: String,
    /// Cores that may be used.
    pub cores: usize,
    pub ram_bytes: u64,
    pub cpu: Cpu,
    pub disk: Disk,
}

/// Nanoseconds of one core for the inner loops at 100 dimensions, with data that the caches don't hold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// One code of 1 bit a dimension, by table look-up in groups.
    pub ns_per_code: f64,
    /// Five further bit planes of one vector.
    #[serde(alias = "ns_per_fine")]
    pub ns_per_extended: f64,
    /// One centroid of int8.
    pub ns_per_centroid: f64,
}

/// Random reads of 4 KiB; see [`DiskFigures`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    pub backend: String,
    pub iops_depth1: f64,
    pub iops_depth64: f64,
    pub latency_us_p50: f64,
    pub latency_us_p99: f64,
    pub cpu_us_depth1: f64,
    pub cpu_us_depth64: f64,
}

impl Default for Machine {
    /// The machine of the figures in DESIGN.md and docs/plan.md: 2 cores with AVX-512, a disk of 70,000 reads a second.
    fn default() -> Machine {
        Machine {
            version: VERSION,
            name: "reference: 2 cores, AVX-512".to_owned(),
            cores: 2,
            ram_bytes: 8_000_000_000,
            cpu: Cpu::REFERENCE,
            disk: Disk::default(),
        }
    }
}

impl Default for Disk {
    fn default() -> Disk {
        Disk {
            backend: "io_uring".to_owned(),
            iops_depth1: 13_000.0,
            iops_depth64: 70_000.0,
            latency_us_p50: 65.0,
            latency_us_p99: 250.0,
            cpu_us_depth1: 26.0,
            cpu_us_depth64: 3.1,
        }
    }
}

impl From<DiskFigures> for Disk {
    fn from(figures: DiskFigures) -> Disk {
        Disk {
            backend: figures.backend.to_owned(),
            iops_depth1: figures.iops_depth1,
            iops_depth64: figures.iops_depth64,
            latency_us_p50: figures.latency_us_p50,
            latency_us_p99: figures.latency_us_p99,
            cpu_us_depth1: figures.cpu_us_depth1,
            cpu_us_depth64: figures.cpu_us_depth64,
        }
    }
}

impl Machine {
    /// Its file in the data directory: written by `ramlet machine`, `ramlet plan --measure` and a server's first start, read by
    /// `ramlet plan` and every later start.
    pub const FILE: &str = "machine.json";

    /// Measures this machine: the disk for `probe.time`, the processor for a tenth of a second.
    pub fn measure(probe: &DiskProbe<'_>) -> Result<Machine> {
        let machine = system::machine();
        Ok(Machine {
            version: VERSION,
            name: machine.cpu,
            cores: machine.cores,
            ram_bytes: machine.ram_bytes,
            disk: probe.run()?.into(),
            cpu: Cpu::measure(kernels(), Duration::from_millis(100)),
        })
    }

    /// What an earlier process measured here; `None` when there is nothing that can be read.
    pub fn load(storage: &dyn Storage) -> Result<Option<Machine>> {
        let bytes = sidecar::load(storage, Machine::FILE)?;
        Ok(bytes.and_then(|bytes| Machine::parse(&bytes).ok()))
    }

    /// Reads what [`Machine::store`] wrote, or a person.
    pub fn parse(json: &[u8]) -> std::result::Result<Machine, String> {
        let machine: Machine = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        machine.check().map(|()| machine)
    }

    /// Writes it beside the data, whole or not at all.
    pub fn store(&self, storage: &dyn Storage) -> Result<()> {
        sidecar::store(storage, Machine::FILE, self)
    }

    fn check(&self) -> std::result::Result<(), String> {
        let (cpu, disk) = (&self.cpu, &self.disk);
        let figures = [
            ("cpu.ns_per_code", cpu.ns_per_code),
            ("cpu.ns_per_extended", cpu.ns_per_extended),
            ("cpu.ns_per_centroid", cpu.ns_per_centroid),
            ("disk.iops_depth1", disk.iops_depth1),
            ("disk.iops_depth64", disk.iops_depth64),
            ("disk.latency_us_p50", disk.latency_us_p50),
            ("disk.latency_us_p99", disk.latency_us_p99),
            ("disk.cpu_us_depth1", disk.cpu_us_depth1),
            ("disk.cpu_us_depth64", disk.cpu_us_depth64),
        ];
        for (name, value) in figures {
            if !(1e-6..=1e12).contains(&value) {
                return Err(format!("{name} is {value}, which is not plausible for a machine"));
            }
        }
        match self {
            Machine { version, .. } if *version != VERSION => {
                Err(format!("version {version} isn't {VERSION}"))
            }
            Machine { cores, .. } if !(1..=4096).contains(cores) => Err(format!("{cores} cores")),
            _ => Ok(()),
        }
    }
}

/// Dimensions of the calibration.
const DIMS: usize = 100;
/// Beyond the caches of one core.
const DATA_BYTES: usize = 2 << 20;

impl Cpu {
    /// Of the reference machine: `cargo bench -p ramlet-kernels`, 100 dimensions, AVX-512 with VBMI.
    pub const REFERENCE: Cpu = Cpu {
        ns_per_code: 0.6,
        ns_per_extended: 10.4,
        ns_per_centroid: 2.2,
    };

    /// Runs the inner loops for `time` in all, by the thread's own clock. Takes 2 MiB while it runs.
    pub fn measure(kernels: &Kernels, time: Duration) -> Cpu {
        let mut data = vec![0u8; DATA_BYTES];
        let mut state = 1u32;
        for byte in &mut data {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = (state >> 24) as u8;
        }
        let columns = DIMS.div_ceil(4);
        let stride = columns * 16 + GROUP * 7;
        let mut sums = vec![0u32; 64 * GROUP];
        let lut: Vec<u8> = data[..columns * 16].to_vec();
        let mut query: Vec<i8> = data[..DIMS].iter().map(|byte| *byte as i8).collect();
        query.resize(DIMS.next_multiple_of(64), 0);
        let (plane_bytes, planes) = (DIMS.div_ceil(8), 5);
        let mut dots = vec![0i32; 1024];
        let part = time / 3;
        Cpu {
            ns_per_code: fastest(&data, 64 * stride, 64 * GROUP, part, &mut |groups| {
                kernels.fast_scan_sums(&lut, groups, stride, columns, &mut sums);
            }),
            ns_per_extended: fastest(&data, 1024 * plane_bytes * planes, 1024, part, &mut |rows| {
                for (row, dot) in rows.chunks_exact(plane_bytes * planes).zip(&mut dots) {
                    *dot = kernels.planes_dot(&query, DIMS, planes as u32, row);
                }
            }),
            ns_per_centroid: fastest(&data, 1024 * DIMS, 1024, part, &mut |rows| {
                kernels.dot_codes(CodeWidth::Eight, &query[..DIMS], rows, DIMS, &mut dots);
            }),
        }
    }
}

/// Nanoseconds an item of the fastest piece of `data`: what others do on the machine only makes it slower.
fn fastest(data: &[u8], piece: usize, items: usize, time: Duration, run: &mut dyn FnMut(&[u8])) -> f64 {
    let start = thread_cpu_time();
    let mut least = f64::INFINITY;
    loop {
        // A whole round between looks at the clock: the pieces leave the near caches in turn.
        let before = thread_cpu_time();
        let mut pieces = 0;
        for piece in data.chunks_exact(piece) {
            run(piece);
            pieces += 1;
        }
        let now = thread_cpu_time();
        let ns = now.saturating_sub(before).as_nanos() as f64 / (pieces * items) as f64;
        least = least.min(ns.max(1e-3));
        if now.saturating_sub(start) >= time {
            return least;
        }
    }
}
