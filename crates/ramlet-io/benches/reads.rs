//! Random 4K reads of one thread, per way of asking the kernel: `cargo bench -p ramlet-io --bench reads -- FILE [seconds]`.
//!
//! FILE is a large file (it is only read). Prints reads per second, CPU microseconds a read (user and system, of the
//! reading thread) and the latency of a batch, for batches of 1, 8 and 64: the library's own readers first, then rings
//! with registered files, registered buffers, both, and with polling before blocking. All rows of a batch size are
//! measured in 20 short turns within one run, so that a slow moment of the disk doesn't hit one of them only.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, types};
use ramlet_io::system::thread_cpu_time;
use ramlet_io::{BatchRead, BatchReader, MmapStorage, PAGE, PreadStorage, ReadFile, Storage, UringStorage};
use ramlet_memory::AnonBuf;

const BATCHES: [usize; 3] = [1, 8, 64];
const ROUNDS: usize = 20;

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with("--"));
    let Some(file) = args.next().map(PathBuf::from) else {
        println!("usage: cargo bench -p ramlet-io --bench reads -- FILE [seconds per row]");
        return;
    };
    let seconds: f64 = args.next().and_then(|text| text.parse().ok()).unwrap_or(0.5);
    println!(
        "{:<34}{:>6}{:>12}{:>13}{:>10}{:>10}",
        "how", "batch", "reads/s", "CPU us/read", "p50 us", "p99 us"
    );
    for batch in BATCHES {
        let mut ways = ways(&file, batch);
        let mut figures: Vec<Figures> = ways.iter().map(|_| Figures::default()).collect();
        for round in 0..ROUNDS {
            for (number, (way, figures)) in ways.iter_mut().zip(&mut figures).enumerate() {
                // Pages of its own: what one way has read, a cache below the kernel may have for the next.
                let seed = (round * 100 + number) as u64 * 7_919 + batch as u64;
                measure(
                    way.as_mut(),
                    batch,
                    Duration::from_secs_f64(seconds / ROUNDS as f64),
                    seed,
                    figures,
                );
            }
        }
        for (way, figures) in ways.iter().zip(&mut figures) {
            figures.print(&way.name(), batch);
        }
    }
}

/// One way to do a batch of reads.
trait Way {
    fn name(&self) -> String;
    fn pages(&self) -> u64;
    fn read(&mut self, pages: &[u64]);
}

fn ways(file: &Path, batch: usize) -> Vec<Box<dyn Way>> {
    let mut ways: Vec<Box<dyn Way>> = Vec::new();
    let (directory, name) = (
        file.parent().expect("a directory"),
        file.file_name().expect("a name"),
    );
    let directory = if directory.as_os_str().is_empty() {
        Path::new(".")
    } else {
        directory
    };
    let name = name.to_str().expect("UTF-8");
    for storage in [
        UringStorage::open(directory),
        PreadStorage::open(directory),
        MmapStorage::open(directory),
    ] {
        match storage {
            Ok(storage) => ways.push(Box::new(Library::new(storage, name, batch))),
            Err(error) => println!("not measured: {error}"),
        }
    }
    let plain = Raw {
        files: false,
        buffers: false,
        spin: Duration::ZERO,
    };
    for raw in [
        plain,
        // Again: how far apart two rows of one kind are is the noise.
        plain,
        Raw { files: true, ..plain },
        Raw {
            buffers: true,
            ..plain
        },
        Raw {
            files: true,
            buffers: true,
            ..plain
        },
        Raw {
            spin: Duration::from_micros(30),
            ..plain
        },
        Raw {
            spin: Duration::from_micros(200),
            ..plain
        },
    ] {
        match Ring::new(raw, file, batch) {
            Ok(ring) => ways.push(Box::new(ring)),
            Err(error) => println!("not measured: {raw:?}: {error}"),
        }
    }
    ways
}

/// A backend of the library.
struct Library {
    storage: Arc<dyn Storage>,
    file: Arc<dyn ReadFile>,
    reader: Box<dyn BatchReader>,
    buf: AnonBuf,
}

impl Library {
    fn new(storage: Arc<dyn Storage>, name: &str, batch: usize) -> Library {
        Library {
            file: storage.open(name).expect("the file"),
            reader: storage.reader(batch).expect("a reader"),
            buf: AnonBuf::new(batch * PAGE),
            storage,
        }
    }
}

impl Way for Library {
    fn name(&self) -> String {
        format!("backend {}", self.storage.backend())
    }

    fn pages(&self) -> u64 {
        self.file.len() / PAGE as u64
    }

    fn read(&mut self, pages: &[u64]) {
        let mut reads: Vec<_> = self
            .buf
            .chunks_mut(PAGE)
            .zip(pages)
            .map(|(out, page)| BatchRead {
                file: self.file.as_ref(),
                offset: page * PAGE as u64,
                out,
            })
            .collect();
        self.reader.read_batch(&mut reads).expect("reads");
    }
}

/// What a ring of our own does differently.
#[derive(Debug, Clone, Copy)]
struct Raw {
    files: bool,
    buffers: bool,
    /// Polls for completions so long before it blocks.
    spin: Duration,
}

struct Ring {
    raw: Raw,
    ring: IoUring,
    file: File,
    /// Outlives the ring's use of it: every batch is waited for.
    buf: AnonBuf,
}

impl Ring {
    fn new(raw: Raw, path: &Path, batch: usize) -> std::io::Result<Ring> {
        let file = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(path)?;
        let mut builder = IoUring::builder();
        builder
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun();
        let ring: IoUring = builder.build(batch.next_power_of_two() as u32)?;
        let mut buf = AnonBuf::new(batch * PAGE);
        if raw.files {
            ring.submitter().register_files(&[file.as_raw_fd()])?;
        }
        if raw.buffers {
            let region = libc::iovec {
                iov_base: buf.as_mut_ptr().cast(),
                iov_len: buf.len(),
            };
            // SAFETY: the buffer isn't moved or unmapped while the ring lives: both belong to this value, and the
            // buffer never grows.
            unsafe { ring.submitter().register_buffers(&[region])? };
        }
        Ok(Ring { raw, ring, file, buf })
    }

    fn entry(&mut self, number: usize, page: u64) -> io_uring::squeue::Entry {
        let out = self.buf[number * PAGE..].as_mut_ptr();
        let (len, offset) = (PAGE as u32, page * PAGE as u64);
        let fd = self.file.as_raw_fd();
        let entry = match (self.raw.files, self.raw.buffers) {
            (false, false) => opcode::Read::new(types::Fd(fd), out, len).offset(offset).build(),
            (true, false) => opcode::Read::new(types::Fixed(0), out, len)
                .offset(offset)
                .build(),
            (false, true) => opcode::ReadFixed::new(types::Fd(fd), out, len, 0)
                .offset(offset)
                .build(),
            (true, true) => opcode::ReadFixed::new(types::Fixed(0), out, len, 0)
                .offset(offset)
                .build(),
        };
        entry.user_data(number as u64)
    }
}

impl Way for Ring {
    fn name(&self) -> String {
        let mut name = String::from("ring");
        for (on, text) in [
            (self.raw.files, ", fixed file"),
            (self.raw.buffers, ", fixed buffer"),
        ] {
            name.push_str(if on { text } else { "" });
        }
        match self.raw.spin.as_micros() {
            0 => name,
            us => format!("{name}, polls {us} us"),
        }
    }

    fn pages(&self) -> u64 {
        self.file.metadata().expect("its length").len() / PAGE as u64
    }

    fn read(&mut self, pages: &[u64]) {
        for (number, page) in pages.iter().enumerate() {
            let entry = self.entry(number, *page);
            // SAFETY: the buffer lives until every completion of this batch is taken, below.
            unsafe { self.ring.submission().push(&entry).expect("room for a batch") };
        }
        let start = Instant::now();
        let mut left = pages.len();
        while left > 0 {
            let wait = if start.elapsed() < self.raw.spin { 0 } else { left };
            match wait {
                // Deferred task work runs only when asked for events.
                0 => {
                    // SAFETY: no argument is passed besides numbers.
                    unsafe {
                        let to_submit = self.ring.submission().len() as u32;
                        self.ring
                            .submitter()
                            .enter::<libc::sigset_t>(to_submit, 0, 1, None)
                            .expect("events");
                    }
                }
                wait => {
                    self.ring.submit_and_wait(wait).expect("completions");
                }
            }
            for done in self.ring.completion() {
                assert_eq!(done.result(), PAGE as i32);
                left -= 1;
            }
        }
    }
}

#[derive(Default)]
struct Figures {
    reads: u64,
    wall: Duration,
    cpu: Duration,
    batches_us: Vec<f32>,
}

impl Figures {
    fn print(&mut self, name: &str, batch: usize) {
        self.batches_us.sort_by(f32::total_cmp);
        let at = |share: f64| self.batches_us[((self.batches_us.len() - 1) as f64 * share) as usize];
        println!(
            "{name:<34}{batch:>6}{:>12.0}{:>13.2}{:>10.0}{:>10.0}",
            self.reads as f64 / self.wall.as_secs_f64(),
            self.cpu.as_secs_f64() * 1e6 / self.reads as f64,
            at(0.5),
            at(0.99),
        );
    }
}

fn measure(way: &mut dyn Way, batch: usize, time: Duration, seed: u64, figures: &mut Figures) {
    let pages = way.pages();
    let mut seed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut wanted = vec![0; batch];
    let (start, cpu) = (Instant::now(), thread_cpu_time());
    while start.elapsed() < time {
        for page in &mut wanted {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            *page = (seed >> 16) % pages;
        }
        let before = Instant::now();
        way.read(&wanted);
        figures.batches_us.push(before.elapsed().as_secs_f32() * 1e6);
        figures.reads += batch as u64;
    }
    figures.wall += start.elapsed();
    figures.cpu += thread_cpu_time() - cpu;
}
