use ramlet_memory::{Ledger, Reservation};

use crate::Rng;

#[test]
fn a_consumer_stops_at_its_cap_and_at_the_ledgers_limit() {
    let ledger = Ledger::new(100);
    let (big, small) = (ledger.consumer("big", u64::MAX), ledger.consumer("small", 30));
    let held = big.reserve(60).expect("60 of 100");
    assert_eq!((big.cap(), big.used(), big.available()), (100, 60, 40));
    let refused = small.reserve(31).expect_err("31 of 30");
    assert_eq!((refused.asked, refused.available, refused.limit), (31, 30, 30));
    let _more = big.reserve(20).expect("80 of 100");
    let refused = small.reserve(21).expect_err("101 of 100");
    assert_eq!((refused.available, refused.limit), (20, 30));
    assert_eq!((small.used(), ledger.used()), (0, 80), "a refusal holds nothing");
    drop(held);
    assert_eq!((ledger.used(), ledger.peak()), (20, 80));
    assert!(big.reserve(u64::MAX).is_err(), "no overflow");
}

#[test]
fn the_same_name_is_the_same_account() {
    let ledger = Ledger::new(100);
    let first = ledger.consumer("cache", 50);
    let again = ledger.consumer("cache", 50);
    let _held = first.reserve(40).expect("40 of 50");
    assert_eq!(again.used(), 40);
    assert!(again.reserve(11).is_err());
    let report = ledger.report();
    assert_eq!(report.len(), 1);
    let row = (
        report[0].name,
        report[0].cap,
        report[0].used,
        report[0].peak,
        report[0].refused,
    );
    assert_eq!(row, ("cache", 50, 40, 40, 1));
}

#[test]
fn a_refusal_names_both_numbers_and_the_largest_consumers() {
    let ledger = Ledger::new(1000);
    let held: Vec<_> = [("a", 100), ("b", 500), ("c", 50), ("d", 300)]
        .map(|(name, bytes)| ledger.consumer(name, u64::MAX).reserve(bytes).expect("room"))
        .into();
    let refused = ledger.consumer("e", u64::MAX).reserve(51).expect_err("51 of 50");
    assert_eq!(refused.largest, [("b", 500), ("d", 300)]);
    let text =
        "e needs 51 bytes, 50 bytes of its 1.0 kB are free; most is held by b (500 bytes), d (300 bytes)";
    assert_eq!(refused.to_string(), text);
    drop(held);
}

#[test]
fn a_refusal_never_shows_as_much_as_it_wants() {
    for (asked, free) in [
        (1_000, 999),
        (99_999, 99_998),
        (100_000, 99_999),
        (100_001, 100_000),
        (114_688, 110_592),
        (5_049_999, 5_000_001),
    ] {
        let (wants, has) = (ramlet_memory::size_up(asked), ramlet_memory::size(free));
        assert_ne!(wants, has, "{asked} of {free}");
    }
    assert_eq!(ramlet_memory::size(2_097_152), "2.0 MB");
    assert_eq!(ramlet_memory::size_up(2_097_152), "2.1 MB");
}

#[test]
fn reservations_grow_shrink_and_split() {
    let ledger = Ledger::new(100);
    let consumer = ledger.consumer("x", u64::MAX);
    let mut held = consumer.reserve(10).expect("10");
    held.grow(80).expect("90");
    assert!(held.grow(11).is_err());
    assert_eq!(held.bytes(), 90, "a refused growth changes nothing");
    let part = held.split(40);
    assert_eq!((held.bytes(), part.bytes(), ledger.used()), (50, 40, 90));
    held.shrink_to(60);
    assert_eq!(held.bytes(), 50, "shrinking never grows");
    held.shrink_to(20);
    assert_eq!(ledger.used(), 60);
    drop(part);
    assert_eq!(ledger.used(), 20);
    drop(held);
    assert_eq!((ledger.used(), consumer.used()), (0, 0));
}

#[test]
#[should_panic(expected = "split 11 bytes off a reservation of 10")]
fn splitting_more_than_is_held_panics() {
    Ledger::new(100)
        .consumer("x", 100)
        .reserve(10)
        .expect("10")
        .split(11);
}

/// Threads reserve, grow, shrink and give back at random: nothing ever exceeds a limit, and nothing is left.
#[test]
fn limits_hold_under_threads() {
    let ledger = Ledger::new(10_000);
    std::thread::scope(|scope| {
        for (seed, name, cap) in [
            (1, "a", 4_000),
            (2, "a", 4_000),
            (3, "b", u64::MAX),
            (4, "c", 9_000),
        ] {
            let consumer = ledger.consumer(name, cap);
            let ledger = &ledger;
            scope.spawn(move || {
                let mut rng = Rng(seed);
                let mut held: Vec<Reservation> = Vec::new();
                for _ in 0..20_000 {
                    match rng.below(4) {
                        0 | 1 => held.extend(consumer.reserve(rng.below(3_000))),
                        2 if !held.is_empty() => {
                            drop(held.swap_remove(rng.below(held.len() as u64) as usize))
                        }
                        _ => {
                            if let Some(last) = held.last_mut() {
                                let _ = last.grow(rng.below(500));
                                last.shrink_to(rng.below(1_000));
                            }
                        }
                    }
                    let own: u64 = held.iter().map(Reservation::bytes).sum();
                    assert!(consumer.used() >= own && consumer.used() <= consumer.cap());
                    assert!(ledger.used() <= ledger.limit());
                }
            });
        }
    });
    assert_eq!(ledger.used(), 0);
    assert!(ledger.peak() <= ledger.limit() && ledger.peak() > 5_000);
    for row in ledger.report() {
        assert!(row.used == 0 && row.peak <= row.cap && row.refused > 0, "{row:?}");
    }
}

#[test]
fn a_refusal_tells_whether_waiting_would_help() {
    let ledger = Ledger::new(1000);
    let _set_aside = ledger.set_aside("buffers", 200).unwrap();
    let kept = ledger.keeper("collections", 1000).reserve(300).unwrap();
    let scratch = ledger.consumer("scratch", 1000);
    let (one, other) = (scratch.for_one(), scratch.for_one());
    let of_one = one.reserve(250).unwrap();
    let of_other = other.reserve(200).unwrap();

    let refused = one.reserve(251).unwrap_err();
    assert_eq!((refused.held, refused.limit), (250, 500 / 4 * 3));
    assert!(refused.is_final(), "of 375 bytes it holds 250");
    assert!(
        refused
            .to_string()
            .contains("in addition to the 250 bytes that it holds"),
        "{refused}"
    );
    assert!(!other.reserve(175).unwrap_err().is_final(), "one gives 250 back");
    assert!(!scratch.reserve(500).unwrap_err().is_final());
    assert!(scratch.reserve(501).unwrap_err().is_final(), "nobody has as much");

    drop(of_other);
    let grown = one.reserve(250).unwrap();
    assert!(
        other
            .reserve(1)
            .is_err_and(|refused| !refused.is_final() && refused.held == 0)
    );
    drop((of_one, grown));
    let whole = other.reserve(500).unwrap();
    drop((whole, kept));
    assert_eq!(
        one.reserve(900).unwrap_err().limit,
        800 / 4 * 3,
        "what is deleted is there for others"
    );
    let background = scratch.lasting().reserve(100).unwrap();
    assert_eq!(
        one.reserve(900).unwrap_err().limit,
        700 / 4 * 3,
        "a thread's own bytes aren't waited for"
    );
    drop(background);
    assert_eq!(one.reserve(900).unwrap_err().limit, 800 / 4 * 3);

    // What is kept between two requests isn't waited for, until its holder works again.
    let kept = other.reserve(100).unwrap();
    assert_eq!(one.reserve(900).unwrap_err().limit, 800 / 4 * 3);
    other.rest();
    assert_eq!(one.reserve(900).unwrap_err().limit, 700 / 4 * 3);
    let refused = other.reserve(701).unwrap_err();
    assert_eq!(
        (refused.held, refused.limit),
        (100, 800 / 4 * 3),
        "it doesn't wait for itself"
    );
    other.work();
    other.work();
    assert_eq!(one.reserve(900).unwrap_err().limit, 800 / 4 * 3);
    other.rest();
    drop(kept);
    assert_eq!(one.reserve(900).unwrap_err().limit, 800 / 4 * 3);
}
