//! Every decoder against random and mutated input, on the stable toolchain; `fuzz/` runs the same entry for longer.

use replicate::fuzz::{self, Decoder, REPLICATION, VAULT};
use vfs_testing::conformance::oracle::Random;

/// Inputs for each decoder.
const ROUNDS: usize = 8_000;
/// Decoded or refused inputs below which a decoder was not really exercised.
const EACH_MIN: usize = 200;

/// A byte that is typical of tags, flags, lengths and counts.
fn byte(random: &mut Random, zeros: usize) -> u8 {
    let values = [0, 0, 1, 1, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 20, 32, 0x7f, 0x80, 0xff];
    match random.below(16) {
        below if below < zeros => 0,
        15 => u8::try_from(random.below(256)).unwrap(),
        _ => values[random.below(values.len())],
    }
}

/// In some inputs nearly all bytes are zero: a zero is a valid absence of almost everything.
fn bytes(random: &mut Random) -> Vec<u8> {
    let zeros = [0, 8, 14][random.below(3)];
    (0..random.below(130)).map(|_| byte(random, zeros)).collect()
}

fn mutate(random: &mut Random, input: &mut Vec<u8>) {
    for _ in 0..=random.below(3) {
        let (new, at) = (byte(random, 0), random.below(input.len() + 1));
        match random.below(5) {
            0 => input.truncate(at),
            1 => input.push(new),
            2 => input.insert(at, new),
            _ if at == input.len() => input.push(new),
            3 => input[at] ^= 1 << random.below(8),
            _ => input[at] = new,
        }
    }
}

/// Random bytes at first; once some decode, mostly their mutations. `seeds` decode.
fn exercise(name: &str, decoder: Decoder, seeds: &[Vec<u8>]) {
    let mut random = Random::new(7);
    let (mut corpus, mut decoded, mut refused) = (seeds.to_vec(), 0, 0);
    assert!(corpus.iter().all(|seed| decoder(seed)), "{name}: a seed is refused");
    for round in 0..ROUNDS {
        let input = if corpus.is_empty() || round % 4 == 0 {
            bytes(&mut random)
        } else {
            let mut input = corpus[random.below(corpus.len())].clone();
            mutate(&mut random, &mut input);
            input
        };
        if decoder(&input) {
            decoded += 1;
            corpus.push(input);
        } else {
            refused += 1;
        }
    }
    assert!(decoded >= EACH_MIN, "{name}: only {decoded} inputs decoded");
    assert!(refused >= EACH_MIN, "{name}: only {refused} inputs refused");
}

/// An input of the shape that random bytes hardly have.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    match name {
        // The magic, version 1, no flags; no key, no salt, and the time 0.
        "header" => vec![[&b"PLIMVLT\n\x01\0\0\0"[..], &[0; 16 + 32 + 32 + 12]].concat()],
        _ => Vec::new(),
    }
}

#[test]
fn objects_of_vaults() {
    VAULT.iter().for_each(|(name, decoder)| exercise(name, *decoder, &seeds(name)));
}

#[test]
fn messages_and_logs_of_replications() {
    REPLICATION.iter().for_each(|(name, decoder)| exercise(name, *decoder, &[]));
}

#[test]
fn whole_packs_objects_and_frames() {
    let mut random = Random::new(7);
    for _ in 0..ROUNDS / 8 {
        let input = bytes(&mut random);
        let is_long = input.len() >= 3;
        assert_eq!(fuzz::pack(&input), is_long);
        assert!(fuzz::frames(&input) || !is_long);
        fuzz::sealed(&input);
    }
}
