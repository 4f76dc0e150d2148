//! The search for the smallest limit that serves.

/// Bisection over limits in whole megabytes. What was seen may contradict itself, as limits at the edge do: a limit counts as
/// serving only if nothing larger failed.
#[derive(Debug, Clone)]
pub struct Minimum {
    seen: Vec<(u64, bool)>,
    /// Share of the limit.
    precision: f64,
    /// Largest limit worth trying.
    ceiling: u64,
}

const MB: u64 = 1_000_000;
/// Below it no server starts; a group of less is killed before it can say so.
const FLOOR: u64 = 4 * MB;

impl Minimum {
    pub fn new(precision: f64, ceiling: u64) -> Minimum {
        Minimum {
            seen: Vec::new(),
            precision,
            ceiling,
        }
    }

    pub fn note(&mut self, limit: u64, serves: bool) {
        self.seen.push((limit, serves));
    }

    /// The smallest limit so far that serves.
    pub fn serves(&self) -> Option<u64> {
        let fails = self.fails();
        let serving = self.seen.iter().filter(|(_, serves)| *serves);
        serving
            .map(|(limit, _)| *limit)
            .filter(|limit| Some(*limit) > fails)
            .min()
    }

    fn fails(&self) -> Option<u64> {
        let failing = self.seen.iter().filter(|(_, serves)| !serves);
        failing.map(|(limit, _)| *limit).max()
    }

    /// What to try next; None when the minimum is known as well as wanted, or lies beyond what may be tried.
    pub fn next(&self) -> Option<u64> {
        match (self.fails(), self.serves()) {
            (None, None) => Some(self.ceiling),
            (None, Some(serves)) if serves <= FLOOR => None,
            (None, Some(serves)) => Some(whole(serves / 2).max(FLOOR)),
            (Some(fails), None) if fails >= self.ceiling => None,
            (Some(fails), None) => Some((fails * 2).min(self.ceiling)),
            (Some(fails), Some(serves)) => {
                let close = ((serves as f64 * self.precision) as u64).max(MB);
                let middle = whole(fails.midpoint(serves));
                (serves - fails > close && middle > fails && middle < serves).then_some(middle)
            }
        }
    }
}

fn whole(bytes: u64) -> u64 {
    bytes / MB * MB
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tries what it asks for against a server that needs `needed`; returns what was found and in how many tries.
    fn find(needed: u64, known: &[u64], precision: f64) -> (Option<u64>, usize) {
        let mut search = Minimum::new(precision, 8_000 * MB);
        known
            .iter()
            .for_each(|&limit| search.note(limit, limit >= needed));
        let mut tries = 0;
        while let Some(limit) = search.next() {
            tries += 1;
            assert!(tries < 60 && (FLOOR..=8_000 * MB).contains(&limit));
            search.note(limit, limit >= needed);
        }
        (search.serves(), tries)
    }

    #[test]
    fn it_finds_what_is_needed() {
        for needed in [5, 17, 33, 97, 135, 601, 1_153].map(|mb| mb * MB) {
            for known in [&[][..], &[1_000 * MB, 300 * MB, 135 * MB, 16 * MB], &[16 * MB]] {
                let (found, _) = find(needed, known, 0.05);
                let found = found.expect("below the ceiling");
                assert!(
                    found >= needed && found <= (needed as f64 * 1.06) as u64 + MB,
                    "{needed}: {found}"
                );
            }
        }
        assert_eq!(find(20_000 * MB, &[], 0.05).0, None);
        assert_eq!(find(0, &[16 * MB], 0.05).0, Some(FLOOR));
    }

    #[test]
    fn known_limits_spare_tries() {
        let (_, few) = find(97 * MB, &[135 * MB, 64 * MB], 0.05);
        let (_, many) = find(97 * MB, &[], 0.05);
        assert!(few <= 5 && few < many, "{few} {many}");
    }

    #[test]
    fn a_failure_above_counts_more() {
        let mut search = Minimum::new(0.05, 1_000 * MB);
        search.note(100 * MB, true);
        search.note(120 * MB, false);
        assert_eq!(search.serves(), None);
        search.note(200 * MB, true);
        assert_eq!((search.serves(), search.next()), (Some(200 * MB), Some(160 * MB)));
    }
}
