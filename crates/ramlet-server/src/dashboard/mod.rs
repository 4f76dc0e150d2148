//! What the web page shows that nothing else asks for. Its files are beside this one.

pub mod projection;
