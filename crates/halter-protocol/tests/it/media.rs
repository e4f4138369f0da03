//! Files of real encoders, whole and damaged.

use crate::fuzz_bodies;
use halter_protocol::media::pixels;
use halter_protocol::{ContentPart, MediaFormat};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

static SEEDS: LazyLock<Vec<(PathBuf, Vec<u8>)>> = LazyLock::new(|| {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/seeds/media");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let data = std::fs::read(&path).unwrap();
        (path, data)
    };
    paths.into_iter().map(read).collect()
});

#[test]
fn files_of_real_encoders_are_known_and_fine() {
    assert_eq!(SEEDS.len(), 10);
    for (path, data) in SEEDS.iter() {
        fuzz_bodies::media(data);
        let (format, size) = match path.extension().unwrap().to_str().unwrap() {
            "png" => (MediaFormat::Png, Some((13, 7))),
            "jpg" => (MediaFormat::Jpeg, Some((13, 7))),
            "gif" => (MediaFormat::Gif, Some((13, 7))),
            "webp" => (MediaFormat::WebP, Some((13, 7))),
            "pdf" => (MediaFormat::Pdf, None),
            other => panic!("{other}"),
        };
        let part = ContentPart::detect(data.as_slice()).unwrap();
        assert_eq!(part, format.part(data.as_slice()), "{}", path.display());
        assert_eq!(part.check(), Ok(()), "{}", path.display());
        assert_eq!(pixels(data), size, "{}", path.display());
    }
}

/// One way to damage a file at a place.
#[derive(Debug, Clone)]
enum Damage {
    Cut,
    Set(u8),
    Remove(usize),
    Insert(Vec<u8>),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        Just(Damage::Cut),
        any::<u8>().prop_map(Damage::Set),
        (1usize..16).prop_map(Damage::Remove),
        prop::collection::vec(any::<u8>(), 1..32).prop_map(Damage::Insert),
    ]
}

fn damaged(data: &[u8], damages: &[(prop::sample::Index, Damage)]) -> Vec<u8> {
    let mut data = data.to_vec();
    for (place, damage) in damages {
        let place = place.index(data.len() + 1);
        let rest = data.len() - place;
        match damage {
            Damage::Cut => data.truncate(place),
            Damage::Set(byte) => data
                .splice(place..place + rest.min(1), [*byte])
                .for_each(drop),
            Damage::Remove(count) => data.drain(place..place + rest.min(*count)).for_each(drop),
            Damage::Insert(bytes) => data.splice(place..place, bytes.clone()).for_each(drop),
        }
    }
    data
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 10_000, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn damaged_files_are_refused_or_fine(
        seed in 0..SEEDS.len(),
        damages in prop::collection::vec((any::<prop::sample::Index>(), damage()), 1..5),
    ) {
        fuzz_bodies::media(&damaged(&SEEDS[seed].1, &damages));
    }
}
