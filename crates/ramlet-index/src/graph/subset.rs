//! Some of all nodes, in ascending order, and each one's place among them.

/// Bits of a word.
const WORD: usize = 64;

/// A set of nodes with places: a bit and a half for every node there is, and 4 bytes for each in the set.
pub(super) struct Subset {
    words: Vec<u64>,
    /// Nodes in the set before each word.
    before: Vec<u32>,
    /// The nodes, ascending.
    nodes: Vec<u32>,
    count: usize,
}

impl Subset {
    /// An empty set of nodes below `rows`.
    pub(super) fn new(rows: u32) -> Subset {
        let words = (rows as usize).div_ceil(WORD);
        Subset {
            words: vec![0; words],
            before: vec![0; words],
            nodes: Vec::new(),
            count: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.words.fill(0);
        self.nodes.clear();
        self.count = 0;
    }

    /// Nodes in the set.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    #[inline]
    pub(super) fn insert(&mut self, node: u32) {
        let (word, bit) = (&mut self.words[node as usize / WORD], 1 << (node as usize % WORD));
        self.count += usize::from(*word & bit == 0);
        *word |= bit;
    }

    /// Gives places to the nodes: before it no node has one.
    pub(super) fn seal(&mut self) {
        for (i, (word, before)) in self.words.iter().zip(&mut self.before).enumerate() {
            *before = self.nodes.len() as u32;
            let mut rest = *word;
            while rest != 0 {
                self.nodes.push((i * WORD) as u32 + rest.trailing_zeros());
                rest &= rest - 1;
            }
        }
    }

    /// The nodes, ascending; once they have places.
    pub(super) fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    /// The node at a place.
    #[inline]
    pub(super) fn node(&self, place: usize) -> u32 {
        self.nodes[place]
    }

    /// The place of a node, if it is in the set; none for a number that is no node's.
    #[inline]
    pub(super) fn place(&self, node: u32) -> Option<usize> {
        let (at, bit) = (node as usize / WORD, 1u64 << (node as usize % WORD));
        let word = *self.words.get(at)?;
        (word & bit != 0).then(|| self.before[at] as usize + (word & (bit - 1)).count_ones() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_in_a_sorted_list() {
        let mut set = Subset::new(1000);
        for round in 1..3 {
            set.clear();
            let nodes: Vec<u32> = (0..300).map(|i| (i * i * round + 7 * i) % 1000).collect();
            nodes.iter().for_each(|node| set.insert(*node));
            set.seal();
            let mut sorted = nodes;
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(set.len(), sorted.len());
            assert_eq!(set.nodes(), sorted);
            for node in (0..1100).chain([u32::MAX]) {
                assert_eq!(set.place(node), sorted.binary_search(&node).ok(), "{node}");
            }
        }
    }
}
