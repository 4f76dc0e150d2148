//! Measuring an index again: whatever is compared in one pass over the rows, the same is found.

use ramlet_index::ivf::IvfParams;
use ramlet_index::{Element, Measured, MeasuredAgain, Measures, Metric, Query, VectorIndex, decode_row};

use crate::disk::Disk;
use crate::flat::brute_force;
use crate::ivf::{Rows, open, scratch};
use crate::random::Random;

const USERS: usize = 30;
const ROWS: u32 = 3_000;

#[test]
fn in_many_passes_as_in_one() {
    let mut random = Random::new(17);
    for (metric, element) in [
        (Metric::Cosine, Element::F32),
        (Metric::Euclid, Element::U8),
        (Metric::Dot, Element::F16),
    ] {
        let mut rows = Rows::clustered(metric, element, ROWS as usize, &mut random);
        let disk = Disk::ram();
        let params = IvfParams {
            clusters: Some(60),
            ..rows.params(1 << 20)
        };
        rows.try_build(&disk, "ivf", &params, &[]).expect("a build");
        let ivf = open(&disk, "ivf", &[]).expect("an index");
        let queries: Vec<Measured> = (0..2 * USERS)
            .map(|n| {
                let (row, mut vector) = (n as u32 * 47 % ROWS, Vec::new());
                decode_row(element, rows.row(row), &mut vector);
                let is_user = n < USERS;
                if is_user {
                    vector
                        .iter_mut()
                        .for_each(|value| *value += random.normal().abs());
                }
                Measured {
                    vector,
                    row: (!is_user).then_some(row),
                }
            })
            .collect();
        let measured = |at_once: usize| {
            let measures = Measures {
                users: USERS,
                all: queries.len(),
                at_once,
                nth: &|n| queries[n].clone(),
            };
            let again = ivf.measure_again(&measures, &mut scratch(), &mut disk.io());
            again.expect("is measured").expect("clusters are")
        };
        let in_one = measured(queries.len());
        for (query, nearest) in queries.iter().zip(&in_one.nearest) {
            let of = Query::new(metric, element, &query.vector);
            let truth = brute_force(&of, &rows.bytes, MeasuredAgain::WANTED, |row| {
                Some(row) != query.row
            });
            assert!(truth.iter().all(|hit| nearest.contains(&hit.row)), "{metric:?}");
        }
        for at_once in [1, 7, USERS, 59] {
            let again = measured(at_once);
            assert_eq!(again.nearest, in_one.nearest, "{metric:?} {at_once}");
            assert_eq!(again.calibration, in_one.calibration, "{metric:?} {at_once}");
        }
    }
}
