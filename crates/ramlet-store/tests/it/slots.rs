//! A log in a store: writers that fence each other, readers that follow, answers that are lost.

use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use ramlet_memory::Ledger;
use ramlet_store::shard::{Appended, Body, Bytes, Effect, Entry, Halt, Position, Replayed, SlotLog};

use crate::wrapped::{Lie, store};

const PATIENCE: Duration = Duration::from_millis(300);

fn log_of(inner: &Arc<InMemory>, lie: Lie) -> SlotLog {
    let memory = Ledger::new(64 << 20).consumer("log", u64::MAX);
    SlotLog::new(store(inner, lie), &memory, PATIENCE).expect("memory")
}

/// A process over the log, and the groups that it has.
struct Process {
    log: SlotLog,
    position: Position,
    groups: Vec<u64>,
}

impl Process {
    fn new(inner: &Arc<InMemory>, lie: Lie) -> Process {
        Process {
            log: log_of(inner, lie),
            position: Position::default(),
            groups: Vec::new(),
        }
    }

    fn follow(&mut self, takes_over: bool) {
        let Process {
            log,
            position,
            groups,
        } = self;
        let apply = &mut |_: Position, effect: Effect, entry: &Entry| {
            if let (Effect::Counts, Body::Group { lsn, .. }) = (effect, &entry.body) {
                groups.push(*lsn);
            }
            Ok(())
        };
        let done = match takes_over {
            true => log.take_over(position, &Bytes::from_static(b"{}"), apply),
            false => log.replay(position, apply),
        };
        assert_eq!(done, Ok(Replayed::AtEnd));
    }

    fn append(&mut self, lsn: u64) -> Result<Appended, Halt> {
        self.append_group(lsn, Bytes::from_static(b"changes"))
    }

    fn append_group(&mut self, lsn: u64, group: Bytes) -> Result<Appended, Halt> {
        let body = Body::Group {
            id: "c00000001".to_owned(),
            lsn,
            group,
        };
        let appended = self.log.append(&mut self.position, body);
        if matches!(appended, Ok(Appended::At(_))) {
            self.groups.push(lsn);
        }
        appended
    }
}

#[test]
fn a_writer_that_was_taken_over_appends_nothing() {
    let inner = Arc::new(InMemory::new());
    let (mut first, mut second) = (Process::new(&inner, Lie::None), Process::new(&inner, Lie::None));
    first.follow(true);
    assert_eq!(first.position, Position { slot: 1, epoch: 1 });
    assert_eq!(first.append(1), Ok(Appended::At(2)));
    second.follow(true);
    assert_eq!(second.position, Position { slot: 3, epoch: 2 });
    assert_eq!(first.append(2), Ok(Appended::Fenced));
    for lsn in 3..200 {
        assert_eq!(second.append(lsn), Ok(Appended::At(lsn + 1)));
    }
    assert_eq!(first.append(2), Ok(Appended::Fenced));
    let mut reader = Process::new(&inner, Lie::None);
    reader.follow(false);
    assert_eq!(
        (&reader.groups, reader.position),
        (&second.groups, second.position)
    );
}

#[test]
fn large_groups_are_read_too() {
    let inner = Arc::new(InMemory::new());
    let mut writer = Process::new(&inner, Lie::None);
    writer.follow(true);
    for lsn in 1..40 {
        let bytes = if lsn % 7 == 0 { 3 << 20 } else { 100 << 10 };
        let appended = writer.append_group(lsn, vec![lsn as u8; bytes].into());
        assert_eq!(appended, Ok(Appended::At(lsn + 1)));
    }
    let mut reader = Process::new(&inner, Lie::None);
    reader.follow(false);
    assert_eq!(reader.groups, (1..40).collect::<Vec<_>>());
}

#[test]
fn a_lost_answer_is_read_back() {
    let inner = Arc::new(InMemory::new());
    let mut writer = Process::new(&inner, Lie::LostAnswers);
    writer.follow(true);
    for lsn in 1..20 {
        assert_eq!(writer.append(lsn), Ok(Appended::At(lsn + 1)));
    }
    let mut reader = Process::new(&inner, Lie::None);
    reader.follow(false);
    assert_eq!(reader.groups, (1..20).collect::<Vec<_>>());
}

#[test]
fn what_is_no_entry_is_refused() {
    let inner = Arc::new(InMemory::new());
    let mut writer = Process::new(&inner, Lie::None);
    writer.follow(true);
    let path = object_store::path::Path::from("log/00000000000000000002");
    store(&inner, Lie::None)
        .put(&path, "something".into())
        .expect("a put");
    let log = log_of(&inner, Lie::None);
    let read = log.replay(&mut Position::default(), &mut |_, _, _| Ok(()));
    assert!(
        matches!(&read, Err(Halt::Failed(why)) if why.contains("log/00000000000000000002")),
        "{read:?}"
    );
    assert!(matches!(writer.append(1), Err(Halt::Failed(_))));
    log.stop();
    assert_eq!(log.peek(1), Err(Halt::Stopped));
}
