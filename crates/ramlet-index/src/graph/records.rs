//! Records of one size, one per node, read by tiles through a bounded cache.

use std::collections::VecDeque;
use std::sync::Arc;

use super::temporary::Stored;
use crate::error::Result;

/// Nodes in runs of neighbouring numbers: what is read and worked on at once.
#[derive(Clone, Debug)]
pub(super) struct Tiles {
    /// Tile `i` has the nodes `starts[i]..starts[i + 1]`.
    pub(super) starts: Vec<u32>,
}

impl Tiles {
    pub(super) fn count(&self) -> usize {
        self.starts.len() - 1
    }

    pub(super) fn nodes(&self, tile: usize) -> std::ops::Range<u32> {
        self.starts[tile]..self.starts[tile + 1]
    }

    /// The tile of a node that exists.
    pub(super) fn of(&self, node: u32) -> usize {
        self.starts.partition_point(|start| *start <= node) - 1
    }
}

/// A file with a record per node, of which the tiles used last stay in memory.
pub(super) struct Records<'a> {
    stored: &'a Stored<'a>,
    pub(super) stride: usize,
    tiles: &'a Tiles,
    loaded: Vec<Option<Arc<Vec<u8>>>>,
    /// Loaded tiles, and whether they were used since they came or were spared.
    queue: VecDeque<usize>,
    used: Vec<bool>,
    bytes: usize,
    bytes_max: usize,
}

impl<'a> Records<'a> {
    pub(super) fn new(
        stored: &'a Stored<'a>,
        stride: usize,
        tiles: &'a Tiles,
        bytes_max: usize,
    ) -> Records<'a> {
        Records {
            stored,
            stride,
            tiles,
            loaded: vec![None; tiles.count()],
            queue: VecDeque::new(),
            used: vec![false; tiles.count()],
            bytes: 0,
            bytes_max,
        }
    }

    /// The records of a tile.
    pub(super) fn tile(&mut self, tile: usize) -> Result<&Arc<Vec<u8>>> {
        if self.loaded[tile].is_none() {
            let nodes = self.tiles.nodes(tile);
            let mut bytes = vec![0; nodes.len() * self.stride];
            self.make_room(bytes.len());
            self.stored
                .read(&mut bytes, u64::from(nodes.start) * self.stride as u64)?;
            self.bytes += bytes.len();
            self.loaded[tile] = Some(Arc::new(bytes));
            self.queue.push_back(tile);
        }
        self.used[tile] = true;
        Ok(self.loaded[tile].get_or_insert_default())
    }

    /// Appends a node's record.
    pub(super) fn copy(&mut self, node: u32, out: &mut Vec<u8>) -> Result<()> {
        let tile = self.tiles.of(node);
        let at = (node - self.tiles.starts[tile]) as usize * self.stride;
        let stride = self.stride;
        out.extend_from_slice(&self.tile(tile)?[at..at + stride]);
        Ok(())
    }

    /// Second chance: who was used since the last look is spared once.
    fn make_room(&mut self, bytes: usize) {
        while self.bytes + bytes > self.bytes_max {
            let Some(tile) = self.queue.pop_front() else {
                return;
            };
            if std::mem::take(&mut self.used[tile]) {
                self.queue.push_back(tile);
            } else if let Some(gone) = self.loaded[tile].take() {
                self.bytes -= gone.len();
            }
        }
    }
}
