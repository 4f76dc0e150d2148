//! A compiled filter: paths are parsed and lists sorted.

use super::access::PointAccess;
use super::ast::{Condition, FieldCheck, FieldCondition, Filter};
use super::field_check::Check;
use super::index::{elements_of, names_of};
use super::limits::FilterLimits;
use super::slice::slice_of;
use super::tokens::TokenCheck;
use crate::payload::{JsonRef, Path};
use crate::schema::PayloadField;
use crate::types::{FieldKind, PointId};

/// A filter ready to be asked of many points; matching allocates only for escaped strings and text conditions.
#[derive(Debug, Clone)]
pub struct CompiledFilter {
    pub(super) root: Group,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    pub must: Vec<Node>,
    pub should: Vec<Node>,
    pub must_not: Vec<Node>,
    pub min_should: Option<(u64, Vec<Node>)>,
}

#[derive(Debug, Clone)]
pub(super) enum Node {
    Field(Box<FieldNode>),
    /// Sorted.
    HasId(Vec<PointId>),
    HasVector(String),
    Slice {
        total: u64,
        index: u64,
    },
    Nested {
        path: Path,
        group: Group,
    },
    Group(Group),
}

#[derive(Debug, Clone)]
pub(super) struct FieldNode {
    pub condition: FieldCondition,
    pub path: Path,
    pub check: Check,
}

/// What conditions are asked of: a point, or an element of a nested array, which has no id and no vectors.
#[derive(Clone, Copy)]
struct Subject<'a> {
    point: Option<&'a dyn PointAccess>,
    element: Option<JsonRef<'a>>,
}

/// Where a condition stands: what the points' payload indexes are, and within `nested` the path of the elements.
#[derive(Clone, Copy)]
struct Scope<'a> {
    fields: &'a [PayloadField],
    outer: Option<&'a str>,
}

impl<'a> Scope<'a> {
    /// The payload index that a condition is about.
    fn field(self, condition: &FieldCondition, path: &Path) -> Option<&'a PayloadField> {
        let names = names_of(condition, path, self.outer);
        let mut names = names.iter();
        names.find_map(|name| self.fields.iter().find(|field| field.path == *name))
    }

    /// A text condition.
    fn tokens(self, condition: &FieldCondition, path: &Path) -> Result<Option<TokenCheck>, String> {
        let FieldCheck::Match(asked) = &condition.check else {
            return Ok(None);
        };
        let field = self.field(condition, path);
        TokenCheck::new(
            asked,
            field.and_then(|field| Some((field.slot, field.text.as_ref()?))),
        )
    }
}

impl CompiledFilter {
    /// Checks the filter against [`FilterLimits::default`] and compiles it; the error says what is wrong and where.
    pub fn new(filter: &Filter) -> Result<CompiledFilter, String> {
        CompiledFilter::on(&[], filter)
    }

    /// The same for points with these payload indexes: their options decide what a text condition means.
    pub(crate) fn on(fields: &[PayloadField], filter: &Filter) -> Result<CompiledFilter, String> {
        filter.check(&FilterLimits::default())?;
        let scope = Scope { fields, outer: None };
        Ok(CompiledFilter {
            root: Group::new(filter, scope)?,
        })
    }

    /// The filters of a query and of those above it as one, clause by clause as the API has it: alternatives of one are
    /// alternatives of the other. The id is none of `excluded`.
    pub(crate) fn merged(
        fields: &[PayloadField],
        filters: &[&Filter],
        excluded: &[PointId],
    ) -> Result<CompiledFilter, String> {
        let mut root = Group::default();
        for filter in filters {
            let Group {
                must,
                should,
                must_not,
                min_should,
            } = CompiledFilter::on(fields, filter)?.root;
            root.must.extend(must);
            root.should.extend(should);
            root.must_not.extend(must_not);
            root.min_should = match (root.min_should, min_should) {
                (Some((one, mut nodes)), Some((other, more))) => {
                    nodes.extend(more);
                    Some((one.max(other), nodes))
                }
                (one, other) => one.or(other),
            };
        }
        if !excluded.is_empty() {
            root.must_not.push(Node::has_id(excluded.to_vec()));
        }
        Ok(CompiledFilter { root })
    }

    pub fn matches(&self, point: &dyn PointAccess) -> bool {
        self.root.holds(Subject {
            point: Some(point),
            element: None,
        })
    }

    /// Whether some condition asks for the id.
    pub fn needs_id(&self) -> bool {
        self.root
            .any(&|node| matches!(node, Node::HasId(_) | Node::Slice { .. }))
    }

    /// Whether every point matches, whatever it is.
    pub fn is_empty(&self) -> bool {
        let Group {
            must,
            should,
            must_not,
            min_should,
        } = &self.root;
        must.is_empty() && should.is_empty() && must_not.is_empty() && min_should.is_none()
    }
}

impl Filter {
    /// [`CompiledFilter::matches`] for a single point; a filter that can't be compiled matches nothing.
    pub fn matches(&self, point: &dyn PointAccess) -> bool {
        CompiledFilter::new(self).is_ok_and(|filter| filter.matches(point))
    }
}

impl Group {
    fn new(filter: &Filter, scope: Scope<'_>) -> Result<Group, String> {
        let compile = |conditions: &[Condition]| {
            let nodes = conditions.iter().map(|condition| Node::new(condition, scope));
            nodes.collect::<Result<Vec<_>, _>>()
        };
        Ok(Group {
            must: compile(&filter.must)?,
            should: compile(&filter.should)?,
            must_not: compile(&filter.must_not)?,
            min_should: match &filter.min_should {
                Some(m) => Some((m.min_count, compile(&m.conditions)?)),
                None => None,
            },
        })
    }

    fn holds(&self, subject: Subject<'_>) -> bool {
        self.must.iter().all(|node| node.holds(subject))
            && !self.must_not.iter().any(|node| node.holds(subject))
            && (self.should.is_empty() || self.should.iter().any(|node| node.holds(subject)))
            && self.min_should.as_ref().is_none_or(|(min_count, nodes)| {
                let holding = nodes.iter().filter(|node| node.holds(subject));
                let wanted = usize::try_from(*min_count).unwrap_or(usize::MAX);
                holding.take(wanted).count() == wanted
            })
    }

    /// Whether a node of this group or of those in it is of a kind. What is nested in an element has no id of its own.
    fn any(&self, kind: &dyn Fn(&Node) -> bool) -> bool {
        let min_should = self.min_should.iter().flat_map(|(_, nodes)| nodes);
        let mut all = self
            .must
            .iter()
            .chain(&self.should)
            .chain(&self.must_not)
            .chain(min_should);
        all.any(|node| match node {
            Node::Group(group) => group.any(kind),
            node => kind(node),
        })
    }
}

impl Node {
    fn new(condition: &Condition, scope: Scope<'_>) -> Result<Node, String> {
        Ok(match condition {
            Condition::Field(field) => Node::field(field.clone(), scope)?,
            Condition::IsEmpty(key) => {
                let (key, check) = (key.clone(), FieldCheck::IsEmpty(true));
                Node::field(FieldCondition { key, check }, scope)?
            }
            Condition::IsNull(key) => {
                let (key, check) = (key.clone(), FieldCheck::IsNull(true));
                Node::field(FieldCondition { key, check }, scope)?
            }
            Condition::HasId(ids) => Node::has_id(ids.clone()),
            Condition::HasVector(name) => Node::HasVector(name.clone()),
            Condition::Nested { key, filter } => {
                let path = parse(key)?.without_last_each();
                let elements = elements_of(scope.outer, &path);
                let scope = Scope {
                    outer: Some(&elements),
                    ..scope
                };
                let group = Group::new(filter, scope)?;
                Node::Nested { path, group }
            }
            Condition::Slice { total, index } => Node::Slice {
                total: *total,
                index: *index,
            },
            Condition::Filter(filter) => Node::Group(Group::new(filter, scope)?),
        })
    }

    fn has_id(mut ids: Vec<PointId>) -> Node {
        ids.sort_unstable();
        ids.dedup();
        Node::HasId(ids)
    }

    fn field(condition: FieldCondition, scope: Scope<'_>) -> Result<Node, String> {
        let path = parse(&condition.key)?;
        let tokens = scope.tokens(&condition, &path)?;
        let field = scope.field(&condition, &path);
        let are_uuids = field.is_some_and(|field| field.kind == FieldKind::Uuid);
        let check = Check::new(&condition.check, tokens, are_uuids);
        Ok(Node::Field(Box::new(FieldNode {
            condition,
            path,
            check,
        })))
    }

    fn holds(&self, subject: Subject<'_>) -> bool {
        match self {
            Node::Field(field) => {
                !field.lacks_words(subject) && field.check.holds(&field.path, subject.root())
            }
            Node::HasId(ids) => subject.point.is_some_and(|p| ids.binary_search(&p.id()).is_ok()),
            Node::HasVector(name) => subject.point.is_some_and(|p| p.has_vector(name)),
            Node::Slice { total, index } => subject
                .point
                .is_some_and(|p| slice_of(p.id(), *total) == Some(*index)),
            Node::Nested { path, group } => subject.root().is_some_and(|root| {
                path.any_node(root, &mut |node| {
                    let mut elements = node.array().into_iter().flatten();
                    elements.any(|e| {
                        e.is_object()
                            && group.holds(Subject {
                                point: None,
                                element: Some(e),
                            })
                    })
                })
            }),
            Node::Group(group) => group.holds(subject),
        }
    }
}

impl FieldNode {
    /// Whether a point is known to lack words that it must have.
    fn lacks_words(&self, subject: Subject<'_>) -> bool {
        match (&self.check, subject.point) {
            (Check::Tokens(tokens), Some(point)) => tokens.are_lacking(point),
            _ => false,
        }
    }
}

impl<'a> Subject<'a> {
    fn root(self) -> Option<JsonRef<'a>> {
        match self.point {
            Some(point) => JsonRef::new(point.payload()),
            None => self.element,
        }
    }
}

fn parse(key: &str) -> Result<Path, String> {
    Path::parse(key).map_err(|e| format!("filter: {e}"))
}
