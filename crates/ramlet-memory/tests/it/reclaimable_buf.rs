use ramlet_memory::{Consumer, Ledger, OverBudget, ReclaimableBuf, ReclaimableView, page_bytes};

const PIECE: usize = ReclaimableBuf::PIECE_BYTES;

fn byte(at: usize) -> u8 {
    (at / 1000 * 31 + at) as u8
}

fn fill(at: usize, out: &mut [u8]) -> Result<(), OverBudget> {
    out.iter_mut().zip(at..).for_each(|(out, at)| *out = byte(at));
    Ok(())
}

fn is_right(view: &ReclaimableView) -> bool {
    view.iter()
        .zip(0..)
        .step_by(997)
        .all(|(found, at)| *found == byte(at))
}

fn account(cap: usize) -> Consumer {
    Ledger::new(u64::MAX).consumer("pinned", cap as u64)
}

/// Resident bytes of the mapping that holds `address`.
fn resident(address: *const u8) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("a Linux kernel");
    let (mut inside, mut bytes) = (false, 0);
    for line in maps.lines() {
        if let Some((range, _)) = line.split_once(' ').filter(|(range, _)| range.contains('-')) {
            let (start, end) = range.split_once('-').expect("a range");
            let edge = |text| usize::from_str_radix(text, 16).expect("an address");
            // The parts of one mapping with different advice are listed apart; those of others may follow.
            inside = (edge(start)..edge(end)).contains(&(address as usize));
        } else if let Some(rest) = line.strip_prefix("Rss:").filter(|_| inside) {
            bytes += rest
                .trim_end_matches("kB")
                .trim()
                .parse::<u64>()
                .expect("a number")
                << 10;
        }
    }
    bytes
}

#[test]
fn it_costs_its_bytes_in_whole_pages() {
    let len = 3 * PIECE + 5 * page_bytes() + 7;
    let account = account(1 << 30);
    let buf = ReclaimableBuf::new(&account, len).expect("addresses");
    assert_eq!((buf.view().len(), account.used()), (0, 0));
    assert_eq!(buf.extend(usize::MAX, &mut fill).expect("room"), len);
    let view = buf.view();
    assert!(is_right(&view) && view.len() == len);
    assert_eq!(account.used(), (3 * PIECE + 6 * page_bytes()) as u64);
    assert_eq!(view.memory_bytes(), account.used());
    assert!((view.as_ptr() as usize).is_multiple_of(PIECE));
    let tail = &raw const view[3 * PIECE];
    assert_eq!(resident(view.as_ptr()), 3 * PIECE as u64, "whole pieces");
    assert!(
        resident(tail) <= 7 * page_bytes() as u64,
        "the last one isn't rounded up"
    );
    drop((buf, view));
    assert_eq!(account.used(), 0);
}

#[test]
fn what_is_cut_off_comes_free_with_the_last_view_of_it() {
    let len = 4 * PIECE + 1;
    let account = account(1 << 30);
    let buf = ReclaimableBuf::new(&account, len).expect("addresses");
    buf.extend(len, &mut fill).expect("room");
    let whole = account.used();
    let old = buf.view();
    assert_eq!(buf.cut(1), page_bytes() as u64);
    assert_eq!(buf.cut(PIECE as u64 + 1), 2 * PIECE as u64);
    let new = buf.view();
    assert_eq!((new.len(), old.len(), account.used()), (2 * PIECE, len, whole));
    let start = old.as_ptr();
    assert!(is_right(&old) && is_right(&new));
    drop(old);
    assert_eq!(account.used(), 2 * PIECE as u64);
    assert_eq!(resident(start), 2 * PIECE as u64);
    assert_eq!(buf.cut(u64::MAX), 2 * PIECE as u64);
    assert!(is_right(&new) && buf.view().is_empty());
    drop(new);
    assert_eq!((account.used(), buf.cut(1)), (0, 0));
    assert_eq!(buf.extend(len, &mut fill).expect("room again"), len);
    assert!(is_right(&buf.view()));
}

#[test]
fn what_a_view_still_holds_is_shown_again_without_filling_it() {
    let account = account(1 << 30);
    let buf = ReclaimableBuf::new(&account, 3 * PIECE).expect("addresses");
    buf.extend(usize::MAX, &mut fill).expect("room");
    let old = buf.view();
    buf.cut(2 * PIECE as u64);
    let mut never =
        |_: usize, _: &mut [u8]| -> Result<(), OverBudget> { panic!("somebody reads these bytes") };
    assert_eq!(buf.extend(PIECE, &mut never).expect("no memory needed"), PIECE);
    drop(old);
    assert_eq!(account.used(), 2 * PIECE as u64);
    let mut places = Vec::new();
    let grown = buf.extend(usize::MAX, &mut |at, out| {
        places.push((at, out.len()));
        fill(at, out)
    });
    assert_eq!((grown.expect("room"), places), (PIECE, vec![(2 * PIECE, PIECE)]));
    assert!(is_right(&buf.view()));
}

/// A huge page would be a good part of what little there is.
#[test]
fn pieces_of_the_smallest_budgets_are_small_and_no_huge_pages() {
    let account = Ledger::new(4 << 20).consumer("pinned", u64::MAX);
    let buf = ReclaimableBuf::new(&account, 3 << 20).expect("addresses");
    let piece = buf.piece_bytes();
    assert!(piece * 8 <= PIECE, "{piece}");
    assert_eq!(buf.extend(1, &mut fill).expect("room"), piece);
    let view = buf.view();
    assert_eq!((view.len(), account.used()), (piece, piece as u64));
    assert_eq!(resident(view.as_ptr()), piece as u64);
    let rest = (3 << 20) - piece;
    assert_eq!(buf.extend(usize::MAX, &mut fill).expect("room"), rest);
    assert_eq!(resident(view.as_ptr()), 3 << 20);
    assert!(is_right(&buf.view()));
    drop(view);
    // A page more that somebody needs costs a piece.
    assert_eq!(buf.cut(1), piece as u64);
    assert_eq!(account.used(), (3 << 20) - piece as u64);
    assert_eq!(resident(buf.view().as_ptr()), (3 << 20) - piece as u64);
}

#[test]
fn a_refusal_or_a_failure_changes_nothing() {
    let account = account(3 * PIECE);
    let buf = ReclaimableBuf::new(&account, 4 * PIECE).expect("addresses");
    assert!(buf.extend(usize::MAX, &mut fill).is_err(), "four of three pieces");
    assert_eq!((buf.view().len(), account.used()), (0, 0));
    assert_eq!(buf.extend(1, &mut fill).expect("room"), PIECE);
    let failed = buf.extend(1, &mut |_, _| {
        Err(account.reserve(u64::MAX).expect_err("too much"))
    });
    assert!(failed.is_err());
    assert_eq!((buf.view().len(), account.used()), (PIECE, PIECE as u64));
    assert_eq!(buf.extend(2 * PIECE, &mut fill).expect("room"), 2 * PIECE);
    assert!(is_right(&buf.view()));
}

#[test]
fn a_cut_while_more_is_taken_wins() {
    let account = account(1 << 30);
    let buf = ReclaimableBuf::new(&account, 4 * PIECE).expect("addresses");
    buf.extend(2 * PIECE, &mut fill).expect("room");
    let grown = buf.extend(1, &mut |at, out| {
        assert_eq!(buf.cut(1), PIECE as u64);
        fill(at, out)
    });
    assert_eq!((grown.expect("room"), buf.view().len()), (0, PIECE));
    assert_eq!(account.used(), PIECE as u64);
}

#[test]
fn nothing_is_nothing() {
    let account = account(0);
    let buf = ReclaimableBuf::new(&account, 0).expect("no addresses");
    assert!(buf.is_empty() && buf.view().is_empty());
    assert_eq!(
        (buf.extend(1, &mut fill).expect("nothing to do"), buf.cut(1)),
        (0, 0)
    );
}

#[test]
fn readers_never_see_bytes_that_were_given_back() {
    let account = account(1 << 30);
    let buf = ReclaimableBuf::new(&account, 3 * PIECE + 100).expect("addresses");
    buf.extend(usize::MAX, &mut fill).expect("room");
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..60).for_each(|_| assert!(is_right(&buf.view()))));
        }
        for i in 0..60 {
            buf.cut((i % 4 * PIECE) as u64 + 1);
            buf.extend(usize::MAX, &mut fill).expect("room");
        }
    });
    while buf.extend(usize::MAX, &mut fill).expect("room") > 0 {}
    assert_eq!(buf.view().len(), buf.len());
    assert_eq!(account.used(), buf.view().memory_bytes());
}
