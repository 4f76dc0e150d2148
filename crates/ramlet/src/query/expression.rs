//! Formula expressions.

use crate::error::{Error, Result};
use crate::filter::{Condition, GeoPoint};
use crate::payload::Path;

/// A number, computed for one point.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    Constant(f64),
    /// Score in the prefetch of this number; 0 where the point isn't in it.
    Score(usize),
    /// A number in the payload.
    Payload(String),
    /// 1 or 0.
    Condition(Box<Condition>),
    /// Metres from `origin` to the point in the payload at `to`.
    GeoDistance {
        origin: GeoPoint,
        to: String,
    },
    /// Microseconds since 1970 UTC; counts as seconds.
    Datetime(i64),
    /// A datetime in the payload; counts as seconds.
    DatetimeKey(String),
    Mult(Vec<Expression>),
    Sum(Vec<Expression>),
    Max(Vec<Expression>),
    Min(Vec<Expression>),
    Neg(Box<Expression>),
    Abs(Box<Expression>),
    Sqrt(Box<Expression>),
    Exp(Box<Expression>),
    Ln(Box<Expression>),
    Log10(Box<Expression>),
    Acosh(Box<Expression>),
    Div {
        left: Box<Expression>,
        right: Box<Expression>,
        by_zero_default: Option<f64>,
    },
    Pow {
        base: Box<Expression>,
        exponent: Box<Expression>,
    },
    Decay(Box<Decay>),
}

/// From 1 at the target down to the midpoint at a distance of one scale, and on.
#[derive(Debug, Clone, PartialEq)]
pub struct Decay {
    pub kind: DecayKind,
    pub x: Expression,
    /// 0 unless set.
    pub target: Option<Expression>,
    /// 1 unless set; above 0.
    pub scale: Option<f32>,
    /// 0.5 unless set; between 0 and 1.
    pub midpoint: Option<f32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecayKind {
    Linear,
    Exponential,
    Gauss,
}

impl Expression {
    /// A variable as the API writes it: `$score`, `$score[2]`, or a payload key.
    pub fn variable(text: &str) -> Result<Expression> {
        let Some(rest) = text.strip_prefix("$score") else {
            Path::parse(text).map_err(|e| Error::bad_input(format!("Wrong input: formula: {e}")))?;
            return Ok(Expression::Payload(text.to_owned()));
        };
        if rest.is_empty() {
            return Ok(Expression::Score(0));
        }
        rest.strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|digits| digits.parse().ok())
            .map(Expression::Score)
            .ok_or_else(|| Error::bad_input(format!("Wrong input: Invalid score pattern: {text}")))
    }

    /// Expressions within this one.
    pub fn operands(&self) -> Vec<&Expression> {
        match self {
            Expression::Constant(_)
            | Expression::Score(_)
            | Expression::Payload(_)
            | Expression::Condition(_)
            | Expression::GeoDistance { .. }
            | Expression::Datetime(_)
            | Expression::DatetimeKey(_) => Vec::new(),
            Expression::Mult(all) | Expression::Sum(all) | Expression::Max(all) | Expression::Min(all) => {
                all.iter().collect()
            }
            Expression::Neg(of)
            | Expression::Abs(of)
            | Expression::Sqrt(of)
            | Expression::Exp(of)
            | Expression::Ln(of)
            | Expression::Log10(of)
            | Expression::Acosh(of) => vec![of],
            Expression::Div { left, right, .. } => vec![left, right],
            Expression::Pow { base, exponent } => vec![base, exponent],
            Expression::Decay(decay) => std::iter::once(&decay.x).chain(&decay.target).collect(),
        }
    }
}
