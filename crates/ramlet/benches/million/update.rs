//! `update`: a collection whose points are replaced until it holds the set, searched meanwhile and afterwards.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use ramlet_testdata::args::Args;
use ramlet_testdata::{RANKS, Set, rank};
use serde_json::{Value, json};

use crate::drive::{Until, drive};
use crate::load::{Choice, Meter, load};
use crate::{Outcome, open, search};

/// Loads the set with other vectors for the share `--replace` of its points, builds the index, then replaces those by
/// the set's own while `--searchers` clients search. Afterwards the collection holds exactly the set: recall compares with
/// a fresh build's.
pub fn run(set: &Set, directory: &Path, args: &Args) -> Outcome {
    let asked = Arc::new(RwLock::new(search::asked(set, args)?));
    let engine = open::engine(directory, args)?;
    let mut config = open::config(set, args)?;
    config.indexing_threshold = None;
    engine.create_collection(open::NAME, config)?;
    let collection = engine.collection(open::NAME)?;
    let share: f64 = args.value("replace", 0.5)?;
    let replaced = |row: u64| f64::from(rank(row)) < share * f64::from(RANKS);
    let stale = args.text("stale").unwrap_or("mirrored");
    let mut meter = Meter::start();
    load(&collection, set, &[], &|row| match (replaced(row), stale) {
        (false, _) => Choice::Own,
        (true, "swapped") => Choice::Swapped,
        (true, _) => Choice::Mirrored,
    })?;
    collection.flush()?;
    open::settle(&collection)?;
    let loaded = meter.lap();
    let searchers: usize = args.value("searchers", 0)?;
    let own = |row| if replaced(row) { Choice::Own } else { Choice::Skip };
    let meanwhile = match searchers {
        0 => {
            load(&collection, set, &[], &own)?;
            Value::Null
        }
        _ => {
            let over = Arc::new(AtomicBool::new(false));
            let until = Until {
                span: Duration::ZERO,
                told: Some(over.clone()),
            };
            std::thread::scope(|scope| -> Outcome<Value> {
                let clients = scope.spawn(|| drive(&engine, &collection, &asked, searchers, until));
                let outcome = load(&collection, set, &[], &own).and_then(|()| open::settle(&collection));
                over.store(true, Ordering::Relaxed);
                let tally = clients.join().map_err(|_| "a client panicked")??;
                outcome?;
                let mut out = tally.json();
                // The truth was on its way.
                out["recall_at_10"] = Value::Null;
                Ok(out)
            })?
        }
    };
    let ingested = meter.lap();
    collection.flush()?;
    open::settle(&collection)?;
    let out = json!({
        "step": "update", "rows": set.info.rows, "replaced": share, "stale": stale, "memory": args.text("memory"),
        "load": loaded, "replace": ingested, "settle": meter.lap(), "searched_meanwhile": meanwhile,
        "used": open::memory_now(), "placement": open::placement(&engine, &collection),
    });
    println!("{out}");
    search::measure(&engine, &collection, &asked, args)?;
    engine.close();
    Ok(())
}
