//! Made-up texts: words as frequent as Zipf says, rows without text between them.

use crate::random::Random;

/// By row: its tokens with their positions.
pub struct Corpus(pub Vec<Vec<(String, u32)>>);

impl Corpus {
    /// `rows` rows of up to `longest` words out of `words`; every seventh has none.
    pub fn new(seed: u64, rows: usize, longest: u32, words: u32) -> Corpus {
        let mut random = Random::new(seed);
        let row = |row: usize| {
            let len = match row % 7 {
                3 => 0,
                _ => random.below(longest + 1),
            };
            let mut position = 0;
            let mut token = |_| {
                // Stop words leave gaps; several tokens may stand at one place.
                position += [0, 1, 1, 1, 2][random.below(5) as usize];
                (word(&mut random, words), position)
            };
            let mut tokens: Vec<(String, u32)> = (0..len).map(&mut token).collect();
            // No tokenizer shows the same token twice at one place.
            tokens.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
            tokens.dedup();
            tokens
        };
        Corpus((0..rows).map(row).collect())
    }

    pub fn documents(&self) -> u64 {
        self.0.iter().filter(|row| !row.is_empty()).count() as u64
    }

    pub fn tokens(&self) -> u64 {
        self.0.iter().map(|row| row.len() as u64).sum()
    }

    pub fn doc_freq(&self, term: &str) -> u64 {
        let has = |row: &&Vec<(String, u32)>| row.iter().any(|(token, _)| token == term);
        self.0.iter().filter(has).count() as u64
    }
}

/// The r-th word about as often as 1 / r.
pub fn word(random: &mut Random, words: u32) -> String {
    let rank = f64::from(words).powf(random.unit()) as u32;
    format!("w{rank}")
}
