//! placeholder
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {}
