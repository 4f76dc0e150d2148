//! What strict mode says of queries.

use super::expression::Expression;
use super::request::{Prefetch, QueryKind, QueryRequest};
use crate::error::Result;
use crate::strict::Strict;

impl Strict {
    /// Checks a query with its prefetches; returns what it costs of the rate of reads.
    pub fn query(&self, request: &QueryRequest) -> Result<u64> {
        self.limit(request.limit)?;
        self.filter(request.filter.as_ref())?;
        self.params(&request.params)?;
        self.kind(request.query.as_ref())?;
        Ok(Strict::cost_of_filter(request.filter.as_ref()) + self.prefetches(&request.prefetch)?)
    }

    fn prefetches(&self, prefetches: &[Prefetch]) -> Result<u64> {
        let mut cost = 0;
        for prefetch in prefetches {
            self.limit(prefetch.limit)?;
            self.filter(prefetch.filter.as_ref())?;
            self.params(&prefetch.params)?;
            self.kind(prefetch.query.as_ref())?;
            cost += Strict::cost_of_filter(prefetch.filter.as_ref()) + self.prefetches(&prefetch.prefetch)?;
        }
        Ok(cost)
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
