//! The catalog: collections and their aliases.

use ramlet_format::catalog::{AliasEntry, Catalog};
use ramlet_io::Storage;

use crate::error::{Error, ErrorKind, Result};
use crate::recovery::manifest_store::{CommitError, Generations};

/// Name of a collection's directory.
pub fn directory_id(number: u64) -> String {
    format!("c{number:08}")
}

pub fn is_directory_id(name: &str) -> bool {
    name.strip_prefix('c')
        .is_some_and(|d| d.len() >= 8 && d.bytes().all(|b| b.is_ascii_digit()))
}

pub fn number_of(id: &str) -> Option<u64> {
    id.strip_prefix('c')?.parse().ok()
}

/// The first id of the segments of a new collection: no two collections' are the same, unless one has a million, so no file of one passes for
/// a file of another.
pub fn first_segment(id: &str) -> u64 {
    const ID_BITS: u32 = 48;
    const COLLECTION_BITS: u32 = 28;
    let number = number_of(id).unwrap_or_default() % (1 << COLLECTION_BITS);
    (number << (ID_BITS - COLLECTION_BITS)) + 1
}

/// One step of an alias change; a list is applied all at once or not at all.
#[derive(Debug, Clone, PartialEq)]
pub enum AliasOp {
    Create { alias: String, collection: String },
    Delete { alias: String },
    Rename { from: String, to: String },
}

/// Makes one step of a change in a catalog that isn't committed yet.
pub fn change_alias(catalog: &mut Catalog, op: &AliasOp) -> Result<()> {
    let known = |catalog: &Catalog, alias: &str| {
        let found = catalog.aliases.iter().position(|a| a.alias == alias);
        found.ok_or_else(|| Error::not_found(format!("Not found: Alias {alias} does not exists!")))
    };
    let free = |catalog: &Catalog, alias: &str| match catalog.collections.iter().any(|c| c.name == alias) {
        false => Ok(()),
        true => Err(Error::new(
            ErrorKind::AlreadyExists,
            format!("Collection with name {alias} already exists, so it can't be an alias"),
        )),
    };
    match op {
        AliasOp::Create { alias, collection } => {
            if !catalog.collections.iter().any(|c| c.name == *collection) {
                return Err(Error::not_found(format!(
                    "Not found: Collection `{collection}` doesn't exist!"
                )));
            }
            free(catalog, alias)?;
            catalog.aliases.retain(|a| a.alias != *alias);
            catalog.aliases.push(AliasEntry {
                alias: alias.clone(),
                collection: collection.clone(),
            });
        }
        AliasOp::Delete { alias } => {
            // One that isn't there is gone already: the usual switch deletes before it creates, the first time too.
            catalog.aliases.retain(|a| a.alias != *alias);
        }
        AliasOp::Rename { from, to } => {
            free(catalog, to)?;
            let at = known(catalog, from)?;
            catalog.aliases[at].alias = to.clone();
            let moved = catalog.aliases[at].clone();
            catalog.aliases.retain(|a| a.alias != *to);
            catalog.aliases.push(moved);
        }
    }
    Ok(())
}

/// The newest catalog. A data directory has one from its first moment, so that a missing one is known to be lost: without a catalog, collections
/// would be removed as left over.
pub fn catalog_of(storage: &dyn Storage) -> Result<(Generations<Catalog>, Catalog)> {
    let (mut catalogs, newest) = Generations::<Catalog>::newest(storage)?;
    let lost = match newest {
        Some(_) => None,
        None => storage.list_subdirs()?.into_iter().find(|d| is_directory_id(d)),
    };
    if let Some(dir) = lost {
        let why = format!("{}: no catalog, but a collection in {dir}", storage.location());
        return Err(Error::corrupt(why));
    }
    catalogs.tidy(storage)?;
    if let Some(catalog) = newest {
        return Ok((catalogs, catalog));
    }
    let catalog = Catalog {
        number: catalogs.next(),
        ..Catalog::default()
    };
    match catalogs.commit(storage, &catalog.encode()) {
        Ok(()) => Ok((catalogs, catalog)),
        Err(CommitError::Before(e) | CommitError::Unknown(e)) => Err(e),
    }
}
