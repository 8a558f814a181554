//! Every target on its seeds and on mutations of them, so that each run of the tests fuzzes a little.

use std::path::{Path, PathBuf};

use spp_fuzz::{TARGETS, Target};

/// Mutations of each seed: some thousand inputs for a target, in some seconds.
const MUTATIONS: u64 = 40;

fn repository() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn check(name: &str) {
    let target = TARGETS
        .iter()
        .find(|target| target.name == name)
        .expect("a target of that name");
    let seeds = seeds(target);
    assert!(!seeds.is_empty(), "{name} has no seeds");
    for (index, seed) in seeds.iter().enumerate() {
        (target.run)(seed);
        let mut random = Random(index as u64 + 1);
        for _ in 0..MUTATIONS {
            (target.run)(&mutated(seed, &seeds, &mut random));
        }
    }
}

fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for directory in target.seeds {
        let directory = repository().join(directory);
        let mut files: Vec<_> = std::fs::read_dir(&directory)
            .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
            .map(|entry| entry.expect("an entry").path())
            .collect();
        files.sort();
        for file in files {
            let bytes = std::fs::read(&file).expect("a file");
            if file.extension().is_some_and(|it| it == "ndjson") {
                seeds.extend(bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec));
            } else {
                seeds.push(bytes);
            }
        }
    }
    seeds
}

/// The same numbers in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).expect("48 bits") % end.max(1)
    }
}

/// One to four changes: a byte replaced, put in or taken out, a part doubled, the end cut off, or another seed's in
/// its place.
fn mutated(seed: &[u8], seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    const BYTES: &[u8] = b"\"\\{}[],:0123456789-+.eunx \t\r\n\x00\xff=#";
    let mut data = seed.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(data.len());
        let byte = BYTES[random.below(BYTES.len())];
        match random.below(7) {
            _ if data.is_empty() => data.push(byte),
            0 => data[at] = byte,
            1 => data.insert(at, byte),
            2 => drop(data.remove(at)),
            3 => data[at] ^= 1 << random.below(8),
            4 => {
                let end = at + random.below(data.len() - at);
                data.extend_from_within(at..end);
            }
            5 => data.truncate(at),
            _ => {
                let other = &seeds[random.below(seeds.len())];
                data.truncate(at);
                data.extend_from_slice(&other[at.min(other.len())..]);
            }
        }
    }
    data
}

#[test]
fn lines_hold_what_they_promise_for_any_bytes() {
    check("line_codec");
}

#[test]
fn messages_hold_what_they_promise_for_any_bytes() {
    check("messages");
}

#[test]
fn configuration_files_hold_what_they_promise_for_any_bytes() {
    check("config");
}

#[test]
fn archives_hold_what_they_promise_for_any_bytes() {
    check("archive");
}

#[test]
fn every_target_can_be_fuzzed() {
    let directory = repository().join("fuzz/fuzz_targets");
    let mut files: Vec<_> = std::fs::read_dir(&directory)
        .expect("the targets")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    let mut expected: Vec<_> = TARGETS
        .iter()
        .map(|target| directory.join(target.name).with_extension("rs"))
        .collect();
    expected.sort();
    assert_eq!(files, expected);
    let manifest = read(&repository().join("fuzz/Cargo.toml"));
    for target in TARGETS {
        let call = format!("spp_fuzz::{}(data)", target.name);
        let file = read(&directory.join(target.name).with_extension("rs"));
        assert!(file.contains(&call), "{}: no {call}", target.name);
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)));
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
