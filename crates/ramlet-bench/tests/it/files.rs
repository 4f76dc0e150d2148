use std::path::{Path, PathBuf};

use clap::Parser;
use ramlet_bench::Progress;
use ramlet_bench::data::{Data, DataArgs};
use ramlet_bench::files::{Distance, Rows, open_rows};
use ramlet_testdata::Random;

/// Rows `[n, 1]`.
pub struct NumberedRows {
    next: u64,
    rows: u64,
}

impl NumberedRows {
    pub fn new(rows: u64) -> NumberedRows {
        NumberedRows { next: 0, rows }
    }
}

impl Rows for NumberedRows {
    fn rows(&self) -> u64 {
        self.rows
    }
    fn dim(&self) -> usize {
        2
    }
    fn is_u8(&self) -> bool {
        false
    }
    fn seek(&mut self, row: u64) -> anyhow::Result<()> {
        self.next = row;
        Ok(())
    }
    fn read(&mut self, out: &mut Vec<f32>) -> anyhow::Result<bool> {
        *out = vec![self.next as f32, 1.0];
        self.next += 1;
        Ok(self.next <= self.rows)
    }
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    data: DataArgs,
}

fn open(line: &[&str]) -> anyhow::Result<Data> {
    let line = Line::try_parse_from(["x"].iter().chain(line))?;
    Data::open(&line.data, &Progress::new(0))
}

struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Files {
        let path = std::env::temp_dir().join(format!("ramlet-bench-files-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Files(path)
    }

    fn write(&self, name: &str, rows: usize, dims: usize, numbers: impl Iterator<Item = [u8; 4]>) -> String {
        let mut bytes = [(rows as u32).to_le_bytes(), (dims as u32).to_le_bytes()].concat();
        numbers.for_each(|number| bytes.extend(number));
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("written");
        path.display().to_string()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn nearest(base: &[Vec<f32>], query: &[f32], k: usize, distance: Distance) -> Vec<u64> {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
    let key = |row: &Vec<f32>| match distance {
        Distance::Euclid => row
            .iter()
            .zip(query)
            .map(|(a, b)| f64::from((a - b) * (a - b)))
            .sum::<f64>(),
        Distance::Dot => -dot(row, query),
        _ => -dot(row, query) / dot(row, row).sqrt(),
    };
    let mut order: Vec<(f64, u64)> = base.iter().zip(0..).map(|(row, at)| (key(row), at)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    order.into_iter().take(k).map(|(_, row)| row).collect()
}

#[test]
fn the_truth_of_files_is_found() {
    const DIMS: usize = 6;
    let mut random = Random::new(5, 0);
    let mut rows = |count: usize| -> Vec<Vec<f32>> {
        (0..count)
            .map(|_| (0..DIMS).map(|_| random.normal()).collect())
            .collect()
    };
    let (base, queries) = (rows(500), rows(7));
    let files = Files::new("truth");
    let bytes = |rows: &[Vec<f32>]| rows.iter().flatten().map(|v| v.to_le_bytes()).collect::<Vec<_>>();
    let base_file = files.write("base.fbin", 500, DIMS, bytes(&base).into_iter());
    let query_file = files.write("query.fbin", 7, DIMS, bytes(&queries).into_iter());
    for (name, distance) in [
        ("euclid", Distance::Euclid),
        ("dot", Distance::Dot),
        ("cosine", Distance::Cosine),
    ] {
        let line = [
            "--data",
            &base_file,
            "--queries-file",
            &query_file,
            "--distance",
            name,
            "--k",
            "5",
        ];
        for points in ["500", "200"] {
            let data = open(&[&line[..], &["--points", points]].concat()).expect("opened");
            let base = &base[..points.parse().expect("a number")];
            let expected: Vec<Vec<u64>> = queries.iter().map(|q| nearest(base, q, 5, distance)).collect();
            assert_eq!((data.truth, data.points), (expected, base.len() as u64), "{name}");
        }
    }
    // A file of truth is taken at its word.
    let given = files.write("gt.ibin", 7, 5, (0..35u32).map(|n| (n % 500).to_le_bytes()));
    let line = [
        "--data",
        &base_file,
        "--queries-file",
        &query_file,
        "--truth",
        &given,
        "--k",
        "3",
    ];
    let data = open(&line).expect("opened");
    assert_eq!(
        (data.truth[0].clone(), data.truth[6].clone()),
        (vec![0, 1, 2], vec![30, 31, 32])
    );
    let beyond = files.write("far.ibin", 7, 5, (0..35u32).map(|_| 500u32.to_le_bytes()));
    let refused = |line: &[&str], sentence: &str| {
        let error = format!(
            "{:#}",
            open(&[line, &["--k", "5"]].concat()).expect_err("refused")
        );
        assert!(error.contains(sentence), "{error}");
    };
    refused(
        &[
            "--data",
            &base_file,
            "--queries-file",
            &query_file,
            "--truth",
            &beyond,
        ],
        "belongs to other data",
    );
    refused(&["--data", &base_file], "--queries-file");
    refused(
        &[
            "--data",
            &base_file,
            "--queries-file",
            &query_file,
            "--distance",
            "manhattan",
        ],
        "--truth",
    );
    refused(
        &["--data", "/nowhere/base.csv"],
        "format follows from the extension",
    );
}

#[test]
fn a_made_up_set_is_made_once() {
    let files = Files::new("made");
    let cache = files.0.display().to_string();
    let line = [
        "--points",
        "900",
        "--dims",
        "8",
        "--queries",
        "5",
        "--cache",
        &cache,
    ];
    let first = open(&line).expect("made");
    let written = std::fs::metadata(files.0.join("hard-900x8-5q.base.f32"))
        .expect("there")
        .modified()
        .expect("a time");
    let second = open(&line).expect("opened");
    let again = std::fs::metadata(files.0.join("hard-900x8-5q.base.f32"))
        .expect("there")
        .modified()
        .expect("a time");
    assert_eq!((first.truth.clone(), written), (second.truth, again));
    let mut base = first.base().expect("opened");
    let (mut rows, mut row) = (Vec::new(), Vec::new());
    while base.read(&mut row).expect("read") {
        rows.push(row.clone());
    }
    let found: Vec<Vec<u64>> = first
        .queries()
        .map(|query| nearest(&rows, query, 10, Distance::Cosine))
        .collect();
    assert_eq!((rows.len(), found), (900, first.truth));
}

#[test]
fn datasets_of_hdf5() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/import/contiguous.hdf5");
    let names = ramlet_bench::files::hdf5_datasets(&path).expect("opened");
    assert!(names.iter().any(|name| name == "train"), "{names:?}");
    assert!(open_rows(&path, "train").expect("opened").rows() > 0);
}

fn of_testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/import")
        .join(name)
}

/// All rows, from the first.
fn all(rows: &mut dyn Rows) -> Vec<Vec<f32>> {
    let (mut all, mut row) = (Vec::new(), Vec::new());
    while rows.read(&mut row).expect("read") {
        all.push(row.clone());
    }
    all
}

/// 0 to 11 in four rows.
fn counted() -> Vec<Vec<f32>> {
    let row = |at| (0..3).map(|n| (3 * at + n) as f32).collect();
    (0..4).map(row).collect()
}

#[test]
fn every_type_of_hdf5() {
    let path = of_testdata("types.hdf5");
    let names = ramlet_bench::files::hdf5_datasets(&path).expect("opened");
    assert_eq!(names.len(), 20);
    for name in names {
        let mut rows = open_rows(&path, &name).expect("opened");
        let expected = match name.as_str() {
            "bool" => counted()
                .iter()
                .map(|row| row.iter().map(|v| v % 2.0).collect())
                .collect(),
            _ => counted(),
        };
        assert_eq!(all(rows.as_mut()), expected, "{name}");
    }
}

/// Bytes of a `.npy` with these numbers in this order.
fn npy(
    descr: &str,
    by_columns: bool,
    rows: usize,
    dims: usize,
    numbers: impl Iterator<Item = Vec<u8>>,
) -> Vec<u8> {
    let order = if by_columns { "True" } else { "False" };
    let head = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({rows}, {dims}), }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((head.len() as u16).to_le_bytes());
    bytes.extend(head.as_bytes());
    numbers.for_each(|number| bytes.extend(number));
    bytes
}

#[test]
fn records_in_npy_are_named_whole() {
    let files = Files::new("records");
    let path = files.0.join("a.npy");
    let fields = "[('a', '<f4'), ('b', '<f4')]";
    let head = format!("{{'descr': {fields}, 'fortran_order': False, 'shape': (3, 1), }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((head.len() as u16).to_le_bytes());
    bytes.extend(head.as_bytes());
    std::fs::write(&path, &bytes).expect("written");
    let error = format!("{:#}", open_rows(&path, "").err().expect("refused"));
    assert!(error.contains(&format!("of type {fields};")), "{error}");
}

#[test]
fn every_type_of_npy_by_rows_and_by_columns() {
    let files = Files::new("npy");
    let path = files.0.join("a.npy");
    let big = |v: i64, bytes: usize| v.to_be_bytes()[8 - bytes..].to_vec();
    let little = |v: i64, bytes: usize| v.to_le_bytes()[..bytes].to_vec();
    for bytes in [1, 2, 4, 8] {
        for (order, number) in [('>', &big as &dyn Fn(i64, usize) -> Vec<u8>), ('<', &little)] {
            for class in ['i', 'u'] {
                let descr = format!("{order}{class}{bytes}");
                let by_row = npy(&descr, false, 4, 3, (0..12).map(|v| number(v, bytes)));
                std::fs::write(&path, by_row).expect("written");
                assert_eq!(
                    all(open_rows(&path, "").expect("opened").as_mut()),
                    counted(),
                    "{descr}"
                );
                let columns = (0..3).flat_map(|at| (0..4).map(move |row| 3 * row + at));
                let by_column = npy(&descr, true, 4, 3, columns.map(|v| number(v, bytes)));
                std::fs::write(&path, by_column).expect("written");
                let mut rows = open_rows(&path, "").expect("opened");
                assert_eq!(all(rows.as_mut()), counted(), "{descr} by columns");
                rows.seek(2).expect("within");
                assert_eq!(all(rows.as_mut()), counted()[2..], "{descr} by columns");
            }
        }
    }
}

/// More than a slab of rows, whose pieces of columns are put together.
#[test]
fn columns_longer_than_a_slab() {
    let files = Files::new("columns");
    let path = files.0.join("a.npy");
    const ROWS: usize = 200_000;
    let numbers = (0..2usize).flat_map(|at| (0..ROWS).map(move |row| (2 * row + at) as f32));
    let bytes = npy("<f4", true, ROWS, 2, numbers.map(|v| v.to_le_bytes().to_vec()));
    std::fs::write(&path, &bytes).expect("written");
    let mut rows = open_rows(&path, "").expect("opened");
    for (at, row) in all(rows.as_mut()).into_iter().enumerate() {
        assert_eq!(row, [(2 * at) as f32, (2 * at + 1) as f32]);
    }
    std::fs::write(&path, &bytes[..bytes.len() - 1]).expect("written");
    let error = format!("{:#}", open_rows(&path, "").err().expect("cut short"));
    assert!(error.contains("cut short"), "{error}");
}

#[test]
fn arrays_of_npz() {
    let check = |name: &str, key: &str, expected: &[Vec<f32>]| {
        let mut rows = open_rows(&of_testdata(name), key).expect("opened");
        assert_eq!((rows.rows(), rows.dim()), (4, 3));
        assert_eq!(all(rows.as_mut()), expected, "{name}");
        for at in [3, 1, 4] {
            rows.seek(at as u64).expect("within");
            assert_eq!(all(rows.as_mut()), expected[at..], "{name} from {at}");
        }
    };
    check("stored.npz", "vectors", &counted());
    check("deflated.npz", "vectors", &counted());
    // The labels aren't numbers: the vectors are the only rows.
    check("stored.npz", "", &counted());
    let refused = |name: &str, key: &str, sentence: &str| {
        let error = format!("{:#}", open_rows(&of_testdata(name), key).err().expect("refused"));
        assert!(error.contains(sentence), "{error}");
    };
    refused(
        "stored.npz",
        "nothing",
        "no array 'nothing', it has: vectors, labels",
    );
    refused("stored.npz", "labels", "its numbers are of type <U1;");
    refused("ids.npz", "", "--key vectors numbers the rows");
    let mut rows = open_rows(&of_testdata("ids.npz"), "vectors").expect("opened");
    assert_eq!(all(rows.as_mut()), [[1.0, 2.0], [3.0, 4.0]]);
    refused("deflated.npz", "columns", "stored column by column");
}

#[test]
fn archives_that_are_cut_or_changed_never_panic() {
    let files = Files::new("npz");
    let path = files.0.join("a.npz");
    for name in ["stored.npz", "deflated.npz"] {
        let whole = std::fs::read(of_testdata(name)).expect("there");
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).expect("written");
            assert!(open_rows(&path, "vectors").is_err(), "{name} cut at {cut}");
        }
        let mut random = Random::new(7, 0);
        for _ in 0..2_000 {
            let mut changed = whole.clone();
            let at = random.below(whole.len() as u64) as usize;
            changed[at] = random.below(256) as u8;
            std::fs::write(&path, changed).expect("written");
            let Ok(mut rows) = open_rows(&path, "vectors") else {
                continue;
            };
            let mut row = Vec::new();
            while rows.read(&mut row).is_ok_and(|more| more) {}
        }
    }
}
