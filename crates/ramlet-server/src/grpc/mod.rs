//! The gRPC API: the same routes as REST's under other names.
//!
//! `connection (bounded) -> method -> route's key -> memory for the message -> message -> memory for what it becomes ->
//! handler of the route -> message`. A message takes the shape of the REST API's JSON ([`node`]) and is read by the same types; a
//! handler writes its result as for REST, but points as messages ([`responses`]). So there is one implementation of everything.
//! The framing is our own, over hyper's HTTP/2: nothing of a message is read before it has its memory.

mod calls;
mod frame;
mod health;
mod methods;
pub mod node;
mod reflection;
pub mod requests;
pub mod responses;
mod setting_names;
mod status;
mod storage_read;
mod value;

pub(crate) use calls::serve_calls;
#[doc(hidden)]
pub use calls::unframed;
pub use frame::HEAD as FRAME_HEAD;
pub use methods::methods;
