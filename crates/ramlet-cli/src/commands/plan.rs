//! `ramlet plan`: what a collection will need and how fast it will be, before anything is uploaded.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use ramlet::plan::{
    Cpu, Disk, Hardness, Ids, IndexKind, IndexWish, Layout, Machine, Memory, Outcome, Place, Plan, Spec,
    Step, Wish, Wishes, plan, plan_at_most,
};
use ramlet::{Datatype, Distance};
use ramlet_io::system::machine;
use ramlet_io::{Backend, open_best};

use crate::args::{self, PlanArgs};
use crate::commands::stairs::told_apart;
use crate::output::{self, note};
use crate::serve_settings::data_directory;
use crate::serving::profile;
use crate::settings::Sources;
use crate::size::ByteSize;

/// Prints the plan, or says why there is none.
pub fn run(args: &PlanArgs) -> Result<()> {
    let (machine, origin) = machine_of(args)?;
    let spec = spec_of(args);
    let bytes = args.memory.map(|size| size.0);
    let memory = Memory {
        search_threads: args.threads.map(usize::from),
        ..match args.in_process {
            true => Memory::in_process(bytes.unwrap_or(0)),
            false => Memory::of_server(bytes.unwrap_or(0)),
        }
    };
    let plan = match bytes {
        Some(_) => plan(&spec, &machine, &memory),
        None => plan_at_most(&spec, &machine, &memory),
    }
    .map_err(|why| anyhow!("{why}"))?;
    match args.json {
        true => output::line(format_args!("{}", serde_json::to_string_pretty(&plan)?)),
        false => {
            let disk = |step: &Step| disk_of((&spec, &machine, &memory), step);
            output::text(text(&plan, (&origin, &machine), bytes.is_some(), &disk))
        }
    }
}

/// Bytes on disk of what a step is about.
fn disk_of((spec, machine, memory): (&Spec, &Machine, &Memory), step: &Step) -> Option<u64> {
    let of_step = plan(spec, machine, &memory.with(step.memory_bytes_min)).ok()?;
    Some(of_step.chosen.disk_bytes)
}

fn spec_of(args: &PlanArgs) -> Spec {
    let wish = |given: Option<args::Place>| {
        given.map(|place| match place {
            args::Place::Ram => Wish::Pinned,
            args::Place::Disk => Wish::Cold,
        })
    };
    Spec {
        element: match args.element {
            args::PlanElement::F32 => Datatype::Float32,
            args::PlanElement::F16 => Datatype::Float16,
            args::PlanElement::U8 => Datatype::Uint8,
        },
        metric: match args.metric {
            args::Distance::Cosine => Distance::Cosine,
            args::Distance::Dot => Distance::Dot,
            args::Distance::Euclid => Distance::Euclid,
            args::Distance::Manhattan => Distance::Manhattan,
        },
        payload_bytes: args.payload_bytes,
        ids: if args.uuids { Ids::Uuids } else { Ids::Numbers },
        with_payload: args.with_payload,
        recall: args.recall,
        k: args.k,
        index: match (args.hnsw, args.ivf) {
            (true, _) => IndexWish::Hnsw,
            (_, true) => IndexWish::Ivf,
            _ => IndexWish::Auto,
        },
        hardness: if args.easy { Hardness::Easy } else { Hardness::Hard },
        wishes: Wishes {
            vectors: wish(args.vectors),
            codes: wish(args.codes),
            payload: wish(args.payload),
        },
        ..Spec::new(args.points, args.dim)
    }
}

/// The profile that was named, that lies beside the data, or that of the reference machine with this one's cores; and a
/// sentence that says which.
fn machine_of(args: &PlanArgs) -> Result<(Machine, String)> {
    if let Some(file) = &args.machine {
        let json = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?;
        let machine = Machine::parse(&json).map_err(|why| anyhow!("{}: {why}", file.display()))?;
        return Ok((machine, format!("machine as in {}", file.display())));
    }
    if let Some(directory) = &args.measure {
        // Made anew it would hide that the name is wrong, and another disk might be measured.
        if !directory.is_dir() {
            bail!("--measure {}: it is not a directory", directory.display());
        }
        return Ok((
            measure(directory)?,
            format!("machine as measured in {}", directory.display()),
        ));
    }
    let here = data_directory(None, &Sources::new(&[], None)?);
    if let Some(machine) = profile::beside(&here) {
        return Ok((machine, format!("machine as measured in {}", here.display())));
    }
    let this = machine();
    let guess = Machine {
        cores: this.cores,
        ram_bytes: this.ram_bytes,
        cpu: Cpu::measure(ramlet_kernels::kernels(), Duration::from_millis(100)),
        disk: Disk::default(),
        name: this.cpu,
        ..Machine::default()
    };
    let why = "processor as measured now; disk assumed to do 70,000 random reads a second: `ramlet machine` or --measure DIR measures it";
    Ok((guess, why.to_owned()))
}

/// Measures the disk of a directory for two seconds, and the processor; leaves the profile there.
fn measure(directory: &Path) -> Result<Machine> {
    let (storage, fallback) = open_best(directory, Backend::Auto)?;
    if let Some(why) = fallback {
        note!("reading by pread, not by io_uring: {why}");
    }
    let machine = profile::measure(storage.as_ref(), None)?;
    machine.store(storage.as_ref())?;
    Ok(machine)
}

/// The plan for people.
fn text(
    plan: &Plan,
    (origin, machine): (&str, &Machine),
    memory_was_given: bool,
    disk: &dyn Fn(&Step) -> Option<u64>,
) -> String {
    let mut out = String::new();
    let chosen = &plan.chosen;
    let spec = &plan.spec;
    let _ = writeln!(
        out,
        "{} point{} x {} {}, {:?}, recall {} of {}; {origin}\n",
        spec.points,
        if spec.points == 1 { "" } else { "s" },
        spec.dims,
        element_name(spec.element),
        spec.metric,
        spec.recall,
        spec.k
    );
    if memory_was_given {
        let _ = writeln!(out, "with {}:", ByteSize(plan.memory_bytes));
    } else {
        let _ = writeln!(
            out,
            "with everything useful in RAM ({}):",
            megabytes(plan.memory_bytes, true)
        );
    }
    let _ = writeln!(
        out,
        "{:<22}{:>8}{:>12}{:>12}",
        "component", "place", "RAM", "disk"
    );
    for part in &chosen.components {
        let place = match part.place {
            Place::Ram => "RAM",
            Place::Disk => "disk",
        };
        let ram = if part.ram_bytes == 0 {
            "-".to_owned()
        } else {
            megabytes(part.ram_bytes, false)
        };
        let _ = writeln!(
            out,
            "{:<22}{place:>8}{ram:>12}{:>12}",
            part.component,
            megabytes(part.disk_bytes, false)
        );
    }
    let _ = writeln!(
        out,
        "{:<22}{:>8}{:>12}{:>12}\nthe budget leaves {} for data\n",
        "in all",
        "",
        megabytes(chosen.ram_bytes, false),
        megabytes(chosen.disk_bytes, false),
        megabytes(plan.room_bytes, false),
    );
    let speed = &chosen.speed;
    let _ = writeln!(
        out,
        "{} queries/s with {} search threads on {} cores (limited by {}), {} and {} us of CPU each",
        queries(speed.qps),
        plan.search_threads,
        plan.cores,
        speed.limited_by,
        reads(chosen),
        microseconds(speed.cpu_us)
    );
    let _ = writeln!(
        out,
        "one query alone: p50 {} ms, p99 {} ms; index built in about {}\n",
        milliseconds(speed.latency_us_p50),
        milliseconds(speed.latency_us_p99),
        duration(chosen.build_seconds)
    );
    staircase(&mut out, plan, machine.ram_bytes, disk);
    for sentence in &plan.assumptions {
        let _ = writeln!(out, "- {sentence}");
    }
    out
}

/// What more or less memory would bring, in 80 columns. More memory than the machine has is of use to nobody.
fn staircase(out: &mut String, plan: &Plan, ram_bytes: u64, disk: &dyn Fn(&Step) -> Option<u64>) {
    let _ = writeln!(
        out,
        "{:<9}{:<6}{:<27}{:>8}{:>8}{:>11}{:>8}",
        "--memory", "index", "layout", "disk", "reads", "queries/s", "p50 ms"
    );
    let usable = |step: &&Step| step.chosen || ram_bytes == 0 || step.memory_bytes_min <= ram_bytes;
    let memory = |step: &Step| megabytes(step.memory_bytes_min, true).replace(' ', "");
    for step in told_apart(plan.steps.iter().filter(usable), memory, |step| step.chosen) {
        let _ = writeln!(
            out,
            "{:<9}{:<6}{:<27}{:>8}{:>8}{:>11}{:>8}{}",
            memory(step),
            index_name(step.index),
            layout_name(step.layout),
            disk(step).map_or("-".to_owned(), |bytes| megabytes(bytes, true).replace(' ', "")),
            match step.scan_bytes_per_query {
                0.0 => format!("{:.1}", step.reads_per_query),
                bytes => megabytes(bytes as u64, false).replace(' ', ""),
            },
            queries(step.speed.qps),
            milliseconds(step.speed.latency_us_p50),
            if step.chosen { " <" } else { "" },
        );
    }
    let _ = writeln!(out);
}

/// In MB up to 10 GB, rounded up when it is a need.
fn megabytes(bytes: u64, up: bool) -> String {
    let round = |value: f64| if up { value.ceil() } else { value };
    match bytes {
        1..50_000 if !up => "< 0.1 MB".to_owned(),
        0..10_000_000 if !up => format!("{:.1} MB", bytes as f64 / 1e6),
        0..10_000_000_000 => format!("{:.0} MB", round(bytes as f64 / 1e6)),
        _ => format!("{:.1} GB", round(bytes as f64 / 1e8) / 10.0),
    }
}

/// Random reads, and what is read in sequence beside them.
fn reads(chosen: &Outcome) -> String {
    let random = format!("{:.1} reads", chosen.reads_per_query);
    match chosen.scan_bytes_per_query {
        0.0 => random,
        bytes => format!("{random}, {} read in sequence", megabytes(bytes as u64, false)),
    }
}

/// A search of next to nothing takes what nothing here was measured for.
fn queries(qps: f64) -> String {
    match qps {
        qps if qps > 1e6 => "> 1000000".to_owned(),
        qps => round(qps),
    }
}

fn microseconds(us: f64) -> String {
    match us {
        us if us < 1.0 => "< 1".to_owned(),
        us => format!("{us:.0}"),
    }
}

fn milliseconds(us: f64) -> String {
    match us / 1e3 {
        ms if ms < 0.01 => "< 0.01".to_owned(),
        ms => format!("{ms:.2}"),
    }
}

/// Two digits: a prediction has no more.
fn round(value: f64) -> String {
    let digit = 10f64.powf(value.max(1.0).log10().floor() - 1.0);
    format!("{:.0}", (value / digit).round() * digit)
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}

fn element_name(element: Datatype) -> &'static str {
    match element {
        Datatype::Float32 => "f32",
        Datatype::Float16 | Datatype::Turbo4 | Datatype::Turbo8 | Datatype::Turbo16 => "f16",
        Datatype::Uint8 => "uint8",
    }
}

fn index_name(index: IndexKind) -> &'static str {
    match index {
        IndexKind::Flat => "flat",
        IndexKind::Ivf => "ivf",
        IndexKind::Hnsw => "hnsw",
    }
}

fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::OnDisk => "on disk",
        Layout::OneBit => "1-bit codes",
        Layout::Product => "product codes",
        Layout::ExtendedLow => "short extended codes",
        Layout::ProductWithIds => "product codes with row ids",
        Layout::Extended => "extended codes",
        Layout::Residual => "extended and residual codes",
        Layout::Edges => "edges and codes",
        Layout::VectorsInRam => "vectors in RAM",
        Layout::VectorsAndOneBit => "vectors and 1-bit codes",
        Layout::AllInRam => "all in RAM",
    }
}
