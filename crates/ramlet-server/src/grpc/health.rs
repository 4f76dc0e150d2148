//! `grpc.health.v1`, for load balancers.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use bytes::Bytes;
use ramlet_proto::Message;
use ramlet_proto::health::health_check_response::ServingStatus;
use ramlet_proto::health::{HealthCheckRequest, HealthCheckResponse};
use tokio::sync::mpsc;

use super::frame::{self, Messages, Sent};
use super::{reflection, responses};
use crate::app::App;
use crate::bodies::body_rule::BodyRule;
use crate::error::{ApiError, ApiResult};
use crate::request::growing_reservation::GrowingReservation;

/// Between two looks for a watcher.
const PERIOD: Duration = Duration::from_secs(1);
const RULE: BodyRule = BodyRule {
    cap: 1024,
    ..BodyRule::QUERY
};

async fn service_of(app: &App, mut messages: Messages, held: &mut GrowingReservation) -> ApiResult<String> {
    let message = messages.single(RULE, held, &app.requests).await?;
    let request = HealthCheckRequest::decode(message).map_err(ApiError::wrong_input)?;
    Ok(request.service)
}

fn status(app: &App) -> ServingStatus {
    if app.engine.writable() {
        ServingStatus::Serving
    } else {
        ServingStatus::NotServing
    }
}

fn message(status: ServingStatus) -> ApiResult<Bytes> {
    let mut out = responses::message(&HealthCheckResponse {
        status: status.into(),
    })?;
    frame::close_alone(&mut out)?;
    Ok(out.into())
}

/// How the server is, or one of its services.
pub async fn check(app: &App, messages: Messages) -> ApiResult<Sent> {
    let service = service_of(app, messages, &mut GrowingReservation::default()).await?;
    if !service.is_empty() && !reflection::has_service(&service) {
        return Err(ApiError::new(
            StatusCode::NOT_FOUND,
            format!("there is no service {service}"),
        ));
    }
    Ok(Sent::Whole(message(status(app))?.into()))
}

/// The same, again whenever it changes.
pub async fn watch(app: &Arc<App>, messages: Messages) -> ApiResult<Sent> {
    let mut held = GrowingReservation::default();
    let service = service_of(app, messages, &mut held).await?;
    let known = service.is_empty() || reflection::has_service(&service);
    let (send, receive) = mpsc::channel(1);
    let app = app.clone();
    tokio::spawn(async move {
        let _held = held;
        let mut told = None;
        loop {
            let now = if known {
                status(&app)
            } else {
                ServingStatus::ServiceUnknown
            };
            if told != Some(now) {
                told = Some(now);
                let Ok(message) = message(now) else { return };
                if send.send(message).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(PERIOD) => {}
                () = send.closed() => return,
            }
        }
    });
    Ok(Sent::Many(receive))
}
