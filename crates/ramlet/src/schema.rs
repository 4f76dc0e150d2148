//! The schema of a collection's rows: its settings, resolved once for the hot paths.

use std::collections::BTreeMap;
use std::sync::Arc;

use ramlet_format::Component;
use ramlet_index::{Element, Metric};
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::filter::index::{emit_keys, emit_text_keys};
use crate::limits::{DIM_MAX, FIELD_INDEXES_MAX, INDEXING_THRESHOLD_KB, VECTORS_MAX};
use crate::payload::Path;
use crate::settings::{
    Expiry, Placement, Quantization, StrictMode, TurboBits, TurboQuantization, VectorSettings, key,
};
use crate::text::{ANALYSIS_REVISION, TextField};
use crate::types::{CollectionConfig, Datatype, Distance, FieldIndex, FieldKind, Modifier, VectorParams};

/// What stands for a point under a vector's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VectorKind {
    /// One vector.
    #[default]
    Dense,
    /// Several vectors.
    Multi,
    /// Weights of some dimensions.
    Sparse,
}

/// A vector: its place in the presence mask, and how its rows look.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorField {
    pub name: String,
    /// Bit of the presence mask and part of the file names; never used again after a drop.
    pub slot: u16,
    pub kind: VectorKind,
    /// Of a sparse vector 0.
    pub dim: usize,
    pub metric: Metric,
    pub element: Element,
    pub settings: VectorSettings,
    /// Of a sparse vector: what becomes of the weights of a query.
    pub modifier: Option<Modifier>,
}

impl VectorField {
    /// Bytes of one encoded vector, or of one part of a multivector.
    pub fn row_bytes(&self) -> usize {
        self.dim * self.element.bytes()
    }

    /// Bytes of what a point stores; `None`: they differ from point to point.
    pub fn fixed_bytes(&self) -> Option<usize> {
        (self.kind == VectorKind::Dense).then(|| self.row_bytes())
    }

    /// kB of so many rows.
    pub fn kb(&self, rows: u64) -> u64 {
        rows.saturating_mul(self.row_bytes() as u64) / 1024
    }
}

/// A payload index.
#[derive(Debug, Clone, PartialEq)]
pub struct PayloadField {
    pub path: String,
    pub slot: u16,
    pub kind: FieldKind,
    /// Of a text index.
    pub text: Option<Arc<TextField>>,
    pub abilities: Abilities,
    /// Of a text index that ranks: where its lists lie while they are served.
    pub placement: Placement,
    /// Whether rows lie in its order in segments from now on: most searches ask for one of its values.
    pub is_tenant: bool,
}

/// What a payload index was asked to be able to. Here each is able to all of it; strict mode holds its owner to the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// Of an integer index: `match`.
    pub lookup: bool,
    /// Of an integer index: `range`.
    pub range: bool,
    /// Of a keyword index: `match.prefix`.
    pub prefix: bool,
    /// Of a text index: `match.phrase`.
    pub phrase: bool,
}

impl Abilities {
    fn of(index: &FieldIndex) -> Abilities {
        let set = |name: &str| index.params.as_ref()?.get(name)?.as_bool();
        Abilities {
            lookup: set("lookup").unwrap_or(true),
            range: set("range").unwrap_or(true),
            prefix: set("prefix").unwrap_or(false),
            phrase: set("phrase_matching").unwrap_or(false),
        }
    }
}

impl PayloadField {
    /// How its texts are cut, if points are ranked by them.
    pub fn scored(&self) -> Option<&Arc<TextField>> {
        self.text.as_ref().filter(|text| text.is_scored())
    }

    /// Calls `emit` once for each key of the index that a payload has.
    pub fn emit_keys(&self, path: &Path, payload: &[u8], emit: &mut dyn FnMut(&[u8])) {
        match &self.text {
            Some(text) => emit_text_keys(text, path, payload, emit),
            None => emit_keys(self.kind, path, payload, emit),
        }
    }
}

/// The settings of a collection, resolved.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Schema {
    pub vectors: Vec<VectorField>,
    pub fields: Vec<PayloadField>,
    /// kB of vectors above which a segment without an index counts as unindexed (`indexed_only` passes it over).
    pub indexing_kb: u64,
    /// Where it is enabled.
    pub strict: Option<Arc<StrictMode>>,
    /// When points expire, if they do.
    pub expiry: Option<Expiry>,
}

/// Slots by name, kept in the manifest beside the settings: a name that comes back gets a new slot.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Slots {
    pub vectors: BTreeMap<String, u16>,
    pub fields: BTreeMap<String, u16>,
    pub next_field: u16,
    pub next_vector: u16,
    /// The revision of the analysis that a field's texts were cut with; at first it was that of the stemming algorithms alone.
    pub stems: BTreeMap<String, u32>,
}

impl Slots {
    /// Gives every vector of a new collection its slot.
    pub fn for_config(config: &CollectionConfig) -> Slots {
        let mut slots = Slots::default();
        for (slot, name) in config
            .vectors
            .keys()
            .chain(config.sparse_vectors.keys())
            .enumerate()
        {
            slots.vectors.insert(name.clone(), slot as u16);
        }
        slots.next_vector = slots.vectors.len() as u16;
        for path in config.payload_schema.keys() {
            // At most `FIELD_INDEXES_MAX`: the settings were checked.
            slots.fields.insert(path.clone(), slots.next_field);
            slots.stems.insert(path.clone(), ANALYSIS_REVISION);
            slots.next_field += 1;
        }
        slots
    }

    /// A slot for a new vector: the next in turn that no vector has. What had it long ago is gone from every file.
    pub fn take_vector(&mut self, name: &str) -> Result<u16> {
        let slot = next_free(self.next_vector, Component::VECTOR_SLOTS, &self.vectors)
            .ok_or_else(|| no_slot("vector", name, Component::VECTOR_SLOTS))?;
        self.next_vector = slot + 1;
        self.vectors.insert(name.to_string(), slot);
        Ok(slot)
    }

    /// A slot for a new field: the next in turn that no field has. Its files of long ago are gone from every segment.
    pub fn take_field(&mut self, path: &str) -> Result<u16> {
        let slot = next_free(self.next_field, Component::TEXT_SLOTS, &self.fields)
            .ok_or_else(|| no_slot("payload index", path, Component::TEXT_SLOTS))?;
        self.next_field = slot + 1;
        self.fields.insert(path.to_string(), slot);
        self.stems.insert(path.to_string(), ANALYSIS_REVISION);
        self.stems.retain(|path, _| self.fields.contains_key(path));
        Ok(slot)
    }

    /// With which revision of the analysis the tables of a field were made.
    pub fn analysis_of(&self, path: &str) -> u32 {
        self.stems.get(path).copied().unwrap_or_default()
    }
}

fn next_free(next: u16, slots: u16, taken: &BTreeMap<String, u16>) -> Option<u16> {
    (0..slots)
        .map(|step| (next % slots + step) % slots)
        .find(|slot| !taken.values().any(|taken| taken == slot))
}

fn no_slot(what: &str, name: &str, slots: u16) -> Error {
    Error::bad_input(format!("{what} `{name}`: {slots} are the most that are possible"))
}

impl Schema {
    pub fn new(config: &CollectionConfig, slots: &Slots) -> Result<Schema> {
        let mut schema = Schema {
            indexing_kb: indexing_kb(config),
            strict: strict(config)
                .map_err(Error::corrupt)?
                .filter(|mode| mode.enabled == Some(true))
                .map(Arc::new),
            expiry: Expiry::of(config).map_err(Error::corrupt)?,
            ..Schema::default()
        };
        for (name, params) in &config.vectors {
            let slot = *slots
                .vectors
                .get(name)
                .ok_or_else(|| Error::corrupt(format!("vector `{name}` has no slot")))?;
            schema.vectors.push(VectorField {
                name: name.clone(),
                slot,
                kind: match params.multivector_config {
                    Some(_) => VectorKind::Multi,
                    None => VectorKind::Dense,
                },
                dim: params.size,
                metric: metric(params.distance),
                element: element(params.datatype.unwrap_or_default()),
                settings: settings(name, params, config).map_err(Error::corrupt)?,
                modifier: None,
            });
        }
        for (name, params) in &config.sparse_vectors {
            let slot = *slots
                .vectors
                .get(name)
                .ok_or_else(|| Error::corrupt(format!("vector `{name}` has no slot")))?;
            schema.vectors.push(VectorField {
                name: name.clone(),
                slot,
                kind: VectorKind::Sparse,
                dim: 0,
                metric: Metric::Dot,
                element: Element::F32,
                settings: VectorSettings::default(),
                modifier: params.modifier,
            });
        }
        schema.vectors.sort_by_key(|v| v.slot);
        for (path, index) in &config.payload_schema {
            let slot = *slots
                .fields
                .get(path)
                .ok_or_else(|| Error::corrupt(format!("payload index `{path}` has no slot")))?;
            schema.fields.push(PayloadField {
                path: path.clone(),
                slot,
                kind: index.kind,
                text: text_of(path, index, slots.analysis_of(path))?,
                abilities: Abilities::of(index),
                placement: placement_of(index),
                is_tenant: is_tenant(index),
            });
        }
        Ok(schema)
    }

    pub fn vector(&self, name: &str) -> Result<&VectorField> {
        self.vectors.iter().find(|v| v.name == name).ok_or_else(|| {
            Error::bad_input(match name {
                "" => "Wrong input: Not existing vector name error: the collection has no default vector"
                    .to_string(),
                _ => format!("Wrong input: Not existing vector name error: {name}"),
            })
        })
    }

    /// Whether a vector's rows may be kept in RAM when there is room: unless its settings say `memory: cold` or
    /// `on_disk: true`.
    pub fn may_cache(&self, slot: u16) -> bool {
        self.vectors
            .iter()
            .any(|v| v.slot == slot && v.settings.may_cache_rows())
    }

    /// Whether vectors and payload indexes are the same, and in the same slots.
    pub fn has_same_slots(&self, other: &Schema) -> bool {
        let vectors = |s: &Schema, o: &Schema| {
            let mut pairs = s.vectors.iter().zip(&o.vectors);
            s.vectors.len() == o.vectors.len() && pairs.all(|(a, b)| a.slot == b.slot && a.name == b.name)
        };
        vectors(self, other) && self.fields.len() == other.fields.len() && {
            let mut pairs = self.fields.iter().zip(&other.fields);
            pairs.all(|(a, b)| (a.slot, a.kind, &a.path, &a.text) == (b.slot, b.kind, &b.path, &b.text))
        }
    }

    pub fn field(&self, path: &str) -> Option<&PayloadField> {
        self.fields.iter().find(|f| f.path == path)
    }

    /// The payload index in whose order rows lie; of several the first by name.
    pub fn tenants(&self) -> Option<&PayloadField> {
        self.fields.iter().find(|f| f.is_tenant)
    }
}

fn is_tenant(index: &FieldIndex) -> bool {
    let set = index.params.as_ref().and_then(|params| params.get("is_tenant"));
    index.kind != FieldKind::Text && set.and_then(serde_json::Value::as_bool) == Some(true)
}

/// `memory` as it is given; without it `on_disk` says that nothing is to be kept.
fn placement_of(index: &FieldIndex) -> Placement {
    let set = |name: &str| index.params.as_ref()?.get(name);
    let memory = set("memory").and_then(|memory| Placement::deserialize(memory).ok());
    let on_disk = set("on_disk").and_then(serde_json::Value::as_bool) == Some(true);
    memory.unwrap_or(if on_disk {
        Placement::Cold
    } else {
        Placement::Cached
    })
}

fn text_of(path: &str, index: &FieldIndex, revision: u32) -> Result<Option<Arc<TextField>>> {
    if index.kind != FieldKind::Text {
        return Ok(None);
    }
    let text = TextField::of_revision(index.params.as_ref(), revision);
    let text = text.map_err(|e| Error::corrupt(format!("payload index `{path}`: {e}")))?;
    Ok(Some(Arc::new(text)))
}

/// What messages call a vector: one without a name is the only one.
pub fn called(name: &str) -> String {
    match name {
        "" => "the vector".to_owned(),
        name => format!("vector '{name}'"),
    }
}

/// Refuses parameters that no payload index can have.
pub fn check_index(index: &FieldIndex) -> Result<()> {
    match index.kind {
        FieldKind::Text => TextField::new(index.params.as_ref()).map(|_| ()),
        _ => Ok(()),
    }
}

/// Refuses settings that no collection can have.
pub fn check_config(config: &CollectionConfig) -> Result<()> {
    let n = config.vectors.len() + config.sparse_vectors.len();
    if n > VECTORS_MAX {
        return Err(Error::bad_input(format!(
            "{n} named vectors; at most {VECTORS_MAX} are possible"
        )));
    }
    if config.payload_schema.len() > FIELD_INDEXES_MAX {
        let n = config.payload_schema.len();
        return Err(Error::bad_input(format!(
            "{n} payload indexes; at most {FIELD_INDEXES_MAX} are possible"
        )));
    }
    config.payload_schema.values().try_for_each(check_index)?;
    strict(config).map_err(|e| Error::bad_input(format!("Wrong input: {e}")))?;
    let expiry = Expiry::of(config).and_then(|expiry| expiry.map_or(Ok(()), |expiry| expiry.check()));
    expiry.map_err(|e| Error::bad_input(format!("Wrong input: {e}")))?;
    if config.sparse_vectors.contains_key("") {
        return Err(Error::bad_input(
            "Wrong input: Sparse vector name cannot be empty",
        ));
    }
    if let Some(name) = config
        .sparse_vectors
        .keys()
        .find(|name| config.vectors.contains_key(*name))
    {
        return Err(Error::bad_input(format!(
            "Wrong input: Dense and sparse vector names must be unique - duplicate found with '{name}'"
        )));
    }
    for (name, v) in &config.vectors {
        if v.size == 0 || v.size > DIM_MAX {
            return Err(Error::bad_input(format!(
                "vector `{name}`: size {} is not in 1..={DIM_MAX}",
                v.size
            )));
        }
        settings(name, v, config).map_err(|e| Error::bad_input(format!("Wrong input: {e}")))?;
    }
    Ok(())
}

fn settings(
    name: &str,
    params: &VectorParams,
    config: &CollectionConfig,
) -> std::result::Result<VectorSettings, String> {
    let mut settings = VectorSettings::resolve(&params.other, params.on_disk, &config.other)
        .map_err(|e| format!("vector `{name}`: {e}"))?;
    let bits = match params.datatype {
        Some(Datatype::Turbo4) => Some(TurboBits::Bits4),
        Some(Datatype::Turbo8) => Some(TurboBits::Bits8),
        _ => None,
    };
    let of_datatype = bits.map(|bits| {
        Quantization::Turbo(TurboQuantization {
            bits: Some(bits),
            ..TurboQuantization::default()
        })
    });
    settings.quantization = settings.quantization.or(of_datatype);
    Ok(settings)
}

fn strict(config: &CollectionConfig) -> std::result::Result<Option<StrictMode>, String> {
    let kept = config.other.get(key::STRICT).filter(|kept| !kept.is_null());
    let mode = kept.map(StrictMode::deserialize);
    mode.transpose().map_err(|e| format!("{}: {e}", key::STRICT))
}

/// A threshold of 0 means that nothing is ever indexed, so nothing waits for an index either.
fn indexing_kb(config: &CollectionConfig) -> u64 {
    match config.indexing_threshold.unwrap_or(INDEXING_THRESHOLD_KB) {
        0 => u64::MAX,
        kb => kb as u64,
    }
}

pub(crate) fn metric(distance: Distance) -> Metric {
    match distance {
        Distance::Cosine => Metric::Cosine,
        Distance::Dot => Metric::Dot,
        Distance::Euclid => Metric::Euclid,
        Distance::Manhattan => Metric::Manhattan,
    }
}

pub(crate) fn element(datatype: Datatype) -> Element {
    match datatype {
        Datatype::Float32 => Element::F32,
        Datatype::Float16 | Datatype::Turbo4 | Datatype::Turbo8 | Datatype::Turbo16 => Element::F16,
        Datatype::Uint8 => Element::U8,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Nothing of a collection's settings is passed over: one that can't be read closes the collection, by name.
    #[test]
    fn settings_that_say_nothing_are_refused() {
        let config = |change: serde_json::Value| -> CollectionConfig {
            let mut whole = json!({"vectors": {"a": {"size": 4, "distance": "Dot"}}});
            let fields = change.as_object().expect("settings").clone();
            whole.as_object_mut().expect("settings").extend(fields);
            serde_json::from_value(whole).expect("settings of some version")
        };
        let schema = |config: &CollectionConfig| Schema::new(config, &Slots::for_config(config));
        for unset in [json!({}), json!({"other": {"strict_mode_config": null}})] {
            assert!(schema(&config(unset)).is_ok());
        }
        for (change, named) in [
            (
                json!({"other": {"quantization_config": {"later": {}}}}),
                "vector `a`",
            ),
            (json!({"other": {"hnsw_config": {"m": "many"}}}), "vector `a`"),
            (
                json!({"other": {"strict_mode_config": {"enabled": "later"}}}),
                "strict_mode_config",
            ),
            (
                json!({"payload_schema": {"t": {"kind": "text", "params": {"type": "text", "tokenizer": "later"}}}}),
                "payload index `t`",
            ),
        ] {
            let config = config(change.clone());
            let error = schema(&config).expect_err("it can't be read");
            assert_eq!(error.kind(), crate::error::ErrorKind::Corrupt, "{change}");
            assert!(error.to_string().contains(named), "{change}: {error}");
            assert!(check_config(&config).is_err(), "{change}");
        }
    }
}
