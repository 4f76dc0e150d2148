//! The best rows of a query.

use tantivy::postings::TermInfo;
use tantivy::query::{
    Bm25StatisticsProvider, BooleanWeight, BoostQuery, EnableScoring, Occur, Query, SumCombiner, TermQuery,
    Weight,
};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{Score, Term};

use crate::bm25::Bm25;
use crate::error::{Result, TextError};
use crate::guard::{callers, no_panic};
use crate::index::{TextIndex, term};
use crate::matching::phrase_query;
use crate::query::{Mode, QUERY_TERMS_MAX, QueryTerm, TextQuery};
use crate::ranges::Ranges;
use crate::scan;

/// A term, how often it stands in the query, and where its list lies.
pub(crate) struct Wanted<'q> {
    pub term: QueryTerm<'q>,
    pub times: u32,
    pub info: TermInfo,
}

impl TextIndex {
    /// Scores rows by BM25.
    ///
    /// `found(row, score)` gets rows in ascending order whose score is greater than the threshold of that moment, and answers with the next
    /// one, which never falls: the score of the last of the k best so far, or what it was (-inf: all are wanted). Whether a row is deleted or
    /// filtered out is asked there, and so only of rows that would enter. A later row of the same score doesn't enter, so ties go to the
    /// lower row. Blocks of lists that can't reach the threshold are skipped, unless k1 or b aren't the usual ones.
    ///
    /// Reads: none if all is in RAM, else one batch. Errors: `OverBudget` if the lists don't fit into the cache's budget at once.
    pub fn search(
        &self,
        query: &TextQuery<'_>,
        threshold: f32,
        ranges: &mut dyn Ranges,
        found: &mut dyn FnMut(u32, f32) -> f32,
    ) -> Result<()> {
        if self.info.documents == 0 {
            return Ok(());
        }
        check(query)?;
        no_panic(|| {
            let Some(wanted) = self.wanted_terms(query.mode, query.terms)? else {
                return Ok(());
            };
            let infos: Vec<TermInfo> = wanted.iter().map(|wanted| wanted.info.clone()).collect();
            let phrase = query.mode == Mode::Phrase && query.terms.len() > 1;
            let _ready = self.ready(&infos, phrase, ranges)?;
            if phrase && !query.bm25.is_built_in() {
                return scan::phrases(self, query, threshold, found);
            }
            match query.bm25.is_built_in() {
                true => self.pruned(query, &wanted, threshold, found),
                false => scan::scored(self, query, &wanted, threshold, found),
            }
        })
    }

    /// The query's terms, each once; `None`: nothing can match.
    pub(crate) fn wanted_terms<'q>(
        &self,
        mode: Mode,
        terms: &[QueryTerm<'q>],
    ) -> Result<Option<Vec<Wanted<'q>>>> {
        let mut wanted: Vec<Wanted<'q>> = Vec::with_capacity(terms.len());
        for term in terms {
            if let Some(known) = wanted.iter_mut().find(|known| known.term.text == term.text) {
                known.times += 1;
                continue;
            }
            match self.find(term.text)? {
                Some(info) => wanted.push(Wanted {
                    term: *term,
                    times: 1,
                    info,
                }),
                None if mode == Mode::Any => {}
                None => return Ok(None),
            }
        }
        Ok((!wanted.is_empty()).then_some(wanted))
    }

    /// tantivy's block-max WAND.
    fn pruned(
        &self,
        query: &TextQuery<'_>,
        wanted: &[Wanted<'_>],
        threshold: f32,
        found: &mut dyn FnMut(u32, f32) -> f32,
    ) -> Result<()> {
        let statistics = Statistics {
            bm25: &query.bm25,
            wanted,
        };
        let scoring = EnableScoring::enabled_from_statistics_provider(&statistics, &self.searcher);
        let weight = match query.mode == Mode::Phrase && query.terms.len() > 1 {
            true => phrase_query(query.terms).weight(scoring)?,
            false => weight(query.mode, wanted, scoring)?,
        };
        let slack = self.slack(&query.bm25);
        let lowered = |threshold: f32| {
            if threshold > 0.0 {
                threshold / slack
            } else {
                threshold
            }
        };
        let mut least = threshold;
        let mut offer = |row, score| {
            if score > least {
                least = callers(|| found(row, score)).max(least);
            }
            lowered(least)
        };
        weight.for_each_pruning(lowered(threshold), self.searcher.segment_reader(0), &mut offer)?;
        Ok(())
    }

    /// How far the bounds of blocks may be too low. They were taken with the mean length within this segment: a row that isn't its block's best by that
    /// mean may be by another. With f(x) = 1 / (1 + x), x = k1 (1 - b + b l / mean) / frequency, and one mean r times the other, f changes by a factor
    /// between 1 and r, in the same direction for all rows.
    fn slack(&self, bm25: &Bm25) -> f32 {
        let own = Bm25::new(self.info.documents, self.info.tokens).average();
        let ratio = own / bm25.average();
        match ratio.is_finite() && ratio > 0.0 {
            // tantivy takes the mean of a whole number of tokens.
            true if (ratio - 1.0).abs() < 1e-7 => 1.0,
            true => ratio.max(1.0 / ratio) * 1.00001,
            false => f32::INFINITY,
        }
    }
}

fn weight(mode: Mode, wanted: &[Wanted<'_>], scoring: EnableScoring<'_>) -> Result<Box<dyn Weight>> {
    let mut weights = Vec::with_capacity(wanted.len());
    for wanted in wanted {
        let query = TermQuery::new(term(wanted.term.text), IndexRecordOption::WithFreqs);
        let weight = match wanted.times {
            1 => query.weight(scoring)?,
            times => BoostQuery::new(Box::new(query), times as Score).weight(scoring)?,
        };
        weights.push((
            if mode == Mode::Any {
                Occur::Should
            } else {
                Occur::Must
            },
            weight,
        ));
    }
    if let [(_, _)] = weights.as_slice()
        && wanted[0].times == 1
    {
        return Ok(weights.remove(0).1);
    }
    // One term that stands twice: only as an optional one it is pruned.
    if weights.len() == 1 {
        weights[0].0 = Occur::Should;
    }
    Ok(Box::new(BooleanWeight::with_minimum_number_should_match(
        weights,
        0,
        true,
        Box::new(SumCombiner::default),
    )))
}

fn check(query: &TextQuery<'_>) -> Result<()> {
    let Bm25 {
        documents,
        tokens,
        k1,
        b,
    } = query.bm25;
    if query.terms.len() > QUERY_TERMS_MAX {
        return Err(TextError::Misuse(format!(
            "{} terms; at most {QUERY_TERMS_MAX} are possible",
            query.terms.len()
        )));
    }
    if documents == 0 || tokens == 0 || !(k1.is_finite() && k1 >= 0.0) || !(0.0..=1.0).contains(&b) {
        return Err(TextError::Misuse(format!(
            "{documents} documents with {tokens} tokens, k1 {k1}, b {b}"
        )));
    }
    Ok(())
}

/// The engine's numbers instead of the segment's.
struct Statistics<'a> {
    bm25: &'a Bm25,
    wanted: &'a [Wanted<'a>],
}

impl Bm25StatisticsProvider for Statistics<'_> {
    fn total_num_tokens(&self, _: Field) -> tantivy::Result<u64> {
        Ok(self.bm25.tokens)
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.bm25.documents)
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        let asked = term.serialized_value_bytes();
        let known = self
            .wanted
            .iter()
            .find(|wanted| wanted.term.text.as_bytes() == asked);
        Ok(known.map_or(0, |wanted| wanted.term.doc_freq.min(self.bm25.documents)))
    }
}
