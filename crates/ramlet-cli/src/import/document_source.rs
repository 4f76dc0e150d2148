//! Documents as points.

use std::sync::Arc;

use anyhow::{Context, Error, Result, anyhow, bail};

use super::document::{Document, FieldNames, Kind, numbered};
use super::documents::{Documents, located};
use super::ids::MixedIds;
use super::source::{At, Layout, Source, Target};
use super::value_range::ValueRange;
use super::vector_text::numbers_of;

/// Names under which a list of numbers is a vector, if it is nothing else.
const VECTOR_WORDS: [&str; 5] = ["embedding", "vector", "emb", "vec", "embeddings"];
/// And from how many numbers on under any name.
const LONG_LIST: usize = 32;

/// Points from documents. Memory: two documents of at most 32 MiB, and what their reader has.
pub struct DocumentSource {
    documents: Box<dyn Documents>,
    names: FieldNames,
    file: Arc<str>,
    /// Of the first, but for vectors that no collection can be made for.
    layout: Layout,
    /// Why the first is no pattern for a collection.
    odd: Option<String>,
    has_ids: bool,
    stray: Option<(String, usize)>,
    first_line: u64,
    target: Target,
    /// Documents given or left out.
    row: u64,
    /// The first is read at opening, and given out then.
    pending: bool,
}

impl DocumentSource {
    pub fn new(mut documents: Box<dyn Documents>, mut names: FieldNames) -> Result<DocumentSource> {
        names.learn_columns(&documents.columns());
        if !documents.next()? {
            bail!("{}: there is nothing in it", documents.name());
        }
        let line = documents.line();
        let parsed = Document::parse(documents.text(), &names);
        let checked = parsed.and_then(|document| {
            document.check_named(&names)?;
            Ok(document)
        });
        let document = checked.map_err(|error| located(documents.as_ref(), error))?;
        let place = || format!("{} {line}", documents.unit());
        let kinds = document
            .kinds()
            .with_context(|| format!("{}: {}", documents.name(), place()))?;
        let (mut layout, mut odd) = (Layout::default(), None);
        for (name, kind) in kinds {
            match kind {
                Ok(Kind::Dense(dim)) => layout.dense.push((name, dim)),
                Ok(Kind::Sparse) => layout.sparse.push(name),
                Err(error) => odd = odd.or(Some(format!("{}: {}: {error:#}", documents.name(), place()))),
            }
        }
        Ok(DocumentSource {
            file: documents.name().into(),
            layout,
            odd,
            has_ids: document.id.is_some(),
            stray: stray_vector(&document),
            first_line: line,
            documents,
            names,
            target: Target::default(),
            row: 0,
            pending: true,
        })
    }

    fn advance(&mut self) -> Result<bool> {
        if std::mem::take(&mut self.pending) || self.documents.next()? {
            self.row += 1;
            return Ok(true);
        }
        Ok(false)
    }

    fn write(&self, document: &Document<'_>, out: &mut Vec<u8>) -> Result<()> {
        if self.target.needs_vectors && !document.has_vector() && !self.layout.is_empty() {
            bail!(
                "it has no vector, but {} {} has one, and the collection was created for it; to import points without vectors, use an existing collection",
                self.documents.unit(),
                self.first_line
            );
        }
        if self.target.needs_vectors && document.has_vector() && self.layout.is_empty() {
            bail!(
                "it has a vector, but {} {} has none, and the collection was created without vectors: move a point with a vector to the front, or create the collection first",
                self.documents.unit(),
                self.first_line
            );
        }
        self.check_id(document)?;
        self.check_ranges(document)?;
        let row = self.target.first_row + self.row - 1;
        let ids = (&self.target.numbering, &self.names);
        document.write(row, self.documents.text(), ids, out)
    }

    /// Ids of all, or of none: made up ones could be those of others.
    fn check_id(&self, document: &Document<'_>) -> Result<()> {
        let has_id = document.id.is_some();
        if has_id == self.has_ids || self.target.numbers_all {
            return Ok(());
        }
        let (this, first) = match has_id {
            true => ("it has an id", "has none"),
            false => ("it has no id", "has one"),
        };
        Err(Error::new(MixedIds(format!(
            "{this}, {} {} {first}: --ids line numbers all rows, --ids hash makes UUIDs of the ids, and of the rows without one",
            self.documents.unit(),
            self.first_line
        ))))
    }

    fn check_ranges(&self, document: &Document<'_>) -> Result<()> {
        if self.target.ranges.is_empty() {
            return Ok(());
        }
        for (name, text) in document.vectors()? {
            if let Some((_, range)) = self.target.ranges.iter().find(|(of, _)| *of == name) {
                check_range(*range, text)?;
            }
        }
        Ok(())
    }
}

/// What isn't a list of numbers is left to the server.
fn check_range(range: ValueRange, text: &str) -> Result<()> {
    if let Ok(vector) = serde_json::from_str::<Vec<f32>>(text) {
        return range.check(&vector);
    }
    let vectors = serde_json::from_str::<Vec<Vec<f32>>>(text).unwrap_or_default();
    vectors.iter().try_for_each(|vector| range.check(vector))
}

/// So many columns of numbers with one name and consecutive numbers look like a vector.
const MANY_COLUMNS: usize = 8;

/// The longest list of numbers among the payload's fields, or row of columns (`v*`), if it looks like a vector.
fn stray_vector(document: &Document<'_>) -> Option<(String, usize)> {
    stray_list(document).or_else(|| stray_columns(document))
}

fn stray_columns(document: &Document<'_>) -> Option<(String, usize)> {
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for (key, value) in document.rest() {
        if let Some((begin, _)) = numbered(key)
            && serde_json::from_str::<f32>(value.get()).is_ok()
        {
            *counts.entry(begin).or_default() += 1;
        }
    }
    let (begin, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    (count >= MANY_COLUMNS).then(|| (format!("{begin}*"), count))
}

fn stray_list(document: &Document<'_>) -> Option<(String, usize)> {
    let of = |(name, value): &(String, &serde_json::value::RawValue)| {
        let text = value.get();
        let list = match serde_json::from_str::<String>(text) {
            Ok(inner) => numbers_of(inner.strip_prefix('[').and(Some(&inner))?).ok()?,
            Err(_) => text.to_string(),
        };
        let numbers = serde_json::from_str::<Vec<f32>>(&list).ok()?.len();
        let lower = name.to_ascii_lowercase();
        let is_named = lower
            .split(['_', '-', '.', ' '])
            .any(|word| VECTOR_WORDS.contains(&word));
        (numbers >= LONG_LIST || is_named && numbers > 1).then(|| (name.clone(), numbers))
    };
    document
        .rest()
        .iter()
        .filter_map(of)
        .max_by_key(|(_, numbers)| *numbers)
}

impl Source for DocumentSource {
    fn layout(&self) -> &Layout {
        &self.layout
    }
    fn has_ids(&self) -> bool {
        self.has_ids
    }

    fn check_pattern(&self) -> Result<()> {
        match &self.odd {
            Some(why) => Err(anyhow!("{why}")),
            None => Ok(()),
        }
    }

    fn stray_vector(&self) -> Option<(&str, usize)> {
        self.stray
            .as_ref()
            .map(|(name, numbers)| (name.as_str(), *numbers))
    }

    fn aim(&mut self, target: Target) {
        self.target = target;
    }

    fn skip(&mut self, points: u64) -> Result<u64> {
        for skipped in 0..points {
            if !self.advance()? {
                return Ok(skipped);
            }
        }
        Ok(points)
    }

    fn read(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        if !self.advance()? {
            return Ok(false);
        }
        let written = Document::parse(self.documents.text(), &self.names).and_then(|document| {
            self.write(&document, out)?;
            let seen: Vec<bool> = self
                .target
                .fields
                .iter()
                .map(|field| document.has_text(field))
                .collect();
            Ok(seen)
        });
        let seen = written.map_err(|error: Error| located(self.documents.as_ref(), error))?;
        let mut seen = seen.into_iter();
        self.target.fields.retain(|_| !seen.next().unwrap_or(false));
        Ok(true)
    }

    fn at(&self) -> At {
        At {
            file: self.file.clone(),
            unit: self.documents.unit(),
            number: self.documents.line(),
        }
    }
    fn unseen(&self) -> Vec<String> {
        self.target.fields.clone()
    }
    fn progress(&self) -> (u64, u64) {
        self.documents.progress()
    }
    fn counts_points(&self) -> bool {
        false
    }
}
