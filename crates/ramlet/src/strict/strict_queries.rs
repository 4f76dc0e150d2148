//! Strict mode for queries.

use super::strict_checks::Strict;
use crate::error::Result;
use crate::filter::Filter;
use crate::query::Scratch;
use crate::query::expression::Expression;
use crate::query::request::{Prefetch, QueryKind, QueryRequest, RecommendStrategy};
use crate::request::{QueryVector, SearchRequest};
use crate::types::vector::Vector;

impl Strict {
    /// Checks a query with its prefetches; returns what it costs of the rate of reads.
    pub fn query(&self, request: &QueryRequest) -> Result<u64> {
        self.limit(request.limit)?;
        self.filter(request.filter.as_ref())?;
        self.params(&request.params)?;
        self.kind(request.query.as_ref())?;
        let conditions = conditions(request.filter.as_ref());
        if request.prefetch.is_empty() {
            self.nearest(request.query.as_ref(), &request.using, request.filter.as_ref())?;
            return Ok(cost(request.query.as_ref()) + conditions);
        }
        self.prefetches(&request.prefetch, conditions)
    }

    /// Those that have none of their own read points, and cost what they do with the conditions above them; what ranks found points anew
    /// or fuses lists costs nothing.
    fn prefetches(&self, prefetches: &[Prefetch], above: u64) -> Result<u64> {
        let mut all = 0;
        for prefetch in prefetches {
            self.limit(prefetch.limit)?;
            self.filter(prefetch.filter.as_ref())?;
            self.params(&prefetch.params)?;
            self.kind(prefetch.query.as_ref())?;
            let conditions = above + conditions(prefetch.filter.as_ref());
            all += match prefetch.prefetch.is_empty() {
                true => {
                    self.nearest(prefetch.query.as_ref(), &prefetch.using, prefetch.filter.as_ref())?;
                    cost(prefetch.query.as_ref()) + conditions
                }
                false => self.prefetches(&prefetch.prefetch, conditions)?,
            };
        }
        Ok(all)
    }

    /// What looks at all points by their vectors.
    fn nearest(&self, query: Option<&QueryKind>, using: &str, filter: Option<&Filter>) -> Result<()> {
        match query {
            None
            | Some(
                QueryKind::OrderBy(_)
                | QueryKind::Fusion(_)
                | QueryKind::Formula(_)
                | QueryKind::Text(_)
                | QueryKind::SampleRandom
                | QueryKind::Given(_),
            ) => Ok(()),
            Some(_) => self.full_scan(using, filter),
        }
    }

    fn kind(&self, query: Option<&QueryKind>) -> Result<()> {
        match query {
            Some(QueryKind::Formula(formula)) => self.expression(&formula.expression),
            _ => Ok(()),
        }
    }

    fn expression(&self, expression: &Expression) -> Result<()> {
        match expression {
            Expression::Payload(key)
            | Expression::DatetimeKey(key)
            | Expression::GeoDistance { to: key, .. } => self.formula_key(key),
            _ => expression
                .operands()
                .into_iter()
                .try_for_each(|operand| self.expression(operand)),
        }
    }
}

/// What a query costs of the rate of reads beside its conditions: the vectors that each point is compared with.
fn cost(query: Option<&QueryKind>) -> u64 {
    let vectors = query.map_or_else(Vec::new, counted).into_iter().map(vectors_of);
    vectors.sum::<u64>().max(1)
}

fn conditions(filter: Option<&Filter>) -> u64 {
    Strict::cost_of_filter(filter) - 1
}

/// The vectors of a query that count one by one.
fn counted(query: &QueryKind) -> Vec<&QueryVector> {
    match query {
        QueryKind::Nearest(vector) | QueryKind::NearestWithMmr { nearest: vector, .. } => vec![vector],
        QueryKind::Recommend {
            positive,
            negative,
            strategy: RecommendStrategy::BestScore | RecommendStrategy::SumScores,
        } => positive.iter().chain(negative).collect(),
        _ => Vec::new(),
    }
}

/// Parts of a multivector count one by one; of what an id stands for see [`Strict::parts_of_ids`].
fn vectors_of(query: &QueryVector) -> u64 {
    match query {
        QueryVector::Vector(Vector::Multi(multi)) => multi.parts().len() as u64,
        _ => 1,
    }
}

impl Strict {
    /// Checks a search; returns what it costs of the rate of reads.
    pub fn search_cost(&self, search: &SearchRequest) -> Result<u64> {
        self.search(search)?;
        Ok(Strict::cost_of_filter(search.filter.as_ref()) - 1 + vectors_of(&search.query).max(1))
    }
}

impl Strict {
    /// Whether ids of a query may stand for several vectors each, and reads are counted.
    pub fn looks_up_ids(&self) -> bool {
        self.settings().read_rate_limit.is_some() && self.has_multivectors()
    }

    /// What a query's ids cost beyond 1 each: the further parts of the multivectors that they stand for.
    pub fn parts_of_ids(&self, request: &QueryRequest, scratch: &mut Scratch) -> Result<u64> {
        match request.prefetch.is_empty() {
            true => self.parts(request.query.as_ref(), &request.using, scratch),
            false => self.parts_of_prefetches(&request.prefetch, scratch),
        }
    }

    fn parts_of_prefetches(&self, prefetches: &[Prefetch], scratch: &mut Scratch) -> Result<u64> {
        let mut all = 0;
        for prefetch in prefetches {
            all += match prefetch.prefetch.is_empty() {
                true => self.parts(prefetch.query.as_ref(), &prefetch.using, scratch)?,
                false => self.parts_of_prefetches(&prefetch.prefetch, scratch)?,
            };
        }
        Ok(all)
    }

    fn parts(&self, query: Option<&QueryKind>, using: &str, scratch: &mut Scratch) -> Result<u64> {
        let mut all = 0;
        for vector in query.map_or_else(Vec::new, counted) {
            all += self.parts_of_id(using, vector, scratch)?;
        }
        Ok(all)
    }

    /// The same of one vector of a search.
    pub fn parts_of_id(&self, using: &str, of: &QueryVector, scratch: &mut Scratch) -> Result<u64> {
        let QueryVector::Id(id) = of else { return Ok(0) };
        let Some(vector) = self.stored(using, *id, scratch)? else {
            return Ok(0);
        };
        Ok(vectors_of(&QueryVector::Vector(vector)).saturating_sub(1))
    }
}
