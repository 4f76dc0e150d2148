use ramlet_memory::{AnonBuf, Ledger, page_bytes};

#[test]
fn a_buffer_is_aligned_zeroed_and_writable() {
    for len in [0, 1, page_bytes() - 1, page_bytes(), page_bytes() + 1, 1 << 20] {
        let mut buf = AnonBuf::new(len);
        assert_eq!(
            (buf.len(), buf.capacity()),
            (len, len.next_multiple_of(page_bytes()))
        );
        assert!(buf.iter().all(|byte| *byte == 0));
        buf.fill(7);
        assert!(buf.iter().all(|byte| *byte == 7));
        assert!(len == 0 || (buf.as_ptr() as usize).is_multiple_of(page_bytes()));
    }
}

#[test]
fn growing_keeps_the_bytes_and_the_reservation_in_step() {
    let ledger = Ledger::new(10 * page_bytes() as u64);
    let consumer = ledger.consumer("scratch", u64::MAX);
    let mut buf = AnonBuf::reserved(&consumer, 100).expect("one page");
    assert_eq!(ledger.used(), page_bytes() as u64);
    buf.copy_from_slice(&[9; 100]);
    buf.ensure(50).expect("no change");
    assert_eq!(buf.len(), 100);
    buf.ensure(page_bytes()).expect("within the page");
    assert_eq!(ledger.used(), page_bytes() as u64);
    buf.ensure(7 * page_bytes() + 1).expect("eight pages");
    assert_eq!(
        (buf.len(), ledger.used()),
        (7 * page_bytes() + 1, 8 * page_bytes() as u64)
    );
    assert!(buf[..100].iter().all(|byte| *byte == 9) && buf[100..].iter().all(|byte| *byte == 0));
    let refused = buf.ensure(11 * page_bytes()).expect_err("eleven of ten pages");
    assert_eq!(
        (refused.asked, refused.available),
        (3 * page_bytes() as u64, 2 * page_bytes() as u64)
    );
    assert_eq!(
        (buf.len(), ledger.used()),
        (7 * page_bytes() + 1, 8 * page_bytes() as u64),
        "a refusal changes nothing"
    );
    drop(buf);
    assert_eq!(ledger.used(), 0);
    assert!(AnonBuf::reserved(&consumer, 10 * page_bytes() + 1).is_err());
}

#[test]
fn shrinking_gives_pages_back_and_leaves_zeros_behind() {
    let ledger = Ledger::new(1 << 20);
    let consumer = ledger.consumer("scratch", u64::MAX);
    let mut buf = AnonBuf::reserved(&consumer, 5 * page_bytes()).expect("five pages");
    buf.fill(3);
    buf.shrink_to(page_bytes() + 10);
    assert_eq!(
        (buf.len(), ledger.used()),
        (page_bytes() + 10, 2 * page_bytes() as u64)
    );
    buf.ensure(5 * page_bytes()).expect("five pages again");
    assert!(buf[..page_bytes() + 10].iter().all(|byte| *byte == 3));
    assert!(
        buf[page_bytes() + 10..].iter().all(|byte| *byte == 0),
        "new bytes are zero"
    );
    buf.shrink_to(0);
    assert_eq!((buf.len(), ledger.used()), (0, 0));
    buf.ensure(3).expect("a page");
    assert_eq!(&buf[..], &[0, 0, 0]);
}

#[test]
fn a_mapping_that_the_kernel_refuses_is_an_error() {
    let ledger = Ledger::new(u64::MAX);
    let consumer = ledger.consumer("huge", u64::MAX);
    let refused = AnonBuf::reserved(&consumer, 1 << 60).expect_err("beyond any address space");
    assert_eq!(refused.asked, 1 << 60);
    assert_eq!(ledger.used(), 0);
}
