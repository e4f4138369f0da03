//! The bodies of the fuzz targets in every run: seeds and damaged seeds.

use crate::fuzz_bodies;

const MUTATIONS: u64 = 10_000;

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % sides.max(1) as u64).unwrap()
    }
}

fn damaged(seed: &[u8], other: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=dice.roll(4) {
        let place = dice.roll(bytes.len());
        match dice.roll(6) {
            0 => bytes.truncate(place),
            1 if !bytes.is_empty() => bytes[place] = dice.roll(256) as u8,
            2 if !bytes.is_empty() => bytes[place] ^= 1 << dice.roll(8),
            3 => {
                let end = (place + dice.roll(16)).min(bytes.len());
                bytes.drain(place..end);
            }
            4 => {
                let from = dice.roll(other.len());
                let piece = &other[from..(from + dice.roll(32)).min(other.len())];
                bytes.splice(place..place, piece.iter().copied());
            }
            _ => {
                let filler = b"{}[]\":,\\\0\n\xff0-e"[dice.roll(14)];
                let count = dice.roll(80);
                bytes.splice(place..place, std::iter::repeat_n(filler, count));
            }
        }
    }
    bytes
}

fn seeds(directory: &str) -> Vec<Vec<u8>> {
    let directory = format!("{}/tests/seeds/{directory}", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

fn feed(directory: &str, body: fn(&[u8])) {
    let seeds = seeds(directory);
    for seed in &seeds {
        body(seed);
    }
    for number in 0..MUTATIONS {
        let mut dice = Dice(number);
        let (seed, other) = (dice.roll(seeds.len()), dice.roll(seeds.len()));
        body(&damaged(&seeds[seed], &seeds[other], &mut dice));
    }
}

#[test]
fn any_bytes_as_a_request_are_read_or_refused() {
    feed("request", fuzz_bodies::request);
}

#[test]
fn any_bytes_from_a_runtime_are_read_or_refused() {
    feed("frames", fuzz_bodies::frames);
}
