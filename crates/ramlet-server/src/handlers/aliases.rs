//! Second names of collections.

use ramlet::AliasOp;
use serde::{Deserialize, Serialize};

use crate::answers::answer::Answer;
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::request::call::Call;
use crate::wire::name_rules::check_name;

#[derive(Deserialize)]
struct WireActions {
    actions: Vec<WireAction>,
}

/// Exactly one of the fields.
#[derive(Deserialize)]
struct WireAction {
    create_alias: Option<CreateAlias>,
    delete_alias: Option<DeleteAlias>,
    rename_alias: Option<RenameAlias>,
}

#[derive(Deserialize)]
struct CreateAlias {
    collection_name: String,
    alias_name: String,
}

#[derive(Deserialize)]
struct DeleteAlias {
    alias_name: String,
}

#[derive(Deserialize)]
struct RenameAlias {
    old_alias_name: String,
    new_alias_name: String,
}

impl WireAction {
    fn into_op(self) -> ApiResult<AliasOp> {
        match (self.create_alias, self.delete_alias, self.rename_alias) {
            (Some(create), None, None) => {
                check_name("alias_name", &create.alias_name)?;
                Ok(AliasOp::Create {
                    alias: create.alias_name,
                    collection: create.collection_name,
                })
            }
            (None, Some(delete), None) => Ok(AliasOp::Delete {
                alias: delete.alias_name,
            }),
            (None, None, Some(rename)) => {
                check_name("new_alias_name", &rename.new_alias_name)?;
                Ok(AliasOp::Rename {
                    from: rename.old_alias_name,
                    to: rename.new_alias_name,
                })
            }
            _ => Err(ApiError::format(
                "an action is one of create_alias, delete_alias and rename_alias",
            )),
        }
    }
}

#[derive(Serialize)]
struct Alias<'a> {
    alias_name: &'a str,
    collection_name: &'a str,
}

/// `POST /collections/aliases`: all changes or none.
pub async fn change(mut call: Call) -> ApiResult<Answer> {
    let wire: WireActions = call.parse().await?;
    if wire.actions.len() > limits::ALIAS_ACTIONS_MAX {
        let what = format!(
            "has {} elements, at most {} are taken",
            wire.actions.len(),
            limits::ALIAS_ACTIONS_MAX
        );
        return Err(ApiError::validation("actions", what));
    }
    let ops = wire
        .actions
        .into_iter()
        .map(WireAction::into_op)
        .collect::<ApiResult<Vec<_>>>()?;
    call.block(&call.app.managing, move |engine| Ok(engine.change_aliases(&ops)?))
        .await?;
    call.answer(&true)
}

/// `GET /aliases`.
pub async fn all(call: Call) -> ApiResult<Answer> {
    let mut aliases = call.app.engine.aliases();
    aliases.retain(|(_, collection)| call.admitted.grant.may_see(collection));
    answer(&call, &aliases)
}

/// `GET /collections/{collection}/aliases`.
pub async fn of_collection(call: Call) -> ApiResult<Answer> {
    call.check_collection()?;
    let name = call.request.param("collection");
    let mut aliases = call.app.engine.aliases();
    aliases.retain(|(_, collection)| collection == name);
    answer(&call, &aliases)
}

fn answer(call: &Call, aliases: &[(String, String)]) -> ApiResult<Answer> {
    #[derive(Serialize)]
    struct Aliases<'a> {
        aliases: Vec<Alias<'a>>,
    }
    let aliases = aliases
        .iter()
        .map(|(alias, collection)| Alias {
            alias_name: alias,
            collection_name: collection,
        })
        .collect();
    call.answer(&Aliases { aliases })
}
