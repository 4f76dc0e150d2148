//! `ramlet import`: files of vectors or JSON lines, or another server's collections, into a server, over the REST API.

pub mod api;
mod batch;
use ramlet_bench::json;
mod ids;
mod jsonl;
mod migrate;
mod open_source;
mod place;
mod progress;
mod resume;
mod row_source;
mod source;
mod upload;

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::HumanCount;

use crate::args::{Datatype, Distance, Ids, ImportArgs};
use crate::output::{self, note};
use api::Api;
use place::Place;
use progress::Progress;
use source::{Layout, Source};

const POLL_EVERY: Duration = Duration::from_millis(300);

/// Runs an import to its end; prints what it did.
pub fn run(args: &ImportArgs) -> Result<()> {
    match (&args.from, &args.file, &args.collection) {
        (Some(from), _, _) => migrate::run(args, from),
        (None, Some(file), Some(collection)) => run_file(args, file, collection),
        // The command line asks for them.
        (None, _, _) => bail!("a file and --collection, or --from"),
    }
}

/// Shows `each` the points of a file as they would be sent: for fuzz targets.
pub fn each_point(path: &Path, takes_ids: bool, each: &mut dyn FnMut(&[u8])) -> Result<()> {
    let ids = if takes_ids { Ids::File } else { Ids::Line };
    let mut source = open_source::open(path, "train", None, ids)?;
    let mut point = Vec::new();
    while source.read(&mut point)? {
        each(&point);
        point.clear();
    }
    Ok(())
}

fn run_file(args: &ImportArgs, file: &Path, collection: &str) -> Result<()> {
    let mut source = open_source::open(file, &args.key, args.payload.as_deref(), args.ids)?;
    let api = Api::new(&args.url, args.api_key.clone(), args.parallel)?;
    api.check_reachable()?;
    let mut place = match args.resume {
        true => Some(Place::open(&args.state, file, &args.url, collection)?),
        false => None,
    };
    let created = prepare(&api, args, collection, source.as_mut())?;
    if let Some(place) = &mut place {
        check_place(&api, collection, place, created)?;
    }
    make_text_indexes(&api, args, collection)?;

    let first = place.as_ref().map_or(args.offset, Place::points);
    if first > args.offset {
        note!("going on after the first {} points", HumanCount(first));
    }
    source.skip(first)?;
    let plan = upload::Plan {
        collection,
        batch: args.batch,
        connections: args.parallel,
        first,
        limit: args.limit.unwrap_or(u64::MAX).saturating_sub(first - args.offset),
        place: place.as_ref(),
    };
    let progress = Progress::new(progress_end(source.as_ref(), args));
    let sent = upload::run(&api, source.as_mut(), &plan, &progress);
    progress.finish();
    let points = sent?;
    if let Some(place) = place {
        place.finish()?;
    }
    output::line(format_args!(
        "imported {} points into '{collection}' in {:.1} s, {} points/s",
        HumanCount(points),
        progress.elapsed().as_secs_f64(),
        HumanCount(progress.rate(points)),
    ))?;
    if args.wait {
        wait_until_green(&api, collection)?;
        output::line(format_args!(
            "'{collection}' is green {:.1} s after the start",
            progress.elapsed().as_secs_f64()
        ))?;
    }
    Ok(())
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
            ". Or, if the file has ids twice, which count once: --offset {before} instead of --resume goes on"
        );
        return check_holds(api, collection, before, place.path(), &hint);
    }
    if before > 0 {
        note!(
            "'{collection}' wasn't there any more: the {} points that {} says are in are sent again",
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
        said => api.count_settled(collection, said)?,
    };
    if holds >= said {
        return Ok(());
    }
    let state = state.display();
    bail!(
        "'{collection}' has {holds} points, but {state} says that {said} were put in: remove {state} to begin again{hint}"
    )
}

/// Creates the collection (true), or checks that the one there takes these points (false).
fn prepare(api: &Api, args: &ImportArgs, collection: &str, source: &mut dyn Source) -> Result<bool> {
    if let Some(there) = api.collection(collection)? {
        check_fits(collection, &there.layout(), source.layout())?;
        return Ok(false);
    }
    source.settle_layout().with_context(|| {
        format!("there is no collection '{collection}', and none can be made of the file")
    })?;
    if let (None, Some(name)) = (args.distance, source.unknown_distance()) {
        bail!(
            "the distance of the file is '{name}', which the API doesn't have; --distance says which to take"
        );
    }
    let (distance, origin) = match (args.distance, source.distance()) {
        (Some(distance), _) => (distance, ""),
        (None, Some(distance)) => (distance, ", as the file says"),
        (None, None) => (Distance::Cosine, ", the default: --distance chooses another"),
    };
    // Bytes stay bytes where that loses nothing. Cosine vectors are normalised, and then they are no bytes any more.
    let bytes = (source.is_u8() && distance != Distance::Cosine).then_some(Datatype::Uint8);
    let datatype = args.datatype.or(bytes);
    api.create_collection(collection, source.layout(), distance, datatype)?;
    note!(
        "created collection '{collection}': {} ({}{origin}), {}",
        describe(source.layout()),
        distance.api_name(),
        datatype.unwrap_or(Datatype::Float32).api_name(),
    );
    Ok(true)
}

/// Texts that are indexed before they come in are indexed once.
fn make_text_indexes(api: &Api, args: &ImportArgs, collection: &str) -> Result<()> {
    for field in &args.text {
        let mut schema = serde_json::json!({
            "type": "text", "tokenizer": "word", "lowercase": true, "scoring": true, "phrase_matching": true
        });
        if args.language != "none" {
            schema["stopwords"] = serde_json::json!(args.language);
            schema["stemmer"] = serde_json::json!({ "type": "snowball", "language": args.language });
        }
        api.create_index(collection, field, &schema)?;
        note!("text index on '{field}' ({})", args.language);
    }
    Ok(())
}

fn describe(layout: &Layout) -> String {
    if layout.is_empty() {
        return "no vectors".to_string();
    }
    let vectors = layout.iter().map(|(name, dim)| match name.as_str() {
        "" => format!("{dim} dimensions"),
        name => format!("'{name}' of {dim} dimensions"),
    });
    vectors.collect::<Vec<_>>().join(", ")
}

fn check_fits(collection: &str, there: &Layout, file: &Layout) -> Result<()> {
    for (name, dim) in file {
        match there.iter().find(|(known, _)| known == name) {
            Some((_, known)) if known == dim => {}
            Some((_, known)) => {
                bail!("collection '{collection}' is there with {known} dimensions, the file has {dim}")
            }
            None => bail!(
                "collection '{collection}' is there with {}, the file has {}",
                describe(there),
                describe(file)
            ),
        }
    }
    Ok(())
}

/// Waits until flushes, merges and index builds are done.
fn wait_until_green(api: &Api, collection: &str) -> Result<()> {
    let bar = indicatif::ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(120));
    loop {
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
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(vectors: &[(&str, usize)]) -> Layout {
        vectors.iter().map(|(n, d)| (n.to_string(), *d)).collect()
    }

    #[test]
    fn files_and_collections_that_fit() {
        let fits = |there: &[(&str, usize)], file: &[(&str, usize)]| {
            check_fits("c", &layout(there), &layout(file)).is_ok()
        };
        assert!(fits(&[("", 4)], &[("", 4)]));
        assert!(fits(&[("a", 4), ("b", 2)], &[("a", 4)]));
        assert!(fits(&[], &[]));
        assert!(!fits(&[("", 4)], &[("", 5)]));
        assert!(!fits(&[("a", 4)], &[("", 4)]));
        assert!(fits(&[("", 4)], &[]), "points without vectors are taken");
    }
}
