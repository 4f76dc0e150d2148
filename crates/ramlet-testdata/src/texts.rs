//! Made-up texts: words by Zipf's law, documents about something, pairs of words that go together; the same from every seed.
//!
//! Word frequencies follow Zipf and Mandelbrot, 1 / (rank + 2.7), as those of English do. What makes texts unlike a bag of random words is
//! that a document repeats the words of its topic, and that some words are followed by the same word: without either, a query of several
//! words or a phrase would find nothing.

use crate::Random;
use crate::random::mix;

/// A source of documents and queries: number `n` follows from the seed and `n` alone. Memory: 1.6 MB.
#[derive(Debug, Clone)]
pub struct Texts {
    seed: u64,
    documents: u64,
    /// Sums of the words' weights, by rank.
    sums: Vec<f64>,
}

/// A document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub title: String,
    pub body: String,
}

const VOCABULARY: usize = 200_000;
const SHIFT: f64 = 2.7;
const TOPICS: u64 = 2_000;
const TOPIC_WORDS: u64 = 40;
/// Topics are made of words that aren't in every document.
const TOPIC_RANK_MIN: u64 = 300;
const TOPIC_SHARE: f64 = 0.25;
const FOLLOWED_SHARE: f64 = 0.12;
const BODY_WORDS_MEDIAN: f64 = 45.0;
const BODY_WORDS_SPREAD: f32 = 0.6;
const BODY_WORDS: (f64, f64) = (8.0, 400.0);
const SENTENCE_WORDS: u64 = 14;
/// Queries that people ask again: the log draws from half as many as it is long, the popular ones often.
const LOG_POOL: u64 = 2;

/// Streams of random numbers that don't depend on each other.
const TOPICS_SEED: u64 = 0x746f_7069;
const LOG_SEED: u64 = 0x6c6f_6773;
const QUERIES_SEED: u64 = 0x7175_6572;
const PHRASES_SEED: u64 = 0x7068_7261;

/// The commonest words are English function words, so that lists of stop words have something to do.
const COMMON: [&str; 30] = [
    "the", "of", "and", "to", "in", "a", "is", "that", "for", "it", "was", "on", "as", "with", "be", "by",
    "at", "this", "are", "from", "or", "an", "not", "but", "they", "their", "which", "no", "there", "into",
];

impl Texts {
    pub fn new(seed: u64, documents: u64) -> Texts {
        let mut sum = 0.0;
        let sums = (0..VOCABULARY).map(|rank| {
            sum += 1.0 / (rank as f64 + SHIFT);
            sum
        });
        Texts {
            seed,
            documents,
            sums: sums.collect(),
        }
    }

    /// Document `n`; beyond the number of documents there are others of the same kind.
    pub fn document(&self, n: u64) -> Document {
        let (topic, mut random) = self.begin(n);
        let title: Vec<u64> = (0..2 + random.below(3))
            .map(|_| self.topic_word(topic, &mut random))
            .collect();
        let words = self.body(topic, &mut random);
        Document {
            title: title.into_iter().map(word).collect::<Vec<_>>().join(" "),
            body: sentences(&words),
        }
    }

    /// Query `n` of a log of `log`: one to four words of some document, none of them among the commonest.
    pub fn query(&self, n: u64, log: u64) -> String {
        let pool = (log / LOG_POOL).max(1);
        let drawn = Random::new(self.seed ^ LOG_SEED, n).unit();
        // The inverse of a harmonic sum: popularity falls as 1 / rank.
        let which = ((pool as f64).powf(drawn) as u64).min(pool - 1);
        let mut random = Random::new(self.seed ^ QUERIES_SEED, which);
        let words = self.content(random.below(self.documents), &mut random);
        let wanted = [1, 1, 2, 2, 2, 2, 3, 3, 3, 4][random.below(10) as usize];
        let mut chosen: Vec<u64> = Vec::new();
        for _ in 0..4 * wanted {
            let one = words[random.below(words.len() as u64) as usize];
            if chosen.len() < wanted && !chosen.contains(&one) {
                chosen.push(one);
            }
        }
        chosen.into_iter().map(word).collect::<Vec<_>>().join(" ")
    }

    /// Two words that stand side by side in some document.
    pub fn phrase(&self, n: u64) -> String {
        let mut random = Random::new(self.seed ^ PHRASES_SEED, n);
        let (topic, mut of_document) = self.begin(random.below(self.documents));
        let _title: Vec<u64> = (0..2 + of_document.below(3))
            .map(|_| self.topic_word(topic, &mut of_document))
            .collect();
        let words = self.body(topic, &mut of_document);
        let rare = |word: &u64| *word >= COMMON.len() as u64;
        let pairs: Vec<&[u64]> = words
            .chunks(SENTENCE_WORDS as usize)
            .flat_map(|sentence| sentence.windows(2))
            .filter(|pair| pair.iter().all(rare))
            .collect();
        match pairs.is_empty() {
            true => word(words[0]),
            false => {
                let pair = pairs[random.below(pairs.len() as u64) as usize];
                format!("{} {}", word(pair[0]), word(pair[1]))
            }
        }
    }

    fn begin(&self, n: u64) -> (u64, Random) {
        let mut random = Random::new(self.seed, n);
        (random.below(TOPICS), random)
    }

    fn body(&self, topic: u64, random: &mut Random) -> Vec<u64> {
        let length = BODY_WORDS_MEDIAN * f64::from((random.normal() * BODY_WORDS_SPREAD).exp());
        let length = length.clamp(BODY_WORDS.0, BODY_WORDS.1) as usize;
        let mut words: Vec<u64> = Vec::with_capacity(length);
        while words.len() < length {
            let drawn = random.unit();
            let next = match words.last() {
                Some(&last) if drawn < FOLLOWED_SHARE => self.follower(last),
                _ if drawn < FOLLOWED_SHARE + TOPIC_SHARE => self.topic_word(topic, random),
                _ => self.any_word(random),
            };
            words.push(next);
        }
        words
    }

    /// Words of document `n` that a query may have; never empty.
    fn content(&self, n: u64, random: &mut Random) -> Vec<u64> {
        let (topic, mut of_document) = self.begin(n);
        let mut words = self.body(topic, &mut of_document);
        words.retain(|word| *word >= COMMON.len() as u64);
        words.push(self.topic_word(topic, random));
        words
    }

    fn any_word(&self, random: &mut Random) -> u64 {
        let total = self.sums.last().copied().unwrap_or_default();
        let drawn = random.unit() * total;
        self.sums.partition_point(|sum| *sum <= drawn).min(VOCABULARY - 1) as u64
    }

    fn topic_word(&self, topic: u64, random: &mut Random) -> u64 {
        // Of a topic's words the first are the commonest too.
        let at = random.below(TOPIC_WORDS).min(random.below(TOPIC_WORDS));
        let hash = mix(self.seed ^ TOPICS_SEED ^ (topic * TOPIC_WORDS + at));
        TOPIC_RANK_MIN + hash % (VOCABULARY as u64 / 8)
    }

    fn follower(&self, word: u64) -> u64 {
        COMMON.len() as u64 + mix(self.seed ^ word) % (VOCABULARY as u64 / 4)
    }
}

/// The word of a rank: the rarer, the longer.
fn word(rank: u64) -> String {
    const CONSONANTS: &[u8] = b"bdfgklmnprtv";
    const VOWELS: &[u8] = b"aeiou";
    if let Some(common) = COMMON.get(rank as usize) {
        return (*common).to_string();
    }
    let syllables = (CONSONANTS.len() * VOWELS.len()) as u64;
    let (mut rest, mut text) = (rank, String::new());
    // No two ranks have the same digits; the last consonant keeps stemmers from cutting endings off.
    while rest > 0 || text.len() < 4 {
        let digit = (rest % syllables) as usize;
        text.push(CONSONANTS[digit % CONSONANTS.len()] as char);
        text.push(VOWELS[digit / CONSONANTS.len()] as char);
        rest /= syllables;
    }
    text.push('k');
    text
}

fn sentences(words: &[u64]) -> String {
    let sentence = |words: &[u64]| words.iter().map(|w| word(*w)).collect::<Vec<_>>().join(" ") + ".";
    let all: Vec<String> = words.chunks(SENTENCE_WORDS as usize).map(sentence).collect();
    all.join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    #[test]
    fn words_differ_and_common_ones_are_english() {
        let all: HashSet<String> = (0..VOCABULARY as u64).map(word).collect();
        assert_eq!(all.len(), VOCABULARY);
        assert_eq!(word(0), "the");
    }

    #[test]
    fn a_document_follows_from_seed_and_number() {
        let (one, other) = (Texts::new(7, 1_000), Texts::new(8, 1_000));
        assert_eq!(one.document(5), Texts::new(7, 1_000).document(5));
        assert_ne!(one.document(5), one.document(6));
        assert_ne!(one.document(5), other.document(5));
        assert_eq!(one.query(3, 100), Texts::new(7, 1_000).query(3, 100));
    }

    #[test]
    fn frequencies_fall_as_in_a_language() {
        let made = Texts::new(1, 2_000);
        let mut counts: HashMap<String, usize> = HashMap::new();
        let mut words = 0;
        for n in 0..2_000 {
            let body = made.document(n).body;
            for word in body.split_whitespace() {
                *counts.entry(word.trim_end_matches('.').into()).or_default() += 1;
                words += 1;
            }
        }
        assert!((80_000..140_000).contains(&words), "{words}");
        let share = counts["the"] as f64 / words as f64;
        assert!((0.01..0.1).contains(&share), "{share}");
        let once = counts.values().filter(|count| **count == 1).count();
        assert!(
            once > counts.len() / 4 && counts.len() > 10_000,
            "{once} of {}",
            counts.len()
        );
    }

    #[test]
    fn queries_and_phrases_are_found_in_documents() {
        let made = Texts::new(3, 300);
        let bodies: Vec<String> = (0..300).map(|n| made.document(n).body).collect();
        for n in 0..50 {
            let phrase = made.phrase(n);
            assert!(bodies.iter().any(|body| body.contains(&phrase)), "{phrase}");
            let query = made.query(n, 50);
            let words: Vec<&str> = query.split(' ').collect();
            assert!(
                (1..=4).contains(&words.len()) && !words.contains(&"the"),
                "{query}"
            );
        }
        let log: Vec<String> = (0..1_000).map(|n| made.query(n, 1_000)).collect();
        let different: HashSet<&String> = log.iter().collect();
        assert!((50..500).contains(&different.len()), "{}", different.len());
    }
}
