//! The router over the table of routes, and the answer where no route answers.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use tower_service::Service;

use crate::access::audit::Peer;
use crate::access::audit_record::Subject;
use crate::access::auth::Access;
use crate::access::cors;
use crate::answers::answer::refuse;
use crate::app::App;
use crate::error::ApiError;
use crate::request::admission::enter;
use crate::request::dispatch::dispatch;
use crate::routes::routes;

/// The router over the table, for the server and for tests. A path that isn't there is looked for once more in its plain form.
pub fn router(app: Arc<App>) -> Router {
    let table = table(&app);
    let again = table
        .clone()
        .fallback(move |request: Request| aside(app.clone(), request, StatusCode::NOT_FOUND));
    table.fallback(move |request: Request| respelled(again.clone(), request))
}

fn table(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    for route in routes() {
        let app = app.clone();
        let endpoint = move |request: Request| dispatch(route, app.clone(), request);
        router = router.route(route.path, on(method_filter(route.method), endpoint));
    }
    let app = app.clone();
    router.method_not_allowed_fallback(move |request: Request| {
        aside(app.clone(), request, StatusCode::METHOD_NOT_ALLOWED)
    })
}

async fn respelled(mut router: Router, mut request: Request) -> Response {
    if let Some(uri) = plain(request.uri()) {
        *request.uri_mut() = uri;
    }
    let Ok(response) = router.call(request).await;
    response
}

/// The path without slashes at its end and with one between two names, as the API's server reads it; `None` if it is so.
fn plain(uri: &Uri) -> Option<Uri> {
    let path = uri.path();
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    let mut plain = format!("/{}", names.join("/"));
    if plain == path {
        return None;
    }
    if let Some(query) = uri.query() {
        plain.push('?');
        plain.push_str(query);
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(plain.parse().ok()?);
    Uri::from_parts(parts).ok()
}

fn method_filter(method: &str) -> MethodFilter {
    match method {
        "GET" => MethodFilter::GET,
        "PUT" => MethodFilter::PUT,
        "POST" => MethodFilter::POST,
        "PATCH" => MethodFilter::PATCH,
        "DELETE" => MethodFilter::DELETE,
        other => panic!("the table of routes has the method {other}"),
    }
}

/// The answer where no route answers.
async fn aside(app: Arc<App>, request: Request, status: StatusCode) -> Response {
    let start = Instant::now();
    if let Some(response) = cors::preflight(&app.keys, request.method(), request.headers()) {
        return response;
    }
    let (method, path) = (request.method(), request.uri().path());
    // Which paths there are is told to those alone who may ask for something.
    let refused = match app.keys.any() {
        true => {
            // What a client asks for by a path of its own isn't repeated in the audit log.
            let subject = Subject {
                api: "unknown path".into(),
                peer: request.extensions().get::<Peer>().copied(),
                ..Subject::default()
            };
            enter(&app, Access::ReadSome, subject, request.headers()).err()
        }
        false => None,
    };
    let e = refused.unwrap_or_else(|| match status {
        StatusCode::NOT_FOUND => ApiError::not_found(format!("there is no path {path}")),
        _ => ApiError::new(status, format!("{method} is not a method of {path}")),
    });
    let mut response = refuse(&e, start);
    if cors::is_answerable(&app.keys, request.headers()) {
        cors::allow(&mut response);
    }
    response
}
