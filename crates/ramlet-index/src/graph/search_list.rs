//! The beam search list: known nodes, nearest first.

/// A node that a beam search knows of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Known {
    pub(crate) distance: f32,
    pub(crate) id: u32,
    pub(crate) visited: bool,
}

impl Known {
    fn is_before(&self, distance: f32, id: u32) -> bool {
        (self.distance, self.id) < (distance, id)
    }
}

/// At most `room` known nodes, ascending by distance and id; the farthest are forgotten.
///
/// No set of visited nodes is needed beside it: a node's distance is the same whenever it is met, so that one still here is
/// recognised by its place, and one forgotten is too far ever to come back.
#[derive(Debug, Default)]
pub(crate) struct SearchList {
    known: Vec<Known>,
    room: usize,
    /// All before this are visited.
    first: usize,
}

impl SearchList {
    /// Forgets all if it has room for more nodes than that, and keeps so much room.
    pub(crate) fn shrink_to(&mut self, room: usize) {
        if self.known.capacity() > room {
            self.known = Vec::with_capacity(room);
            self.first = 0;
        }
    }

    /// Forgets all; allocates when `room` is larger than ever before.
    pub(crate) fn clear(&mut self, room: usize) {
        self.known.clear();
        self.known.reserve_exact(room);
        (self.room, self.first) = (room, 0);
    }

    /// A distance above this is too far to be kept.
    #[inline]
    pub(crate) fn threshold(&self) -> f32 {
        match self.known.last() {
            Some(last) if self.known.len() >= self.room => last.distance,
            _ => f32::INFINITY,
        }
    }

    /// Keeps a node, unless it is here already or too far. The distance is a number.
    #[inline]
    pub(crate) fn offer(&mut self, distance: f32, id: u32) {
        if distance > self.threshold() {
            return;
        }
        let at = self.known.partition_point(|known| known.is_before(distance, id));
        if at >= self.room
            || self
                .known
                .get(at)
                .is_some_and(|known| (known.distance, known.id) == (distance, id))
        {
            return;
        }
        if self.known.len() == self.room {
            self.known.pop();
        }
        let visited = false;
        self.known.insert(
            at,
            Known {
                distance,
                id,
                visited,
            },
        );
        self.first = self.first.min(at);
    }

    /// The nodes of some ranks, as far as there are any.
    pub(crate) fn ranks(&self, ranks: std::ops::Range<usize>) -> impl Iterator<Item = u32> {
        let known = self.known.iter().skip(ranks.start).take(ranks.len());
        known.map(|known| known.id)
    }

    /// The nearest node not visited, which is so from now on, with its rank.
    pub(crate) fn visit(&mut self) -> Option<(usize, u32)> {
        while self.known.get(self.first).is_some_and(|known| known.visited) {
            self.first += 1;
        }
        let nearest = self.known.get_mut(self.first)?;
        nearest.visited = true;
        Some((self.first, nearest.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_nearest_once_each_and_visits_them_in_order() {
        let mut candidates = SearchList::default();
        candidates.clear(3);
        for (distance, id) in [
            (5.0, 1),
            (3.0, 2),
            (3.0, 2),
            (4.0, 3),
            (1.0, 4),
            (5.0, 1),
            (3.0, 5),
        ] {
            candidates.offer(distance, id);
        }
        assert_eq!(candidates.threshold(), 3.0);
        assert_eq!(candidates.visit(), Some((0, 4)));
        assert_eq!(candidates.visit(), Some((1, 2)));
        candidates.offer(0.5, 9);
        // 5 was the farthest and is gone; 2 comes again and is known.
        candidates.offer(3.0, 2);
        assert_eq!(candidates.visit(), Some((0, 9)));
        assert_eq!(candidates.visit(), None);
        candidates.offer(0.75, 7);
        assert_eq!(candidates.visit(), Some((1, 7)));
    }
}
