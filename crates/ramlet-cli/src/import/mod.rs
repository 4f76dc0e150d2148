//! `ramlet import`: files of documents or vectors, or another server's collections, into a server, over the REST API.

pub mod api;
mod batch;
mod byte_input;
#[cfg(feature = "parquet")]
mod cells;
mod chain;
#[cfg(feature = "parquet")]
mod column_file;
pub mod column_types;
mod copied_settings;
mod csv_rows;
mod document;
mod document_source;
mod documents;
mod filled_collection;
mod format;
mod ids;
pub mod interrupt;
mod json_values;
mod lines;
mod matched_files;
mod migrate;
mod open_source;
mod place;
mod progress;
mod resume;
mod row_source;
mod source;
mod upload;
mod value_range;
mod vector_text;

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::HumanCount;
use ramlet_bench::json;

use crate::args::{Ids, ImportArgs};
use crate::commands::stairs;
use crate::output::{self, note};
use api::Api;
use byte_input::is_stdin;
use filled_collection::FilledCollection;
use ids::Numbering;
use matched_files::matched_all;
use open_source::Opener;
use place::Place;
use progress::Progress;
use source::{Source, Target};

const POLL_EVERY: Duration = Duration::from_millis(300);
/// A server that stays below what was put in for so long has lost points.
const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// Runs an import to its end; prints what it did.
pub fn run(args: &ImportArgs) -> Result<()> {
    interrupt::listen()?;
    match (&args.from, &args.collection) {
        (Some(from), _) => migrate::run(args, from),
        (None, Some(collection)) => run_files(args, collection),
        // The command line asks for them.
        (None, None) => bail!("files and --collection, or --from"),
    }
}

/// Shows `each` the points of a file as they would be sent: for fuzz targets.
pub fn each_point(path: &Path, takes_ids: bool, each: &mut dyn FnMut(&[u8])) -> Result<()> {
    let mut source = Opener::default().open(path)?;
    let mut target = Target::default();
    match takes_ids && source.has_ids() {
        true => target.numbering = Numbering::Own,
        false => target.numbers_all = true,
    }
    source.aim(target);
    let mut point = Vec::new();
    while source.read(&mut point)? {
        each(&point);
        point.clear();
    }
    Ok(())
}

/// An import of files, with all that is looked at before anything is made.
struct Import<'a> {
    args: &'a ImportArgs,
    api: &'a Api,
    collection: FilledCollection<'a>,
    name: &'a str,
    source: Box<dyn Source>,
    place: Option<Place>,
}

fn run_files(args: &ImportArgs, name: &str) -> Result<()> {
    let files = matched_all(&args.files)?;
    let source = Opener::new(args).open_all(&files)?;
    check_first(args, source.as_ref())?;
    let api = Api::new(&args.url, args.api_key.clone(), args.parallel)?;
    api.check_reachable()?;
    let place = match args.resume {
        true => Some(Place::open(&args.state, &files, &args.url, name)?),
        false => None,
    };
    let collection = FilledCollection::look(&api, name, args, source.as_ref())?;
    let import = Import {
        args,
        api: &api,
        collection,
        name,
        source,
        place,
    };
    import.run()?;
    match args.wait {
        true => wait_until_green(&api, name),
        false => Ok(()),
    }
}

/// What the first point shows to be a mistake.
fn check_first(args: &ImportArgs, source: &dyn Source) -> Result<()> {
    if args.resume && args.files.iter().any(|file| is_stdin(file)) {
        bail!("an import from standard input can't be resumed: --resume needs files");
    }
    if source.counts_points() && !args.text.is_empty() && args.payload.is_none() {
        bail!(
            "--text {}: vectors have no fields; give a file with fields by --payload",
            args.text.join(",")
        );
    }
    let Some((field, numbers)) = source.stray_vector() else {
        return Ok(());
    };
    let cure = format!("--vector-field '{field}' makes it the vector");
    let what = match field.ends_with('*') {
        true => format!("{numbers} columns of numbers"),
        false => format!("a list of {numbers} numbers"),
    };
    match source.layout().is_empty() && args.vector_field.is_empty() {
        true => bail!(
            "{}: no vector, and '{field}' is {what}: {cure}, --vector-field none leaves it in the payload",
            source.at()
        ),
        false => {
            note!("'{field}', {what}, becomes payload; {cure}");
            Ok(())
        }
    }
}

impl Import<'_> {
    fn run(mut self) -> Result<()> {
        let filled = self.fill();
        if filled.is_err() {
            self.collection.undo();
        }
        filled
    }

    fn fill(&mut self) -> Result<()> {
        let numbering = self.numbering()?;
        let (args, collection) = (self.args, &self.collection);
        let ranges = collection.make(args, self.source.as_ref())?;
        if let Some(place) = &mut self.place {
            check_place(self.api, self.name, place, collection.is_new())?;
            place.number_by(&numbering)?;
        }
        self.source.aim(Target {
            numbers_all: args.ids != Ids::File,
            numbering: numbering.clone(),
            ranges,
            needs_vectors: collection.is_new(),
            fields: args.text.clone(),
            first_row: 0,
        });
        let first = self.skip()?;
        let plan = upload::Plan {
            collection: self.name,
            batch: args.batch,
            connections: args.parallel,
            first,
            limit: args.limit.unwrap_or(u64::MAX).saturating_sub(first - args.offset),
            place: self.place.as_ref(),
            numbering: &numbering,
        };
        let progress = Progress::new(progress_end(self.source.as_ref(), args));
        let sent = upload::run(self.api, self.source.as_mut(), &plan, &progress);
        progress.finish();
        let sent = sent?;
        if sent == 0 && first == args.offset {
            bail!("{}", self.nothing());
        }
        if let Some(place) = self.place.take() {
            place.finish()?;
        }
        self.report(sent, first - args.offset, &progress)
    }

    /// Leaves out what isn't wanted or is in already; returns the number of the first point to be sent.
    fn skip(&mut self) -> Result<u64> {
        let first = self.place.as_ref().map_or(self.args.offset, Place::points);
        if first > self.args.offset {
            note!("continuing after the first {} points", HumanCount(first));
        }
        let skipped = self.source.skip(first)?;
        if skipped < first {
            bail!(
                "--offset skips the first {first} points, but there are only {skipped}: nothing is left to import"
            );
        }
        Ok(first)
    }

    fn nothing(&self) -> String {
        match self.args.limit {
            Some(0) => "nothing was imported: --limit is 0".to_string(),
            _ if self.args.offset == 0 => "nothing was imported: the files have no points".to_string(),
            _ => format!(
                "nothing was imported: there are no points after the first {}",
                self.args.offset
            ),
        }
    }

    fn report(&self, sent: u64, skipped: u64, progress: &Progress) -> Result<()> {
        let skipped = match skipped {
            0 => String::new(),
            points => format!(", {} were already imported and skipped", HumanCount(points)),
        };
        output::line(format_args!(
            "imported {} points into '{}' in {:.1} s, {} points/s: {}{skipped}",
            HumanCount(sent),
            self.name,
            progress.elapsed().as_secs_f64(),
            HumanCount(progress.rate(sent)),
            self.collection.outcome(sent)?,
        ))?;
        for field in self.source.unseen() {
            note!("no point has a text in the field '{field}' of --text: its text index is empty");
        }
        match stairs::of_server(self.api) {
            Some(stairs) => output::text(format_args!("\n{stairs}")),
            None => Ok(()),
        }
    }

    /// Which ids the points get. An import that goes on has those that it began with.
    fn numbering(&self) -> Result<Numbering> {
        let before = self.collection.before;
        let begun = self
            .place
            .as_ref()
            .filter(|_| before > 0)
            .and_then(Place::numbering);
        if let Some(numbering) = begun {
            return Ok(numbering.clone());
        }
        let first = self.args.first_id;
        if first > 0 && self.args.ids != Ids::Line {
            bail!("--first-id {first} needs --ids line, which numbers the rows from it");
        }
        match self.args.ids {
            Ids::File if self.source.has_ids() => Ok(Numbering::Own),
            Ids::File if before > 0 => bail!(ids::choice(self.name, before)),
            Ids::Line => Ok(Numbering::From(first)),
            Ids::File => Ok(Numbering::From(0)),
            Ids::Append if self.collection.is_new() => Ok(Numbering::From(0)),
            Ids::Append => Ok(Numbering::From(self.api.number_behind(self.name)?)),
            Ids::Hash => Ok(Numbering::Hash),
            Ids::Uuid => Ok(Numbering::fresh()),
        }
    }
}

/// Where the bar ends: `--limit` may end the import before the file does.
fn progress_end(source: &dyn Source, args: &ImportArgs) -> u64 {
    let (_, end) = source.progress();
    match args.limit {
        Some(limit) if source.counts_points() => end.min(args.offset.saturating_add(limit)),
        _ => end,
    }
}

/// A place in a collection without those points would leave them out: in a new one it is at the beginning again.
fn check_place(api: &Api, collection: &str, place: &mut Place, created: bool) -> Result<()> {
    let before = place.points();
    if !created {
        let hint = format!(
            ". If the file repeats ids, which count once, continue with --offset {before} instead of --resume"
        );
        return check_holds(api, collection, before, place.path(), &hint);
    }
    if before > 0 {
        note!(
            "'{collection}' no longer existed: the {} points that {} lists as imported are sent again",
            HumanCount(before),
            place.path().display()
        );
        place.restart()?;
    }
    Ok(())
}

/// Fails where there are fewer points than `state` says were put in; what else can be done is behind it. More may have been
/// there before.
fn check_holds(api: &Api, collection: &str, said: u64, state: &Path, hint: &str) -> Result<()> {
    let holds = match said {
        0 => return Ok(()),
        said => api.count_settled(collection, said, SETTLED_AFTER)?,
    };
    if holds >= said {
        return Ok(());
    }
    let state = state.display();
    bail!(
        "'{collection}' has {holds} points, but {state} lists {said} as imported: remove {state} to start again{hint}"
    )
}

/// Waits until flushes, merges and index builds are done.
fn wait_until_green(api: &Api, collection: &str) -> Result<()> {
    let bar = indicatif::ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(120));
    let start = std::time::Instant::now();
    loop {
        interrupt::check().context("all points are imported; the server continues to build the index")?;
        let Some(state) = api.collection(collection)? else {
            bail!("collection '{collection}' is gone");
        };
        match state.status.as_str() {
            "green" => break,
            "red" => bail!("collection '{collection}' is red: {}", state.optimizer_status),
            status => bar.set_message(format!(
                "{} points, {status}: building indexes{}",
                HumanCount(state.points_count.unwrap_or(0)),
                api.step(collection).unwrap_or_default(),
            )),
        }
        sleep(POLL_EVERY);
    }
    bar.finish_and_clear();
    output::line(format_args!(
        "'{collection}' is green {:.1} s later",
        start.elapsed().as_secs_f64()
    ))
}
