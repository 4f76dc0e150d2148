//! The vectors that a query names by the ids of points.

use std::sync::Arc;

use super::others::OtherCollections;
use super::request::{ContextPair, LookupLocation, Prefetch, QueryKind};
use super::{Scratch, sparse};
use crate::error::{Error, Result};
use crate::limits::EXAMPLES_MAX;
use crate::read::view::View;
use crate::request::{Idf, QueryVector};
use crate::schema::VectorField;
use crate::state::core::Core;
use crate::types::PointId;
use crate::types::vector::Vector;

/// Where the vectors of ids come from.
pub struct Source<'s> {
    /// What is searched.
    own: Arc<View>,
    view: Arc<View>,
    vector: String,
    idf: Option<&'s Idf>,
}

impl<'s> Source<'s> {
    pub fn new(
        view: &Arc<View>,
        using: &str,
        lookup_from: Option<&LookupLocation>,
        idf: Option<&'s Idf>,
        others: &dyn OtherCollections,
    ) -> Result<Source<'s>> {
        let Some(from) = lookup_from else {
            return Ok(Source {
                own: view.clone(),
                view: view.clone(),
                vector: using.to_owned(),
                idf,
            });
        };
        Ok(Source {
            own: view.clone(),
            view: others.view_of(from)?,
            vector: from.vector.clone().unwrap_or_else(|| using.to_owned()),
            idf,
        })
    }

    /// The vector itself, fit to be compared with those of `field`.
    pub fn resolve(&self, of: &QueryVector, field: &VectorField, scratch: &mut Scratch) -> Result<Vector> {
        let vector = match of {
            QueryVector::Vector(vector) => vector.clone(),
            QueryVector::Id(id) => self.stored(*id, scratch)?,
        };
        sparse::ready(&self.own, field, vector, self.idf, &mut scratch.lookup)
    }

    pub fn resolve_all(
        &self,
        all: &[QueryVector],
        field: &VectorField,
        scratch: &mut Scratch,
    ) -> Result<Vec<Vector>> {
        all.iter().map(|one| self.resolve(one, field, scratch)).collect()
    }

    fn stored(&self, id: PointId, scratch: &mut Scratch) -> Result<Vector> {
        let place = self
            .view
            .find(id, &mut scratch.lookup)?
            .ok_or_else(|| Error::not_found(format!("Not found: No point with id {id} found")))?;
        // Of a point that isn't there nobody asks for which vector.
        self.view.schema.vector(&self.vector)?;
        let name = std::slice::from_ref(&self.vector);
        let found = self.view.vectors_of(place, Some(name), &mut scratch.lookup)?;
        let vector = found.into_iter().next().map(|(_, vector)| vector);
        vector.ok_or_else(|| {
            let name = &self.vector;
            Error::not_found(format!("Not found: Vector with name {name:?} for point {id}"))
        })
    }
}

/// The vectors that a query starts from.
pub fn inputs(query: &QueryKind) -> Vec<&QueryVector> {
    fn of_pairs(pairs: &[ContextPair]) -> impl Iterator<Item = &QueryVector> {
        pairs.iter().flat_map(|pair| [&pair.positive, &pair.negative])
    }
    match query {
        QueryKind::Nearest(vector) | QueryKind::NearestWithMmr { nearest: vector, .. } => vec![vector],
        QueryKind::Recommend {
            positive, negative, ..
        } => positive.iter().chain(negative).collect(),
        QueryKind::Discover { target, context } => std::iter::once(target).chain(of_pairs(context)).collect(),
        QueryKind::Context(pairs) => of_pairs(pairs).collect(),
        QueryKind::RelevanceFeedback { target, feedback, .. } => {
            let examples = feedback.iter().map(|item| &item.example);
            std::iter::once(target).chain(examples).collect()
        }
        QueryKind::OrderBy(_)
        | QueryKind::Fusion(_)
        | QueryKind::Formula(_)
        | QueryKind::Text(_)
        | QueryKind::SampleRandom
        | QueryKind::Given(_) => Vec::new(),
    }
}

/// The points of `own` that a query and its prefetches name: none of them is a hit. Ascending.
pub fn named_points(
    query: Option<&QueryKind>,
    lookup_from: Option<&LookupLocation>,
    prefetch: &[Prefetch],
    (own, others): (&Arc<Core>, &dyn OtherCollections),
) -> Result<Vec<PointId>> {
    let mut named = Named {
        own,
        others,
        examples: 0,
        ids: Vec::new(),
    };
    named.collect(query, lookup_from, prefetch)?;
    named.ids.sort_unstable();
    named.ids.dedup();
    Ok(named.ids)
}

struct Named<'a> {
    own: &'a Arc<Core>,
    others: &'a dyn OtherCollections,
    examples: usize,
    ids: Vec<PointId>,
}

impl Named<'_> {
    fn collect(
        &mut self,
        query: Option<&QueryKind>,
        lookup_from: Option<&LookupLocation>,
        prefetch: &[Prefetch],
    ) -> Result<()> {
        let examples = query.map(inputs).unwrap_or_default();
        self.examples += examples.len();
        if self.examples > EXAMPLES_MAX {
            return Err(Error::bad_input(format!(
                "Wrong input: the query has {} example vectors or more, at most {EXAMPLES_MAX} are possible",
                self.examples
            )));
        }
        let elsewhere = match lookup_from {
            Some(from) => !self.others.is_own(&from.collection, self.own)?,
            None => false,
        };
        if !elsewhere {
            self.ids
                .extend(examples.into_iter().filter_map(|input| match input {
                    QueryVector::Id(id) => Some(*id),
                    QueryVector::Vector(_) => None,
                }));
        }
        prefetch
            .iter()
            .try_for_each(|p| self.collect(p.query.as_ref(), p.lookup_from.as_ref(), &p.prefetch))
    }
}
