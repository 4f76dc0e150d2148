//! All ways in which a collection can stand: index, what of it is in RAM, what it costs.

use super::bytes::{self, Codes};
use super::cost::{self, Reading, Work};
use super::counts::{self, Counts};
use super::machine::Machine;
use super::outcome::{ComponentPlan, IndexKind, Layout, Outcome, Place, PlanError};
use super::room::Memory;
use super::spec::{Ids, IndexWish, Spec, Wish};
use crate::types::Distance;

/// Vectors of fewer bytes are searched without an index.
const FLAT_BYTES: u64 = 10_000_000;
/// The index's part of a layout.
struct Shape {
    index: IndexKind,
    layout: Layout,
    work: Work,
    components: Vec<ComponentPlan>,
    counts: Counts,
    reading: Reading,
}

/// Every layout that the wishes allow, whether it fits or not. An error when they contradict each other.
pub fn all(spec: &Spec, machine: &Machine, memory: &Memory) -> Result<Vec<Outcome>, PlanError> {
    let mut outcomes = Vec::new();
    let room = memory.room(machine.cores).ok();
    for shape in shapes(spec, room) {
        let unasked = shape.index == IndexKind::Hnsw && spec.index == IndexWish::Auto;
        if !allowed(spec, &shape)
            || unasked && !memory.builds_graph(bytes::graph_scratch(spec), machine.cores)
        {
            continue;
        }
        let id_places: &[bool] = match spec.ids {
            Ids::Numbers => &[false, true],
            Ids::Uuids => &[false],
        };
        for &ids_in_ram in id_places {
            for payload_in_ram in payload_places(spec) {
                outcomes.push(shape.outcome(spec, machine, memory, ids_in_ram, payload_in_ram));
            }
        }
    }
    match outcomes.is_empty() {
        true => Err(PlanError::BadSpec(
            "no layout keeps all these wishes: codes in RAM need an index with codes, which Manhattan distance \
             doesn't have"
                .to_owned(),
        )),
        false => Ok(outcomes),
    }
}

/// With product codes of all digits, and of as many as an index gets that is built where `room` bytes may be pinned, if that is
/// known: the staircase speaks of whole ones.
fn shapes(spec: &Spec, room: Option<u64>) -> Vec<Shape> {
    let flat = spec.points * spec.row_bytes() < FLAT_BYTES;
    if flat && spec.index == IndexWish::Auto {
        return vec![flat_shape(spec, Place::Disk), flat_shape(spec, Place::Ram)];
    }
    let mut shapes = Vec::new();
    let coded = spec.metric != Distance::Manhattan;
    if spec.index != IndexWish::Hnsw || !coded {
        let all = spec.dims.div_ceil(2);
        let ivf = |spec, layout| ivf(spec, layout, all);
        shapes.push(ivf(spec, Layout::OnDisk));
        shapes.push(ivf(spec, Layout::VectorsInRam));
        if coded {
            shapes.extend([Layout::Signs, Layout::Product].map(|layout| ivf(spec, layout)));
            let digits = room.map_or(all, |room| {
                crate::segment::digits_for(spec.dims, spec.points, room)
            });
            if digits < all {
                shapes.push(self::ivf(spec, Layout::Product, digits));
            }
            let numbered = match spec.metric {
                Distance::Cosine | Distance::Dot => {
                    crate::segment::numbered_for(spec.dims, spec.points, room)
                }
                Distance::Euclid | Distance::Manhattan => None,
            };
            match numbered {
                // Fine codes of few bits aren't built beside them.
                Some(digits) => shapes.push(self::ivf(spec, Layout::Numbered, digits)),
                None if bytes::fine_low_bits(spec.dims).is_some() => shapes.push(ivf(spec, Layout::FineLow)),
                None => {}
            }
            if bytes::rest(spec).is_some() {
                shapes.push(ivf(spec, Layout::AllCodes));
            }
            shapes.extend([Layout::Fine, Layout::AllInRam].map(|layout| ivf(spec, layout)));
        }
    }
    let codes_fit = room.is_some_and(|room| crate::segment::codes_fit(spec.dims, spec.points, room));
    match spec.index {
        _ if !coded => {}
        IndexWish::Hnsw => {
            shapes.extend([Layout::OnDisk, Layout::Edges, Layout::AllInRam].map(|layout| graph(spec, layout)))
        }
        // Nobody asked for it: the engine builds one where codes don't fit.
        IndexWish::Auto if !codes_fit => shapes.push(graph(spec, Layout::OnDisk)),
        IndexWish::Auto | IndexWish::Ivf => {}
    }
    shapes
}

/// Whether the wishes about vectors and codes are kept.
fn allowed(spec: &Spec, shape: &Shape) -> bool {
    let vectors = matches!(shape.layout, Layout::AllInRam | Layout::VectorsInRam);
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
    let bytes = bytes::rows_file(spec.points, spec.row_bytes());
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
        components: vec![component("vectors", place, bytes, bytes)],
        counts,
        reading: Reading {
            pages: 1.0,
            rounds: 0.0,
            scan_bytes: if place == Place::Disk { bytes as f64 } else { 0.0 },
        },
    }
}

fn ivf(spec: &Spec, layout: Layout, digits: u64) -> Shape {
    let (rows, dims) = (spec.points, spec.dims);
    let (bits, low_bits) = (bytes::fine_bits(dims), bytes::fine_low_bits(dims));
    let in_ram = |held: bool| if held { Place::Ram } else { Place::Disk };
    let signs = matches!(
        layout,
        Layout::Signs | Layout::FineLow | Layout::Fine | Layout::AllCodes | Layout::AllInRam
    );
    let fine = matches!(layout, Layout::Fine | Layout::AllCodes | Layout::AllInRam);
    let vectors = matches!(layout, Layout::AllInRam | Layout::VectorsInRam);
    let mut components = vec![component(
        "centroids",
        Place::Ram,
        bytes::centroids(rows, dims),
        bytes::centroids(rows, dims),
    )];
    let mut add = |name, held: bool, bytes| components.push(component(name, in_ram(held), bytes, bytes));
    if spec.metric != Distance::Manhattan {
        add("coarse codes", signs, bytes::coarse(rows, dims));
        add("fine codes", fine, bytes::fine(rows, dims, bits));
        if let Some(bits) = low_bits.filter(|_| layout != Layout::Numbered) {
            add(
                "low fine codes",
                layout == Layout::FineLow,
                bytes::fine(rows, dims, bits),
            );
        }
        let (held, products) = match layout {
            Layout::Numbered => (true, bytes::numbered(rows, dims, digits)),
            _ => (layout == Layout::Product, bytes::product(rows, dims, digits)),
        };
        add("product codes", held, products);
        if let Some(bytes) = bytes::rest(spec) {
            add("rest codes", layout == Layout::AllCodes, bytes);
        }
    }
    add("vectors", vectors, bytes::vectors(spec));
    // Each row's place in cluster order.
    add("positions", false, bytes::rows_file(rows, 4));

    let mut reading = Reading {
        pages: bytes::row_pages(spec.row_bytes() + 4) as f64,
        rounds: 0.0,
        scan_bytes: 0.0,
    };
    let (work, codes) = match layout {
        Layout::OnDisk | Layout::VectorsInRam | Layout::Edges => (Work::Rows, None),
        Layout::Signs => (Work::Signs { planes: 0 }, Some(Codes::Signs { bits: 1 })),
        Layout::Product => (Work::Product { digits }, Some(Codes::Product { digits })),
        Layout::Numbered => (Work::Product { digits }, Some(Codes::Numbered { digits })),
        Layout::FineLow => {
            let bits = low_bits.unwrap_or(bits);
            (Work::Signs { planes: bits - 1 }, Some(Codes::Signs { bits }))
        }
        Layout::Fine | Layout::AllCodes | Layout::AllInRam => {
            (Work::Signs { planes: bits - 1 }, Some(Codes::Signs { bits }))
        }
    };
    let mut counts = counts::probing(spec, codes);
    if let Work::Signs { planes: 1.. } = work {
        counts.rows_refined = counts::survivors(counts.rows_scanned, dims);
    }
    match codes {
        Some(codes) if !vectors && layout != Layout::AllCodes => {
            counts.reads_vectors = counts::ambiguous(spec, codes);
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
            component("vectors", held(layout == Layout::AllInRam), vectors, 0),
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
    fn outcome(
        &self,
        spec: &Spec,
        machine: &Machine,
        memory: &Memory,
        ids_in_ram: bool,
        payload_in_ram: bool,
    ) -> Outcome {
        let (mut components, mut counts, mut reading) = (self.components.clone(), self.counts, self.reading);
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
        if payload > 0 && spec.with_payload && !payload_in_ram {
            counts.reads_payload = results;
            reading.rounds += results.min(1.0);
        }
        let ram_bytes: u64 = components.iter().map(|c| c.ram_bytes).sum();
        let disk_bytes = components.iter().map(|c| c.disk_bytes).sum();
        // Codes that are fitted into the room leave some of it.
        let fitted = match self.work {
            Work::Product { digits } if self.layout == Layout::Numbered => {
                crate::segment::room_of_numbered(spec.dims, spec.points, digits)
            }
            _ => 0,
        };
        let memory_bytes_min = memory.least_for(ram_bytes.max(fitted), machine.cores);
        let threads = memory
            .with(memory.bytes.max(memory_bytes_min))
            .threads(machine.cores);
        if self.work == Work::Graph {
            let width = crate::segment::graph_width(threads) as f64;
            let more = counts::WIDER * (width - 1.0) * counts.reads_vectors;
            counts.reads_vectors += more;
            reading.rounds = (reading.rounds - self.reading.rounds) + counts.reads_vectors / width;
        }
        let clusters = bytes::clusters(spec.points);
        Outcome {
            index: self.index,
            layout: self.layout,
            components,
            ram_bytes,
            disk_bytes,
            memory_bytes_min,
            counts,
            reads_per_query: counts.reads(),
            speed: cost::speed(spec, machine, self.work, &counts, &reading, threads),
            build_seconds: cost::build_seconds(spec, machine, self.work, clusters, disk_bytes),
        }
    }
}
