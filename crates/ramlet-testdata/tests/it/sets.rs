use std::path::PathBuf;

use ramlet_testdata::*;

const SHAPE: Shape = Shape {
    dims: 20,
    seed: 3,
    difficulty: Difficulty::Hard,
    clusters: 50,
};

/// A directory of a test, removed when it goes.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("ramlet-testdata-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn options(element: Element, threads: usize) -> WriteOptions {
    WriteOptions {
        rows: 9_000,
        queries: 30,
        element,
        truth_width: 20,
        threads,
        with_bin: true,
    }
}

fn write(directory: &Directory, name: &str, options: WriteOptions) -> Set {
    write_set(&directory.0.join(name), SHAPE, options, &mut |_| ()).expect("writes")
}

fn base(set: &Set) -> Vec<u8> {
    let mut all = Vec::new();
    set.for_each_chunk(0, set.info.rows, &mut |first, rows| {
        assert_eq!(first as usize * set.row_bytes(), all.len());
        all.extend_from_slice(rows);
        Ok(())
    })
    .expect("reads");
    all
}

fn distance(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(x, y)| f64::from(x - y).powi(2)).sum()
}

/// The set's truth against distances in double precision: the same distances, whatever the order of equal ones.
fn check_truth(element: Element) {
    let directory = Directory::new(element.extension());
    let set = write(&directory, "set", options(element, 2));
    let (base, queries) = (base(&set), set.queries(30).expect("reads"));
    let rows: Vec<Vec<f32>> = base
        .chunks_exact(set.row_bytes())
        .map(|row| element.floats(row))
        .collect();
    let truth = set.truth(30, 20).expect("reads");
    assert_eq!((rows.len(), truth.len()), (9_000, 30));
    for (query, truth) in queries.chunks_exact(set.row_bytes()).zip(&truth) {
        let query = element.floats(query);
        let mut all: Vec<f64> = rows.iter().map(|row| distance(&query, row)).collect();
        let named: Vec<f64> = truth.iter().map(|&row| all[row as usize]).collect();
        all.sort_by(f64::total_cmp);
        for (named, nearest) in named.iter().zip(&all) {
            assert!(
                (named - nearest).abs() < 1e-5 * nearest.max(1.0),
                "{named} is not {nearest}"
            );
        }
    }
}

#[test]
fn the_truth_is_true() {
    check_truth(Element::F32);
    check_truth(Element::U8);
}

#[test]
fn a_set_depends_on_its_seed_alone() {
    let directory = Directory::new("seed");
    let one = write(&directory, "one", options(Element::F32, 1));
    let two = write(&directory, "two", options(Element::F32, 3));
    assert_eq!(base(&one), base(&two));
    assert_eq!(one.queries(30).expect("reads"), two.queries(30).expect("reads"));
    assert_eq!(
        one.truth(30, 20).expect("reads"),
        two.truth(30, 20).expect("reads")
    );
    // A longer set begins with the shorter one; another seed shares nothing.
    let made = Clustered::new(SHAPE);
    let other = Clustered::new(Shape { seed: 4, ..SHAPE });
    let mut rows = [vec![0.0; 60], vec![0.0; 60]];
    made.rows(5, &mut rows[0]);
    other.rows(5, &mut rows[1]);
    let bytes: Vec<u8> = rows[0].iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(bytes, base(&one)[5 * 80..8 * 80]);
    assert!(rows[0].iter().zip(&rows[1]).all(|(a, b)| a != b));
}

#[test]
fn rows_have_unit_length_and_queries_are_held_out() {
    let directory = Directory::new("unit");
    let set = write(&directory, "set", options(Element::F32, 2));
    let base = base(&set);
    for row in base.chunks_exact(80) {
        let norm = distance(&Element::F32.floats(row), &[0.0; 20]);
        assert!((norm - 1.0).abs() < 1e-5, "{norm}");
    }
    let queries = set.queries(30).expect("reads");
    assert!(
        queries
            .chunks_exact(80)
            .all(|query| base.chunks_exact(80).all(|row| row != query))
    );
}

#[test]
fn a_set_opens_again_and_without_its_description() {
    let directory = Directory::new("open");
    let set = write(&directory, "set", options(Element::F32, 1));
    let again = Set::open(&directory.0.join("set"), 1).expect("opens");
    assert_eq!(again.info, set.info);
    assert!(
        set.info.lid_mean.is_some_and(|lid| lid > 5.0 && lid < 30.0),
        "{:?}",
        set.info
    );
    let bin = std::fs::read(set.path("fbin")).expect("a file");
    assert_eq!(bin[..8], [0x28, 0x23, 0, 0, 20, 0, 0, 0]);
    assert_eq!(bin[8..], base(&set));
    std::fs::remove_file(set.info_path()).expect("removes");
    let bare = Set::open(&directory.0.join("set"), 20).expect("opens");
    assert_eq!(
        (bare.info.rows, bare.info.queries, bare.info.dims),
        (9_000, 30, 20)
    );
    assert!(Set::open(&directory.0.join("missing"), 20).is_err());
}

#[test]
fn a_set_of_lower_difficulty_has_a_lower_dimension() {
    let directory = Directory::new("lid");
    let lid = |difficulty| {
        let shape = Shape {
            dims: 100,
            difficulty,
            clusters: 15_000,
            ..SHAPE
        };
        let set = write_set(
            &directory.0.join("set"),
            shape,
            options(Element::F32, 2),
            &mut |_| (),
        );
        set.expect("writes").info.lid_mean.expect("measured")
    };
    let (hard, easy) = (lid(Difficulty::Hard), lid(Difficulty::Easy));
    assert!(hard > easy * 1.15, "{hard} {easy}");
}

#[test]
fn filters_admit_the_share_that_was_asked_for() {
    let directory = Directory::new("filters");
    let set = write(&directory, "set", options(Element::F32, 2));
    let encoded = set.queries(10).expect("reads");
    let queries: Vec<Vec<f32>> = encoded
        .chunks_exact(80)
        .map(|row| Element::F32.floats(row))
        .collect();
    let filters = Filters::of(&set, 2).expect("values");
    let again = Filters::of(&set, 1).expect("values");
    assert_eq!(filters.near, again.near, "kept on disk");
    let rows: Vec<Vec<f32>> = base(&set)
        .chunks_exact(80)
        .map(|row| Element::F32.floats(row))
        .collect();
    let mut means = Vec::new();
    for selection in Selection::ALL {
        for share in [0.5, 0.1, 0.01] {
            let case = filters.case(selection, share, &queries);
            let real = filters.share_of(&case);
            assert!(
                real > share * 0.8 && real < share * 1.2 + 0.005,
                "{selection:?} {share}: {real}"
            );
            let truth = filters.truth(&set, &case, &encoded, 2).expect("compares");
            for (query, found) in truth.iter().enumerate() {
                let mut admitted: Vec<f64> = (0..rows.len())
                    .filter(|&row| filters.admits(&case, query, row as u32))
                    .map(|row| distance(&queries[query], &rows[row]))
                    .collect();
                admitted.sort_by(f64::total_cmp);
                assert_eq!(found.len(), K.min(admitted.len()));
                for (&row, nearest) in found.iter().zip(&admitted) {
                    assert!((distance(&queries[query], &rows[row as usize]) - nearest).abs() < 1e-5);
                }
                if query == 0 && share == 0.1 {
                    means.push(admitted[..K].iter().sum::<f64>());
                }
            }
        }
    }
    // Near the query, anywhere, far from it.
    assert!(means[1] < means[0] && means[0] < means[2], "{means:?}");
}
