//! Header fields of HTTP/2. What we send names no field by a table that grows, and we allow the other side none, so that nothing needs
//! to be remembered. Source: RFC 7541; its Huffman code is canonical, so that the lengths of its codes say all.

/// Length in bits of the code of each byte, and of the end mark. RFC 7541, appendix B.
const CODE_BITS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6,
    6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7,
    8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7,
    15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24,
    23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23,
    23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26,
    26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20,
    21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27,
    27, 27, 26, 30,
];
const END_MARK: u16 = 256;
const BITS_MAX: usize = 30;
/// Entries of the static table.
const STATIC_ENTRIES: usize = 61;

/// A field of an answer that matters to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    HttpStatus(u16),
    GrpcStatus(u16),
    GrpcMessage(String),
}

/// Appends a field by its name, neither of them to be remembered by the other side.
pub fn write_field(name: &str, value: &str, out: &mut Vec<u8>) {
    out.push(0);
    write_text(name, out);
    write_text(value, out);
}

/// Appends an entry of the static table.
pub fn write_indexed(entry: u8, out: &mut Vec<u8>) {
    out.push(0x80 | entry);
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    write_number(text.len(), 7, 0, out);
    out.extend_from_slice(text.as_bytes());
}

/// An integer with a prefix of so many bits.
fn write_number(mut value: usize, bits: u8, first: u8, out: &mut Vec<u8>) {
    let most = (1usize << bits) - 1;
    if value < most {
        out.push(first | value as u8);
        return;
    }
    out.push(first | most as u8);
    value -= most;
    while value >= 128 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Calls `see` for each field that matters. None when the block is broken, or speaks of a table that it was told not to have.
pub fn read(mut block: &[u8], see: &mut dyn FnMut(Field)) -> Option<()> {
    while let Some(&first) = block.first() {
        if first & 0x80 != 0 {
            let entry = read_number(&mut block, 7)?;
            if !(1..=STATIC_ENTRIES).contains(&entry) {
                return None;
            }
            if let Some(status) = static_status(entry) {
                see(Field::HttpStatus(status));
            }
            continue;
        }
        if first & 0xe0 == 0x20 {
            // The size of the table that isn't there.
            read_number(&mut block, 5)?;
            continue;
        }
        let entry = read_number(&mut block, if first & 0x40 != 0 { 6 } else { 4 })?;
        if entry > STATIC_ENTRIES {
            return None;
        }
        let name = match entry {
            0 => read_text(&mut block)?,
            8..=14 => b":status".to_vec(),
            _ => Vec::new(),
        };
        let value = read_text(&mut block)?;
        field(&name, &value).into_iter().for_each(&mut *see);
    }
    Some(())
}

fn field(name: &[u8], value: &[u8]) -> Option<Field> {
    let text = String::from_utf8_lossy(value);
    match name {
        b":status" => text.parse().ok().map(Field::HttpStatus),
        b"grpc-status" => text.parse().ok().map(Field::GrpcStatus),
        b"grpc-message" => Some(Field::GrpcMessage(text.into_owned())),
        _ => None,
    }
}

fn static_status(entry: usize) -> Option<u16> {
    const STATUSES: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
    STATUSES.get(entry.checked_sub(8)?).copied()
}

fn read_number(block: &mut &[u8], bits: u8) -> Option<usize> {
    let (&first, mut rest) = block.split_first()?;
    let most = (1usize << bits) - 1;
    let mut value = usize::from(first) & most;
    if value == most {
        for shift in [0, 7, 14, 21] {
            let (&byte, after) = rest.split_first()?;
            rest = after;
            value += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                *block = rest;
                return Some(value);
            }
        }
        return None;
    }
    *block = rest;
    Some(value)
}

fn read_text(block: &mut &[u8]) -> Option<Vec<u8>> {
    let is_coded = block.first()? & 0x80 != 0;
    let length = read_number(block, 7)?;
    let (text, rest) = block.split_at_checked(length)?;
    *block = rest;
    match is_coded {
        true => decode(text),
        false => Some(text.to_vec()),
    }
}

/// Undoes the Huffman code, bit by bit: what is read so is a dozen bytes a call.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let (mut out, mut code, mut length) = (Vec::new(), 0u32, 0);
    let mut is_padding = true;
    for bit in text
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1))
    {
        code = code << 1 | u32::from(bit);
        length += 1;
        is_padding &= bit == 1;
        if length > BITS_MAX {
            return None;
        }
        if let Some(symbol) = SYMBOLS.of(code, length) {
            out.push(u8::try_from(symbol).ok().filter(|_| symbol != END_MARK)?);
            (code, length, is_padding) = (0, 0, true);
        }
    }
    // Ends with less than a byte of ones.
    (length < 8 && is_padding).then_some(out)
}

/// The code as its lengths define it: symbols by length, then by number, have codes that follow each other.
struct Symbols {
    sorted: [u16; 257],
    /// Of each length: its first code, and where its symbols begin.
    first: [(u32, u16); BITS_MAX + 1],
    count: [u16; BITS_MAX + 1],
}

static SYMBOLS: Symbols = Symbols::new();

impl Symbols {
    const fn new() -> Symbols {
        let mut symbols = Symbols {
            sorted: [0; 257],
            first: [(0, 0); BITS_MAX + 1],
            count: [0; BITS_MAX + 1],
        };
        let (mut bits, mut at, mut code) = (1, 0, 0u32);
        while bits <= BITS_MAX {
            code <<= 1;
            symbols.first[bits] = (code, at);
            let mut symbol = 0;
            while symbol < CODE_BITS.len() {
                if CODE_BITS[symbol] as usize == bits {
                    symbols.sorted[at as usize] = symbol as u16;
                    symbols.count[bits] += 1;
                    at += 1;
                    code += 1;
                }
                symbol += 1;
            }
            bits += 1;
        }
        symbols
    }

    fn of(&self, code: u32, bits: usize) -> Option<u16> {
        let (first, at) = self.first[bits];
        let nth = code.checked_sub(first)?;
        (nth < u32::from(self.count[bits])).then(|| self.sorted[at as usize + nth as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(hex: &str) -> Option<Vec<Field>> {
        let block: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex"))
            .collect();
        let mut seen = Vec::new();
        read(&block, &mut |field| seen.push(field))?;
        Some(seen)
    }

    /// Blocks as another implementation (Python's `hpack`, without a table) writes them.
    #[test]
    fn answers_of_others() {
        let head = fields("20885f8b1d75d0620d263d4c4d6564");
        assert_eq!(head, Some(vec![Field::HttpStatus(200)]));
        let trailers = fields(
            "40889acac8b21234da8f820b3f40899acac8b5254207317f93a8ea22d24ea10f4505224c7aae28a885e5510b",
        );
        let message = "no such collection: %22x%22".to_string();
        assert_eq!(
            trailers,
            Some(vec![Field::GrpcStatus(13), Field::GrpcMessage(message)])
        );
    }

    /// RFC 7541, C.4.1 and C.6.1: the code alone.
    #[test]
    fn coded_text() {
        let code = [
            0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
        ];
        assert_eq!(decode(&code).as_deref(), Some(&b"www.example.com"[..]));
        assert_eq!(decode(&[0x64, 0x02]).as_deref(), Some(&b"302"[..]));
        // A byte of padding; the end mark; padding of zeros.
        for broken in [&[0x64, 0x02, 0xff][..], &[0xff; 4], &[0x64]] {
            assert_eq!(decode(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut block = Vec::new();
        write_indexed(8, &mut block);
        write_field("grpc-status", "5", &mut block);
        let long = "x".repeat(1000);
        write_field("grpc-message", &long, &mut block);
        let mut seen = Vec::new();
        assert!(read(&block, &mut |field| seen.push(field)).is_some());
        assert_eq!(
            seen,
            [
                Field::HttpStatus(200),
                Field::GrpcStatus(5),
                Field::GrpcMessage(long)
            ]
        );
    }

    #[test]
    fn broken_blocks_are_refused() {
        // An entry of a table that isn't there, a length beyond the end, a number without end, a text without a value.
        for broken in ["be", "000561", "00ffffffffffff", "000161", "80"] {
            assert_eq!(fields(broken), None, "{broken}");
        }
    }
}
