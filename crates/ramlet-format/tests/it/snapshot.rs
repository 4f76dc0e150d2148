//! Heads of snapshots: there and back, and what isn't one.

use ramlet_format::snapshot::{
    Contents, FRAME_BYTES, Frame, FrameKind, HEADER_BYTES, Header, LIST_BYTES_MAX,
};

use crate::support::Random;

const KINDS: [FrameKind; 6] = [
    FrameKind::Catalog,
    FrameKind::Collection,
    FrameKind::Changes,
    FrameKind::File,
    FrameKind::Finished,
    FrameKind::End,
];

fn frames() -> impl Iterator<Item = Frame> {
    KINDS.into_iter().map(|kind| match kind {
        FrameKind::Finished | FrameKind::End => Frame::of(kind, b""),
        _ => Frame::of(kind, b"a body"),
    })
}

#[test]
fn heads_come_back() {
    for contents in [Contents::Collection, Contents::Everything] {
        for created in [None, Some(1), Some(u64::MAX)] {
            let header = Header { contents, created };
            assert_eq!(Header::decode(&header.encode()), Ok(header));
        }
    }
    for (number, frame) in frames().enumerate() {
        let number = number as u32;
        assert_eq!(Frame::decode(&frame.encode(number), number), Ok(frame));
        assert!(Frame::decode(&frame.encode(number), number + 1).is_err());
        let body: &[u8] = if frame.bytes == 0 { b"" } else { b"a body" };
        assert!(frame.verify(body).is_ok() && frame.verify(b"another").is_err());
    }
}

#[test]
fn every_changed_bit_is_noticed() {
    let header = Header {
        contents: Contents::Collection,
        created: Some(7),
    };
    for bit in 0..8 * HEADER_BYTES {
        let mut bytes = header.encode();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Header::decode(&bytes).is_err(), "bit {bit} of the header");
    }
    for frame in frames() {
        for bit in 0..8 * FRAME_BYTES {
            let mut bytes = frame.encode(3);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Frame::decode(&bytes, 3).is_err(), "bit {bit} of {frame:?}");
        }
    }
    for cut in 0..HEADER_BYTES {
        assert!(Header::decode(&header.encode()[..cut]).is_err());
    }
    for cut in 0..FRAME_BYTES {
        assert!(Frame::decode(&Frame::of(FrameKind::End, b"").encode(0)[..cut], 0).is_err());
    }
}

#[test]
fn lengths_are_bounded_where_a_body_is_read_whole() {
    let lengths = [0, 1, LIST_BYTES_MAX, LIST_BYTES_MAX + 1, u64::MAX];
    let taken = |kind| {
        lengths.map(|bytes| {
            let frame = Frame { kind, crc: 0, bytes };
            Frame::decode(&frame.encode(0), 0).is_ok()
        })
    };
    assert_eq!(taken(FrameKind::Catalog), [true, true, true, false, false]);
    assert_eq!(taken(FrameKind::Collection), [true, true, true, false, false]);
    assert_eq!(taken(FrameKind::End), [true, false, false, false, false]);
    assert_eq!(taken(FrameKind::File), [true; 5]);
}

#[test]
fn any_bytes_are_refused_without_a_panic() {
    let mut random = Random::new(0x5A49);
    for _ in 0..20_000 {
        let length = random.below(64);
        let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        assert!(Header::decode(&bytes).is_err());
        assert!(Frame::decode(&bytes, 0).is_err());
    }
}
