//! Expressions of a formula.

use ramlet_proto::qdrant as q;

use super::super::node::{Fields, Node};
use super::filter::{condition, geo_point};
use super::required;

pub fn expression(of: q::Expression) -> Node {
    use q::expression::Variant as Is;
    let one = |name, of: Box<q::Expression>| Fields::new().put(name, expression(*of)).node();
    let all = |name, of: Vec<q::Expression>| Fields::new().put(name, Node::list(of, expression)).node();
    match of.variant {
        Some(Is::Constant(x)) => Node::Float(x.into()),
        Some(Is::Variable(name)) => Node::Text(name),
        Some(Is::Condition(of)) => condition(of),
        Some(Is::GeoDistance(of)) => {
            let distance = Fields::new()
                .put("origin", required(of.origin, "origin", geo_point))
                .put("to", Node::Text(of.to));
            Fields::new().put("geo_distance", distance.node()).node()
        }
        Some(Is::Datetime(text)) => Fields::new().put("datetime", Node::Text(text)).node(),
        Some(Is::DatetimeKey(key)) => Fields::new().put("datetime_key", Node::Text(key)).node(),
        Some(Is::Mult(of)) => all("mult", of.mult),
        Some(Is::Sum(of)) => all("sum", of.sum),
        Some(Is::Max(of)) => all("max", of.max),
        Some(Is::Min(of)) => all("min", of.min),
        Some(Is::Div(of)) => {
            let div = Fields::new()
                .put("left", boxed(of.left, "left"))
                .put("right", boxed(of.right, "right"))
                .float("by_zero_default", of.by_zero_default);
            Fields::new().put("div", div.node()).node()
        }
        Some(Is::Pow(of)) => {
            let pow = Fields::new()
                .put("base", boxed(of.base, "base"))
                .put("exponent", boxed(of.exponent, "exponent"));
            Fields::new().put("pow", pow.node()).node()
        }
        Some(Is::Neg(of)) => one("neg", of),
        Some(Is::Abs(of)) => one("abs", of),
        Some(Is::Sqrt(of)) => one("sqrt", of),
        Some(Is::Exp(of)) => one("exp", of),
        Some(Is::Log10(of)) => one("log10", of),
        Some(Is::Ln(of)) => one("ln", of),
        Some(Is::Acosh(of)) => one("acosh", of),
        Some(Is::ExpDecay(of)) => Fields::new().put("exp_decay", decay(*of)).node(),
        Some(Is::GaussDecay(of)) => Fields::new().put("gauss_decay", decay(*of)).node(),
        Some(Is::LinDecay(of)) => Fields::new().put("lin_decay", decay(*of)).node(),
        None => Node::Wrong("an expression of the formula is empty".to_owned()),
    }
}

fn boxed(of: Option<Box<q::Expression>>, name: &str) -> Node {
    required(of, name, |of| expression(*of))
}

fn decay(of: q::DecayParamsExpression) -> Node {
    Fields::new()
        .put("x", boxed(of.x, "x"))
        .maybe("target", of.target, |target| expression(*target))
        .float("scale", of.scale)
        .float("midpoint", of.midpoint)
        .node()
}
