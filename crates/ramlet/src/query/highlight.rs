//! Fragments of the hits' texts with the words of the queries that found them.

use super::found::FoundList;
use super::request::{Highlight, HighlightText, Prefetch, QueryKind, QueryRequest, TextQuery};
use super::{TextAsked, select_payloads};
use crate::error::{Error, Result};
use crate::limits::HIGHLIGHT_TEXTS_MAX;
use crate::payload::{Path, Selector};
use crate::ranking::{Marked, Terms, fragments_of};
use crate::read::lookup::Lookup;
use crate::read::view::View;
use crate::schema::Schema;
use crate::types::ScoredPoint;

/// Hits whose payloads are in memory at once.
const AT_ONCE: usize = 64;

/// Refuses too many texts, and words of fields whose texts aren't ranked.
pub fn check(schema: &Schema, how: &Highlight) -> Result<()> {
    if how.texts.len() > HIGHLIGHT_TEXTS_MAX {
        return Err(Error::bad_input(format!(
            "Wrong input: highlight: {} texts; at most {HIGHLIGHT_TEXTS_MAX} are possible",
            how.texts.len()
        )));
    }
    let mut fields = how.texts.iter().map(|HighlightText { using, .. }| using);
    fields.try_for_each(|using| TextAsked::new(schema, using, &TextQuery::default()).map(drop))
}

/// Writes the fragments of all hits, which are those of the list without the first `skip`.
pub fn highlight(
    (view, request): (&View, &QueryRequest),
    how: &Highlight,
    (list, skip): (&FoundList, usize),
    lookup: &mut Lookup,
    hits: &mut [ScoredPoint],
) -> Result<()> {
    let mut fields = Vec::new();
    add(&view.schema, request.query.as_ref(), &request.using, &mut fields)?;
    request
        .prefetch
        .iter()
        .try_for_each(|prefetch| add_all(&view.schema, prefetch, &mut fields))?;
    for HighlightText { using, text } in &how.texts {
        add_words(&view.schema, (using, text), &mut fields)?;
    }
    let found = list.found.get(skip..).unwrap_or_default();
    for (hits, found) in hits.chunks_mut(AT_ONCE).zip(found.chunks(AT_ONCE)) {
        let mut payloads = vec![None; hits.len()];
        let places = found.iter().map(|found| found.place);
        select_payloads(view, places.zip(&mut payloads), &Selector::All, lookup)?;
        for (hit, payload) in hits.iter_mut().zip(payloads) {
            let fragments = fragments_of(&payload.unwrap_or_default(), &fields, how);
            lookup.reserve_returned(fragments.len())?;
            hit.highlights = Some(fragments);
        }
    }
    Ok(())
}

fn add_all<'a>(schema: &'a Schema, prefetch: &'a Prefetch, fields: &mut Vec<Marked<'a>>) -> Result<()> {
    add(schema, prefetch.query.as_ref(), &prefetch.using, fields)?;
    let below = &prefetch.prefetch;
    below
        .iter()
        .try_for_each(|prefetch| add_all(schema, prefetch, fields))
}

/// The words of a text query, with those of others on the same field.
fn add<'a>(
    schema: &'a Schema,
    query: Option<&QueryKind>,
    using: &'a str,
    fields: &mut Vec<Marked<'a>>,
) -> Result<()> {
    match query {
        Some(QueryKind::Text(query)) => add_words(schema, (using, &query.text), fields),
        _ => Ok(()),
    }
}

fn add_words<'a>(
    schema: &'a Schema,
    (using, text): (&'a str, &str),
    fields: &mut Vec<Marked<'a>>,
) -> Result<()> {
    // The query has been run: the field is there, and its path was parsed when its index was made.
    let field = schema.field(using).and_then(|field| field.scored());
    let (Some(field), Ok(path)) = (field, Path::parse(using)) else {
        return Ok(());
    };
    let terms = Terms::new(field, text, false)?;
    match fields.iter_mut().find(|known| known.name == using) {
        Some(known) => known.terms.push(terms),
        None => fields.push(Marked {
            name: using,
            field,
            path,
            terms: vec![terms],
        }),
    }
    Ok(())
}
