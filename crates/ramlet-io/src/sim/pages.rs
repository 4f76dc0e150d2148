//! The bytes of a simulated file: pages shared between versions, copied when written.

use std::sync::{Arc, OnceLock};

use super::fingerprint::{Fingerprint, Mixer};
use crate::storage::PAGE;

/// A clone costs one count, so that a version can be kept for every sync. A page never written reads as zeros.
#[derive(Clone, Default)]
pub struct Pages {
    pages: Arc<Vec<Option<Arc<Page>>>>,
    len: u64,
}

#[derive(Clone)]
struct Page {
    bytes: [u8; PAGE],
    /// Of the bytes, once it was asked for: a page is in thousands of states.
    fingerprint: OnceLock<Fingerprint>,
}

impl Pages {
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Makes the file at least `len` bytes long, the new ones zero.
    pub fn extend_to(&mut self, len: u64) {
        if len > self.len {
            self.len = len;
            let pages = len.div_ceil(PAGE as u64) as usize;
            if pages > self.pages.len() {
                Arc::make_mut(&mut self.pages).resize(pages, None);
            }
        }
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.extend_to(offset + bytes.len() as u64);
        let pages = Arc::make_mut(&mut self.pages);
        each_page(offset, bytes.len(), |page, within, part| {
            let page = Arc::make_mut(pages[page].get_or_insert_with(|| Arc::new(Page::zeros())));
            page.bytes[within..within + part.len()].copy_from_slice(&bytes[part]);
            page.fingerprint = OnceLock::new();
        });
    }

    /// The caller keeps the range within the length.
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        each_page(offset, out.len(), |page, within, part| match &self.pages[page] {
            Some(page) => {
                let len = part.len();
                out[part].copy_from_slice(&page.bytes[within..within + len]);
            }
            None => out[part].fill(0),
        });
    }

    /// Adds length and bytes: zeros are zeros, written or not.
    pub fn mix_into(&self, mixer: &mut Mixer) {
        mixer.add(self.len);
        for (number, page) in self.pages.iter().enumerate() {
            if let Some(fingerprint) = page.as_deref().and_then(Page::fingerprint) {
                mixer.add(number as u64);
                mixer.add_fingerprint(fingerprint);
            }
        }
        // No page has this number: where the pages end.
        mixer.add(u64::MAX);
    }
}

impl Page {
    fn zeros() -> Page {
        Page {
            bytes: [0; PAGE],
            fingerprint: OnceLock::new(),
        }
    }

    /// None of zeros.
    fn fingerprint(&self) -> Option<Fingerprint> {
        const ZEROS: Fingerprint = 0;
        let known = *self.fingerprint.get_or_init(|| match self.bytes == [0; PAGE] {
            true => ZEROS,
            false => Mixer::of_bytes(&self.bytes),
        });
        (known != ZEROS).then_some(known)
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
