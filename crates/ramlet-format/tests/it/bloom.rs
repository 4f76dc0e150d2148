use crate::support::Random;
use ramlet_format::bloom::{Bloom, BloomBuilder, file_bytes, hash64};
use ramlet_format::hash::Xxh64;

fn filter(seed: u64, keys: u64) -> Bloom {
    let mut builder = BloomBuilder::new(keys);
    (0..keys).for_each(|key| builder.insert(hash64(&key.to_be_bytes())));
    let file = builder.finish(seed);
    assert_eq!(file.len() as u64, file_bytes(keys));
    Bloom::parse(seed, &file).unwrap()
}

#[test]
fn what_was_inserted_is_found_and_little_else() {
    for keys in [0, 1, 10, 51, 52, 3000, 3226, 3227, 100_000] {
        let bloom = filter(keys, keys);
        assert_eq!(bloom.keys(), keys);
        assert!((0..keys).all(|key| bloom.may_contain(hash64(&key.to_be_bytes()))));
        let false_positives = (0..100_000)
            .filter(|other| bloom.may_contain(hash64(&(other + keys).to_be_bytes())))
            .count();
        assert!(
            false_positives <= 2000,
            "{false_positives} of 100,000 with {keys} keys"
        );
        assert!(bloom.heap_bytes() as u64 <= keys * 10 / 8 + 64);
    }
}

#[test]
fn hashes_that_are_already_random_do_as_well() {
    let mut random = Random::new(5);
    let mut builder = BloomBuilder::new(50_000);
    (0..50_000).for_each(|_| builder.insert(random.next()));
    let bloom = Bloom::parse(1, &builder.finish(1)).unwrap();
    let false_positives = (0..100_000).filter(|_| bloom.may_contain(random.next())).count();
    assert!(false_positives <= 2000, "{false_positives} of 100,000");
}

#[test]
fn the_hash_of_pieces_is_that_of_the_whole() {
    let bytes: Vec<u8> = (0..400u32).map(|n| (n * 37 % 251) as u8).collect();
    for step in [1, 3, 31, 32, 33, 200] {
        let (mut hash, mut came) = (Xxh64::default(), 0);
        assert_eq!(hash.digest(), hash64(&[]));
        for piece in bytes.chunks(step) {
            hash.update(piece);
            came += piece.len();
            assert_eq!(hash.digest(), hash64(&bytes[..came]), "{came} bytes by {step}");
        }
    }
}

#[test]
fn the_hash_is_xxh64() {
    // From the reference implementation's documentation and test vectors, seed 0.
    let check = |input: &str, expected| assert_eq!(hash64(input.as_bytes()), expected, "{input:?}");
    check("", 0xEF46_DB37_51D8_E999);
    check("a", 0xD24E_C4F1_A98C_6E5B);
    check("abc", 0x44BC_2CF5_AD77_0999);
    check("xxhash", 0x32DD_3895_2C4B_C720);
    check("Nobody inspects the spammish repetition", 0xFBCE_A83C_8A37_8BF1);
}
