//! The on-disk formats of Ramlet: encode, decode, verify.
//!
//! No I/O: writers append to a `Vec<u8>` that the caller drains to a file whenever it likes, readers are views over bytes
//! that the caller has read. No panic on bytes: every decoder returns a [`Result`]. Everything is little endian.
//! Each type draws its bytes at the top of its file; `docs/format.md` shows them together.
//!
//! Two families:
//! - *Block files* ([`rows`], [`records`], [`sorted`], [`bloom`]): sealed blocks of whole pages, then an index region,
//!   then one [`footer`] page. Read block by block; every block is verified by [`block::verify`].
//! - *Whole-file values* in an [`envelope`] ([`bitmap`], [`manifest`], [`catalog`]), and the [`log`].
//!
//! A [`snapshot`] is a container around files of both.
//!
//! ```
//! use ramlet_format::{PAGE, block, footer::Footer, rows::{RowsMeta, RowsWriter}};
//!
//! let (seed, mut file) = (block::seed(7, 1), Vec::new());
//! let mut writer = RowsWriter::new(seed, 8);
//! for row in 0u64..1000 {
//!     writer.push(&row.to_le_bytes(), &mut file);
//! }
//! writer.finish(&mut file);
//!
//! let last = file.len() / PAGE - 1;
//! let footer = Footer::parse(&file[last * PAGE..], seed, last as u64)?;
//! let meta = RowsMeta::open(&footer)?;
//! let (page, offset) = meta.layout.locate(777);
//! let block = &file[page as usize * PAGE..][..meta.layout.block_bytes()];
//! assert!(block::verify(seed, page, block));
//! assert_eq!(block[offset..offset + 8], 777u64.to_le_bytes());
//! # Ok::<(), ramlet_format::FormatError>(())
//! ```

pub mod block;
pub mod footer;

pub mod bloom;
pub mod records;
pub mod rows;
pub mod sorted;

pub mod bitmap;
pub mod catalog;
pub mod component;
pub mod envelope;
pub mod manifest;
pub mod snapshot;

pub mod log;

pub mod hash;

mod bytes;
mod crc;
mod error;
mod name;

pub use block::PAGE;
pub use component::Component;
pub use crc::FileCrc;
pub use error::{FormatError, Result};
pub use name::is_plain_name;
