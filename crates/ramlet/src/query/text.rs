//! Full-text queries on a payload field.

use super::candidates::Scope;
use super::found::{Found, FoundList};
use super::request::TextQuery;
use super::{Scratch, place_of};
use crate::error::{Error, Result};
use crate::filter::CompiledFilter;
use crate::ranking::{Bm25Params, Ranked, Statistics, Terms, count, rank};
use crate::read::lookup::Lookup;
use crate::read::view::{Place, View};
use crate::request::{Explained, SearchCost};
use crate::schema::{PayloadField, Schema};
use crate::text::TextField;

/// What a text query looks at, once it is known to be sound.
pub struct TextAsked<'a> {
    field: &'a PayloadField,
    text: &'a TextField,
    params: Bm25Params,
    query: &'a TextQuery,
}

impl<'a> TextAsked<'a> {
    /// Refuses what can't be ranked: `using` must name a field whose text index has `scoring`.
    pub fn new(schema: &'a Schema, using: &str, query: &'a TextQuery) -> Result<TextAsked<'a>> {
        if using.is_empty() {
            return Err(bad(
                "A text query needs `using` to name the payload field to search",
            ));
        }
        let scored = schema
            .field(using)
            .and_then(|field| Some((field, field.scored()?)));
        let Some((field, text)) = scored else {
            return Err(bad(format!(
                "A text query needs a text index with `scoring` on `{using}`"
            )));
        };
        let default = Bm25Params::default();
        let params = Bm25Params {
            k: query.k.unwrap_or(default.k),
            b: query.b.unwrap_or(default.b),
        };
        if !(params.k >= 0.0 && params.k.is_finite()) {
            return Err(bad(format!(
                "BM25 k value {} is invalid. Must be 0.0 or larger.",
                params.k
            )));
        }
        if !(0.0..=1.0).contains(&params.b) {
            return Err(bad(format!(
                "BM25 b value {} is invalid. Must be from 0.0 to 1.0.",
                params.b
            )));
        }
        Ok(TextAsked {
            field,
            text,
            params,
            query,
        })
    }

    /// How many texts of a view have the words.
    pub fn count(&self, view: &View, lookup: &mut Lookup) -> Result<Statistics> {
        let terms = Terms::new(self.text, &self.query.text, self.query.repeated)?;
        let ranked = Ranked {
            view,
            field: self.field,
            text: self.text,
            terms: &terms,
            params: self.params,
            filter: None,
            among: None,
            statistics: None,
        };
        count(&ranked, lookup)
    }

    /// The `k` best points of `scope`, whose scores are above `least`.
    pub fn best(
        &self,
        view: &View,
        filter: Option<&CompiledFilter>,
        (scope, k, least): (Scope<'_>, usize, Option<f32>),
        scratch: &mut Scratch,
        (cost, explained): (&mut SearchCost, Option<&mut Vec<Explained>>),
    ) -> Result<FoundList> {
        let terms = Terms::new(self.text, &self.query.text, self.query.repeated)?;
        let mut list = FoundList::with_room(k, &scratch.lookup.rare)?;
        scratch.top.clear(k);
        let places: Option<Vec<Place>> = match scope {
            Scope::All => None,
            Scope::Among(points) => Some(points.iter().map(|found| found.place).collect()),
        };
        let ranked = Ranked {
            view,
            field: self.field,
            text: self.text,
            terms: &terms,
            params: self.params,
            filter,
            among: places.as_deref(),
            statistics: self.query.statistics.as_ref(),
        };
        let spent = rank(&ranked, &mut scratch.lookup, &mut scratch.top, explained)?;
        cost.add_all(&spent);
        let hits = scratch.top.sorted().iter().map(|hit| Found {
            place: place_of(view, hit),
            score: -hit.distance,
        });
        list.found
            .extend(hits.take_while(|found| least.is_none_or(|least| found.score > least)));
        Ok(list.fit(k))
    }
}

fn bad(what: impl std::fmt::Display) -> Error {
    Error::bad_input(format!("Bad request: {what}"))
}
