//! Every decoder on randomly changed valid messages, with the stable toolchain; `fuzz/` runs the same entry points for
//! longer.

use std::collections::BTreeSet;

use smb_wire::fuzz::{self, CLASSES, CONTEXTS, Decoder, MESSAGES};

mod classes;
mod samples;
mod structures;

const ROUNDS: usize = 4_000;

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

    /// A byte that is typical of offsets, lengths and counts.
    fn byte(&mut self) -> u8 {
        let values = [0, 0, 1, 2, 3, 4, 7, 8, 9, 16, 24, 64, 0x7f, 0x80, 0xfe, 0xff];
        match self.below(3) {
            0 => self.next().to_le_bytes()[7],
            _ => values[self.below(values.len())],
        }
    }

    /// Changes some bytes of the message, and sometimes truncates or extends it.
    fn changed(&mut self, message: &[u8]) -> Vec<u8> {
        let mut bytes = message.to_vec();
        for _ in 0..self.below(4) {
            let at = self.below(bytes.len());
            bytes[at] = self.byte();
        }
        match self.below(4) {
            0 => bytes.truncate(self.below(message.len() + 1)),
            1 => bytes.extend((0..self.below(40)).map(|_| self.byte())),
            _ => (),
        }
        bytes
    }
}

/// Returns the number of changed messages that decoded, and the number refused.
fn run(random: &mut Random, sample: &[u8], decoder: impl Fn(&[u8]) -> bool) -> (usize, usize) {
    assert!(decoder(sample), "the sample itself is valid");
    let decoded = (0..ROUNDS).filter(|_| decoder(&random.changed(sample))).count();
    (decoded, ROUNDS - decoded)
}

fn exercise(decoders: &[(&str, Decoder)], samples: &[(&str, Vec<u8>)]) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let names: BTreeSet<_> = decoders.iter().map(|(name, _)| *name).collect();
    let sampled: BTreeSet<_> = samples.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, sampled, "every decoder has a sample");
    for (name, sample) in samples {
        let (_, decoder) = decoders.iter().find(|(other, _)| other == name).unwrap();
        let (decoded, refused) = run(&mut random, sample, decoder);
        assert!(decoded >= 400 && refused >= 100, "{name}: {decoded} decoded, {refused} refused");
    }
}

#[test]
fn messages() {
    exercise(MESSAGES, &samples::messages());
}

#[test]
fn contexts() {
    exercise(CONTEXTS, &structures::all());
}

#[test]
fn classes() {
    exercise(CLASSES, &classes::all());
}

#[test]
fn compounds() {
    let (decoded, refused) = run(&mut Random(0x1234_5678_9abc_def1), &samples::compound(), fuzz::compound);
    assert!(decoded >= 400 && refused >= 100, "{decoded} walked through, {refused} refused");
}

#[test]
fn pipes() {
    for sample in [structures::pipe(), structures::accounts_pipe()] {
        let (decoded, refused) = run(&mut Random(0x2345_6789_abcd_ef12), &sample, fuzz::pipe);
        assert!(decoded >= 400 && refused >= 100, "{decoded} taken, {refused} refused");
    }
}

#[test]
fn chains() {
    let (decoded, refused) = run(&mut Random(0x3456_789a_bcde_f123), &structures::chain(), fuzz::chains);
    assert!(decoded >= 400 && refused >= 100, "{decoded} walked through, {refused} refused");
}

#[test]
fn compressed_messages() {
    let (decoded, refused) =
        run(&mut Random(0x5678_9abc_def1_2345), &structures::compressed(), fuzz::compressed);
    assert!(decoded >= 400 && refused >= 100, "{decoded} decompressed, {refused} refused");
}

#[test]
fn encrypted_messages() {
    let mut random = Random(0x4567_89ab_cdef_1234);
    for cipher in 0..4 {
        // Every byte of a short message, and some of longer ones.
        for place in 0..=u8::MAX {
            let length = if place < 64 { 12 } else { random.below(300) };
            let text = (0..length).map(|_| random.byte());
            let bytes: Vec<_> = [cipher, place].into_iter().chain(text).collect();
            assert!(fuzz::sealed(&bytes));
        }
    }
}

#[test]
fn random_bytes_never_panic() {
    let mut random = Random(0x0bad_cafe_1234_5678);
    for (_, decoder) in MESSAGES.iter().chain(CONTEXTS).chain(CLASSES) {
        for _ in 0..ROUNDS {
            let bytes: Vec<_> = (0..random.below(200)).map(|_| random.byte()).collect();
            decoder(&bytes);
        }
    }
}
