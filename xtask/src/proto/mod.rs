//! `cargo proto`: Rust types from the .proto files, without `protoc`.
//!
//! Two things differ from what the files say, and neither on the wire: payload values stay bytes, because they are turned
//! into JSON text as they are read; and maps are lists of entries, which take a third of a tree's memory.

mod shapes;

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use prost::Message;
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};

const OUT: &str = "crates/ramlet-proto/src/generated";
const VALUE: &str = ".qdrant.Value";

/// Writes the types, or with `check` tells whether those in the tree are the same.
pub fn run(root: &Path, check: bool) -> ExitCode {
    let files = match generate(root) {
        Ok(files) => files,
        Err(e) => {
            eprintln!("proto: {e}");
            return ExitCode::FAILURE;
        }
    };
    let mut same = true;
    for (name, bytes) in &files {
        let path = root.join(OUT).join(name);
        let now = fs::read(&path).unwrap_or_default();
        if now != *bytes {
            same = false;
            println!(
                "{}: {}",
                path.display(),
                if check { "differs" } else { "written" }
            );
            if !check && let Err(e) = fs::write(&path, bytes) {
                eprintln!("proto: {}: {e}", path.display());
                return ExitCode::FAILURE;
            }
        }
    }
    println!("proto: {} files", files.len());
    if check && !same {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

type Files = Vec<(String, Vec<u8>)>;

fn generate(root: &Path) -> io::Result<Files> {
    let proto = root.join("proto");
    let compile = |dir: &str, names: &[&str]| {
        let mut set =
            protox::compile(names, [proto.join(dir)]).map_err(|e| io::Error::other(format!("{dir}: {e}")))?;
        for file in &mut set.file {
            file.source_code_info = None;
        }
        Ok::<_, io::Error>(set)
    };
    let api = compile("qdrant", &["qdrant.proto", "storage_read_service.proto"])?;
    let grpc = compile(
        "grpc",
        &["health.proto", "reflection_v1.proto", "reflection_v1alpha.proto"],
    )?;
    let mut served = api.clone();
    served.file.extend(grpc.file.iter().cloned());
    leave_out_watch(&mut served);
    let mut ours = api;
    // The same messages as v1's: one set of types serves both.
    ours.file.extend(
        grpc.file
            .into_iter()
            .filter(|f| f.package() != "grpc.reflection.v1alpha"),
    );
    ours.file
        .iter_mut()
        .flat_map(|f| &mut f.message_type)
        .for_each(adapt);
    let mut files = rust(root, &ours)?;
    files.push(("shapes.rs".to_owned(), shapes::write(&ours).into_bytes()));
    files.push(("descriptors.bin".to_owned(), served.encode_to_vec()));
    Ok(files)
}

/// The API's server has `Check` alone of the health service, and its tests hold all that reflection tells against a list.
/// `Watch` is served all the same: who calls it has the service's file.
fn leave_out_watch(served: &mut FileDescriptorSet) {
    for service in served.file.iter_mut().flat_map(|file| &mut file.service) {
        service
            .method
            .retain(|method| (service.name.as_deref(), method.name()) != (Some("Health"), "Watch"));
    }
}

/// Payload values to bytes, maps to lists of entries.
fn adapt(message: &mut DescriptorProto) {
    let of_values: Vec<String> = message
        .nested_type
        .iter()
        .filter(|m| {
            is_map_entry(m)
                && m.field
                    .iter()
                    .any(|f| f.name() == "value" && f.type_name() == VALUE)
        })
        .map(|m| m.name().to_owned())
        .collect();
    for field in &mut message.field {
        let entry = field.type_name().rsplit('.').next().unwrap_or_default();
        if field.type_name() == VALUE || of_values.iter().any(|name| name == entry) {
            to_bytes(field);
        }
    }
    message
        .nested_type
        .retain(|m| !of_values.iter().any(|name| name == m.name()));
    for nested in &mut message.nested_type {
        if let Some(options) = &mut nested.options {
            options.map_entry = None;
        }
        adapt(nested);
    }
}

fn is_map_entry(message: &DescriptorProto) -> bool {
    message.options.as_ref().is_some_and(|o| o.map_entry())
}

fn to_bytes(field: &mut FieldDescriptorProto) {
    field.set_type(Type::Bytes);
    field.type_name = None;
}

fn rust(root: &Path, set: &FileDescriptorSet) -> io::Result<Files> {
    let out = root.join("target/proto");
    fs::create_dir_all(&out)?;
    prost_build::Config::new()
        .out_dir(&out)
        .bytes(["."])
        .disable_comments(["."])
        .skip_debug(["."])
        .compile_fds(set.clone())?;
    let mut packages: Vec<&str> = set
        .file
        .iter()
        .map(|f| f.package())
        .filter(|p| !p.starts_with("google"))
        .collect();
    packages.sort_unstable();
    packages.dedup();
    let mut files = Files::new();
    for package in packages {
        let text = fs::read_to_string(out.join(format!("{package}.rs")))?;
        let text =
            format!("//! Messages of `{package}`, written by `cargo proto`: not to be edited.\n\n{text}");
        files.push((format!("{}.rs", package.replace('.', "_")), text.into_bytes()));
    }
    Ok(files)
}
