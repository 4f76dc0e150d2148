//! A store is tried before it is trusted: sixteen writers race, what was written is read and listed.
//!
//! Two of six servers that speak S3 let all sixteen win. On such a store two owners would both believe that a slot is theirs.

use std::fmt;
use std::ops::Range;
use std::thread;
use std::time::Duration;

use crate::nonce::nonce;
use bytes::Bytes;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStoreExt, PutMode, PutPayload, UpdateVersion};
use tokio::task::JoinSet;

use crate::error::{Result, StoreError, StoreErrorKind};
use crate::layout::PROBES;
use crate::store::Store;

/// Writers of a race.
const WRITERS: usize = 16;
/// A race that one writer wins by chance is run again.
const ROUNDS: usize = 4;
/// Rounds in which an answer may be lost, of a whole probe.
const LOST_ROUNDS_MAX: usize = 8;
/// After a lost answer; longer after each further one.
const PAUSE: Duration = Duration::from_millis(50);
const OVERWRITES: usize = 16;
const LISTED: usize = 8;
const PROBE_BYTES_MAX: u64 = 1 << 20;

/// What came of one probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Fine(String),
    /// The store doesn't offer it, and nothing here needs it.
    NotOffered(String),
    /// The store can't be trusted with data.
    Refused(String),
}

/// A probe by its name, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub probe: &'static str,
    pub outcome: Outcome,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, text) = match &self.outcome {
            Outcome::Fine(text) => ("ok", text),
            Outcome::NotOffered(text) => ("not offered", text),
            Outcome::Refused(text) => ("REFUSED", text),
        };
        write!(f, "{:<18} {word}: {text}", self.probe)
    }
}

impl Finding {
    pub fn is_refused(&self) -> bool {
        matches!(self.outcome, Outcome::Refused(_))
    }
}

type Probe = fn(&Probing<'_>) -> Result<Outcome>;

/// In the order in which they are told.
const PROBES_IN_ORDER: [(&str, Probe); 7] = [
    ("read after write", read_after_write),
    ("overwrites", overwrites),
    ("ranges", ranges),
    ("list after write", list_after_write),
    ("create if absent", create_if_absent),
    ("compare and swap", compare_and_swap),
    ("delete", delete),
];

struct Probing<'a> {
    store: &'a Store,
    /// Of this run alone: no name is used twice.
    folder: String,
}

/// Tries a store; tells `each` as it goes. The place must be empty or ours. Fails where it can't be tried at all; what it is refused for stands in the findings.
/// The probes are removed.
pub fn check(store: &Store, each: &mut dyn FnMut(&Finding)) -> Result<Vec<Finding>> {
    store.is_ours()?;
    let probing = Probing {
        store,
        folder: format!("{PROBES}/{}", nonce()),
    };
    let tried = probing.run(each);
    let cleaned = probing.clean();
    let findings = tried?;
    cleaned?;
    Ok(findings)
}

impl Probing<'_> {
    fn run(&self, each: &mut dyn FnMut(&Finding)) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        for (name, probe) in PROBES_IN_ORDER {
            let outcome = match probe(self) {
                // Wrong keys, or no way there: that isn't the store's fault.
                Err(e) if findings.is_empty() => return Err(e),
                Err(e) if e.kind() == StoreErrorKind::Denied => return Err(e),
                // What the network does says nothing about the store.
                Err(e) if e.kind() == StoreErrorKind::NoAnswer => return Err(e),
                Err(e) => Outcome::Refused(e.to_string()),
                Ok(outcome) => outcome,
            };
            let finding = Finding { probe: name, outcome };
            each(&finding);
            findings.push(finding);
        }
        Ok(findings)
    }

    fn path(&self, name: &str) -> Path {
        Path::from(format!("{}/{name}", self.folder))
    }

    fn get(&self, path: &Path) -> Result<Bytes> {
        self.store.get(path, PROBE_BYTES_MAX)
    }

    fn clean(&self) -> Result<()> {
        let mut left = Vec::new();
        self.store.list(&self.folder, &mut |listed| {
            left.push(listed.path);
            Ok(())
        })?;
        self.store.delete_all(left)
    }

    fn listed(&self, folder: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        self.store
            .list(&format!("{}/{folder}", self.folder), &mut |listed| {
                names.push(listed.path.as_ref().to_owned());
                Ok(())
            })?;
        names.sort();
        Ok(names)
    }

    /// Writers who all begin at once, each with bytes of its own: who won, and other failures than that somebody else did.
    fn race(&self, path: &Path, mode: &PutMode) -> Result<(Vec<usize>, Vec<StoreError>)> {
        self.store.runtime().block_on(async {
            let begin = std::sync::Arc::new(tokio::sync::Barrier::new(WRITERS));
            let mut writers = JoinSet::new();
            for writer in 0..WRITERS {
                let (inner, path, begin) = (self.store.inner(), path.clone(), begin.clone());
                let mode = mode.clone();
                writers.spawn(async move {
                    begin.wait().await;
                    let put = inner
                        .put_opts(&path, PutPayload::from(of_writer(writer)), mode.into())
                        .await;
                    (writer, put.map_err(|e| StoreError::of_store(path.as_ref(), &e)))
                });
            }
            let (mut winners, mut failures) = (Vec::new(), Vec::new());
            while let Some(done) = writers.join_next().await {
                match done.map_err(|e| StoreError::new(StoreErrorKind::Failed, e.to_string()))? {
                    (writer, Ok(_)) => winners.push(writer),
                    (_, Err(e)) if e.kind() == StoreErrorKind::Exists => {}
                    (_, Err(e)) => failures.push(e),
                }
            }
            Ok((winners, failures))
        })
    }

    /// Races until all rounds are over, or one went wrong. A round in which an answer was lost decides nothing: another one takes its place.
    fn rounds(&self, name: &str, prepare: &dyn Fn(&Path) -> Result<PutMode>) -> Result<Outcome> {
        let mut lost = 0;
        let mut round = 0;
        while round < ROUNDS {
            let path = self.path(&format!("{name}/{}", round + lost));
            match self.round(&path, prepare) {
                Err(e) if e.kind() == StoreErrorKind::NoAnswer && lost < LOST_ROUNDS_MAX => {
                    lost += 1;
                    thread::sleep(PAUSE * lost as u32);
                }
                Ok(Outcome::Fine(_)) => round += 1,
                done => return done,
            }
        }
        Ok(Outcome::Fine(format!(
            "one of {WRITERS} racing writers won, in each of {ROUNDS} rounds"
        )))
    }

    fn round(&self, path: &Path, prepare: &dyn Fn(&Path) -> Result<PutMode>) -> Result<Outcome> {
        let mode = prepare(path)?;
        let (winners, failures) = self.race(path, &mode)?;
        let count = winners.len();
        if count > 1 || failures.is_empty() && count == 0 {
            return refused(format!(
                "{count} of {WRITERS} racing writers were told that they won"
            ));
        }
        if let Some(e) = failures.into_iter().next() {
            return Err(e);
        }
        if self.get(path)? != of_writer(winners[0]) {
            return refused("the bytes that are there aren't those of the writer who won".into());
        }
        Ok(Outcome::Fine(String::new()))
    }
}

fn refused(why: String) -> Result<Outcome> {
    Ok(Outcome::Refused(why))
}

fn of_writer(writer: usize) -> Bytes {
    format!("writer {writer} of {WRITERS}").into()
}

fn read_after_write(probing: &Probing<'_>) -> Result<Outcome> {
    for number in 0..LISTED {
        let path = probing.path(&format!("read/{number}"));
        let bytes = Bytes::from(vec![number as u8; 1000 * number]);
        probing.store.put(&path, bytes.clone())?;
        match probing.store.find(&path, PROBE_BYTES_MAX)? {
            Some(read) if read == bytes => {}
            Some(_) => return refused("other bytes are read than were written just before".into()),
            None => return refused("an object that was written just before isn't there".into()),
        }
    }
    Ok(Outcome::Fine(format!("{LISTED} objects, read at once")))
}

fn overwrites(probing: &Probing<'_>) -> Result<Outcome> {
    let path = probing.path("overwritten");
    for number in 0..OVERWRITES {
        let bytes = Bytes::from(format!("version {number}"));
        probing.store.put(&path, bytes.clone())?;
        if probing.get(&path)? != bytes {
            return refused(format!("overwrite {number} was acknowledged and is lost"));
        }
    }
    Ok(Outcome::Fine(format!(
        "the last of {OVERWRITES} is read each time"
    )))
}

fn ranges(probing: &Probing<'_>) -> Result<Outcome> {
    let path = probing.path("ranges");
    let bytes: Bytes = (0..100_000u32).map(|at| (at % 251) as u8).collect();
    probing.store.put(&path, bytes.clone())?;
    let read = |range: GetRange| {
        let inner = probing.store.inner();
        let options = GetOptions {
            range: Some(range),
            ..GetOptions::default()
        };
        let read = probing
            .store
            .runtime()
            .block_on(async { inner.get_opts(&path, options).await?.bytes().await });
        read.map_err(|e| StoreError::of_store(path.as_ref(), &e))
    };
    let inner: [Range<u64>; 3] = [0..1, 4_096..8_192, 99_999..100_000];
    for range in inner {
        let expected = bytes.slice(range.start as usize..range.end as usize);
        if read(GetRange::Bounded(range.clone()))? != expected {
            return refused(format!("bytes {range:?} are read as others"));
        }
    }
    if read(GetRange::Offset(99_000))? != bytes.slice(99_000..)
        || read(GetRange::Bounded(99_000..200_000))? != bytes.slice(99_000..)
    {
        return refused("the end of an object is read as other bytes".into());
    }
    Ok(Outcome::Fine("within an object and at its end".into()))
}

fn list_after_write(probing: &Probing<'_>) -> Result<Outcome> {
    let path = |number: usize| probing.path(&format!("list/{number}"));
    for number in 0..LISTED {
        probing.store.put(&path(number), Bytes::from_static(b"x"))?;
        let expected: Vec<String> = (0..=number).map(|n| path(n).as_ref().to_owned()).collect();
        if probing.listed("list")? != expected {
            return refused("a list lacks what was written just before, or has more".into());
        }
    }
    Ok(Outcome::Fine(format!("{LISTED} lists, each right after a write")))
}

fn create_if_absent(probing: &Probing<'_>) -> Result<Outcome> {
    probing.rounds("create", &|_| Ok(PutMode::Create))
}

fn compare_and_swap(probing: &Probing<'_>) -> Result<Outcome> {
    let swap = |path: &Path| {
        probing.store.put(path, Bytes::from_static(b"before"))?;
        let inner = probing.store.inner();
        let meta = probing.store.runtime().block_on(async { inner.head(path).await });
        let meta = meta.map_err(|e| StoreError::of_store(path.as_ref(), &e))?;
        Ok(PutMode::Update(UpdateVersion {
            e_tag: meta.e_tag,
            version: meta.version,
        }))
    };
    match probing.rounds("swap", &swap) {
        Err(e) if e.kind() == StoreErrorKind::Unsupported => {
            Ok(Outcome::NotOffered("backups and logs do without".into()))
        }
        done => done,
    }
}

fn delete(probing: &Probing<'_>) -> Result<Outcome> {
    let path = probing.path("deleted");
    probing.store.put(&path, Bytes::from_static(b"x"))?;
    probing.store.delete(&path)?;
    if probing.store.find(&path, PROBE_BYTES_MAX)?.is_some() {
        return refused("an object that was deleted is still read".into());
    }
    probing.store.delete(&path)?;
    Ok(Outcome::Fine(
        "gone at once, and no failure the second time".into(),
    ))
}
