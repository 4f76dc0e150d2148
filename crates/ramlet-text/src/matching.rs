//! Rows that match, without scores: what filters ask.

use tantivy::postings::TermInfo;
use tantivy::query::{
    BooleanWeight, EnableScoring, Occur, PhraseQuery, Query, Scorer, SumCombiner, TermQuery, Weight,
};
use tantivy::schema::IndexRecordOption;
use tantivy::{COLLECT_BLOCK_BUFFER_LEN, DocSet, TERMINATED};

use crate::error::Result;
use crate::guard::{callers, no_panic};
use crate::index::{TextIndex, term};
use crate::query::{Mode, QueryTerm};
use crate::ranges::Ranges;
use crate::search::Wanted;

impl TextIndex {
    /// Shows `each` the rows that match, in ascending order, in parts of up to 64; it answers false to stop. Deleted rows are among them.
    /// No terms match nothing. Reads: none if all is in RAM, else one batch.
    pub fn rows(
        &self,
        mode: Mode,
        terms: &[QueryTerm<'_>],
        ranges: &mut dyn Ranges,
        each: &mut dyn FnMut(&[u32]) -> bool,
    ) -> Result<()> {
        self.matching(mode, terms, ranges, |scorer| {
            let mut rows = [0; COLLECT_BLOCK_BUFFER_LEN];
            loop {
                let filled = scorer.fill_buffer(&mut rows);
                if filled == 0 || !callers(|| each(&rows[..filled])) || filled < rows.len() {
                    return;
                }
            }
        })
    }

    /// Whether one row matches: as [`TextIndex::rows`], which is cheaper for many.
    pub fn holds(
        &self,
        row: u32,
        mode: Mode,
        terms: &[QueryTerm<'_>],
        ranges: &mut dyn Ranges,
    ) -> Result<bool> {
        if u64::from(row) >= self.info.rows {
            return Ok(false);
        }
        let mut holds = false;
        self.matching(mode, terms, ranges, |scorer| {
            holds = scorer.doc() == row || (scorer.doc() < row && scorer.seek(row) == row);
        })?;
        Ok(holds)
    }

    fn matching(
        &self,
        mode: Mode,
        terms: &[QueryTerm<'_>],
        ranges: &mut dyn Ranges,
        run: impl FnOnce(&mut dyn Scorer),
    ) -> Result<()> {
        no_panic(|| {
            let Some(wanted) = self.wanted_terms(mode, terms)? else {
                return Ok(());
            };
            let infos: Vec<TermInfo> = wanted.iter().map(|wanted| wanted.info.clone()).collect();
            let phrase = mode == Mode::Phrase && terms.len() > 1;
            let _ready = self.ready(&infos, phrase, ranges)?;
            let scoring = EnableScoring::disabled_from_searcher(&self.searcher);
            let weight = match phrase {
                true => phrase_query(terms).weight(scoring)?,
                false => terms_weight(mode, &wanted, scoring)?,
            };
            let mut scorer = weight.scorer(self.searcher.segment_reader(0), 1.0)?;
            if scorer.doc() != TERMINATED {
                run(&mut *scorer);
            }
            Ok(())
        })
    }
}

/// The terms at their places, seen from the first.
pub(crate) fn phrase_query(terms: &[QueryTerm<'_>]) -> PhraseQuery {
    let first = terms.iter().map(|term| term.position).min().unwrap_or(0);
    let places = terms
        .iter()
        .map(|known| ((known.position - first) as usize, term(known.text)));
    PhraseQuery::new_with_offset(places.collect())
}

fn terms_weight(mode: Mode, wanted: &[Wanted<'_>], scoring: EnableScoring<'_>) -> Result<Box<dyn Weight>> {
    let mut weights = Vec::with_capacity(wanted.len());
    for wanted in wanted {
        let query = TermQuery::new(term(wanted.term.text), IndexRecordOption::Basic);
        weights.push((Occur::Should, query.weight(scoring)?));
    }
    if weights.len() == 1 {
        return Ok(weights.remove(0).1);
    }
    let needed = if mode == Mode::Any { 1 } else { weights.len() };
    Ok(Box::new(BooleanWeight::with_minimum_number_should_match(
        weights,
        needed,
        false,
        Box::new(SumCombiner::default),
    )))
}
