//! All possible layouts of a collection: the index, its parts in RAM, and their cost.

use ramlet_index::CodeKind;
use ramlet_index::ivf::{clusters_wanted, resident_bytes, trained_of};

use super::bytes::{self, Codes};
use super::cost::{self, Reading, Work};
use super::counts::{self, Counts};
use super::machine::Machine;
use super::outcome::{ComponentPlan, IndexKind, Layout, Outcome, Place};
use super::room::Memory;
use super::spec::{Ids, IndexWish, Spec, Wish};
use crate::limits::FILL_SCRATCH;
use crate::schema::{VectorField, metric};
use crate::segment::layout;
use crate::segment::layout::{IndexingThreshold, Kind, Room, Rows};

/// Caches take memory in pieces of this.
const ONE_BIT: &str = "1-bit codes";
const EXTENDED: &str = "extended codes";
const SHORT_EXTENDED: &str = "short extended codes";
const RESIDUAL: &str = "residual codes";
const POSITIONS: &str = "positions";
const ROWS: &str = "vectors";

/// The index's part of a layout.
#[derive(Clone)]
struct Shape {
    index: IndexKind,
    layout: Layout,
    work: Work,
    components: Vec<ComponentPlan>,
    counts: Counts,
    reading: Reading,
}

/// Pages of codes that a search reads at once.
const PAGES_AT_ONCE: f64 = 64.0;

/// Shares of codes that serve in part that are turns.
const IN_PART: u64 = 8;

/// Search threads up to which each is a turn; beyond, only twice as many.
const THREADS_EACH: usize = 16;

/// Of what the engine builds in this memory, the level that is fastest, and of equally fast ones the best; `None` where none keeps
/// the wishes.
pub fn held(spec: &Spec, machine: &Machine, memory: &Memory) -> Option<Outcome> {
    let room = memory.room(machine.cores).ok()?;
    if !memory.indexes(&spec.vector(), spec.points, machine.cores) {
        return None;
    }
    let built = Built::within(spec, machine, memory, room)?;
    let piece_bytes = memory.piece_bytes(machine.cores);
    let mut best: Option<(Shape, u64, Outcome)> = None;
    // The best level first: one that is worse has to be faster.
    for whole in shapes(spec, &built) {
        for &ids_in_ram in id_places(spec) {
            for payload_in_ram in payload_places(spec) {
                let needed = whole.ram_bytes(spec, ids_in_ram, payload_in_ram);
                let shape = match needed <= room {
                    true => Some(whole.clone()),
                    // What payloads would take goes to codes.
                    false if payload_in_ram => None,
                    false => whole.in_part(spec, &built, (needed - room, piece_bytes)),
                };
                let Some(shape) = shape else { continue };
                let needed = shape.ram_bytes(spec, ids_in_ram, payload_in_ram);
                let left = room.saturating_sub(needed);
                let outcome = shape.outcome(spec, machine, memory, (ids_in_ram, payload_in_ram), left);
                let faster = |(_, _, best): &(_, _, Outcome)| outcome.speed.qps > best.speed.qps;
                if best.as_ref().is_none_or(faster) {
                    best = Some((shape, needed, outcome));
                }
            }
        }
    }
    best.map(|(shape, needed, outcome)| Outcome {
        memory_bytes_min: shape.memory_bytes_min(spec, machine, memory, needed),
        ..outcome
    })
}

/// Amounts of memory at which [`held`] may change, ascending: where another level, other files or more threads begin. Between
/// two of them codes have more sub-quantizers, or more of them are in RAM, at most.
pub fn turns(spec: &Spec, machine: &Machine, memory: &Memory) -> Vec<u64> {
    let cores = machine.cores;
    let mut needs = vec![0];
    for built in Built::all(spec) {
        for shape in shapes(spec, &built) {
            for &ids_in_ram in id_places(spec) {
                let places = payload_places(spec).into_iter();
                let ram_bytes = |payload| shape.ram_bytes(spec, ids_in_ram, payload);
                needs.extend(places.map(|payload| ram_bytes(payload).max(shape.fitted_bytes(spec))));
                if let Some((_, codes, least)) = shape.part_of(spec, &built) {
                    let most = codes - least;
                    let parts = (0..IN_PART).map(|part| most / IN_PART * (IN_PART - part));
                    needs.extend(parts.map(|missing| ram_bytes(false).saturating_sub(missing)));
                }
            }
        }
    }
    needs.sort_unstable();
    needs.dedup();
    let mut turns: Vec<u64> = needs
        .iter()
        .map(|bytes| memory.least_for(*bytes, cores))
        .collect();
    turns.push(memory.least(|memory| memory.indexes(&spec.vector(), spec.points, cores)));
    turns.push(memory.least_for(layout::compared_bytes(&spec.vector(), spec.points), cores));
    if spec.index == IndexWish::Auto {
        turns.push(memory.least(|memory| memory.builds_graph(bytes::graph_scratch(spec), cores)));
        turns.push(memory.least(|memory| {
            let room = memory.room(cores);
            room.is_ok_and(|room| layout::codes_fit(&spec.vector(), spec.segment_rows(), room))
        }));
    }
    let most = memory.with(u64::MAX / 2).threads(cores);
    let doubled = std::iter::successors(Some(2 * THREADS_EACH), |threads| threads.checked_mul(2));
    let threads = (2..=THREADS_EACH)
        .chain(doubled)
        .take_while(|threads| *threads <= most);
    if memory.search_threads.is_none() {
        turns.extend(threads.map(|threads| memory.least(|memory| memory.threads(cores) >= threads)));
    }
    turns.sort_unstable();
    turns.dedup();
    turns
}

fn id_places(spec: &Spec) -> &'static [bool] {
    match spec.ids {
        Ids::Numbers => &[true, false],
        Ids::Uuids => &[false],
    }
}

/// What a build writes that depends on the memory it is made in.
struct Built {
    /// No index: all rows are compared.
    flat: bool,
    graph: bool,
    clusters: u64,
    /// Of these; the others are parts of them.
    trained: u64,
    /// Beside clusters.
    codes: Vec<CodeKind>,
    dims: usize,
}

impl Built {
    /// `None` where there is no room for the fewest clusters.
    fn within(spec: &Spec, machine: &Machine, memory: &Memory, room: u64) -> Option<Built> {
        let (vector, rows) = (spec.vector(), spec.segment_rows());
        let there = Room {
            most: room,
            scratch: memory.scratch(machine.cores),
            centroids: memory.centroids_room(rows.into(), machine.cores),
            disk_free: u64::MAX,
        };
        let flat = is_flat(spec, room);
        let graph = layout::kind(&vector, rows, &there) == Kind::Graph;
        let there = Room {
            scratch: memory.scratch_of_clusters(machine.cores),
            ..there
        };
        let clusters = match graph || flat {
            true => 0,
            false => layout::clusters(&vector, rows, &there).ok()?.into(),
        };
        Some(Built {
            flat,
            graph,
            clusters,
            trained: trained_of(clusters, there.scratch, vector.metric, vector.dim),
            codes: codes_of(&vector, rows, room),
            dims: vector.dim,
        })
    }

    /// All that there may be, product codes with the fewest sub-quantizers and the most.
    fn all(spec: &Spec) -> Vec<Built> {
        let (vector, rows) = (spec.vector(), spec.segment_rows());
        let graph = spec.index != IndexWish::Ivf && vector.metric.has_codes();
        let built = |graph: bool, codes| Built {
            flat: false,
            graph,
            clusters: clusters_wanted(spec.points),
            trained: clusters_wanted(spec.points),
            codes,
            dims: vector.dim,
        };
        let mut all = vec![built(graph, Vec::new())];
        let with_ids = layout::subquantizers_with_ids(&vector).into_iter().flatten();
        let rooms = with_ids
            .map(|subquantizers| layout::room_with_ids(vector.dim as u64, rows.into(), subquantizers));
        let rooms = [0, u64::MAX].into_iter().chain(rooms);
        all.extend(rooms.map(|room| built(false, codes_of(&vector, rows, room))));
        if is_flat(spec, u64::MAX) {
            let flat = Built {
                flat: true,
                ..built(false, Vec::new())
            };
            all.push(flat);
        }
        all
    }

    /// Sub-quantizers of its product codes, and whether these have the rows' numbers.
    fn products(&self) -> Option<(u64, bool)> {
        self.codes.iter().find_map(|kind| match *kind {
            CodeKind::Product { m, row_ids } => Some((m.into(), row_ids)),
            _ => None,
        })
    }

    /// Bits of the extended codes and of the smaller ones, where there are such.
    fn extended_bits(&self) -> [Option<u64>; 2] {
        let of = |wanted: Option<CodeKind>| {
            let built = self.codes.iter().find(|kind| wanted == Some(**kind))?;
            match *built {
                CodeKind::Extended { bits } => Some(u64::from(bits)),
                _ => None,
            }
        };
        [
            of(Some(CodeKind::extended(self.dims))),
            of(CodeKind::extended_low(self.dims)),
        ]
    }

    fn has(&self, is: impl Fn(&CodeKind) -> bool) -> bool {
        self.codes.iter().any(is)
    }
}

/// Whether so few points get no index where so many bytes may be cached.
fn is_flat(spec: &Spec, room: u64) -> bool {
    let vector = spec.vector();
    let room = || layout::room_of_rows(&vector, room);
    let is_indexed = || IndexingThreshold::Unset.wants(&vector, spec.segment_rows().into(), &room);
    spec.index == IndexWish::Auto && !is_indexed()
}

fn codes_of(vector: &VectorField, rows: u32, room: u64) -> Vec<CodeKind> {
    let codes = layout::codes(vector, Rows::alone(rows), room).into_iter();
    codes.map(|(_, kind)| kind).collect()
}

/// The levels of what was built, the best first, as far as the wishes allow.
fn shapes(spec: &Spec, built: &Built) -> Vec<Shape> {
    let mut shapes = Vec::new();
    if built.flat {
        shapes.extend([Place::Ram, Place::Disk].map(|place| flat_shape(spec, place)));
    } else {
        // One of the two is built, not both.
        if built.graph {
            let layouts = [Layout::AllInRam, Layout::Edges, Layout::OnDisk];
            shapes.extend(layouts.map(|layout| graph(spec, layout)));
        }
        if !built.graph {
            shapes.extend(clusters_of(spec, built));
        }
    }
    shapes.retain(|shape| allowed(spec, shape));
    shapes
}

fn clusters_of(spec: &Spec, built: &Built) -> Vec<Shape> {
    let [extended, low] = built.extended_bits();
    let there = layout::Parts {
        scanned: built
            .has(|kind| *kind == CodeKind::OneBit)
            .then_some(Layout::OneBit),
        extended: extended.map(|_| Layout::Extended),
        low: low.map(|_| Layout::ExtendedLow),
        product: built.products().map(|(_, row_ids)| match row_ids {
            true => Layout::ProductWithIds,
            false => Layout::Product,
        }),
        residual: built
            .has(|kind| matches!(kind, CodeKind::Residual { .. }))
            .then_some(Layout::Residual),
        rows: Some(Layout::VectorsInRam),
    };
    let layouts = layout::levels(there).into_iter().map(|level| match level {
        layout::Level {
            extended: Some(_),
            rows: Some(_),
            ..
        } => Layout::AllInRam,
        layout::Level {
            residual: Some(residual),
            ..
        } => residual,
        layout::Level {
            rows: Some(_),
            scanned: None,
            ..
        } => Layout::VectorsInRam,
        layout::Level { rows: Some(_), .. } => Layout::VectorsAndOneBit,
        level => level.extended.or(level.scanned).unwrap_or(Layout::OnDisk),
    });
    layouts.map(|layout| ivf(spec, layout, built)).collect()
}

/// Whether the wishes about vectors and codes are kept.
fn allowed(spec: &Spec, shape: &Shape) -> bool {
    let vectors = matches!(
        shape.layout,
        Layout::AllInRam | Layout::VectorsAndOneBit | Layout::VectorsInRam
    );
    let codes = shape
        .components
        .iter()
        .any(|c| c.component.contains("codes") && c.place == Place::Ram);
    let kept = |wish: Option<Wish>, in_ram: bool| match wish {
        Some(Wish::Pinned) => in_ram,
        Some(Wish::Cold) => !in_ram,
        Some(Wish::Cached) | None => true,
    };
    // Few vectors have no codes to be anywhere.
    let no_codes = shape.index == IndexKind::Flat;
    kept(spec.wishes.vectors, vectors) && (no_codes || kept(spec.wishes.codes, codes))
}

fn payload_places(spec: &Spec) -> Vec<bool> {
    match (spec.payload_bytes, spec.wishes.payload) {
        (0, _) | (_, Some(Wish::Cold)) => vec![false],
        (_, Some(Wish::Pinned)) => vec![true],
        // Where it brings nothing, it is left out.
        (_, Some(Wish::Cached) | None) => vec![false, true],
    }
}

fn component(component: &'static str, place: Place, ram_bytes: u64, disk_bytes: u64) -> ComponentPlan {
    ComponentPlan {
        component,
        place,
        ram_bytes: if place == Place::Ram { ram_bytes } else { 0 },
        disk_bytes,
    }
}

fn flat_shape(spec: &Spec, place: Place) -> Shape {
    let file = bytes::rows_file(spec.points, spec.row_bytes());
    let layout = match place {
        Place::Ram => Layout::VectorsInRam,
        Place::Disk => Layout::OnDisk,
    };
    let counts = Counts {
        rows_scanned: spec.points as f64,
        ..Counts::default()
    };
    Shape {
        index: IndexKind::Flat,
        layout,
        work: Work::Flat,
        components: vec![component(ROWS, place, bytes::flat_ram(spec), file)],
        counts,
        reading: Reading {
            pages: 1.0,
            rounds: 0.0,
            scan_bytes: if place == Place::Disk { file as f64 } else { 0.0 },
        },
    }
}

fn ivf(spec: &Spec, layout: Layout, built: &Built) -> Shape {
    let (rows, dims) = (spec.points, spec.dims);
    let [bits, low_bits] = built.extended_bits();
    let (bits, products) = (bits.unwrap_or(1), built.products());
    let in_ram = |held: bool| if held { Place::Ram } else { Place::Disk };
    let signs = matches!(
        layout,
        Layout::OneBit
            | Layout::ExtendedLow
            | Layout::Extended
            | Layout::Residual
            | Layout::VectorsAndOneBit
            | Layout::AllInRam
    );
    let extended = matches!(layout, Layout::Extended | Layout::Residual | Layout::AllInRam);
    let vectors = matches!(
        layout,
        Layout::AllInRam | Layout::VectorsAndOneBit | Layout::VectorsInRam
    );
    let held = resident_bytes(built.clusters, (metric(spec.metric), dims as usize), &built.codes);
    let mut components = vec![component("centroids", Place::Ram, held, held)];
    for &kind in &built.codes {
        let (name, held) = match kind {
            CodeKind::OneBit => (ONE_BIT, signs),
            CodeKind::Extended { bits: of } if u64::from(of) == bits => (EXTENDED, extended),
            CodeKind::Extended { .. } => (SHORT_EXTENDED, layout == Layout::ExtendedLow),
            CodeKind::Product { .. } => {
                let held = matches!(layout, Layout::Product | Layout::ProductWithIds);
                ("product codes", held)
            }
            CodeKind::Residual { .. } => (RESIDUAL, layout == Layout::Residual),
            CodeKind::Sq8 => ("SQ8 rows", false),
        };
        let [ram, disk] = bytes::codes(spec, kind);
        components.push(component(name, in_ram(held), ram, disk));
    }
    // Where rows are read by the dozen, or in the place of hits' scores.
    let is_rough = |bits: u64| bits <= u64::from(CodeKind::ROUGH_BITS);
    let reads_sq8 = match layout {
        Layout::Product => true,
        Layout::OneBit => true,
        Layout::Extended => is_rough(bits),
        Layout::ExtendedLow => low_bits.is_some_and(is_rough),
        _ => false,
    };
    let has_sq8 = built.has(|kind| *kind == CodeKind::Sq8);
    let sq8 = (reads_sq8 && has_sq8).then(|| bytes::sq8_pages(spec));
    components.push(component(
        ROWS,
        in_ram(vectors),
        bytes::vectors_ram(spec),
        bytes::vectors(spec),
    ));
    // Each row's place in cluster order.
    let positions = bytes::rows_file(rows, 4);
    components.push(component(POSITIONS, Place::Disk, positions, positions));

    let mut reading = Reading {
        pages: sq8.unwrap_or_else(|| bytes::row_pages(spec.row_bytes() + 4)) as f64,
        rounds: 0.0,
        scan_bytes: 0.0,
    };
    let (work, codes) = match layout {
        Layout::OnDisk | Layout::VectorsInRam | Layout::Edges => (Work::Rows, None),
        Layout::OneBit | Layout::VectorsAndOneBit => {
            (Work::Signs { planes: 0 }, Some(Codes::Signs { bits: 1 }))
        }
        Layout::Product | Layout::ProductWithIds => match products {
            Some((subquantizers, row_ids)) => {
                let codes = Codes::Product {
                    subquantizers,
                    row_ids,
                };
                (Work::Product { subquantizers }, Some(codes))
            }
            None => (Work::Rows, None),
        },
        Layout::ExtendedLow => {
            let bits = low_bits.unwrap_or(bits);
            (Work::Signs { planes: bits - 1 }, Some(Codes::Signs { bits }))
        }
        Layout::Extended | Layout::Residual | Layout::AllInRam => {
            (Work::Signs { planes: bits - 1 }, Some(Codes::Signs { bits }))
        }
    };
    let mut counts = counts::probing(spec, codes, built.clusters);
    counts.rows_scanned =
        counts::scanned_of_divided(spec, counts.rows_scanned, (built.clusters, built.trained));
    if let Work::Signs { planes: 1.. } = work {
        counts.rows_refined = counts::survivors(counts.rows_scanned, dims);
    }
    match codes {
        // Scored where they are, in RAM.
        Some(codes) if layout == Layout::VectorsAndOneBit => {
            counts.rows_refined = counts::ambiguous(spec, codes);
        }
        Some(codes) if !vectors && layout != Layout::Residual => {
            let spared = match codes {
                Codes::Product { row_ids: false, .. } if sq8.is_some() => counts::SQ8_READS,
                _ => 1.0,
            };
            counts.reads_vectors = counts::ambiguous(spec, codes) * spared;
            reading.rounds = counts.reads_vectors.min(1.0);
        }
        None if !vectors => {
            reading.scan_bytes = counts.rows_scanned * (spec.row_bytes() + 4) as f64;
            reading.rounds = 1.0;
        }
        _ => {}
    }
    Shape {
        index: IndexKind::Ivf,
        layout,
        work,
        components,
        counts,
        reading,
    }
}

/// On disk alone, with edges and codes in RAM, or with the vectors as well.
fn graph(spec: &Spec, layout: Layout) -> Shape {
    let figures = bytes::graph_of(spec);
    let nodes = counts::nodes(spec);
    let (work, reads) = match layout {
        Layout::Edges => (Work::GraphInRam, counts::rescored(spec)),
        Layout::AllInRam => (Work::GraphInRam, 0.0),
        _ => (Work::Graph, nodes),
    };
    let held = |held: bool| if held { Place::Ram } else { Place::Disk };
    let edges = bytes::graph_edges(spec);
    let vectors = spec.points * (spec.row_bytes() + 4);
    Shape {
        index: IndexKind::Hnsw,
        layout,
        work,
        components: vec![
            component("entry points", Place::Ram, figures.ram, figures.ram),
            component("nodes", Place::Disk, 0, figures.disk.saturating_sub(figures.ram)),
            // Taken from the nodes when the segment is opened.
            component("edges and codes", held(layout != Layout::OnDisk), edges, 0),
            component(ROWS, held(layout == Layout::AllInRam), vectors, 0),
        ],
        counts: Counts {
            rows_scanned: match work {
                Work::GraphInRam => counts::codes_in_ram(spec, figures.degree),
                _ => counts::codes_of_nodes(spec, nodes, figures.degree),
            },
            reads_vectors: reads,
            ..Counts::default()
        },
        reading: Reading {
            pages: (figures.read / 4096) as f64,
            rounds: match work {
                // How many a thread reads at once is known when the number of threads is.
                Work::Graph => reads,
                _ => reads.min(1.0),
            },
            scan_bytes: 0.0,
        },
    }
}

impl Shape {
    /// The codes that serve without all of them in RAM, how many bytes they are, and of how many at least.
    fn part_of(&self, spec: &Spec, built: &Built) -> Option<(&'static str, u64, u64)> {
        if spec.wishes.codes == Some(Wish::Pinned) {
            return None;
        }
        let name = match self.layout {
            Layout::OneBit if built.products().is_none() => ONE_BIT,
            Layout::ExtendedLow => SHORT_EXTENDED,
            Layout::Extended => EXTENDED,
            _ => return None,
        };
        let whole = self
            .components
            .iter()
            .find(|part| part.component == name)?
            .ram_bytes;
        let has_smaller = name == EXTENDED && built.extended_bits()[1].is_some();
        let least = match name {
            ONE_BIT => 0,
            _ => layout::extended_least(spec.dims as usize, whole, has_smaller),
        };
        Some((name, whole, least))
    }

    /// The same with `lacking` bytes less of its codes in RAM, in pieces of so many, if it serves so.
    fn in_part(&self, spec: &Spec, built: &Built, (lacking, piece_bytes): (u64, u64)) -> Option<Shape> {
        let (name, whole, least) = self.part_of(spec, built)?;
        let cached = whole.checked_sub(lacking)? / piece_bytes * piece_bytes;
        if cached < least {
            return None;
        }
        let mut shape = self.clone();
        let mut parts = shape.components.iter_mut();
        parts.find(|part| part.component == name)?.ram_bytes = cached;
        let missing = 1.0 - cached as f64 / whole as f64;
        match name {
            ONE_BIT => shape.lack_one_bit(spec, missing),
            _ => shape.lack_extended(spec, missing),
        }
        Some(shape)
    }

    /// Codes of clusters that aren't in RAM are read.
    fn lack_one_bit(&mut self, spec: &Spec, missing: f64) {
        let codes = self.counts.clusters_probed * missing;
        let vectors = self.counts.reads_vectors;
        let each = self.counts.rows_scanned / self.counts.clusters_probed;
        let pages = layout::one_bit_pages(spec.dims as usize, spec.segment_rows(), each);
        self.counts.reads_codes = codes;
        self.reading.pages = (vectors * self.reading.pages + codes * pages) / (vectors + codes);
        self.reading.rounds += (codes * pages / PAGES_AT_ONCE).max(codes.min(1.0));
    }

    /// Rows whose extended codes aren't in RAM are read as 1-bit codes leave them.
    fn lack_extended(&mut self, spec: &Spec, missing: f64) {
        let by_one_bit = counts::ambiguous(spec, Codes::Signs { bits: 1 });
        self.counts.reads_vectors += (by_one_bit - self.counts.reads_vectors).max(0.0) * missing;
        self.counts.rows_refined *= 1.0 - missing;
    }

    /// What of it and of ids and payloads is in RAM, and what has to be free to read it.
    fn ram_bytes(&self, spec: &Spec, ids_in_ram: bool, payload_in_ram: bool) -> u64 {
        let parts: u64 = self.components.iter().map(|part| part.ram_bytes).sum();
        let ids = u64::from(ids_in_ram) * bytes::ids_ram(spec.points);
        let payload = u64::from(payload_in_ram) * bytes::payload(spec.points, spec.payload_bytes);
        match parts + ids + payload {
            0 => 0,
            held => held + FILL_SCRATCH,
        }
    }

    /// The least memory for it, where so much of it is in RAM.
    fn memory_bytes_min(&self, spec: &Spec, machine: &Machine, memory: &Memory, needed: u64) -> u64 {
        let unasked = self.index == IndexKind::Hnsw && spec.index == IndexWish::Auto;
        let graph = match unasked {
            true => memory.least(|memory| memory.builds_graph(bytes::graph_scratch(spec), machine.cores)),
            false => 0,
        };
        graph.max(memory.least_for(needed.max(self.fitted_bytes(spec)), machine.cores))
    }

    /// Codes that are fitted into the room leave some of it.
    fn fitted_bytes(&self, spec: &Spec) -> u64 {
        match self.work {
            Work::Product { subquantizers } if self.layout == Layout::ProductWithIds => {
                layout::room_with_ids(spec.dims, spec.points, subquantizers)
            }
            // Written where they fit beside as many centroids as are wanted.
            Work::Signs { planes: 1.. } if self.layout != Layout::AllInRam => {
                let codes = self
                    .components
                    .iter()
                    .filter(|part| part.place == Place::Ram && part.component.ends_with("codes"));
                let codes = codes
                    .filter(|part| part.component != RESIDUAL)
                    .map(|part| part.ram_bytes);
                layout::room_with(spec.dims, spec.points, codes.sum())
            }
            _ => 0,
        }
    }

    /// What of `left` bytes goes to the first rows of what extended codes leave over.
    fn spare(&self, left: u64, piece_bytes: u64) -> u64 {
        let residual = self.components.iter().find(|part| part.component == RESIDUAL);
        let residual = residual.filter(|_| self.layout == Layout::Extended);
        residual.map_or(0, |residual| {
            (left / piece_bytes * piece_bytes).min(residual.disk_bytes)
        })
    }

    fn outcome(
        &self,
        spec: &Spec,
        machine: &Machine,
        memory: &Memory,
        (ids_in_ram, payload_in_ram): (bool, bool),
        left: u64,
    ) -> Outcome {
        let (mut components, mut counts, mut reading) = (self.components.clone(), self.counts, self.reading);
        let piece_bytes = memory.piece_bytes(machine.cores);
        let results = f64::from(spec.k).min(spec.points as f64);
        let place = |held| if held { Place::Ram } else { Place::Disk };
        components.push(component(
            "ids",
            place(ids_in_ram),
            bytes::ids_ram(spec.points),
            bytes::ids_disk(spec.points),
        ));
        if !ids_in_ram {
            counts.reads_ids = results;
            reading.rounds += results.min(1.0);
        }
        let payload = bytes::payload(spec.points, spec.payload_bytes);
        if payload > 0 {
            components.push(component("payload", place(payload_in_ram), payload, payload));
        }
        let reads_payload = payload > 0 && spec.with_payload && !payload_in_ram;
        if reads_payload {
            counts.reads_payload = results;
            reading.rounds += results.min(1.0);
        }
        // What filters read is there as a whole, if it doesn't take more than half of what is left.
        let positions = components.iter_mut().find(|c| c.component == POSITIONS);
        let left = match positions.filter(|c| c.disk_bytes <= left / 2) {
            Some(positions) => {
                (positions.place, positions.ram_bytes) = (Place::Ram, positions.disk_bytes);
                left - positions.disk_bytes
            }
            None => left,
        };
        // Rows without codes are there as far as there is room.
        let has_codes = self.components.iter().any(|c| c.component.ends_with("codes"));
        let may_be = self.index != IndexKind::Hnsw && !has_codes && spec.wishes.vectors != Some(Wish::Cold);
        let rows = components
            .iter_mut()
            .find(|c| c.component == ROWS && c.place == Place::Disk);
        if let Some(rows) = rows.filter(|_| may_be && left >= piece_bytes) {
            let whole = match self.index {
                IndexKind::Flat => bytes::flat_ram(spec),
                _ => bytes::vectors_ram(spec),
            };
            rows.ram_bytes = (left / piece_bytes * piece_bytes).min(whole);
            rows.place = Place::Ram;
            reading.scan_bytes *= 1.0 - rows.ram_bytes as f64 / whole as f64;
        }
        // Payloads that are read are kept in what is left.
        let spare = match reads_payload {
            true => 0,
            false => self.spare(left, piece_bytes),
        };
        let residual = components.iter_mut().find(|c| c.component == RESIDUAL);
        if let Some(residual) = residual.filter(|_| spare > 0) {
            counts.reads_vectors *= 1.0 - spare as f64 / residual.disk_bytes as f64;
            (residual.place, residual.ram_bytes) = (Place::Ram, spare);
        }
        let ram_bytes: u64 = components.iter().map(|c| c.ram_bytes).sum();
        let disk_bytes = components.iter().map(|c| c.disk_bytes).sum();
        let threads = memory.threads(machine.cores);
        if self.work == Work::Graph {
            let width = crate::segment::graph_width(threads) as f64;
            let more = counts::WIDER * (width - 1.0) * counts.reads_vectors;
            counts.reads_vectors += more;
            reading.rounds = (reading.rounds - self.reading.rounds) + counts.reads_vectors / width;
        }
        // Ids and payloads are a page each, whatever rows take.
        let others = counts.reads_ids + counts.reads_payload;
        if others > 0.0 {
            let own = counts.reads_vectors + counts.reads_codes;
            reading.pages = (own * reading.pages + others) / (own + others);
        }
        let clusters = clusters_wanted(spec.points);
        Outcome {
            index: self.index,
            layout: self.layout,
            components,
            ram_bytes,
            disk_bytes,
            memory_bytes_min: memory.bytes,
            counts,
            reads_per_query: counts.reads(),
            scan_bytes_per_query: reading.scan_bytes,
            speed: cost::speed(
                spec,
                machine,
                (self.work, !memory.in_process),
                &counts,
                &reading,
                threads,
            ),
            build_seconds: cost::build_seconds(spec, machine, self.work, clusters, disk_bytes),
        }
    }
}
