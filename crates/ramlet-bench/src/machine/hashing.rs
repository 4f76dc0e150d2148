//! Hash functions over what the caches hold.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ramlet_testdata::Random;
#[cfg(feature = "hashes")]
use sha3::Digest;

use super::jhash::jhash;
use super::row::{Planned, Unit};
use super::suite::{Options, Report, Setup, Suite, planned};

pub const HASHING: Suite = Suite {
    name: "hashing",
    seconds: (2, 10),
    plan,
    run,
};

/// Beyond the first cache of most processors, within the second.
const BYTES: usize = 64 << 10;

type Hash = fn(&[u8]) -> u64;

const NAMES: [&str; 9] = [
    "sha3-256", "md5", "sha1", "xxhash", "murmur3", "jhash", "fnv", "crc32c", "xxh3",
];

/// `None`: the program was built without it.
fn hash_named(name: &str) -> Option<Hash> {
    Some(match name {
        #[cfg(feature = "hashes")]
        "sha3-256" => |data| first(&sha3::Sha3_256::digest(data)),
        #[cfg(feature = "hashes")]
        "md5" => |data| first(&md5::Md5::digest(data)),
        #[cfg(feature = "hashes")]
        "sha1" => |data| first(&sha1::Sha1::digest(data)),
        "xxhash" => |data| xxhash_rust::xxh64::xxh64(data, 0),
        #[cfg(feature = "hashes")]
        "murmur3" => |mut data| murmur3::murmur3_32(&mut data, 0).map_or(0, u64::from),
        "jhash" => |data| u64::from(jhash(data, 0)),
        #[cfg(feature = "hashes")]
        "fnv" => |data| {
            let mut hasher = fnv::FnvHasher::default();
            std::hash::Hasher::write(&mut hasher, data);
            std::hash::Hasher::finish(&hasher)
        },
        "crc32c" => |data| u64::from(crc32c::crc32c(data)),
        #[cfg(feature = "hashes")]
        "xxh3" => xxhash_rust::xxh3::xxh3_64,
        _ => return None,
    })
}

#[cfg(feature = "hashes")]
fn first(digest: &[u8]) -> u64 {
    digest.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn plan(_: &Options) -> Vec<Planned> {
    NAMES
        .into_iter()
        .map(|name| planned(name, Unit::Mebibytes))
        .collect()
}

fn run(setup: &Setup, report: &mut Report<'_>) -> Result<(), String> {
    let mut random = Random::new(1, 0);
    let data: Vec<u8> = (0..BYTES / 8)
        .flat_map(|_| random.next_u64().to_le_bytes())
        .collect();
    let time = setup.pick(Duration::from_millis(100), Duration::from_millis(500));
    for name in NAMES {
        let Some(hash) = hash_named(name) else {
            report.missing(
                name,
                "left out of this program: it was built without the feature hashes",
            );
            continue;
        };
        if !report.begin(name) {
            break;
        }
        report.found(name, mebibytes_per_second(&data, hash, time), &[]);
    }
    Ok(())
}

/// Of the fastest round: what others do on the machine only makes it slower.
fn mebibytes_per_second(data: &[u8], hash: Hash, time: Duration) -> f64 {
    let (start, mut least) = (Instant::now(), f64::INFINITY);
    while start.elapsed() < time {
        let before = Instant::now();
        for _ in 0..4 {
            black_box(hash(black_box(data)));
        }
        least = least.min(before.elapsed().as_secs_f64() / 4.0);
    }
    data.len() as f64 / least / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_what_it_is_called() {
        // First bytes of the digests of "abc", as their standards and authors give them.
        let known: [(&str, u64); 9] = [
            (
                "sha3-256",
                u64::from_be_bytes([0x3a, 0x98, 0x5d, 0xa7, 0x4f, 0xe2, 0x25, 0xb2]).swap_bytes(),
            ),
            ("md5", 0x9001_5098_3cd2_4fb0u64.swap_bytes()),
            ("sha1", 0xa999_3e36_4706_816au64.swap_bytes()),
            ("xxhash", 0x44bc_2cf5_ad77_0999),
            ("murmur3", 0xb3dd_93fa),
            ("jhash", u64::from(jhash(b"abc", 0))),
            ("fnv", 0xe71f_a219_0541_574b),
            ("crc32c", 0x364b_3fb7),
            ("xxh3", 0x78af_5f94_892f_3950),
        ];
        assert_eq!(known.map(|(name, _)| name), NAMES);
        for (name, digest) in known {
            match hash_named(name) {
                Some(hash) => assert_eq!(hash(b"abc"), digest, "{name}"),
                None if cfg!(feature = "hashes") => panic!("{name} is left out"),
                None => {}
            }
        }
    }
}
