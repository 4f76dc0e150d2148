//! The table of how large each message becomes in memory: what the server reckons with before it decodes one.

use std::collections::BTreeMap;
use std::fmt::Write;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};

struct Shape<'a> {
    /// Path of the Rust type below the package's module.
    rust: String,
    message: &'a DescriptorProto,
}

/// The table as Rust source.
pub fn write(set: &FileDescriptorSet) -> String {
    let mut all = BTreeMap::new();
    for file in set.file.iter().filter(|f| f.package() == "qdrant") {
        for message in &file.message_type {
            collect(".qdrant", "", message, &mut all);
        }
    }
    let mut out = String::from(
        "//! Sizes of the messages of `qdrant`, written by `cargo proto`: not to be edited.\n\n\
         use super::qdrant as q;\nuse crate::shape::{Kind::*, Shape, Shaped};\n\n",
    );
    for (name, shape) in &all {
        let fields: Vec<String> = shape
            .message
            .field
            .iter()
            .filter_map(|f| field(f, &all))
            .collect();
        let constant = constant(name);
        let _ = writeln!(
            out,
            "static {constant}: Shape = Shape {{ bytes: size_of::<q::{}>(), fields: &[{}] }};\n\
             impl Shaped for q::{} {{ const SHAPE: &'static Shape = &{constant}; }}",
            shape.rust,
            fields.join(", "),
            shape.rust,
        );
    }
    out
}

fn collect<'a>(
    path: &str,
    module: &str,
    message: &'a DescriptorProto,
    all: &mut BTreeMap<String, Shape<'a>>,
) {
    let name = format!("{path}.{}", message.name());
    let rust = format!("{module}{}", message.name());
    for nested in &message.nested_type {
        collect(
            &name,
            &format!("{module}{}::", snake(message.name())),
            nested,
            all,
        );
    }
    all.insert(name, Shape { rust, message });
}

/// One field, if anything of it lies outside of the message's own bytes.
fn field(field: &FieldDescriptorProto, all: &BTreeMap<String, Shape>) -> Option<String> {
    let repeated = field.label() == Label::Repeated;
    let kind = match field.r#type() {
        // Timestamps and the like have nothing inside.
        Type::Message if !all.contains_key(field.type_name()) => return None,
        Type::Message if repeated => format!("Messages(&{})", constant(field.type_name())),
        Type::Message => format!("Message(&{})", constant(field.type_name())),
        Type::String if repeated => "Strings".to_owned(),
        Type::String => "Text".to_owned(),
        Type::Bytes if repeated => "Slices".to_owned(),
        Type::Float if repeated => "Floats".to_owned(),
        Type::Uint32 | Type::Int32 | Type::Enum | Type::Bool if repeated => "Numbers(4)".to_owned(),
        _ if repeated => "Numbers(8)".to_owned(),
        _ => return None,
    };
    Some(format!("({}, {kind})", field.number()))
}

fn constant(name: &str) -> String {
    let parts: Vec<String> = name
        .split('.')
        .skip(2)
        .map(|part| snake(part).to_uppercase())
        .collect();
    parts.join("_OF_")
}

fn snake(name: &str) -> String {
    let mut out = String::new();
    for (at, c) in name.char_indices() {
        if c.is_ascii_uppercase() && at > 0 {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
