//! The conditions of a filter on the words of one text index, separated from the rest: posting lists answer them.

use std::sync::Arc;

use super::compile::{CompiledFilter, FieldNode, Node};
use super::field_check::Check;
use super::tokens::{PhraseTokens, TokenCheck, Wanted};
use crate::text::TextField;

/// Words that a field's texts must have, and what the filter asks beside.
#[derive(Debug)]
pub(crate) struct FieldWords {
    /// Each once.
    pub required: Vec<String>,
    /// Several words, one after another.
    pub phrases: Vec<PhraseTokens>,
    pub rest: Option<CompiledFilter>,
}

impl FieldWords {
    /// `None`: every row that matches `filter` need not have any word of the index.
    pub(crate) fn of(filter: &CompiledFilter, index: &Arc<TextField>) -> Option<FieldWords> {
        let asked: Vec<&TokenCheck> = filter
            .root
            .must
            .iter()
            .filter_map(|node| of_index(node, index))
            .collect();
        if asked.is_empty() {
            return None;
        }
        let mut required: Vec<String> = asked.iter().flat_map(|check| check.tokens.clone()).collect();
        required.sort_unstable();
        required.dedup();
        let phrases = asked.iter().filter_map(|check| match &check.wanted {
            Wanted::Phrase(phrase) if phrase.tokens.len() > 1 => Some(phrase.clone()),
            _ => None,
        });
        let phrases = phrases.collect();
        let mut rest = filter.clone();
        rest.root.must.retain(|node| of_index(node, index).is_none());
        Some(FieldWords {
            required,
            phrases,
            rest: (!rest.is_empty()).then_some(rest),
        })
    }
}

/// A condition of a point itself that all of some words, or a phrase, are in the texts of this index.
fn of_index<'a>(node: &'a Node, index: &Arc<TextField>) -> Option<&'a TokenCheck> {
    let Node::Field(field) = node else { return None };
    let FieldNode {
        check: Check::Tokens(tokens),
        ..
    } = field.as_ref()
    else {
        return None;
    };
    let all = matches!(tokens.wanted, Wanted::All | Wanted::Phrase(_)) && !tokens.tokens.is_empty();
    (all && !tokens.are_stopwords && Arc::ptr_eq(&tokens.field, index)).then_some(tokens)
}
