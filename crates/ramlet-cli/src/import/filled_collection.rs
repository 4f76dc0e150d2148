//! The target collection of an import: created for the files, or an existing one that must match them and the options.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::HumanCount;
use serde_json::Value;

use super::api::{Api, CollectionState};
use super::source::{Layout, Source};
use super::value_range::ValueRange;
use crate::args::{Datatype, Distance, ImportArgs};
use crate::commands::text_schema::{difference, text_schema};
use crate::output::note;

/// Points that replaced others are never counted: the count is final soon.
const SETTLED_AFTER: Duration = Duration::from_millis(500);

/// The collection of an import.
pub struct FilledCollection<'a> {
    api: &'a Api,
    name: &'a str,
    /// As it is, if it was there before.
    there: Option<CollectionState>,
    /// Points in it before.
    pub before: u64,
}

impl<'a> FilledCollection<'a> {
    /// Looks at the collection, and fails where it is there and doesn't take these points, or isn't what the options say.
    pub fn look(api: &'a Api, name: &'a str, args: &ImportArgs, source: &dyn Source) -> Result<Self> {
        let there = api.collection(name)?;
        let mut before = 0;
        if let Some(state) = &there {
            check_fits(name, &state.layout(), source.layout())?;
            check_options(name, state, args, source)?;
            check_text_indexes(name, state, args)?;
            before = api.count(name)?;
        } else {
            source.check_pattern().with_context(|| {
                format!("there is no collection '{name}', and none can be created from the file")
            })?;
        }
        Ok(FilledCollection {
            api,
            name,
            there,
            before,
        })
    }

    pub fn is_new(&self) -> bool {
        self.there.is_none()
    }

    /// Makes the collection if it isn't there, and its text indexes: texts that are indexed before they come in are indexed once.
    /// Returns what its vectors hold less than an f32 of.
    pub fn make(&self, args: &ImportArgs, source: &dyn Source) -> Result<Vec<(String, ValueRange)>> {
        let ranges = match &self.there {
            Some(state) => ranges(state),
            None => self.create(args, source)?,
        };
        for field in &args.text {
            self.make_text_index(field, args)?;
        }
        Ok(ranges)
    }

    fn create(&self, args: &ImportArgs, source: &dyn Source) -> Result<Vec<(String, ValueRange)>> {
        if let (None, Some(name)) = (args.distance, source.unknown_distance()) {
            bail!(
                "the distance of the file is '{name}', which the API doesn't have; --distance chooses another"
            );
        }
        let (distance, origin) = match (args.distance, source.distance()) {
            (Some(distance), _) => (distance, ""),
            (None, Some(distance)) => (distance, ", as the file says"),
            (None, None) => (Distance::Cosine, ", the default: --distance chooses another"),
        };
        // Bytes stay bytes where that loses nothing. Cosine vectors are normalised, and then they are no bytes any more.
        let bytes = (source.is_u8() && distance != Distance::Cosine).then_some(Datatype::Uint8);
        let datatype = args.datatype.or(bytes);
        let layout = source.layout();
        self.api
            .create_collection(self.name, layout, distance, datatype)?;
        let stored = datatype.unwrap_or(Datatype::Float32).api_name();
        match layout.is_empty() {
            true => note!("created collection '{}': no vectors", self.name),
            false => note!(
                "created collection '{}': {layout} ({}{origin}), {stored}",
                self.name,
                distance.api_name(),
            ),
        }
        let Some(range) = ValueRange::of(stored) else {
            return Ok(Vec::new());
        };
        Ok(layout
            .dense
            .iter()
            .map(|(name, _)| (name.clone(), range))
            .collect())
    }

    fn make_text_index(&self, field: &str, args: &ImportArgs) -> Result<()> {
        let is_there = self
            .there
            .as_ref()
            .is_some_and(|state| !state.payload_schema[field].is_null());
        if !is_there {
            self.api.create_index(self.name, field, &wanted(args))?;
            note!("text index on '{field}' ({})", args.language);
        }
        Ok(())
    }

    /// Removes a collection that this import has made, if nothing is in it.
    pub fn undo(&self) {
        if !self.is_new() || self.api.collection(self.name).ok().flatten().is_none() {
            return;
        }
        if self.api.count(self.name).is_ok_and(|points| points == 0)
            && self.api.delete_collection(self.name).is_ok()
        {
            note!("removed the empty collection '{}'", self.name);
        }
    }

    /// What `sent` points did to it: new ones, and those that replaced others.
    pub fn outcome(&self, sent: u64) -> Result<String> {
        let now = self
            .api
            .count_settled(self.name, self.before + sent, SETTLED_AFTER)?;
        let new = now.saturating_sub(self.before).min(sent);
        Ok(format!(
            "{} new, {} replaced; the collection has {} now",
            HumanCount(new),
            HumanCount(sent - new),
            HumanCount(now)
        ))
    }
}

/// The text index that the options ask for.
fn wanted(args: &ImportArgs) -> Value {
    text_schema(args.tokenizer, &args.language, args.folding)
}

fn ranges(state: &CollectionState) -> Vec<(String, ValueRange)> {
    let vectors = state.vectors().into_iter();
    let range = |params: &Value| ValueRange::of(params["datatype"].as_str().unwrap_or_default());
    vectors
        .filter_map(|(name, params)| Some((name.to_string(), range(params)?)))
        .collect()
}

fn check_fits(collection: &str, there: &Layout, file: &Layout) -> Result<()> {
    for (name, dim) in &file.dense {
        match there.dense.iter().find(|(known, _)| known == name) {
            Some((_, known)) if known == dim => {}
            Some((_, known)) => {
                bail!("collection '{collection}' exists with {known} dimensions, the file has {dim}")
            }
            None => bail!("collection '{collection}' exists with {there}, the file has {file}"),
        }
    }
    match file.sparse.iter().find(|name| !there.sparse.contains(name)) {
        Some(_) => bail!("collection '{collection}' exists with {there}, the file has {file}"),
        None => Ok(()),
    }
}

/// Options for a new collection say nothing else than what is there.
fn check_options(
    collection: &str,
    state: &CollectionState,
    args: &ImportArgs,
    source: &dyn Source,
) -> Result<()> {
    let dense = &source.layout().dense;
    for (name, params) in state.vectors() {
        if !dense.iter().any(|(of, _)| of == name) {
            continue;
        }
        let distance = params["distance"].as_str().unwrap_or_default();
        let datatype = params["datatype"].as_str().unwrap_or("float32");
        let differs = |option: &str, told: &str, has: &str| {
            format!(
                "collection '{collection}' exists with {has}, but {option} is {told}: omit the option to add to the collection, or name another --collection"
            )
        };
        if let Some(told) = args
            .distance
            .map(Distance::api_name)
            .filter(|told| *told != distance)
        {
            bail!(differs("--distance", told, distance));
        }
        if let Some(told) = args
            .datatype
            .map(Datatype::api_name)
            .filter(|told| *told != datatype)
        {
            bail!(differs("--datatype", told, datatype));
        }
        if let (None, Some(named)) = (args.distance, source.distance())
            && named.api_name() != distance
        {
            note!(
                "the file's distance is {}, that of '{collection}' {distance}",
                named.api_name()
            );
        }
    }
    Ok(())
}

/// An index on a field of --text would be replaced by another.
fn check_text_indexes(collection: &str, state: &CollectionState, args: &ImportArgs) -> Result<()> {
    let wanted = wanted(args);
    for field in &args.text {
        let index = &state.payload_schema[field];
        if index.is_null() {
            continue;
        }
        let kind = index["data_type"].as_str().unwrap_or_default();
        let why = match difference(&index["params"], &wanted) {
            _ if kind != "text" => format!("of type {kind}"),
            Some((key, value)) => format!("with {key} {value}"),
            None => continue,
        };
        bail!(
            "'{collection}' already has an index on '{field}', {why}: omit '{field}' from --text to keep it, give the same --tokenizer, --language and --folding, or delete it first"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(dense: &[(&str, usize)], sparse: &[&str]) -> Layout {
        Layout {
            dense: dense.iter().map(|(n, d)| (n.to_string(), *d)).collect(),
            sparse: sparse.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn files_and_collections_that_fit() {
        let fits = |there: &[(&str, usize)], file: &[(&str, usize)]| {
            check_fits("c", &layout(there, &["s"]), &layout(file, &[])).is_ok()
        };
        assert!(fits(&[("", 4)], &[("", 4)]));
        assert!(fits(&[("a", 4), ("b", 2)], &[("a", 4)]));
        assert!(fits(&[], &[]));
        assert!(!fits(&[("", 4)], &[("", 5)]));
        assert!(!fits(&[("a", 4)], &[("", 4)]));
        assert!(fits(&[("", 4)], &[]), "points without vectors are taken");
        let sparse = |there: &[&str]| check_fits("c", &layout(&[], there), &layout(&[], &["s"])).is_ok();
        assert!(sparse(&["s", "t"]) && !sparse(&["t"]));
    }
}
