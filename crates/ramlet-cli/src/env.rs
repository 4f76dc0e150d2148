//! Environment variables that stand for flags.

use anyhow::{Result, anyhow};

use crate::args;

/// An environment variable's value by its name.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The first of `names` that is set to something.
pub fn first(env: Env, names: &[&str]) -> Option<(String, String)> {
    names
        .iter()
        .find_map(|name| Some((name.to_string(), env(name).filter(|v| !v.is_empty())?)))
}

/// What the first of `names` that is set says: yes or no.
pub fn truth(env: Env, names: &[&str]) -> Result<Option<bool>> {
    let Some((name, value)) = first(env, names) else {
        return Ok(None);
    };
    match args::boolean(&value) {
        Ok(said) => Ok(Some(said)),
        Err(why) => Err(anyhow!("{name}={value}: {why}")),
    }
}
