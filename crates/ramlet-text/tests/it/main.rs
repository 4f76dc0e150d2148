//! Indexes of texts against brute force.

mod corpus;
mod counting;
mod oracle;
mod random;
mod shelf;

mod build;
mod cache;
mod hostile;
mod matching;
mod search;
