//! Bytes of a file or of standard input, decompressed on the fly: gzip and zstd, detected by their first bytes.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};

const BUFFER_BYTES: usize = 256 << 10;
/// What some programs begin UTF-8 with.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const GZIP: &[u8] = b"\x1f\x8b";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
/// The longest of all beginnings looked at.
const HEAD_BYTES: u64 = 8;
/// What isn't text, by its beginning, and what to do with it.
const OTHERS: [(&[u8], &str); 11] = [
    (
        b"\xff\xfe",
        "it is UTF-16; convert it to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW",
    ),
    (
        b"\xfe\xff",
        "it is UTF-16; convert it to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW",
    ),
    (b"PK\x03\x04", "it is a ZIP archive; unpack it first: unzip FILE"),
    (
        b"BZh",
        "it is compressed with bzip2; decompress it in a pipe: bzip2 -dc FILE | ramlet import - --format FORMAT",
    ),
    (
        b"\xfd7zXZ",
        "it is compressed with xz; decompress it in a pipe: xz -dc FILE | ramlet import - --format FORMAT",
    ),
    (b"PAR1", "it is a Parquet file; name it .parquet"),
    (b"ARROW1", "it is an Arrow file; name it .arrow"),
    (b"\x93NUMPY", "it is a NumPy array; name it .npy"),
    (b"\x89HDF", "it is an HDF5 file; name it .hdf5"),
    (
        b"SQLite ",
        "it is an SQLite database; export a table as CSV: sqlite3 -header -csv FILE 'select ..'",
    ),
    (b"%PDF", "it is a PDF document"),
];

/// Text of a file, opened.
pub struct ByteInput {
    pub reader: Box<dyn BufRead>,
    pub name: String,
    read: Arc<AtomicU64>,
    bytes: u64,
}

/// Counts the bytes taken from the file, before decompression: the unit of the progress bar.
struct Counted<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// Says of a packed file that ends too early what that means.
struct Unpacked<R>(R);

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::new(
                error.kind(),
                format!("the compressed file is truncated ({error})"),
            ),
            _ => error,
        })
    }
}

/// Whether a path stands for standard input.
pub fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

impl ByteInput {
    /// Opens a file, or standard input for `-`. Memory: 256 KiB, and what the packing needs: 64 KiB for gzip, its window for zstd (8 MiB
    /// as most write it, 128 MiB at most).
    pub fn open(path: &Path) -> Result<ByteInput> {
        let read = Arc::new(AtomicU64::new(0));
        if is_stdin(path) {
            let counted = Counted {
                inner: io::stdin(),
                read: read.clone(),
            };
            return ByteInput::new(counted, "standard input".to_string(), read, 0);
        }
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| format!("opening {name}"))?;
        let bytes = file.metadata()?.len();
        let counted = Counted {
            inner: file,
            read: read.clone(),
        };
        ByteInput::new(counted, name, read, bytes)
    }

    fn new(packed: impl Read + 'static, name: String, read: Arc<AtomicU64>, bytes: u64) -> Result<ByteInput> {
        let place = || format!("reading {name}");
        let (head, packed) = beginning(packed).with_context(place)?;
        let text: Box<dyn Read> = if head.starts_with(GZIP) {
            Box::new(Unpacked(flate2::read::MultiGzDecoder::new(packed)))
        } else if head.starts_with(ZSTD) {
            Box::new(Unpacked(zstd::Decoder::new(packed)?))
        } else {
            Box::new(packed)
        };
        let (head, text) = beginning(text).with_context(place)?;
        if let Some((_, why)) = OTHERS.iter().find(|(magic, _)| head.starts_with(magic)) {
            bail!("{name}: {why}");
        }
        let mut reader = BufReader::with_capacity(BUFFER_BYTES, text);
        if head.starts_with(BYTE_ORDER_MARK) {
            io::copy(
                &mut (&mut reader).take(BYTE_ORDER_MARK.len() as u64),
                &mut io::sink(),
            )?;
        }
        Ok(ByteInput {
            reader: Box::new(reader),
            name,
            read,
            bytes,
        })
    }

    /// Bytes read of the file, and bytes in it; 0 when nobody knows.
    pub fn progress(&self) -> (u64, u64) {
        self.progress_of()()
    }

    /// [`ByteInput::progress`] for who takes the reader.
    pub fn progress_of(&self) -> impl Fn() -> (u64, u64) + 'static {
        let (read, bytes) = (self.read.clone(), self.bytes);
        move || (read.load(Ordering::Relaxed), bytes)
    }
}

/// The first bytes, and the whole with them in front again.
fn beginning(mut reader: impl Read + 'static) -> io::Result<(Vec<u8>, impl Read)> {
    let mut head = Vec::new();
    (&mut reader).take(HEAD_BYTES).read_to_end(&mut head)?;
    Ok((head.clone(), Cursor::new(head).chain(reader)))
}
