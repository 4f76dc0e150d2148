//! An open index.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tantivy::directory::OwnedBytes;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::index::InvertedIndexReader;
use tantivy::postings::TermInfo;
use tantivy::{Index, ReloadPolicy, Searcher, Term};

use crate::cache::SliceCache;
use crate::container::{Hold, Section, TextInfo};
use crate::directory::{ContainerDirectory, Pin, Pinned, SectionFile};
use crate::error::{Result, TextError, from_io};
use crate::guard::no_panic;
use crate::ranges::{RangeRead, Ranges};
use crate::schema::{field, meta, segment_id, unused};

/// The text of one field of one segment, ready to be searched. Shared by all threads.
///
/// Holds [`TextInfo::resident_bytes`] as long as it is open.
pub struct TextIndex {
    pub(crate) info: TextInfo,
    pub(crate) hold: Hold,
    /// In the cache.
    pub(crate) number: u64,
    pub(crate) cache: Arc<SliceCache>,
    pub(crate) searcher: Searcher,
    pub(crate) lists: Arc<InvertedIndexReader>,
    pub(crate) norms: FieldNormReader,
    /// What a handle is asked for is counted from its file's begin: (number of the file, offset in the container).
    pub(crate) files: [(u64, u64); 4],
}

/// Sections that aren't held are still opened by their ends: tantivy's footers lie there, and the number of tokens.
const END_BYTES: u64 = 4096;

/// What is held is read in parts of this size.
const PART_BYTES: usize = 1 << 20;

static NEXT: AtomicU64 = AtomicU64::new(0);

impl TextIndex {
    /// Opens a container of `len` bytes: reads what is to be held, into memory that the caller has reserved
    /// ([`TextInfo::resident_bytes`]). Lists that aren't held come through `cache`.
    pub fn open(len: u64, hold: Hold, cache: Arc<SliceCache>, ranges: &mut dyn Ranges) -> Result<TextIndex> {
        let info = TextInfo::read(len, ranges)?;
        let mut files = HashMap::new();
        let (mut pins, mut numbers) = (Vec::new(), [(0, 0); 4]);
        for section in Section::ALL {
            let file = SectionFile {
                number: NEXT.fetch_add(1, Ordering::Relaxed),
                len: info.length(section) as usize,
                held: match hold.holds(section) {
                    true => Some(read(&info, section, 0, info.length(section), ranges)?),
                    false => None,
                },
            };
            if file.held.is_none() {
                let len = info.length(section);
                let end = END_BYTES.min(len);
                for start in [0, len - end] {
                    pins.push(Pin {
                        file: file.number,
                        start: start as usize,
                        bytes: read(&info, section, start, end, ranges)?,
                    });
                }
            }
            numbers[section as usize] = (file.number, info.offset(section));
            files.insert(path(section), file);
        }
        for (path, bytes) in unused()?.clone() {
            let file = SectionFile {
                number: NEXT.fetch_add(1, Ordering::Relaxed),
                len: bytes.len(),
                held: Some(OwnedBytes::new(bytes)),
            };
            files.insert(path, file);
        }
        let directory = ContainerDirectory {
            files: Arc::new(files),
            meta: Arc::new(meta(info.rows as u32)?),
        };
        let _pinned = Pinned::new(pins);
        no_panic(|| open_tantivy(info, hold, cache, directory, numbers))
    }

    pub fn info(&self) -> &TextInfo {
        &self.info
    }

    pub fn resident_bytes(&self) -> u64 {
        self.info.resident_bytes(self.hold)
    }

    /// How many rows hold each of the terms; deleted ones count until a merge. No reads.
    pub fn doc_freqs(&self, terms: &[&str]) -> Result<Vec<u32>> {
        no_panic(|| {
            let found = terms.iter().map(|term| self.find(term));
            found
                .map(|info| Ok(info?.map_or(0, |info| info.doc_freq)))
                .collect()
        })
    }

    /// The length of a row's text, as a byte.
    pub fn norm(&self, row: u32) -> u8 {
        match u64::from(row) < self.info.rows {
            true => self.norms.fieldnorm_id(row),
            false => 0,
        }
    }

    pub(crate) fn find(&self, term: &str) -> Result<Option<TermInfo>> {
        self.lists.terms().get(term.as_bytes()).map_err(from_io)
    }
}

impl Drop for TextIndex {
    fn drop(&mut self) {
        self.cache.forget(self.number);
    }
}

fn open_tantivy(
    info: TextInfo,
    hold: Hold,
    cache: Arc<SliceCache>,
    directory: ContainerDirectory,
    files: [(u64, u64); 4],
) -> Result<TextIndex> {
    let reader = Index::open(directory)?
        .reader_builder()
        .reload_policy(ReloadPolicy::Manual)
        .doc_store_cache_num_blocks(0)
        .try_into()?;
    let searcher = reader.searcher();
    let segment = searcher.segment_reader(0);
    let norms = segment.get_fieldnorms_reader(field())?;
    if u64::from(norms.num_docs()) != info.rows {
        return Err(TextError::Format(format!(
            "lengths of {} rows, of {}",
            norms.num_docs(),
            info.rows
        )));
    }
    let lists = segment.inverted_index(field())?;
    if lists.terms().num_terms() as u64 != info.terms {
        return Err(TextError::Format(format!(
            "{} terms, of {}",
            lists.terms().num_terms(),
            info.terms
        )));
    }
    Ok(TextIndex {
        info,
        hold,
        number: NEXT.fetch_add(1, Ordering::Relaxed),
        cache,
        lists,
        norms,
        searcher,
        files,
    })
}

fn path(section: Section) -> std::path::PathBuf {
    format!("{}.{}", segment_id().uuid_string(), section.extension()).into()
}

fn read(
    info: &TextInfo,
    section: Section,
    start: u64,
    len: u64,
    ranges: &mut dyn Ranges,
) -> Result<OwnedBytes> {
    let mut bytes = vec![0; len as usize];
    let mut offset = info.offset(section) + start;
    for part in bytes.chunks_mut(PART_BYTES) {
        let len = part.len() as u64;
        ranges.read(&mut [RangeRead { offset, out: part }])?;
        offset += len;
    }
    Ok(OwnedBytes::new(bytes))
}

/// tantivy's name of a term.
pub(crate) fn term(text: &str) -> Term {
    Term::from_field_text(field(), text)
}
