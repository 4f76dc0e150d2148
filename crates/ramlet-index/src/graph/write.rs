//! Writing the nodes: rows, and their neighbours with codes, together.

use ramlet_format::rows::{RowsLayout, RowsWriter};
use ramlet_io::{IoContext, WriteFile};
use ramlet_memory::AnonBuf;

use super::clusters::{number_of, vector_of};
use super::layout::NodeLayout;
use super::links::some;
use super::records::Records;
use super::temporary::Stored;
use crate::RowsFile;
use crate::error::Result;
use crate::flat::stream;

/// Nodes whose lists are read at once.
const BATCH: u64 = 256;

/// What is joined to nodes.
pub(super) struct Nodes<'a> {
    pub(super) rows: &'a RowsFile,
    pub(super) links: &'a Stored<'a>,
    /// Words of a list of links; a node holds as many or fewer.
    pub(super) links_degree: usize,
    pub(super) layout: NodeLayout,
    pub(super) seed: u64,
    pub(super) buffer_bytes: usize,
}

impl Nodes<'_> {
    pub(super) fn write(
        &self,
        codes: &mut Records<'_>,
        file: &mut dyn WriteFile,
        io: &mut IoContext,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let row_bytes = self.layout.row_bytes();
        let mut writer = RowsWriter::new(self.seed, row_bytes as u32);
        let block_bytes = RowsLayout::for_row(row_bytes as u32).block_bytes();
        let mut out = Vec::with_capacity(self.buffer_bytes + block_bytes);
        let (mut bytes, mut words) = (Vec::new(), Vec::new());
        let (mut node_bytes, mut coded) = (vec![0; row_bytes], Vec::new());
        stream(self.rows, buf, io, &mut |node, row| {
            let within = u64::from(node) % BATCH;
            if within == 0 {
                let batch = BATCH.min(u64::from(self.rows.rows() - node)) as usize;
                let first = u64::from(node) * self.links_degree as u64;
                self.links
                    .read_words(first, batch * self.links_degree, &mut bytes, &mut words)?;
            }
            let links = some(&words[within as usize * self.links_degree..][..self.links_degree]);
            let links = &links[..links.len().min(self.layout.degree)];
            coded.clear();
            for id in links {
                codes.copy(*id, &mut coded)?;
            }
            self.layout
                .write(vector_of(row), number_of(row)?, links, &coded, &mut node_bytes);
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
