//! Every decoder against random and mutated input, on the stable toolchain; `fuzz/` runs the same entry for
//! longer.

use nfs_wire::fuzz::{ARGS, Decoder, REPLIES, RPC, V4_ARGS, V4_REPLIES};

/// Inputs per decoder: several hundred thousand in all.
const ROUNDS: usize = 8_000;

/// Decoded inputs below which a decoder was not really exercised.
const DECODED_MIN: usize = 400;

/// Refused inputs below which a decoder was not really exercised. A word without invalid values is refused only where
/// it is missing.
const REFUSED_MIN: usize = 150;

/// xorshift64*: the same inputs in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap() % bound
    }

    /// A typical word of a message: mostly a boolean, tag or short length, sometimes a boundary, sometimes random.
    fn word(&mut self) -> [u8; 4] {
        let values = [
            0,
            0,
            0,
            0,
            1,
            1,
            1,
            2,
            2,
            3,
            4,
            5,
            6,
            7,
            8,
            16,
            17,
            64,
            65,
            255,
            400,
            401,
            0x7fff_ffff,
            u32::MAX,
        ];
        match self.below(8) {
            0 => u32::try_from(self.next() >> 32).unwrap(),
            _ => values[self.below(values.len())],
        }
        .to_be_bytes()
    }

    /// Words, in some inputs nearly all zero: a zero is a valid absence of almost everything.
    fn words(&mut self) -> Vec<u8> {
        let zeros = [0, 2, 15][self.below(3)];
        (0..self.below(60)).flat_map(|_| if self.below(16) < zeros { [0; 4] } else { self.word() }).collect()
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            let word = self.word();
            match self.below(5) {
                0 => input.truncate(self.below(input.len() + 1)),
                1 => input.extend(word),
                _ if input.len() < 4 => input.push(word[3]),
                2 => {
                    let at = self.below(input.len());
                    input[at] ^= 1 << self.below(8);
                }
                3 => {
                    let at = self.below(input.len() / 4) * 4;
                    input[at..at + 4].copy_from_slice(&word);
                }
                _ => {
                    let at = self.below(input.len() / 4 + 1) * 4;
                    input.splice(at..at, word);
                }
            }
        }
    }
}

/// Random words at first; once some decode, mostly their mutations. The decoder itself asserts that decoding, encoding
/// and decoding is stable.
fn exercise(tables: &[(&str, Decoder)]) {
    for (name, decoder) in tables {
        let mut random = Random(0x706c_696d_736f_6c6c);
        let mut corpus: Vec<Vec<u8>> = Vec::new();
        let (mut decoded, mut refused) = (0, 0);
        for round in 0..ROUNDS {
            let input = if corpus.is_empty() || round % 4 == 0 {
                random.words()
            } else {
                let mut input = corpus[random.below(corpus.len())].clone();
                random.mutate(&mut input);
                input
            };
            if decoder(&input) {
                decoded += 1;
                corpus.push(input);
            } else {
                refused += 1;
            }
        }
        assert!(decoded >= DECODED_MIN, "{name}: only {decoded} inputs decoded");
        assert!(refused >= REFUSED_MIN, "{name}: only {refused} inputs refused");
    }
}

#[test]
fn headers() {
    exercise(RPC);
}

#[test]
fn arguments() {
    exercise(ARGS);
}

#[test]
fn results() {
    exercise(REPLIES);
}

#[test]
fn v4_arguments() {
    exercise(V4_ARGS);
}

#[test]
fn v4_results() {
    exercise(V4_REPLIES);
}
