//! The bytes of a simulated file: pages shared between versions, copied when written.

use std::sync::Arc;

use crate::storage::PAGE;

/// A clone costs 8 bytes a page, so that a version can be kept for every sync. A page never written reads as zeros.
#[derive(Clone, Default)]
pub struct Pages {
    pages: Vec<Option<Arc<[u8; PAGE]>>>,
    len: u64,
}

impl Pages {
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Makes the file at least `len` bytes long, the new ones zero.
    pub fn extend_to(&mut self, len: u64) {
        if len > self.len {
            self.len = len;
            self.pages.resize(len.div_ceil(PAGE as u64) as usize, None);
        }
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.extend_to(offset + bytes.len() as u64);
        each_page(offset, bytes.len(), |page, within, part| {
            let page = self.pages[page].get_or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(page)[within..within + part.len()].copy_from_slice(&bytes[part]);
        });
    }

    /// The caller keeps the range within the length.
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        each_page(offset, out.len(), |page, within, part| match &self.pages[page] {
            Some(page) => {
                let len = part.len();
                out[part].copy_from_slice(&page[within..within + len]);
            }
            None => out[part].fill(0),
        });
    }
}

/// Calls `visit(page, offset within the page, range of the bytes)` for each page that the bytes touch.
fn each_page(offset: u64, len: usize, mut visit: impl FnMut(usize, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < len {
        let at = offset as usize + done;
        let part = (PAGE - at % PAGE).min(len - done);
        visit(at / PAGE, at % PAGE, done..done + part);
        done += part;
    }
}
