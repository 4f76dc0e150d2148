//! A request from its bytes to the engine: route, admission, dispatch, execution.

pub mod admission;
pub mod api_request;
pub mod call;
pub mod caught;
pub mod dispatch;
pub mod execute;
pub mod growing_reservation;
pub mod params;
pub mod request_id;
pub mod route;
