//! Frames of HTTP/2: nine bytes of head, then so many of payload.

/// Bytes of a frame's head.
pub const HEAD: usize = 9;
/// What a client says before all else.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

/// Flags: of SETTINGS and PING; of DATA and HEADERS.
pub const ACK: u8 = 1;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const PADDED: u8 = 8;
pub const PRIORITY: u8 = 32;

/// Settings.
pub const HEADER_TABLE_SIZE: u16 = 1;
pub const ENABLE_PUSH: u16 = 2;
pub const INITIAL_WINDOW_SIZE: u16 = 4;
pub const MAX_FRAME_SIZE: u16 = 5;

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub length: usize,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

impl Head {
    pub fn read(bytes: &[u8; HEAD]) -> Head {
        let [a, b, c, kind, flags, stream @ ..] = *bytes;
        Head {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            // The highest bit is reserved.
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
        }
    }

    /// Appends a whole frame.
    pub fn write(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
        out.extend_from_slice(&[kind, flags]);
        out.extend_from_slice(&stream.to_be_bytes());
        out.extend_from_slice(payload);
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// What of a frame's payload is neither padding nor priority; None when its lengths contradict each other.
pub fn content(head: Head, payload: &[u8]) -> Option<&[u8]> {
    let (mut rest, mut padding) = (payload, 0);
    if head.has(PADDED) {
        let (&length, after) = rest.split_first()?;
        (rest, padding) = (after, usize::from(length));
    }
    if head.kind == HEADERS && head.has(PRIORITY) {
        rest = rest.get(5..)?;
    }
    rest.get(..rest.len().checked_sub(padding)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_read_back() {
        let mut bytes = Vec::new();
        Head::write(DATA, END_STREAM, 70_001, &[7; 70_000], &mut bytes);
        let head = Head::read(bytes[..HEAD].try_into().expect("nine"));
        let expected = Head {
            length: 70_000,
            kind: DATA,
            flags: END_STREAM,
            stream: 70_001,
        };
        assert_eq!((head, bytes.len()), (expected, 70_009));
    }

    #[test]
    fn padding_and_priority_are_left_out() {
        let check = |kind, flags, payload: &[u8], expected: Option<&[u8]>| {
            let head = Head {
                length: payload.len(),
                kind,
                flags,
                stream: 1,
            };
            assert_eq!(content(head, payload), expected, "{payload:?}");
        };
        check(DATA, 0, &[1, 2], Some(&[1, 2]));
        check(DATA, PADDED, &[2, 1, 0, 0], Some(&[1]));
        check(HEADERS, PADDED | PRIORITY, &[1, 0, 0, 0, 0, 9, 8, 0], Some(&[8]));
        check(DATA, PADDED, &[3, 1, 0], None);
        check(DATA, PADDED, &[], None);
        check(HEADERS, PRIORITY, &[0; 4], None);
    }
}
