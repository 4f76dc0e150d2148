//! How one number, the memory that the user gave, is divided.

use std::fmt;

use crate::PAGE;

/// What the division is made for. Bytes; `None` lets the table choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetRequest {
    /// All the memory that the process may ever use, as a memory cgroup counts it.
    pub memory_bytes: u64,
    /// Threads that search; each has a slot of scratch memory.
    pub search_threads: usize,
    /// Of those, how many are threads of the caller's: the engine starts the others.
    pub slots_outside: usize,
    /// Threads beside those: network, log writer, job.
    pub other_threads: usize,
    /// What the process holds before it has any data, threads' stacks not counted: code, allocator, runtime.
    pub process_bytes: u64,
    /// The engine runs inside another program, which has a budget of its own: no sockets, no runtime, small threads.
    pub in_process: bool,
    pub log_buffers: Option<u64>,
    pub write_buffers: Option<u64>,
    pub job_scratch: Option<u64>,
    pub block_cache: Option<u64>,
    pub elastic: Option<u64>,
}

/// The memory of a process, divided: the rows add up to exactly what was given.
///
/// Reserves are for what the process doesn't allocate itself, arenas are taken once at start, what is set aside holds
/// cached data while its owners don't use it, elastic memory is reserved request by request, pinned memory holds data for speed,
/// headroom is never given out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetTable {
    pub memory_bytes: u64,
    pub search_threads: usize,
    /// Of those, how many are threads of the caller's.
    pub slots_outside: usize,
    /// Kernel memory charged to the process: page tables, sockets, rings, file system caches.
    pub kernel: u64,
    /// Code, allocator, async runtime, thread stacks.
    pub runtime: u64,
    /// Scratch memory of all search slots; see [`BudgetTable::search_slot`].
    pub search_slots: u64,
    pub log_buffers: u64,
    /// Memtables of all collections, until they are flushed into segments.
    pub write_buffers: u64,
    /// The one background job: flush, merge, snapshot, index build.
    pub job_scratch: u64,
    pub block_cache: u64,
    /// Requests, responses, connections.
    pub elastic: u64,
    /// Data kept in RAM to save reads: what nobody else was promised. With unused memory of other rows it grows to [`BudgetTable::pinned_max`].
    pub pinned: u64,
    pub headroom: u64,
}

/// What a row of the table is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKind {
    /// Held by the kernel or the runtime: not ours to hand out.
    Reserve,
    /// Taken once, at the start.
    Arena,
    /// Taken when it is needed, which always works; until then cached data may use it.
    Reclaimable,
    /// Handed out and given back by reservations.
    Elastic,
    /// Never handed out.
    Headroom,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetRow {
    pub name: &'static str,
    pub bytes: u64,
    pub kind: RowKind,
}

/// The memory given doesn't do for these threads and wishes: states both numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooSmall {
    pub memory_bytes: u64,
    pub memory_bytes_min: u64,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Measured in the server under load: 60 to 130 KB.
const THREAD_BYTES: u64 = 150_000;
/// A thread that only searches: stack and allocator cache.
const ENGINE_THREAD_BYTES: u64 = 80_000;

/// A row's least size and what it takes of the memory that is left when all have their least:
/// `permille` of what is beyond `after` while it is scarce; `base` + `permille_wide` of it when there is plenty; never
/// above `max`.
struct Share {
    least: u64,
    after: u64,
    permille: u64,
    base: u64,
    permille_wide: u64,
    max: u64,
}

// The permille columns must add up to less than 1000; pinned gets the rest. Data in RAM is what makes queries
// fast, so all others grow slower than the budget once they have enough to work well. What write buffers, job and
// requests don't use at the moment holds data as well: only slots, log and cache are lost to it for good.
// A million vectors of 100 dimensions: 6-bit codes are 87 MB and want 135 MB; 3-bit codes 48 MB, in-process 64 MB;
// product codes 25 MB, in-process 32 MB.
/// A search keeps 64 blocks of 4 KiB in flight, and lists of clusters and candidates; see [`slot_least`].
const SLOT: Share = share(256 * KIB, 40, 144 * KIB, 1, 2 * MIB).after(CODES_FIRST);
/// So much does for 16 of them, or 8 nodes of a graph.
const SLOT_SMALL: u64 = 128 * KIB;
/// All slots together, a share of the memory: with more threads each has less, as long as it works.
const SLOTS_SHARE: u64 = 30;
const LOG: Share = share(128 * KIB, 12, 768 * KIB, 4, 4 * MIB).after(CODES_FIRST);
const WRITE: Share = share(512 * KIB, 200, 6656 * KIB, 20, 1024 * MIB);
const JOB: Share = share(1280 * KIB, 250, 12 * MIB, 100, 2048 * MIB);
const CACHE: Share = share(128 * KIB, 12, 1536 * KIB, 10, 4096 * MIB).after(CODES_FIRST);
const ELASTIC: Share = share(1024 * KIB, 180, 8 * MIB, 25, 1024 * MIB);

/// So much is for data alone, but for the least that slots, log and cache work with: they are lost to data for good, and a MB
/// decides whether product codes of a million vectors fit into 32 MB.
const CODES_FIRST: u64 = 20 * MIB;

/// Fences and centroids of segments: a few bytes a block of data, without which it can't be read.
const PINNED_LEAST: u64 = 256 * KIB;

/// What caches leave free, so that a small request needs nothing back: within these, a 128th of the memory.
const CACHES_LEAVE: std::ops::RangeInclusive<u64> = 128 * KIB..=4 * MIB;

/// Most that requests may hold beyond the row `elastic`: the API's largest body, 32 MiB, twice, and a little, ...
const REQUESTS_MAX: u64 = 72 * MIB;
/// ... and one part in so many of the row of cached data, which holds codes while no such request is there.
const REQUESTS_SHARE: u64 = 5;

/// Memory below which a further search thread doesn't pay.
const MEMORY_PER_SEARCHER: u64 = 8_000_000;
/// So many do nevertheless in process, from [`MEMORY_OF_GRAPHS`] on: their slots divide what fewer have, and what is read from the disk wants company. A
/// million in 32 MB, recall .92: 1,760 queries/s with four threads, 1,965 with six, 2,040 with eight. (Not measured through a
/// server, which keeps its four.)
const SEARCHERS: usize = 8;
/// Memory below which a large collection is a graph on disk: it needs little in RAM but many reads in flight. A thread there.
const MEMORY_OF_GRAPHS: u64 = 32_000_000;
const MEMORY_PER_WALKER: u64 = 2_000_000;
/// Search threads a core: while one waits for the disk another computes.
const SEARCHERS_PER_CORE: usize = 4;
/// Memory from which on threads that hold connections search.
const MEMORY_OF_SLOTS_OUTSIDE: u64 = 64_000_000;

const fn share(least: u64, permille: u64, base: u64, permille_wide: u64, max: u64) -> Share {
    Share {
        least,
        after: 0,
        permille,
        base,
        permille_wide,
        max,
    }
}

impl BudgetRequest {
    pub fn new(memory_bytes: u64, search_threads: usize) -> BudgetRequest {
        BudgetRequest {
            memory_bytes,
            search_threads,
            slots_outside: 0,
            other_threads: 4,
            // Measured with all threads waiting: 1.3 MB anonymous, 0.3 MB of kernel. The rest is code that is in use,
            // 4 MB of the 8 MB that are mapped: pages of a file, which the kernel may take back and read again.
            process_bytes: 5_000_000,
            in_process: false,
            log_buffers: None,
            write_buffers: None,
            job_scratch: None,
            block_cache: None,
            elastic: None,
        }
    }

    /// For an engine inside another program, with its writer and maintenance threads and the code that is in use.
    pub fn in_process(memory_bytes: u64, search_threads: usize) -> BudgetRequest {
        BudgetRequest {
            other_threads: 2,
            process_bytes: 1_500_000,
            in_process: true,
            ..BudgetRequest::new(memory_bytes, search_threads)
        }
    }

    /// Search threads of a server with this much memory when nobody says how many: several a core, because they wait for the
    /// disk most of the time; fewer where memory is scarce, since each takes a slot.
    pub fn search_threads_for(memory_bytes: u64, cores: usize) -> usize {
        threads_for(memory_bytes, cores, (MEMORY_PER_SEARCHER, 0))
    }

    /// How many of a server's searchers are threads that hold connections: a small search needs no other thread there. As many as
    /// keep the cores busy while others wait for the disk; a thread a core is left to searches that take long, or half of the
    /// threads where there are fewer. None where memory is scarce: searches read much then, and what else a connection
    /// brings must not wait for that.
    pub fn slots_outside_for(memory_bytes: u64, search_threads: usize, cores: usize) -> usize {
        match memory_bytes < MEMORY_OF_SLOTS_OUTSIDE {
            true => 0,
            false => (search_threads - cores.min(search_threads.div_ceil(2))).min(2 * cores),
        }
    }

    /// [`BudgetRequest::search_threads_for`] an engine inside another program, where a thread is smaller: below 32 MB it is
    /// not codes that want the memory, but a graph that wants reads in flight.
    pub fn search_threads_in_process(memory_bytes: u64, cores: usize) -> usize {
        let wish = match memory_bytes < MEMORY_OF_GRAPHS {
            true => (MEMORY_PER_WALKER, 0),
            false => (MEMORY_PER_SEARCHER, SEARCHERS),
        };
        threads_for(memory_bytes, cores, wish)
    }
}

/// A thread for `each` so many bytes, but so many at `least`.
fn threads_for(memory_bytes: u64, cores: usize, (each, least): (u64, usize)) -> usize {
    let most = usize::try_from(memory_bytes / each)
        .unwrap_or(usize::MAX)
        .max(least);
    (cores * SEARCHERS_PER_CORE).min(most).max(cores.clamp(1, 2))
}

impl BudgetTable {
    /// Divides the memory; a pure function. Fails when a row would fall below what it needs to work at all.
    pub fn plan(request: BudgetRequest) -> Result<BudgetTable, TooSmall> {
        try_plan(&request, request.memory_bytes).ok_or_else(|| TooSmall {
            memory_bytes: request.memory_bytes,
            memory_bytes_min: least_memory(&request),
        })
    }

    /// Scratch memory of one search slot, whole pages.
    pub fn search_slot(&self) -> u64 {
        page_down(self.search_slots / self.search_threads.max(1) as u64)
    }

    /// Memory that reservations may hold in all: everything but the reserves and the headroom. The ledger's limit.
    pub fn ledger_limit(&self) -> u64 {
        self.memory_bytes - self.kernel - self.runtime - self.headroom
    }

    /// Most that cached data may ever hold: its own row and what the others don't use at the moment.
    pub fn pinned_max(&self) -> u64 {
        let leave = (self.memory_bytes / 128).clamp(*CACHES_LEAVE.start(), *CACHES_LEAVE.end());
        let taken = self.search_slots + self.log_buffers + self.block_cache + leave;
        self.ledger_limit().saturating_sub(taken).max(self.pinned)
    }

    /// Most that requests may ever hold, bodies and what is parsed from them: three quarters of the row `elastic`, or a share of
    /// the row of cached data where that is more.
    pub fn requests_max(&self) -> u64 {
        let share = page_down(self.pinned / REQUESTS_SHARE);
        (self.elastic / 4 * 3).max(share.min(REQUESTS_MAX))
    }

    /// Most that updates may hold between their request and the log.
    pub fn updates_max(&self) -> u64 {
        self.requests_max() / 4 * 3
    }

    /// Most that segments may hold to be readable at all: cached data and half of the elastic memory, but for what the
    /// largest requests take. These come and go, a flush must always find room.
    pub fn metadata_max(&self) -> u64 {
        let beyond = self.requests_max() - self.elastic / 4 * 3;
        self.pinned + self.elastic / 2 - beyond
    }

    pub fn rows(&self) -> [BudgetRow; 10] {
        let row = |name, bytes, kind| BudgetRow { name, bytes, kind };
        [
            row("kernel reserve", self.kernel, RowKind::Reserve),
            row("binary and runtime", self.runtime, RowKind::Reserve),
            row("search slots", self.search_slots, RowKind::Arena),
            row("log buffers", self.log_buffers, RowKind::Arena),
            row("write buffers", self.write_buffers, RowKind::Reclaimable),
            row("job scratch", self.job_scratch, RowKind::Reclaimable),
            row("block cache", self.block_cache, RowKind::Arena),
            row("elastic", self.elastic, RowKind::Elastic),
            row("cached data", self.pinned, RowKind::Elastic),
            row("headroom", self.headroom, RowKind::Headroom),
        ]
    }
}

/// The table for `memory` bytes, or None when that is too little.
fn try_plan(request: &BudgetRequest, memory: u64) -> Option<BudgetTable> {
    let slots = request.search_threads as u64;
    let threads = slots + request.other_threads as u64;
    let (headroom, kernel, thread) = match request.in_process {
        // The program around it keeps a reserve of its own.
        true => (
            memory / 40,
            kernel_in_process(memory, threads),
            ENGINE_THREAD_BYTES,
        ),
        false => (memory / 20, kernel_reserve(memory, threads), THREAD_BYTES),
    };
    // A thread's stack and allocator cache, when it has been busy.
    let runtime = request.process_bytes.saturating_add(threads * thread);
    let ours = memory
        .checked_sub(headroom)?
        .checked_sub(kernel)?
        .checked_sub(runtime)?;

    let least = |share: &Share, wish: Option<u64>| wish.unwrap_or(share.least);
    let slot_least = slot_least(memory, slots);
    let mut spare = ours.checked_sub(slots * slot_least)?.checked_sub(PINNED_LEAST)?;
    let wishes = [
        (&LOG, request.log_buffers),
        (&WRITE, request.write_buffers),
        (&JOB, request.job_scratch),
        (&CACHE, request.block_cache),
        (&ELASTIC, request.elastic),
    ];
    for (share, wish) in wishes {
        spare = spare.checked_sub(least(share, wish))?;
    }
    let [log_buffers, write_buffers, job_scratch, block_cache, elastic] =
        wishes.map(|(share, wish)| wish.unwrap_or_else(|| share.of(spare)));
    // The slots divide one share while memory is scarce, so that more threads don't starve the rest.
    let beyond = spare.saturating_sub(SLOT.after);
    let slot_more = (SLOT.of(spare) - SLOT.least).min(beyond / 1000 * SLOT.permille / slots.max(1));
    let search_slots = slots * page_down(slot_least + slot_more);
    let arenas = search_slots + log_buffers + write_buffers + job_scratch + block_cache + elastic;
    Some(BudgetTable {
        memory_bytes: memory,
        search_threads: request.search_threads,
        slots_outside: request
            .slots_outside
            .min(request.search_threads.saturating_sub(1)),
        kernel,
        runtime,
        search_slots,
        log_buffers,
        write_buffers,
        job_scratch,
        block_cache,
        elastic,
        pinned: ours.checked_sub(arenas)?,
        headroom,
    })
}

/// Bytes of a slot that everything else leaves to it: fewer where many threads share little memory.
fn slot_least(memory: u64, slots: u64) -> u64 {
    page_down((memory / SLOTS_SHARE / slots.max(1)).clamp(SLOT_SMALL, SLOT.least))
}

/// Page tables are 1/512 of what they map; a thread costs 27 KiB; the rest is sockets, rings and inodes: measured 0.6 MB
/// when idle, 1 to 3 MB while segments are written, 4 MB of sockets that nobody reads.
fn kernel_reserve(memory: u64, threads: u64) -> u64 {
    3_500_000 + memory.min(512_000_000) / 40 + memory / 256 + threads * 27 * KIB
}

/// The same without sockets and with few files.
fn kernel_in_process(memory: u64, threads: u64) -> u64 {
    800_000 + memory.min(512_000_000) / 160 + memory / 512 + threads * 27 * KIB
}

/// The least memory for which `try_plan` gives a table: it does for all above, so bisection finds it.
fn least_memory(request: &BudgetRequest) -> u64 {
    let (mut low, mut high) = (0u64, 1u64 << 62);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        match try_plan(request, middle) {
            Some(_) => high = middle,
            None => low = middle,
        }
    }
    high
}

fn page_down(bytes: u64) -> u64 {
    bytes - bytes % PAGE as u64
}

impl Share {
    const fn after(self, after: u64) -> Share {
        Share { after, ..self }
    }

    /// The row's size when `spare` bytes are left after all have their least.
    fn of(&self, spare: u64) -> u64 {
        let scarce = spare.saturating_sub(self.after) / 1000 * self.permille;
        let wide = self.base + spare / 1000 * self.permille_wide;
        page_down(self.least + scarce.min(wide).min(self.max))
    }
}

impl RowKind {
    /// What a row is for, as `ramlet serve` says it at its start.
    pub fn meaning(self) -> &'static str {
        match self {
            RowKind::Reserve => "left to the kernel and to the program itself",
            RowKind::Arena => "taken at the start",
            RowKind::Reclaimable => "taken when it is needed; caches have it until then",
            RowKind::Elastic => "taken and given back as it is needed",
            RowKind::Headroom => "kept free",
        }
    }
}

impl fmt::Display for BudgetTable {
    /// Aligned rows, in MB of 10^6 bytes, and what each is for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |name: &str, bytes: u64| format!("{name:<20} {:>10.2} MB", bytes as f64 / 1e6);
        for row in self.rows() {
            writeln!(f, "{}  {}", line(row.name, row.bytes), row.kind.meaning())?;
        }
        writeln!(f, "{}", line("total", self.memory_bytes))?;
        let most = "the most, while nobody else needs it; given back when somebody does";
        write!(f, "{}  {most}", line("cached data, most", self.pinned_max()))
    }
}

impl fmt::Display for TooSmall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Up for the one and down for the other, so that the numbers never look alike.
        let min = (self.memory_bytes_min as f64 / 1e5).ceil() / 10.0;
        let given = (self.memory_bytes as f64 / 1e5).floor() / 10.0;
        write!(
            f,
            "a budget of {given} MB is below the {min} MB that the process needs with these settings"
        )
    }
}

impl std::error::Error for TooSmall {}
