//! How many bytes a message takes when it is decoded, told from its encoding: nothing is decoded before that is known.

use crate::wire::{Field, Fields};

/// Messages inside of messages. The decoder itself takes 100.
pub const DEPTH_MAX: usize = 90;

/// A message type's size and the fields that hold more than that.
pub struct Shape {
    pub bytes: usize,
    /// In the order of their declaration.
    pub fields: &'static [(u32, Kind)],
}

/// What a field holds outside of its message.
pub enum Kind {
    /// One message; a recursive one lies in a box of its own.
    Message(&'static Shape),
    Messages(&'static Shape),
    Text,
    Strings,
    /// Bytes that stay where they came in; only the list of them is new.
    Slices,
    Floats,
    /// A list of whole numbers that take so many bytes.
    Numbers(usize),
}

/// A message type with a known shape.
pub trait Shaped {
    const SHAPE: &'static Shape;
}

/// Why a message isn't decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// The bytes aren't a message.
    Broken,
    /// More than [`DEPTH_MAX`] messages inside of each other.
    Deep,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Malformed::Broken => f.write_str("the bytes are not a message of this type"),
            Malformed::Deep => write!(f, "more than {DEPTH_MAX} messages stand inside of each other"),
        }
    }
}

/// A bound of what a decoded message takes, and what its parts come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weight {
    /// Bytes of the decoded message, lists at their largest while they grow.
    pub bytes: u64,
    /// Messages in lists, of types that hold further messages or lists.
    pub elements: u64,
    /// Messages in lists of types that hold a text at most, as ids do; and texts in lists.
    pub leaves: u64,
    /// Messages that stand alone.
    pub singles: u64,
}

/// What is held of the error when a message turns out to be none: its sentence, and a place for each level above it.
const ERROR_BYTES: u64 = 1024;

impl Shape {
    /// What `message` becomes.
    pub fn weigh(&'static self, message: &[u8]) -> Result<Weight, Malformed> {
        let mut weight = Weight {
            bytes: self.bytes as u64 + ERROR_BYTES,
            ..Weight::default()
        };
        self.add(message, DEPTH_MAX, &mut weight)?;
        Ok(weight)
    }

    /// Where one of this type in a list is counted.
    fn counted<'w>(&self, weight: &'w mut Weight) -> &'w mut u64 {
        match self.fields.iter().all(|(_, kind)| matches!(kind, Kind::Text)) {
            true => &mut weight.leaves,
            false => &mut weight.elements,
        }
    }

    fn kind(&self, number: u32) -> Option<&Kind> {
        self.fields
            .iter()
            .find(|(n, _)| *n == number)
            .map(|(_, kind)| kind)
    }

    fn add(&'static self, message: &[u8], depth: usize, weight: &mut Weight) -> Result<(), Malformed> {
        let deeper = depth.checked_sub(1).ok_or(Malformed::Deep)?;
        // Elements of the list that is being read.
        let mut run = (0, 0);
        for field in Fields::new(message) {
            let (number, field) = field.map_err(|_| Malformed::Broken)?;
            let Some(kind) = self.kind(number) else { continue };
            run = if run.0 == number {
                (number, run.1 + 1)
            } else {
                (number, 1)
            };
            match (kind, field) {
                (Kind::Message(of), Field::Len(inner)) => {
                    weight.singles += 1;
                    weight.bytes += of.bytes as u64;
                    of.add(inner, deeper, weight)?;
                }
                (Kind::Messages(of), Field::Len(inner)) => {
                    *of.counted(weight) += 1;
                    weight.bytes += grown(of.bytes, run.1);
                    of.add(inner, deeper, weight)?;
                }
                (Kind::Text, Field::Len(text)) => weight.bytes += text.len() as u64,
                (Kind::Strings, Field::Len(text)) => {
                    weight.leaves += 1;
                    weight.bytes += text.len() as u64 + grown(size_of::<String>(), run.1);
                }
                (Kind::Slices, _) => {
                    weight.bytes += grown(size_of::<bytes::Bytes>(), run.1);
                }
                (Kind::Floats, Field::Len(packed)) => weight.bytes += 2 * packed.len() as u64,
                (Kind::Floats, _) => weight.bytes += grown(size_of::<f32>(), run.1),
                // A number is a byte at least.
                (Kind::Numbers(bytes), Field::Len(packed)) => {
                    weight.bytes += 2 * (packed.len() * bytes) as u64
                }
                (Kind::Numbers(bytes), _) => weight.bytes += grown(*bytes, run.1),
                // Of another type than declared: the decoder refuses it.
                _ => {}
            }
        }
        Ok(())
    }
}

/// Bytes that the `nth` element adds to a list that begins with four places and doubles, old and new at once.
fn grown(bytes: usize, nth: u64) -> u64 {
    let places = match nth {
        1 => 4,
        2..=4 => 0,
        // Eight new ones beside the four.
        5 => 8,
        _ => 3,
    };
    bytes as u64 * places
}
