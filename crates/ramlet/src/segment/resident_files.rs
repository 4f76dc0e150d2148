//! Which of a collection's files are wholly in RAM.

/// Files that are in RAM as a whole or record by record: their kinds, those that are missed most a byte first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResidentFiles {
    Terms,
    Lists,
    Positions,
    /// Ids, payload indexes, and where the rows of vectors are: what filters read.
    Tables,
    Payloads,
}

/// Which files are in RAM as a whole: those up to this one in the order of kinds, then bytes. `None`: not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptWhole(Option<(ResidentFiles, u64)>);

impl KeptWhole {
    /// What to keep in so many bytes: all, or the first kinds in half of them, and of the next kind what is short. What is read lately of the others is kept
    /// record by record, and ten records that are asked for are worth more than a page of those that happen to come first. A short file is asked as
    /// often as a long one: each word has a list in each segment.
    pub fn of(mut files: Vec<(ResidentFiles, u64)>, room: u64) -> KeptWhole {
        let sum: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        if sum <= room {
            return KeptWhole(Some((ResidentFiles::Payloads, u64::MAX)));
        }
        files.retain(|(kind, _)| *kind != ResidentFiles::Payloads);
        files.sort_unstable();
        let (mut left, mut last) = (room / 2, None);
        for (kind, bytes) in files {
            match left.checked_sub(bytes) {
                Some(rest) => (left, last) = (rest, Some((kind, bytes))),
                // Of a kind that is there as a whole a longer file may come.
                None => {
                    return KeptWhole(
                        last.map(|(before, most)| (before, if before == kind { most } else { u64::MAX })),
                    );
                }
            }
        }
        KeptWhole(Some((ResidentFiles::Tables, u64::MAX)))
    }

    pub fn has(self, kind: ResidentFiles, bytes: u64) -> bool {
        Some((kind, bytes)) <= self.0
    }

    /// Whether payloads are: all or none.
    pub fn has_payloads(self) -> bool {
        self.has(ResidentFiles::Payloads, u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two segments.
    fn files() -> Vec<(ResidentFiles, u64)> {
        use ResidentFiles::*;
        let of = |kinds: [ResidentFiles; 4], bytes: [u64; 4]| kinds.into_iter().zip(bytes);
        let kinds = [Terms, Lists, Positions, Payloads];
        of(kinds, [4, 50, 25, 200])
            .chain(of(kinds, [1, 6, 3, 20]))
            .collect()
    }

    fn kept(room: u64) -> Vec<(ResidentFiles, u64)> {
        let kept = KeptWhole::of(files(), room);
        let has = |(kind, bytes): &(ResidentFiles, u64)| kept.has(*kind, *bytes);
        let mut files: Vec<_> = files().into_iter().filter(has).collect();
        files.sort_unstable();
        files
    }

    #[test]
    fn what_is_missed_most_and_what_is_short() {
        use ResidentFiles::*;
        assert_eq!(kept(309).len(), 8);
        let lists = [(Terms, 1), (Terms, 4), (Lists, 6), (Lists, 50)];
        let with = |more: &[(ResidentFiles, u64)]| [&lists[..], more].concat();
        // Payloads all or none, and nothing but them beyond a half.
        assert_eq!(kept(308), with(&[(Positions, 3), (Positions, 25)]));
        assert_eq!(kept(177), with(&[(Positions, 3)]));
        assert_eq!(kept(122), with(&[]));
        assert_eq!(kept(121), lists[..3]);
        assert_eq!(kept(21), lists[..2]);
        assert_eq!(kept(9), lists[..1]);
        assert_eq!(kept(1), []);
        assert!(!KeptWhole::of(files(), 308).has_payloads());
        assert!(KeptWhole::of(files(), 309).has_payloads());
    }
}
