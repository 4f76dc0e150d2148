//! What a ranking is asked for.

use roaring::RoaringBitmap;

use super::bm25::Bm25Params;
use super::statistics::Statistics;
use super::terms::Terms;
use crate::filter::CompiledFilter;
use crate::read::matching::BitmapHold;
use crate::read::view::{Place, View};
use crate::schema::PayloadField;
use crate::text::TextField;

/// A ranking, the same for all parts of a view.
pub struct Ranked<'a> {
    pub view: &'a View,
    pub field: &'a PayloadField,
    pub text: &'a TextField,
    pub terms: &'a Terms,
    pub params: Bm25Params,
    pub filter: Option<&'a CompiledFilter>,
    /// The only points that are asked for; `None`: all.
    pub among: Option<&'a [Place]>,
    /// Of more than this view: counted before.
    pub statistics: Option<&'a Statistics>,
}

/// Rows of a part, and what is held for them.
pub(super) type Named = Option<(RoaringBitmap, BitmapHold)>;
