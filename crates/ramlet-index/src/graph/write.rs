//! Writes the nodes: rows with their neighbours' ids and codes.

use ramlet_format::rows::{RowsLayout, RowsWriter};
use ramlet_io::{IoContext, Storage, WriteFile};
use ramlet_memory::AnonBuf;

use super::clusters::{number_of, vector_of};
use super::inlined::Inlined;
use super::layout::NodeLayout;
use super::links::some;
use super::stored::Stored;
use crate::RowsFile;
use crate::error::Result;
use crate::rows::reading::stream;

/// Nodes whose lists are read at once, at most.
const BATCH: usize = 1024;

/// What is joined to nodes.
pub(super) struct Nodes<'a> {
    pub(super) rows: &'a RowsFile,
    pub(super) links: &'a Stored<'a>,
    pub(super) layout: NodeLayout,
    pub(super) seed: u64,
    pub(super) buffer_bytes: usize,
    /// For the codes of the nodes that are written together.
    pub(super) at_once_bytes: usize,
    pub(super) spill: &'a dyn Storage,
}

impl Nodes<'_> {
    pub(super) fn write(
        &self,
        codes: &mut Inlined<'_>,
        file: &mut dyn WriteFile,
        io: &mut IoContext,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let row_bytes = self.layout.row_bytes();
        let mut writer = RowsWriter::new(self.seed, row_bytes as u32);
        let block_bytes = RowsLayout::for_row(row_bytes as u32).block_bytes();
        let mut out = Vec::with_capacity(self.buffer_bytes + block_bytes);
        let (mut bytes, mut words, mut links) = (Vec::new(), Vec::new(), Vec::new());
        let (mut node_bytes, mut coded) = (vec![0; row_bytes], Vec::new());
        let (degree, code_bytes) = (self.layout.degree, self.layout.coded_bytes());
        let batch = (self.at_once_bytes / (degree * code_bytes)).clamp(1, BATCH);
        let mut reader = IoContext::for_storage(self.spill, 32)?;
        let mut code = 0;
        stream(self.rows, buf, io, &mut |node, row| {
            let within = node as usize % batch;
            if within == 0 {
                let batch = batch.min((self.rows.rows() - node) as usize);
                let first = u64::from(node) * degree as u64;
                self.links
                    .read_words(first, batch * degree, &mut bytes, &mut words)?;
                links.clear();
                words
                    .chunks_exact(degree)
                    .for_each(|list| links.extend_from_slice(some(list)));
                coded.clear();
                coded.extend_from_slice(codes.next(&links, &mut reader)?);
                code = 0;
            }
            let links = some(&words[within * degree..][..degree]);
            let own = &coded[code..][..links.len() * code_bytes];
            code += own.len();
            self.layout
                .write(vector_of(row), number_of(row)?, links, own, &mut node_bytes);
            writer.push(&node_bytes, &mut out);
            if out.len() > self.buffer_bytes {
                file.append(&out)?;
                out.clear();
            }
            Ok(())
        })?;
        writer.finish(&mut out);
        Ok(file.append(&out)?)
    }
}
