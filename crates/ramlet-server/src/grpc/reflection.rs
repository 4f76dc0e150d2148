//! Reflection, v1 and v1alpha: the API's files, for tools that ask a server what it can.
//!
//! The files lie encoded in the binary and are searched as they are: nothing is decoded, nothing kept.

use std::sync::Arc;

use bytes::Bytes;
use ramlet_proto::reflection::server_reflection_request::MessageRequest as Asks;
use ramlet_proto::reflection::server_reflection_response::MessageResponse as Tells;
use ramlet_proto::reflection::{
    ErrorResponse, ExtensionNumberResponse, FileDescriptorResponse, ListServiceResponse,
    ServerReflectionRequest, ServerReflectionResponse, ServiceResponse,
};
use ramlet_proto::wire::{Field, Fields};
use ramlet_proto::{DESCRIPTORS, Message};
use tokio::sync::mpsc;

use super::frame::{self, Messages, Sent};
use super::responses;
use crate::app::App;
use crate::bodies::body_rule::BodyRule;
use crate::error::{ApiError, ApiResult};
use crate::request::growing_reservation::GrowingReservation;

const NOT_FOUND: i32 = 5;
const INVALID: i32 = 3;
const RULE: BodyRule = BodyRule {
    cap: 4096,
    ..BodyRule::QUERY
};
/// Reflection itself, which the API's server doesn't list either. Its files are told to who asks for them.
const OWN: &str = "grpc.reflection.";
/// Fields of a file's description.
mod field {
    pub const FILE: u32 = 1;
    pub const NAME: u32 = 1;
    pub const PACKAGE: u32 = 2;
    pub const MESSAGE: u32 = 4;
    pub const ENUM: u32 = 5;
    pub const SERVICE: u32 = 6;
}

/// Answers each request on the call as it comes.
pub fn info(app: &Arc<App>, mut messages: Messages) -> ApiResult<Sent> {
    let (send, receive) = mpsc::channel(1);
    let app = app.clone();
    tokio::spawn(async move {
        loop {
            let mut held = GrowingReservation::default();
            let next = messages.next(RULE, &mut held, &app.requests).await;
            let Ok(Some(message)) = next else { return };
            let Ok(answer) = answer(message) else { return };
            if send.send(answer).await.is_err() {
                return;
            }
        }
    });
    Ok(Sent::Many(receive))
}

fn answer(message: Bytes) -> ApiResult<Bytes> {
    let request = ServerReflectionRequest::decode(message).map_err(ApiError::wrong_input)?;
    let response = ServerReflectionResponse {
        valid_host: request.host.clone(),
        message_response: Some(response_of(request.message_request.as_ref())),
        original_request: Some(request),
    };
    let mut out = responses::message(&response)?;
    frame::close_alone(&mut out)?;
    Ok(out.into())
}

fn response_of(asks: Option<&Asks>) -> Tells {
    let file = |found: Option<&'static [u8]>, what: &str| match found {
        Some(file) => Tells::FileDescriptorResponse(FileDescriptorResponse {
            file_descriptor_proto: vec![Bytes::from_static(file)],
        }),
        None => failed(NOT_FOUND, format!("there is no {what}")),
    };
    match asks {
        Some(Asks::ListServices(_)) => Tells::ListServicesResponse(ListServiceResponse {
            service: services()
                .filter(|name| !name.starts_with(OWN))
                .map(|name| ServiceResponse { name })
                .collect(),
        }),
        Some(Asks::FileByFilename(name)) => file(
            files().find(|f| text(f, field::NAME) == Some(name.as_str())),
            name,
        ),
        Some(Asks::FileContainingSymbol(symbol)) => file(files().find(|f| declares(f, symbol)), symbol),
        Some(Asks::AllExtensionNumbersOfType(name)) => {
            Tells::AllExtensionNumbersResponse(ExtensionNumberResponse {
                base_type_name: name.clone(),
                extension_number: Vec::new(),
            })
        }
        Some(Asks::FileContainingExtension(_)) => failed(NOT_FOUND, "there are no extensions".to_owned()),
        None => failed(INVALID, "the request is empty".to_owned()),
    }
}

fn failed(error_code: i32, error_message: String) -> Tells {
    Tells::ErrorResponse(ErrorResponse {
        error_code,
        error_message,
    })
}

fn files() -> impl Iterator<Item = &'static [u8]> {
    parts(DESCRIPTORS, field::FILE)
}

/// The values of a field that are texts or messages.
fn parts(message: &'static [u8], number: u32) -> impl Iterator<Item = &'static [u8]> {
    Fields::new(message).filter_map(move |field| match field {
        Ok((n, Field::Len(bytes))) if n == number => Some(bytes),
        _ => None,
    })
}

fn text(message: &'static [u8], number: u32) -> Option<&'static str> {
    parts(message, number)
        .next()
        .and_then(|bytes| std::str::from_utf8(bytes).ok())
}

/// Names of all services, with their packages.
fn services() -> impl Iterator<Item = String> {
    files().flat_map(|file| {
        let package = text(file, field::PACKAGE).unwrap_or_default();
        parts(file, field::SERVICE)
            .filter_map(|service| text(service, field::NAME))
            .map(move |name| format!("{package}.{name}"))
    })
}

/// Paths of a service's methods.
#[cfg(test)]
pub fn methods_of(service: &str) -> Vec<String> {
    const METHOD: u32 = 2;
    let mut all = Vec::new();
    for file in files() {
        let package = text(file, field::PACKAGE).unwrap_or_default();
        for found in parts(file, field::SERVICE) {
            let name = format!("{package}.{}", text(found, field::NAME).unwrap_or_default());
            let methods = parts(found, METHOD).filter_map(|method| text(method, field::NAME));
            all.extend(
                methods
                    .filter(|_| name == service)
                    .map(|method| format!("/{name}/{method}")),
            );
        }
    }
    all
}

/// Whether the server has this service.
pub fn has_service(name: &str) -> bool {
    services().any(|service| service == name)
}

/// Whether `file` declares `symbol`, or what it lies in.
fn declares(file: &'static [u8], symbol: &str) -> bool {
    let package = text(file, field::PACKAGE).unwrap_or_default();
    let Some(inner) = symbol
        .strip_prefix(package)
        .and_then(|rest| rest.strip_prefix('.'))
    else {
        return false;
    };
    let outermost = inner.split('.').next().unwrap_or(inner);
    [field::MESSAGE, field::ENUM, field::SERVICE]
        .into_iter()
        .flat_map(|kind| parts(file, kind))
        .any(|declared| text(declared, field::NAME) == Some(outermost))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_files_and_symbols_are_told() {
        let all: Vec<String> = services().collect();
        for name in [
            "qdrant.Qdrant",
            "qdrant.Points",
            "qdrant.Collections",
            "qdrant.Snapshots",
            "qdrant.StorageRead",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
        ] {
            assert!(all.iter().any(|s| s == name), "{name} in {all:?}");
        }
        let Tells::ListServicesResponse(listed) = response_of(Some(&Asks::ListServices(String::new())))
        else {
            panic!("no list");
        };
        let listed: Vec<String> = listed.service.into_iter().map(|service| service.name).collect();
        assert_eq!(
            listed.len(),
            6,
            "those of the API's server, without reflection: {listed:?}"
        );
        let holds = |asks: Asks| matches!(response_of(Some(&asks)), Tells::FileDescriptorResponse(_));
        for symbol in [
            "qdrant.Points",
            "qdrant.Points.Upsert",
            "qdrant.PointId",
            "qdrant.Distance",
            "qdrant.Query",
        ] {
            assert!(holds(Asks::FileContainingSymbol(symbol.to_owned())), "{symbol}");
        }
        assert!(holds(Asks::FileByFilename("points.proto".to_owned())));
        assert!(holds(Asks::FileByFilename(
            "google/protobuf/timestamp.proto".to_owned()
        )));
        for symbol in ["qdrant", "qdrant.Nothing", "", "other.Points"] {
            assert!(!holds(Asks::FileContainingSymbol(symbol.to_owned())), "{symbol}");
        }
    }
}
