//! Brute force: BM25 by its formula, phrases by looking.

use ramlet_text::{Bm25, Mode, QueryTerm, length, norm};

use crate::corpus::Corpus;

/// All rows that match, with their scores in double precision: best first, ties by row.
pub fn ranking(corpus: &Corpus, mode: Mode, terms: &[QueryTerm<'_>], bm25: &Bm25) -> Vec<(u32, f64)> {
    let mut found: Vec<(u32, f64)> = (0u32..)
        .zip(&corpus.0)
        .filter_map(|(row, tokens)| Some((row, score(tokens, mode, terms, bm25)?)))
        .collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    found
}

/// `None`: it doesn't match.
fn score(tokens: &[(String, u32)], mode: Mode, terms: &[QueryTerm<'_>], bm25: &Bm25) -> Option<f64> {
    let norm = norm(tokens.len() as u32);
    let part = |idf: f64, freq: usize| {
        if freq == 0 {
            return 0.0;
        }
        let average = bm25.tokens as f64 / bm25.documents as f64;
        let (k1, b, freq) = (f64::from(bm25.k1), f64::from(bm25.b), freq as f64);
        let long = k1 * (1.0 - b + b * f64::from(length(norm)) / average);
        idf * (k1 + 1.0) * freq / (freq + long)
    };
    let idf = |term: &QueryTerm<'_>| {
        let (all, some) = (bm25.documents as f64, term.doc_freq as f64);
        (1.0 + (all - some + 0.5) / (some + 0.5)).ln()
    };
    let freq = |term: &QueryTerm<'_>| tokens.iter().filter(|(token, _)| token == term.text).count();
    if mode == Mode::Phrase && terms.len() > 1 {
        let freq = occurrences(tokens, terms);
        return (freq > 0).then(|| part(terms.iter().map(idf).sum(), freq));
    }
    let held = terms.iter().filter(|term| freq(term) > 0).count();
    let matches = match mode {
        Mode::Any => held > 0,
        _ => held == terms.len() && held > 0,
    };
    matches.then(|| terms.iter().map(|term| part(idf(term), freq(term))).sum())
}

/// Places where the phrase begins.
pub fn occurrences(tokens: &[(String, u32)], terms: &[QueryTerm<'_>]) -> usize {
    let first = terms.iter().map(|term| term.position).min().unwrap_or(0);
    let last = tokens.last().map_or(0, |(_, position)| *position);
    let starts = |start: u32| {
        terms.iter().all(|term| {
            let place = start + term.position - first;
            tokens
                .iter()
                .any(|(token, position)| token == term.text && *position == place)
        })
    };
    (0..=last)
        .filter(|start| !tokens.is_empty() && starts(*start))
        .count()
}
