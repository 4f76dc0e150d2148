mod corpus;
mod counting;
mod seeds;
