//! tantivy's side of an index that is ours: one field, one segment, and the files that it wants but nobody reads.

use std::path::PathBuf;
use std::sync::OnceLock;

use tantivy::directory::{Directory, RamDirectory};
use tantivy::index::{SegmentComponent, SegmentId};
use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::{Index, IndexMeta, SingleSegmentIndexWriter, TantivyDocument};

use crate::container::Section;
use crate::error::Result;

/// Every container is one segment of this name.
const SEGMENT: &str = "00000000000000000000000000000001";

/// Of the writer of an empty document; it sizes a hash table by it.
const WRITER_BYTES: usize = 256 << 10;

/// The only field.
pub fn field() -> Field {
    Field::from_field_id(0)
}

/// Tokens come ready made, so the tokenizer's name is never looked up.
pub fn schema() -> Schema {
    let indexing = TextFieldIndexing::default()
        .set_tokenizer("raw")
        .set_index_option(IndexRecordOption::WithFreqsAndPositions)
        .set_fieldnorms(true);
    let mut builder = Schema::builder();
    builder.add_text_field("text", TextOptions::default().set_indexing_options(indexing));
    builder.build()
}

pub fn segment_id() -> SegmentId {
    SegmentId::from_uuid_string(SEGMENT).expect("a number in hexadecimal")
}

/// Which section a path of tantivy's means.
pub fn section_of(path: &std::path::Path) -> Option<Section> {
    let extension = path.extension()?.to_str()?;
    Section::ALL
        .into_iter()
        .find(|section| section.extension() == extension)
}

/// `meta.json` of an index of `rows` rows. It commits nothing: the engine's manifest does.
pub fn meta(rows: u32) -> Result<Vec<u8>> {
    let index = Index::create_in_ram(schema());
    let mut meta = IndexMeta::with_schema(schema());
    meta.segments = vec![index.new_segment_meta(segment_id(), rows)];
    serde_json::to_vec(&meta).map_err(|error| crate::TextError::format(error.to_string()))
}

/// Paths and bytes of files of columns and stored fields without any, which every reader opens.
pub type Unused = [(PathBuf, Vec<u8>); 2];

/// Made once by tantivy itself, from one empty document: a few hundred bytes, and about 2 MB for a moment.
pub fn unused() -> Result<&'static Unused> {
    static UNUSED: OnceLock<Unused> = OnceLock::new();
    if UNUSED.get().is_none() {
        let made = make_unused()?;
        let _ = UNUSED.set(made);
    }
    UNUSED
        .get()
        .ok_or_else(|| crate::TextError::format("no template"))
}

fn make_unused() -> Result<Unused> {
    let directory = RamDirectory::create();
    let mut writer: SingleSegmentIndexWriter = Index::builder()
        .schema(schema())
        .single_segment_index_writer(directory.clone(), WRITER_BYTES)?;
    writer.add_document(TantivyDocument::default())?;
    let index = writer.finalize()?;
    let metas = index.searchable_segment_metas()?;
    let segment = metas
        .first()
        .ok_or_else(|| crate::TextError::format("no segment"))?;
    let wanted = index.new_segment_meta(segment_id(), 1);
    let file = |component: SegmentComponent| -> Result<(PathBuf, Vec<u8>)> {
        let bytes = directory
            .open_read(&segment.relative_path(component.clone()))
            .map_err(tantivy::TantivyError::from)?
            .read_bytes()
            .map_err(crate::error::from_io)?;
        Ok((wanted.relative_path(component), bytes.to_vec()))
    };
    Ok([
        file(SegmentComponent::FastFields)?,
        file(SegmentComponent::Store)?,
    ])
}
