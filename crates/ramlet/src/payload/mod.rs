//! Payloads: JSON objects kept as checked bytes, read by a cursor and never as a tree.
//!
//! A tree of a hostile 1 MB object is 100 MB; the bytes are 1 MB. So everything here works on slices of the text:
//! [`validate`] once on the way in, [`JsonRef`] to read, [`Path`] to find, [`set`] and its kin to change
//! (only the containers on the path are taken apart, all else is copied as text, so numbers keep every digit).

mod edit;
mod json;
mod path;
mod select;
mod validate;

pub use edit::{delete_keys, overwrite, set};
pub use json::{ArrayIter, Json, JsonRef, Number, ObjectIter};
pub use path::{Path, PathError, STEPS_MAX, Step};
pub use select::{Selector, select};
pub use validate::{DEPTH_MAX, PayloadError, compact, validate};
