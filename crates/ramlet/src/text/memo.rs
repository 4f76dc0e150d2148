//! A memo of recently stemmed words: a text repeats the words of the texts before it, and stemming takes longer than a look-up.

use std::borrow::Cow;

use ramlet_format::bloom::hash64;
use ramlet_memory::Reservation;

/// A table with one place for each hash: a word takes the place of another one.
pub struct Memo {
    slots: Vec<Slot>,
    _held: Reservation,
}

/// A cache line: the word, and the token that it becomes behind it.
#[derive(Clone, Copy)]
struct Slot {
    /// Bytes of the word; 0: nothing is here.
    word: u8,
    /// Bytes of the token; [`NOTHING`]: it becomes none.
    token: u8,
    bytes: [u8; SLOT_BYTES - 2],
}

const SLOT_BYTES: usize = 64;
const SLOTS: usize = 1 << 13;
const NOTHING: u8 = u8::MAX;

impl Memo {
    pub const BYTES: u64 = (SLOTS * SLOT_BYTES) as u64;

    /// An empty one, of the [`Memo::BYTES`] that are held for it.
    pub fn new(held: Reservation) -> Memo {
        let empty = Slot {
            word: 0,
            token: 0,
            bytes: [0; SLOT_BYTES - 2],
        };
        Memo {
            slots: vec![empty; SLOTS],
            _held: held,
        }
    }

    /// Shows `each` what `word` becomes; `find` tells of a word that isn't known.
    pub fn show<'w>(
        &mut self,
        word: &str,
        find: impl FnOnce() -> Option<Cow<'w, str>>,
        each: &mut dyn FnMut(&str),
    ) {
        let slot = &mut self.slots[hash64(word.as_bytes()) as usize % SLOTS];
        if let Some(token) = slot.get(word) {
            return token.into_iter().for_each(each);
        }
        let token = find();
        slot.set(word, token.as_deref());
        token.as_deref().into_iter().for_each(each);
    }
}

impl Slot {
    /// What is known of the word.
    fn get(&self, word: &str) -> Option<Option<&str>> {
        let (known, behind) = self.bytes.split_at_checked(self.word.into())?;
        if known != word.as_bytes() || known.is_empty() {
            return None;
        }
        if self.token == NOTHING {
            return Some(None);
        }
        let token = std::str::from_utf8(behind.get(..self.token.into())?);
        token.ok().map(Some)
    }

    /// What is too long is as it was.
    fn set(&mut self, word: &str, token: Option<&str>) {
        let (known, becomes) = (word.as_bytes(), token.unwrap_or_default().as_bytes());
        let end = known.len() + becomes.len();
        let Some(room) = self.bytes.get_mut(..end) else {
            return;
        };
        room[..known.len()].copy_from_slice(known);
        room[known.len()..].copy_from_slice(becomes);
        self.word = known.len() as u8;
        self.token = token.map_or(NOTHING, |token| token.len() as u8);
    }
}
