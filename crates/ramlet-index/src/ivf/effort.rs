//! The effort that a recall needs: clusters to visit, and the deviations allowed for codes.

use super::codes::Codes;
use super::inverted_file::Ivf;
use super::misses;
use super::products::Products;
use crate::quant::Epsilon;
use crate::search::calibration::Rule;
use crate::vector_index::{EFFORT_DEFAULT, Effort, IndexSearchParams, VectorIndex};
use crate::{Allowed, CodeKind, WIDE};

/// See [`Effort::bounds`].
const BOUND_MORE: f32 = 0.5;

/// The clusters visited hold at least so many times the rows that are wanted.
const ROOM: f64 = 2.0;

/// Shares of the neighbours not found: what codes lose of them isn't lost by clusters that aren't visited.
/// (At 1M x 100 a cluster more and a smaller deviation less then cost about the same.)
#[derive(Clone, Copy, Debug)]
struct Losses {
    /// Those that signs or products may lose, and extended codes.
    scanned: f32,
    extended: f32,
    /// What codes really lose of that.
    real: f32,
}

impl Losses {
    /// What codes lose of the neighbours that may be lost.
    fn by_codes(&self) -> f32 {
        self.real * (self.scanned + self.extended)
    }
}

/// Deviations were measured against the exact distance of the last row wanted, while a search has only a bound above it to
/// drop rows by: of what signs may lose, 0.28 to 0.36 was lost (1M x 100).
const BY_SIGNS: Losses = Losses {
    scanned: 0.35,
    extended: 1.0,
    real: 0.09,
};

/// With estimates so blurred that many rows are read, a read less is worth more than a cluster less: at 1M x 100, 3 bits and
/// effort 64 shares of .5 and 1.2 find .895 with 24,500 codes and 9.1 reads, .35 and 1.6 find .892 with 31,200 and 7.7, .25 and
/// 2.0 find .887 with 38,100 and 6.5. The disk does 64,000 reads a second, two cores scan 20,000 more codes in the time of one.
const BY_FEW_BITS: Losses = Losses {
    scanned: 0.35,
    extended: 1.6,
    real: 0.3333,
};

/// Of wide vectors they lose less of it. 250,000 x 384, hard, two bits: with .3333 targets of .90, .95 and .98 found .936, .967 and .989 in 75,
/// 135 and 251 clusters, with .09 .898, .943 and .973 in 27, 61 and 153.
const REAL_OF_WIDE: f32 = 0.15;

/// So many times the share that may be lost extended codes that aren't blurred at all lose more of it. A read takes a core as long as 2,000
/// codes; where much may be lost, what it finds is found by a hundred codes more, where little may be it takes thousands. 1M x 100 inside
/// 135 MB, two cores: effort 64 with a share of 1 finds .9062 of easy queries with .49 reads at 28,900 a second, with 2 .9031 with .07 at
/// 34,100; of hard ones with 128 .9553 at 9,000 and .953 at 8,900.
const SHARP_MORE: f64 = 13.0;
const EXTENDED_MOST: f32 = 2.0;

/// Deviation of a last estimate, with the residual and what it is compared with taken as 1, from which on rows are read by
/// the dozen: 3 bits at 100 dimensions have .020, 6 bits .003.
const BLURRED: f64 = 0.012;

/// A row read costs as much as the codes of twenty clusters (1M x 100: 16 us of a disk that does 64,000 reads a second), and
/// the last neighbours that products lose would cost the most: so nearly all of what may be lost is lost there. (46 sub-quantizers,
/// effort 64: shares of .25 and 1.05 find .908 with 37.1 reads, .12 and 1.25 find .907 with 34.7, .08 and 1.4 find .905 with 33.1
/// and half as many codes again.)
///
/// All rows of a block that is read are compared, which finds some of what products lose, but how many depends on what lies together: shares of
/// 1.7 and .53 reckoned with it, and few points in codes of a 64th found .884 of a target of .95.
const BY_PRODUCTS: Losses = Losses {
    scanned: 1.27,
    extended: 0.0,
    real: 0.7087,
};

/// Where SQ8 rows are read a page has nearly four times as many rows, so that products really lose less: 1M x 100, 48 sub-quantizers, effort 128 found .971
/// (hard) and .979 (easy) of a target of .95 with the shares above.
const BY_PRODUCTS_AND_SQ8: Losses = Losses {
    scanned: 1.5,
    extended: 0.0,
    real: 0.5333,
};

/// PQ codes with row ids, 3 to 4 bits a dimension; their deviations were measured of one row against the k-th distance as it really is.
/// A read less is worth more than a cluster less, though codes of 47 bytes cost more than signs: 1M x 100, 88 sub-quantizers, shares of .8 and .9
/// find .9035 with 20,000 codes and 8.25 reads, .5 and 1.5 find .9056 with 26,700 and 6.5, .5 and 2.0 .9018 with 29,700 and 5.8.
const BY_PRODUCTS_WITH_IDS: Losses = Losses {
    scanned: 0.0,
    extended: 1.5,
    real: 0.3333,
};

impl Effort {
    /// Deviations by which rows are ruled out. With extended codes that is while the k-th distance isn't known yet: two rows, this
    /// one and the last of the nearest so far, may each be off by half of what one row is allowed, and a bit more, since
    /// the k-th distance moves outwards as rows are read.
    pub(super) fn bounds(&self) -> Epsilon {
        Epsilon {
            extended: self.epsilon.extended / 2.0 + BOUND_MORE,
            ..self.epsilon
        }
    }
}

impl Ivf {
    /// How a search for the 10 nearest goes about it, at this recall (the index's target if `None`) and effort.
    pub fn explain(&self, recall: Option<f32>, effort: Option<u32>) -> Effort {
        let want = IndexSearchParams {
            recall,
            effort,
            ..IndexSearchParams::default()
        };
        self.effort(10.0, &want)
    }

    /// How a search for its `wanted` nearest goes about it, without a filter.
    pub fn effort(&self, wanted: f64, want: &IndexSearchParams) -> Effort {
        self.effort_by(wanted, want, self.rule(want, &Allowed::default(), wanted))
    }

    pub(super) fn effort_by(&self, wanted: f64, want: &IndexSearchParams, rule: Rule) -> Effort {
        if let Some(fixed) = want.fixed_effort {
            let probes = fixed.probes.clamp(1, self.clusters());
            return Effort { probes, ..fixed };
        }
        let recall = want.recall.unwrap_or(self.recall).clamp(0.01, 0.9999);
        let calibration = &self.meta.calibration;
        let recall = 1.0 - (1.0 - recall) / calibration.lost;
        let codes = self.codes.as_ref().filter(|_| !want.codes.ignore);
        let products = self.products.as_ref().filter(|_| !want.codes.ignore);
        let with_ids = products.is_some_and(|products| products.numbers.is_some());
        let has_codes = codes.is_some() || products.is_some();
        let losses = |lost: f32| match (products, codes.and_then(Codes::blur)) {
            (Some(_), _) if with_ids => BY_PRODUCTS_WITH_IDS,
            (Some(products), _) if self.sq8_beside(products).is_some() => BY_PRODUCTS_AND_SQ8,
            (Some(_), _) => BY_PRODUCTS,
            (None, Some(blur)) if blur > BLURRED && self.dims() >= WIDE => Losses {
                real: REAL_OF_WIDE,
                ..BY_FEW_BITS
            },
            (None, Some(blur)) if blur > BLURRED => BY_FEW_BITS,
            (None, Some(blur)) => {
                let more = SHARP_MORE * (1.0 - blur / BLURRED) * f64::from(lost);
                let extended = (BY_SIGNS.extended + more as f32).min(EXTENDED_MOST);
                Losses { extended, ..BY_SIGNS }
            }
            (None, None) => BY_SIGNS,
        };
        let by_codes = if has_codes {
            losses(1.0 - recall).by_codes()
        } else {
            0.0
        };
        let aimed = 1.0 - (1.0 - recall) * (1.0 - by_codes);
        let calibrated = calibration.probes(aimed, wanted, self.clusters(), rule);
        // What was measured at 10 and 100 says little about 10,000; but so many rows must be there to be found.
        let clusters_of_wanted = wanted * f64::from(self.clusters()) / f64::from(self.rows().max(1));
        let calibrated = calibrated.max((ROOM * clusters_of_wanted).ceil() as u32);
        let effort = u64::from(want.effort.unwrap_or(EFFORT_DEFAULT));
        let probes = (u64::from(calibrated) * effort).div_ceil(u64::from(EFFORT_DEFAULT));
        let probes = (probes.min(u64::from(self.clusters())) as u32).max(1);
        // Twice the effort is to lose half.
        let lost = (1.0 - recall) * EFFORT_DEFAULT as f32 / effort.max(1) as f32;
        let losses = losses(lost);
        // A row that is wrongly taken for near costs another its place: of what last estimates decide half as many may be lost.
        let last = losses.extended / 2.0;
        let depth = wanted * f64::from(want.share.unwrap_or(1.0));
        let deviation = |kind: Option<CodeKind>, share: f32| {
            let place = kind.and_then(|kind| self.kinds().position(|built| built == kind));
            let deviations = place.and_then(|place| calibration.deviations.get(place));
            deviations.map_or(2.0, |deviations| match kind {
                Some(CodeKind::Product { .. }) => misses::deviation_at_depth(deviations, depth, lost * share),
                // Others lose little of what they may, of the nearest too.
                _ => misses::deviation(&deviations[0], lost * share),
            })
        };
        let scanned = codes.map(|_| CodeKind::OneBit).or(products.map(Products::kind));
        let extended = codes.and_then(Codes::extended_kind);
        let lost_by_codes = if has_codes { losses.by_codes() * lost } else { 0.0 };
        let held_out = calibration.coverage(probes, rule) * (1.0 - lost_by_codes).max(0.0);
        Effort {
            probes,
            epsilon: Epsilon {
                scanned: deviation(scanned, if with_ids { last } else { losses.scanned }),
                extended: match extended {
                    // Measured were deviations of two rows, and this is of one.
                    Some(_) => 2.0 * deviation(extended, last),
                    None => deviation(scanned, if with_ids { last } else { losses.scanned }),
                },
            },
            recall_expected: (1.0 - (1.0 - held_out) * calibration.lost).max(0.0),
        }
    }
}
