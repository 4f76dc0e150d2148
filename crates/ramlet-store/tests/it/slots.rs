//! A log in a store: writers that fence each other, readers that follow, answers that are lost, slots that are deleted.

use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use ramlet_memory::Ledger;
use ramlet_store::layout::{slot_number, slot_path};
use ramlet_store::shard::{
    Appended, Body, Bytes, Card, Covered, Effect, Entry, LogError, Over, Position, Replayed, SlotLog, Taken,
    Trimmed, Work, card, cards, deletable, remove_card, write_card,
};
use ramlet_store::{BackupKind, Described, Listed, StoreErrorKind, prune_shard, push_within};

use crate::wrapped::{Lie, store};

const RETRY_FOR: Duration = Duration::from_millis(300);

fn log_of(inner: &Arc<InMemory>, lie: Lie) -> SlotLog {
    let memory = Ledger::new(64 << 20).consumer("log", u64::MAX);
    SlotLog::new(store(inner, lie), &memory, RETRY_FOR).expect("memory")
}

/// Keeps the groups that count.
fn noted(groups: &mut Vec<u64>) -> impl FnMut(Position, Effect, &Entry) -> Result<(), LogError> {
    |_, effect, entry| {
        if let (Effect::Counts, Body::Group { lsn, .. }) = (effect, &entry.body) {
            groups.push(*lsn);
        }
        Ok(())
    }
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
        match takes_over {
            true => assert_eq!(self.take_over(Over::Anybody), Taken::Owned),
            false => {
                let Process {
                    log,
                    position,
                    groups,
                } = self;
                assert_eq!(log.replay(position, &mut noted(groups)), Ok(Replayed::AtEnd));
            }
        }
    }

    fn take_over(&mut self, over: Over) -> Taken {
        let Process {
            log,
            position,
            groups,
        } = self;
        let seal = (over, &Bytes::from_static(b"{}"));
        let taken = log.take_over(position, seal, &mut noted(groups));
        taken.expect("a store that answers")
    }

    fn append(&mut self, lsn: u64) -> Result<Appended, LogError> {
        self.append_group(lsn, Bytes::from_static(b"changes"))
    }

    fn append_group(&mut self, lsn: u64, group: Bytes) -> Result<Appended, LogError> {
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
fn who_tries_after_a_silence_lets_the_first_one_be() {
    let inner = Arc::new(InMemory::new());
    let mut nodes: Vec<_> = (0..3).map(|_| Process::new(&inner, Lie::None)).collect();
    assert_eq!(nodes[0].take_over(Over::Silence), Taken::Owned);
    assert_eq!(nodes[0].append(1), Ok(Appended::At(2)));
    for node in &mut nodes[1..] {
        node.follow(false);
    }
    assert_eq!(nodes[1].take_over(Over::Silence), Taken::Owned);
    assert_eq!(nodes[2].take_over(Over::Silence), Taken::Yielded);
    let of_first = nodes[1].position;
    assert_eq!(
        (nodes[2].position, of_first),
        (of_first, Position { slot: 3, epoch: 2 })
    );
    // An owner that writes isn't silent, to whoever hasn't read it yet.
    assert_eq!(nodes[1].append(2), Ok(Appended::At(4)));
    assert_eq!(nodes[2].take_over(Over::Silence), Taken::Yielded);
    assert_eq!(nodes[0].append(3), Ok(Appended::Fenced));
    // It follows again, with what it has.
    nodes[0].follow(false);
    assert_eq!(nodes[0].groups, [1, 2]);
    assert_eq!(nodes[0].take_over(Over::Silence), Taken::Owned);
}

#[test]
fn nodes_say_what_they_are() {
    let inner = Arc::new(InMemory::new());
    let store = store(&inner, Lie::None);
    store.claim().expect("an empty place");
    assert_eq!(cards(&store), Ok(Vec::new()));
    let of = |node: &str, work| Card {
        node: node.to_owned(),
        url: format!("http://{node}"),
        work,
        epoch: 3,
        slot: 9,
        beat: 1,
        memory_bytes: 64_000_000,
        is_candidate: true,
        ..Card::default()
    };
    for (node, work) in [("b", Work::Owns), ("a", Work::Follows), ("b", Work::Left)] {
        write_card(&store, &of(node, work)).expect("a put");
    }
    let all = vec![of("a", Work::Follows), of("b", Work::Left)];
    assert_eq!(cards(&store), Ok(all));
    assert_eq!(card(&store, "b"), Ok(Some(of("b", Work::Left))));
    // What isn't a card is passed over, and so is what is none any more.
    let path = object_store::path::Path::from("nodes/c");
    store.put(&path, "something".into()).expect("a put");
    remove_card(&store, "b").expect("a delete");
    assert_eq!(cards(&store), Ok(vec![of("a", Work::Follows)]));
    assert_eq!((card(&store, "c"), card(&store, "b")), (Ok(None), Ok(None)));
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
        matches!(&read, Err(LogError::Failed(why)) if why.contains("log/00000000000000000002")),
        "{read:?}"
    );
    assert!(matches!(writer.append(1), Err(LogError::Failed(_))));
    log.stop();
    assert_eq!(log.peek(1), Err(LogError::Stopped));
}

/// A backup that says so of the log.
fn back_up(inner: &Arc<InMemory>, slot: u64, deleted: u64) -> Result<u64, StoreErrorKind> {
    let store = store(inner, Lie::None);
    let memory = Ledger::new(64 << 20).consumer("backup", u64::MAX);
    let pushed = push_within(&store, &memory, 0, &mut |_| {}, &mut |push| {
        push.begin_file("CATALOG-000000000001")?;
        push.write(b"a catalog")?;
        push.end_file()?;
        Ok(Described {
            of: BackupKind::Directory,
            collections: vec![],
            covered: Some(Covered {
                slot,
                epoch: 2,
                changes: slot,
                deleted,
            }),
            snapshot: None,
        })
    });
    pushed.map(|report| report.number).map_err(|e| e.kind())
}

fn slots_there(inner: &Arc<InMemory>) -> Vec<u64> {
    let mut slots = Vec::new();
    let each = &mut |listed: Listed| {
        slots.extend(slot_number(&listed.path));
        Ok(())
    };
    store(inner, Lie::None).list("log", each).expect("a list");
    slots.sort_unstable();
    slots
}

#[test]
fn seals_and_void_records_outlive_the_slots_that_count() {
    let inner = Arc::new(InMemory::new());
    store(&inner, Lie::None).claim().expect("an empty place");
    let memory = Ledger::new(64 << 20).consumer("trim", u64::MAX);
    let (mut first, mut second) = (Process::new(&inner, Lie::None), Process::new(&inner, Lie::None));
    first.follow(true);
    for lsn in 1..10 {
        assert_eq!(first.append(lsn), Ok(Appended::At(lsn + 1)));
    }
    second.follow(true);
    // The first writer's last record comes late.
    let late = Entry {
        epoch: 1,
        writer: [7; 16],
        number: 10,
        body: Body::Request(Bytes::from_static(b"{}")),
    };
    let path = slot_path(12);
    store(&inner, Lie::None).put(&path, late.encode()).expect("a put");
    for lsn in 11..20 {
        assert_eq!(second.append(lsn), Ok(Appended::At(lsn + 2)));
    }
    // Nothing says yet that anything may go.
    for log in [&first.log, &second.log] {
        assert_eq!(log.trim(&memory), Ok(Trimmed::default()));
    }
    assert_eq!(back_up(&inner, 18, 15), Ok(1));
    let trimmed = second.log.trim(&memory);
    assert_eq!(trimmed, Ok(Trimmed { deleted: 12, kept: 3 }));
    assert_eq!(slots_there(&inner), [1, 11, 12, 16, 17, 18, 19, 20, 21]);
    // Anybody may, and finds it done.
    let trimmed = first.log.trim(&memory);
    assert_eq!(trimmed, Ok(Trimmed { deleted: 0, kept: 3 }));
    assert_eq!(first.append(2), Ok(Appended::Fenced));
    assert_eq!(second.append(20), Ok(Appended::At(22)));
    let reader = log_of(&inner, Lie::None);
    let nothing = &mut |_: Position, _: Effect, _: &Entry| Ok(());
    for slot in [0, 5, 14] {
        let mut position = Position { slot, epoch: 1 };
        assert_eq!(
            reader.replay(&mut position, nothing),
            Ok(Replayed::Behind),
            "{slot}"
        );
    }
    let mut position = Position { slot: 18, epoch: 2 };
    assert_eq!(reader.replay(&mut position, nothing), Ok(Replayed::AtEnd));
    assert_eq!(position.slot, 22);
}

#[test]
fn backups_of_a_log_only_go_forward() {
    let inner = Arc::new(InMemory::new());
    let store = store(&inner, Lie::None);
    for (slot, deleted, number) in [(10, 0, 1), (20, 0, 2), (20, 10, 3), (35, 10, 4)] {
        assert_eq!(back_up(&inner, slot, deleted), Ok(number));
    }
    // A writer that was taken over, and is late.
    for (slot, deleted) in [(30, 20), (40, 9), (0, 0)] {
        assert_eq!(back_up(&inner, slot, deleted), Err(StoreErrorKind::Exists));
    }
    for (keep, expected) in [(1, 35), (2, 20), (3, 20), (4, 10), (5, 10), (100, 10)] {
        assert_eq!(deletable(&store, keep), Ok(expected), "{keep}");
    }
    let memory = Ledger::new(64 << 20).consumer("prune", u64::MAX);
    assert_eq!(prune_shard(&store, (2, 5), &memory, 0), Ok(None));
    let pruned = prune_shard(&store, (2, 4), &memory, 0)
        .expect("a sweep")
        .expect("enough");
    assert_eq!((pruned.kept, pruned.dropped), (vec![3, 4], vec![1, 2]));
}
