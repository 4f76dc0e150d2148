//! Formulas computed point by point.

use super::Scratch;
use super::expression::{Decay, DecayKind, Expression};
use super::found::{Found, FoundList, union};
use super::request::Formula;
use crate::error::{Error, Result};
use crate::filter::{CompiledFilter, Filter, GeoPoint, PointAccess, geo_distance_m, parse_datetime};
use crate::limits::{FORMULA_DEPTH_MAX, FORMULA_NODES_MAX};
use crate::payload::{Json, JsonRef, Path};
use crate::read::view::{Place, SegmentRow, View};
use crate::schema::PayloadField;
use crate::types::PointId;

const MICROS_PER_SECOND: f64 = 1e6;
const MIDPOINT_DEFAULT: f64 = 0.5;

/// Refuses a formula that no point could have a score by; without looking at any.
pub fn check(formula: &Formula) -> Result<()> {
    let mut nodes = 0;
    check_node(&formula.expression, FORMULA_DEPTH_MAX, &mut nodes)
}

fn check_node(node: &Expression, depth: usize, nodes: &mut usize) -> Result<()> {
    *nodes += 1;
    if depth == 0 || *nodes > FORMULA_NODES_MAX {
        return Err(Error::bad_input(format!(
            "Wrong input: formula is larger than {FORMULA_DEPTH_MAX} levels or {FORMULA_NODES_MAX} expressions"
        )));
    }
    match node {
        Expression::Payload(key) | Expression::DatetimeKey(key) | Expression::GeoDistance { to: key, .. } => {
            path(key)?;
        }
        Expression::Condition(condition) => {
            compile(condition, &[])?;
        }
        Expression::Max(all) | Expression::Min(all) if all.is_empty() => {
            let name = if matches!(node, Expression::Max(_)) {
                "max"
            } else {
                "min"
            };
            return Err(wrong(format!("`{name}` needs at least one operand")));
        }
        Expression::Decay(decay) => check_decay(decay)?,
        _ => {}
    }
    node.operands()
        .into_iter()
        .try_for_each(|operand| check_node(operand, depth - 1, nodes))
}

fn check_decay(decay: &Decay) -> Result<()> {
    let midpoint = decay.midpoint.map_or(MIDPOINT_DEFAULT, f64::from);
    if decay.kind == DecayKind::Linear {
        if !(0.0..=1.0).contains(&midpoint) {
            return Err(wrong(format!(
                "Linear decay midpoint should be between 0.0 and 1.0, got {midpoint}"
            )));
        }
    } else if !(midpoint > 0.0 && midpoint < 1.0) {
        return Err(wrong(format!(
            "Decay midpoint should be between 0.0 and 1.0 (exclusive), got {midpoint}"
        )));
    }
    match decay.scale {
        Some(scale) if scale.is_nan() || scale <= 0.0 => Err(wrong(format!(
            "Decay scale should be non-zero positive, got {scale}"
        ))),
        _ => Ok(()),
    }
}

fn wrong(message: impl std::fmt::Display) -> Error {
    Error::bad_input(format!("Wrong input: {message}"))
}

fn path(key: &str) -> Result<Path> {
    Path::parse(key).map_err(|e| wrong(format!("formula: {e}")))
}

fn compile(condition: &crate::filter::Condition, fields: &[PayloadField]) -> Result<CompiledFilter> {
    let filter = Filter {
        must: vec![condition.clone()],
        ..Filter::default()
    };
    CompiledFilter::on(fields, &filter).map_err(wrong)
}

/// An expression with its paths parsed and its conditions compiled.
enum Node {
    Constant(f64),
    Score(usize),
    Number(Variable),
    Condition(CompiledFilter),
    Distance(GeoPoint, Variable),
    Datetime(Variable),
    Mult(Vec<Node>),
    Sum(Vec<Node>),
    Max(Vec<Node>),
    Min(Vec<Node>),
    Unary(Unary, Box<Node>),
    Div(Box<Node>, Box<Node>, Option<f64>),
    Pow(Box<Node>, Box<Node>),
    Decay {
        kind: DecayKind,
        x: Box<Node>,
        target: Option<Box<Node>>,
        scale: f64,
        midpoint: f64,
    },
}

#[derive(Clone, Copy)]
enum Unary {
    Neg,
    Abs,
    Sqrt,
    Exp,
    Ln,
    Log10,
    Acosh,
}

/// A payload key, and what stands for it where a point lacks it.
struct Variable {
    key: String,
    path: Path,
    default: Option<Vec<u8>>,
    /// Whether an index knows its values: null is none of them, else it is a value that is no number.
    indexed: bool,
}

/// Points of the prefetches, by their scores and payloads.
pub struct Scored<'a> {
    node: Node,
    /// Of each prefetch, by key.
    scores: Vec<Vec<(u64, f32)>>,
    /// By number of the prefetch.
    score_defaults: Vec<(usize, f64)>,
    view: &'a View,
    needs_id: bool,
}

/// All points of the lists with the formula's scores, best first; equal ones in the order of the lists.
pub fn rescore(
    formula: &Formula,
    lists: &[FoundList],
    view: &View,
    scratch: &mut Scratch,
) -> Result<FoundList> {
    check(formula)?;
    let mut all = union(lists, &scratch.lookup.rare)?;
    let copies: u64 = lists.iter().map(|list| list.found.len() as u64).sum();
    let _held = scratch
        .lookup
        .rare
        .reserve(copies * size_of::<(u64, f32)>() as u64)?;
    let scored = Scored::new(formula, lists, view)?;
    for found in &mut all.found {
        found.score = scored.score(found, scratch)?;
    }
    all.found.sort_by(|a, b| b.score.total_cmp(&a.score));
    Ok(all)
}

impl<'a> Scored<'a> {
    fn new(formula: &Formula, lists: &[FoundList], view: &'a View) -> Result<Scored<'a>> {
        let scores = lists.iter().map(|list| {
            let mut scores: Vec<(u64, f32)> = list.found.iter().map(|f| (f.key(), f.score)).collect();
            scores.sort_unstable_by_key(|(key, _)| *key);
            scores
        });
        let mut score_defaults = Vec::new();
        for (key, json) in &formula.defaults {
            if let Expression::Score(number) = Expression::variable(key)? {
                let value = number_of(Some(JsonRef::new(json)).flatten())
                    .ok_or_else(|| wrong(format!("the default of {key} is not a number")))?;
                score_defaults.push((number, value));
            }
        }
        let node = build(&formula.expression, &formula.defaults, &view.schema.fields)?;
        Ok(Scored {
            needs_id: needs_id(&formula.expression)?,
            node,
            scores: scores.collect(),
            score_defaults,
            view,
        })
    }

    fn score(&self, found: &Found, scratch: &mut Scratch) -> Result<f32> {
        let lookup = &mut scratch.lookup;
        let id = match self.needs_id {
            true => self.view.id_of(found.place, lookup)?.0,
            false => PointId::Num(0),
        };
        let score = match found.place {
            Place::Memtable { index, row } => {
                let row = self.view.memtables[index as usize].memtable.row(row);
                self.value(&self.node, found.key(), &row)
            }
            Place::Segment { index, row } => {
                let view = &self.view.segments[index as usize];
                let payload = view.segment.payload(row, &mut lookup.io, &mut lookup.buf)?;
                let row = SegmentRow {
                    id,
                    payload,
                    row,
                    schema: &self.view.schema,
                    view,
                };
                self.value(&self.node, found.key(), &row)
            }
        }?;
        let narrow = score as f32;
        match narrow.is_finite() {
            true => Ok(narrow),
            false => Err(not_finite(format!("{score} as f32 = {narrow}"))),
        }
    }

    fn value(&self, node: &Node, key: u64, point: &dyn PointAccess) -> Result<f64> {
        let value = |node: &Node| self.value(node, key, point);
        match node {
            Node::Constant(number) => Ok(*number),
            Node::Score(list) => Ok(self.prefetched(*list, key)),
            Node::Condition(filter) => Ok(f64::from(u8::from(filter.matches(point)))),
            Node::Number(variable) => variable.number(point.payload()),
            Node::Distance(origin, variable) => variable.distance(*origin, point.payload()),
            Node::Datetime(variable) => variable.seconds(point.payload()),
            Node::Mult(all) => {
                let mut product = 1.0;
                for factor in all {
                    let factor = value(factor)?;
                    // What comes after a zero isn't computed, and can't fail.
                    if factor == 0.0 {
                        return Ok(factor);
                    }
                    product *= factor;
                }
                Ok(product)
            }
            Node::Sum(all) => all.iter().map(value).sum(),
            Node::Max(all) => all
                .iter()
                .try_fold(f64::NEG_INFINITY, |most, node| Ok(most.max(value(node)?))),
            Node::Min(all) => all
                .iter()
                .try_fold(f64::INFINITY, |least, node| Ok(least.min(value(node)?))),
            Node::Unary(operation, of) => unary(*operation, value(of)?),
            Node::Div(left, right, default) => {
                let left = value(left)?;
                if left == 0.0 {
                    return Ok(left);
                }
                let right = value(right)?;
                match default {
                    Some(default) if right == 0.0 => Ok(*default),
                    _ => finite(left / right, || format!("{left}/{right}")),
                }
            }
            Node::Pow(base, exponent) => {
                let (base, exponent) = (value(base)?, value(exponent)?);
                finite(base.powf(exponent), || format!("{base}^{exponent}"))
            }
            Node::Decay {
                kind,
                x,
                target,
                scale,
                midpoint,
            } => {
                let target = target.as_deref().map_or(Ok(0.0), value)?;
                Ok(decayed(*kind, value(x)? - target, *scale, *midpoint))
            }
        }
    }

    fn prefetched(&self, list: usize, key: u64) -> f64 {
        let found = self.scores.get(list).and_then(|scores| {
            let at = scores.binary_search_by_key(&key, |(key, _)| *key).ok()?;
            Some(f64::from(scores[at].1))
        });
        let default = || {
            self.score_defaults
                .iter()
                .rev()
                .find(|(number, _)| *number == list)
        };
        found
            .or_else(|| default().map(|(_, value)| *value))
            .unwrap_or(0.0)
    }
}

fn needs_id(expression: &Expression) -> Result<bool> {
    if let Expression::Condition(condition) = expression {
        return Ok(compile(condition, &[])?.needs_id());
    }
    for operand in expression.operands() {
        if needs_id(operand)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn build(expression: &Expression, defaults: &[(String, Vec<u8>)], fields: &[PayloadField]) -> Result<Node> {
    let all = |expressions: &[Expression]| -> Result<Vec<Node>> {
        expressions.iter().map(|e| build(e, defaults, fields)).collect()
    };
    let boxed = |expression: &Expression| build(expression, defaults, fields).map(Box::new);
    let unary = |operation, of: &Expression| -> Result<Node> { Ok(Node::Unary(operation, boxed(of)?)) };
    let variable = |key: &str| Variable::new(key, defaults, fields);
    Ok(match expression {
        Expression::Constant(number) => Node::Constant(*number),
        Expression::Score(list) => Node::Score(*list),
        Expression::Payload(key) => Node::Number(variable(key)?),
        Expression::Condition(condition) => Node::Condition(compile(condition, fields)?),
        Expression::GeoDistance { origin, to } => Node::Distance(*origin, variable(to)?),
        Expression::Datetime(micros) => Node::Constant(*micros as f64 / MICROS_PER_SECOND),
        Expression::DatetimeKey(key) => Node::Datetime(variable(key)?),
        Expression::Mult(of) => Node::Mult(all(of)?),
        Expression::Sum(of) => Node::Sum(all(of)?),
        Expression::Max(of) => Node::Max(all(of)?),
        Expression::Min(of) => Node::Min(all(of)?),
        Expression::Neg(of) => unary(Unary::Neg, of)?,
        Expression::Abs(of) => unary(Unary::Abs, of)?,
        Expression::Sqrt(of) => unary(Unary::Sqrt, of)?,
        Expression::Exp(of) => unary(Unary::Exp, of)?,
        Expression::Ln(of) => unary(Unary::Ln, of)?,
        Expression::Log10(of) => unary(Unary::Log10, of)?,
        Expression::Acosh(of) => unary(Unary::Acosh, of)?,
        Expression::Div {
            left,
            right,
            by_zero_default,
        } => Node::Div(boxed(left)?, boxed(right)?, *by_zero_default),
        Expression::Pow { base, exponent } => Node::Pow(boxed(base)?, boxed(exponent)?),
        Expression::Decay(decay) => Node::Decay {
            kind: decay.kind,
            x: boxed(&decay.x)?,
            target: decay.target.as_ref().map(boxed).transpose()?,
            scale: decay.scale.map_or(1.0, f64::from),
            midpoint: decay.midpoint.map_or(MIDPOINT_DEFAULT, f64::from),
        },
    })
}

impl Variable {
    fn new(key: &str, defaults: &[(String, Vec<u8>)], fields: &[PayloadField]) -> Result<Variable> {
        let default = defaults.iter().rev().find(|(name, _)| name == key);
        Ok(Variable {
            key: key.to_owned(),
            path: path(key)?,
            default: default.map(|(_, json)| json.clone()),
            indexed: fields
                .iter()
                .any(|field| field.path == key && field.text.is_none()),
        })
    }

    /// The one value there is, of the payload or else of the defaults; an array of one stands for its element. Of several
    /// the array.
    fn with<T>(
        &self,
        payload: &[u8],
        read: impl FnOnce(Option<JsonRef<'_>>) -> Option<T>,
    ) -> Result<Option<T>> {
        let (mut first, mut count) = (None, 0);
        if let Some(root) = JsonRef::new(payload) {
            self.path.any_value(root, &mut |value| {
                if !(self.indexed && value.is_null()) {
                    first = first.or(Some(value));
                    count += 1;
                }
                count > 1
            });
        }
        if count > 0 {
            return Ok(read(first.filter(|_| count == 1)));
        }
        let default = self.default.as_deref().and_then(JsonRef::new);
        let default = default.filter(|value| !value.is_null());
        let value = match default.and_then(JsonRef::array) {
            None => default.map(Some),
            Some(mut elements) => elements
                .next()
                .map(|one| Some(one).filter(|_| elements.next().is_none())),
        };
        match value {
            Some(value) => Ok(read(value)),
            None => Err(wrong(format!(
                "No value found for {} in the payload nor the formula defaults",
                self.key
            ))),
        }
    }

    fn expected(&self, what: &str) -> Error {
        wrong(format!(
            "Expected {what} value for {} in the payload and/or in the formula defaults. Error: Value is not a {what}",
            self.key
        ))
    }

    fn number(&self, payload: &[u8]) -> Result<f64> {
        let number = self.with(payload, number_of)?;
        number.ok_or_else(|| self.expected("number"))
    }

    fn seconds(&self, payload: &[u8]) -> Result<f64> {
        let micros = self.with(payload, |value| match value?.read()? {
            Json::Str(text) => parse_datetime(&text),
            _ => None,
        })?;
        micros
            .map(|micros| micros as f64 / MICROS_PER_SECOND)
            .ok_or_else(|| self.expected("datetime"))
    }

    fn distance(&self, origin: GeoPoint, payload: &[u8]) -> Result<f64> {
        let to = self.with(payload, |value| {
            let value = value?;
            let degrees = |name| number_of(value.get(name));
            Some(GeoPoint {
                lon: degrees("lon")?,
                lat: degrees("lat")?,
            })
        })?;
        to.map(|to| geo_distance_m(origin, to))
            .ok_or_else(|| self.expected("geo point"))
    }
}

fn number_of(value: Option<JsonRef<'_>>) -> Option<f64> {
    match value?.read()? {
        Json::Number(number) => Some(number.as_f64()),
        _ => None,
    }
}

fn unary(operation: Unary, x: f64) -> Result<f64> {
    match operation {
        Unary::Neg => Ok(-x),
        Unary::Abs => Ok(x.abs()),
        Unary::Sqrt => finite(x.sqrt(), || format!("√{x}")),
        Unary::Exp => finite(x.exp(), || format!("exp({x})")),
        Unary::Ln => finite(x.ln(), || format!("ln({x})")),
        Unary::Log10 => finite(x.log10(), || format!("log10({x})")),
        Unary::Acosh => finite(x.acosh(), || format!("acosh({x})")),
    }
}

/// From 1 at no difference to the midpoint at one scale.
fn decayed(kind: DecayKind, difference: f64, scale: f64, midpoint: f64) -> f64 {
    match kind {
        DecayKind::Linear => (1.0 - (1.0 - midpoint) / scale * difference.abs()).max(0.0),
        DecayKind::Exponential => (midpoint.ln() / scale * difference.abs()).exp(),
        DecayKind::Gauss => (midpoint.ln() / (scale * scale) * difference * difference).exp(),
    }
}

fn finite(value: f64, what: impl FnOnce() -> String) -> Result<f64> {
    match value.is_finite() {
        true => Ok(value),
        false => Err(not_finite(what())),
    }
}

fn not_finite(expression: impl std::fmt::Display) -> Error {
    wrong(format!(
        "The expression {expression} produced a non-finite number"
    ))
}
