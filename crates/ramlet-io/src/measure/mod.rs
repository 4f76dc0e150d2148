//! What a measurement of the machine needs from the kernel, and a server never does: transfers to a file without a name
//! by several ways, children that end with their parent, switches between threads, SQLite as it is installed.

mod aio;
mod child;
mod ring;
mod sqlite;
mod steps;
mod switches;
mod sync;
mod test_file;
mod transfer;

pub use child::{dies_with_parent, pin_to_one_cpu};
pub use sqlite::{Connection, Insert, Sqlite};
pub use switches::{process_switches, thread_switches};
pub use test_file::TestFile;
pub use transfer::{Kind, Method, Transfer, Transferred};
