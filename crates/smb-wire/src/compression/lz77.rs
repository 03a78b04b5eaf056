//! Plain LZ77, MS-XCA §2.3 and §2.4: literals and matches, in groups of 32 behind a word of flags.

use crate::{Malformed, Reader};

const DISTANCE_MAX: usize = 1 << 13;
/// The shortest match of the format.
const MATCH_MIN: usize = 3;
/// The shortest match that the encoder uses: shorter ones save at most a byte.
const SEARCH_MIN: usize = 4;
/// The size of the table of positions, indexed by a hash of four bytes.
const HASH_BITS: u32 = 13;
/// After 2⁵ positions without a match the encoder starts to skip positions, and skips more the longer that lasts.
const SKIP_SHIFT: u32 = 5;
const SKIP_MAX: usize = 15;
/// Flags of one word.
const FLAGS: u32 = 32;
/// The value of the three length bits that announces a longer length.
const LENGTH_ESCAPE: usize = 7;
/// The escape value of a nibble.
const NIBBLE_ESCAPE: usize = 15;
/// The escape value of a byte.
const BYTE_ESCAPE: usize = 255;

/// Appends compressed `input` to `out`. Returns `false` if it takes `room` bytes or more; the appended bytes are then
/// invalid.
pub fn compress(input: &[u8], out: &mut Vec<u8>, room: usize) -> bool {
    let end = out.len() + room;
    let mut encoder = Encoder::new(out);
    let mut table = [0_u16; 1 << HASH_BITS];
    let (mut at, mut written, mut misses) = (0, 0, 0_usize);
    while let Some(word) = read_word(input, at) {
        // The table has only the low 16 bits of a position, which suffices for matches within 8 KiB.
        let entry = &mut table[hash(word)];
        let distance = usize::from(low_u16(at).wrapping_sub(*entry));
        *entry = low_u16(at);
        let is_near = (1..=DISTANCE_MAX.min(at)).contains(&distance);
        if !is_near || read_word(input, at - distance) != Some(word) {
            misses += 1;
            at += 1 + (misses >> SKIP_SHIFT).min(SKIP_MAX);
            continue;
        }
        let length = SEARCH_MIN
            + common_prefix_length(&input[at - distance + SEARCH_MIN..], &input[at + SEARCH_MIN..]);
        encoder.write_literals(&input[written..at]);
        encoder.write_match(length, distance);
        if encoder.out.len() >= end {
            return false;
        }
        at += length;
        (written, misses) = (at, 0);
        if let Some(word) = read_word(input, at - 2) {
            table[hash(word)] = low_u16(at - 2);
        }
    }
    encoder.write_literals(&input[written..]);
    encoder.finish();
    out.len() < end
}

/// Decompresses `input` to exactly `size` bytes and appends them to `out`. Never appends more.
pub fn decompress(input: &[u8], out: &mut Vec<u8>, size: usize) -> Result<(), Malformed> {
    let (base, end) = (out.len(), out.len() + size);
    let mut r = Reader::new(input);
    let mut nibble = None;
    while !(out.len() == end && r.rest().is_empty()) {
        // The next flag is the highest bit.
        let mut flags = u64::from(u32::from_le_bytes(r.array()?)) << FLAGS;
        let mut remaining = FLAGS as usize;
        while remaining > 0 {
            let room = end - out.len();
            if room == 0 {
                // A flag without data ends the input (MS-XCA §2.4.4).
                return if r.rest().is_empty() { Ok(()) } else { Err(LONG) };
            }
            let literals = (flags.leading_zeros() as usize).min(remaining).min(room);
            let items = literals.max(1);
            if literals > 0 {
                out.extend_from_slice(r.bytes(literals)?);
            } else {
                let (length, distance) = read_match(&mut r, &mut nibble)?;
                if distance > out.len() - base {
                    return Err(Malformed("a match before the start of the data"));
                }
                if length > room {
                    return Err(LONG);
                }
                copy_back(out, length, distance);
            }
            (flags, remaining) = (flags << items, remaining - items);
        }
    }
    Ok(())
}

const LONG: Malformed = Malformed("more compressed data than declared");

struct Encoder<'o> {
    out: &'o mut Vec<u8>,
    /// The flags of the current word, the last one lowest.
    flags: u64,
    count: u32,
    /// The position of that word in `out`.
    flags_offset: usize,
    /// The position of the byte with a free upper nibble for the next long match.
    nibble_offset: Option<usize>,
}

impl<'o> Encoder<'o> {
    fn new(out: &'o mut Vec<u8>) -> Self {
        let flags_at = out.len();
        out.extend_from_slice(&[0; 4]);
        Self { out, flags: 0, count: 0, flags_offset: flags_at, nibble_offset: None }
    }

    fn write_literals(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = (FLAGS - self.count) as usize;
            let (now, rest) = bytes.split_at(room.min(bytes.len()));
            self.out.extend_from_slice(now);
            (self.flags, bytes) = (self.flags << now.len(), rest);
            // At most the flags that still fit in the word.
            self.add_flags(u32::try_from(now.len()).unwrap_or(FLAGS));
        }
    }

    fn write_match(&mut self, length: usize, distance: usize) {
        let (coded, distance_bits) = (length - MATCH_MIN, (distance - 1) << 3);
        self.out.extend_from_slice(&low_u16(distance_bits | coded.min(LENGTH_ESCAPE)).to_le_bytes());
        if let Some(more) = coded.checked_sub(LENGTH_ESCAPE) {
            self.write_nibble(more.min(NIBBLE_ESCAPE));
            if let Some(more) = more.checked_sub(NIBBLE_ESCAPE) {
                self.write_long_length(coded, more);
            }
        }
        self.flags = self.flags << 1 | 1;
        self.add_flags(1);
    }

    /// Writes a length into a nibble: the free upper one of an earlier byte, or the lower one of a new byte.
    fn write_nibble(&mut self, value: usize) {
        let [value, ..] = value.to_le_bytes();
        match self.nibble_offset.take() {
            Some(at) => self.out[at] |= value << 4,
            None => {
                self.nibble_offset = Some(self.out.len());
                self.out.push(value);
            }
        }
    }

    /// Writes a length in a byte, or in full in the smallest integer that fits.
    fn write_long_length(&mut self, coded: usize, more: usize) {
        let [byte, ..] = more.min(BYTE_ESCAPE).to_le_bytes();
        self.out.push(byte);
        if more < BYTE_ESCAPE {
            return;
        }
        let [a, b, c, d, ..] = coded.to_le_bytes();
        match coded >> 16 {
            0 => self.out.extend_from_slice(&[a, b]),
            _ => self.out.extend_from_slice(&[0, 0, a, b, c, d]),
        }
    }

    fn add_flags(&mut self, count: u32) {
        self.count += count;
        if self.count == FLAGS {
            self.write_flags();
            (self.flags, self.count, self.flags_offset) = (0, 0, self.out.len());
            self.out.extend_from_slice(&[0; 4]);
        }
    }

    /// Sets all remaining flags: the first of them ends the input.
    fn finish(mut self) {
        let remaining = FLAGS - self.count;
        self.flags = self.flags << remaining | ((1 << remaining) - 1);
        self.write_flags();
    }

    fn write_flags(&mut self) {
        let [a, b, c, d, ..] = self.flags.to_le_bytes();
        self.out[self.flags_offset..][..4].copy_from_slice(&[a, b, c, d]);
    }
}

/// Reads the length and distance of a match. `nibble` is the unused half of an earlier length byte.
fn read_match(r: &mut Reader<'_>, nibble: &mut Option<u8>) -> Result<(usize, usize), Malformed> {
    let coded = usize::from(u16::from_le_bytes(r.array()?));
    let (distance, mut length) = ((coded >> 3) + 1, coded & LENGTH_ESCAPE);
    if length == LENGTH_ESCAPE {
        length += usize::from(match nibble.take() {
            Some(upper) => upper,
            None => {
                let [byte] = r.array()?;
                *nibble = Some(byte >> 4);
                byte & 0xf
            }
        });
        if length == LENGTH_ESCAPE + NIBBLE_ESCAPE {
            length = read_long_length(r, length)?;
        }
    }
    Ok((length + MATCH_MIN, distance))
}

fn read_long_length(r: &mut Reader<'_>, least: usize) -> Result<usize, Malformed> {
    let [byte] = r.array()?;
    if usize::from(byte) < BYTE_ESCAPE {
        return Ok(least + usize::from(byte));
    }
    let length = match u16::from_le_bytes(r.array()?) {
        0 => usize::try_from(u32::from_le_bytes(r.array()?)).unwrap_or(usize::MAX),
        short => usize::from(short),
    };
    // Excludes lengths that would overflow below.
    let is_one = (least..=usize::MAX - MATCH_MIN).contains(&length);
    if is_one { Ok(length) } else { Err(Malformed("a match length with a shorter encoding")) }
}

fn copy_back(out: &mut Vec<u8>, mut length: usize, distance: usize) {
    let from = out.len() - distance;
    // The source grows with each copy, since a match may overlap its own output.
    while length > 0 {
        let step = length.min(out.len() - from);
        out.extend_from_within(from..from + step);
        length -= step;
    }
}

/// Reads four bytes of `input` as a number.
#[inline]
fn read_word(input: &[u8], at: usize) -> Option<u32> {
    input.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

#[inline]
fn hash(word: u32) -> usize {
    (word.wrapping_mul(0x9e37_79b1) >> (u32::BITS - HASH_BITS)) as usize
}

#[inline]
fn low_u16(number: usize) -> u16 {
    let [a, b, ..] = number.to_le_bytes();
    u16::from_le_bytes([a, b])
}

#[inline]
fn common_prefix_length(one: &[u8], other: &[u8]) -> usize {
    const STEP: usize = size_of::<u64>();
    let mut same = 0;
    while let (Some(one), Some(other)) = (read_chunk(one, same), read_chunk(other, same)) {
        if one != other {
            return same + ((one ^ other).trailing_zeros() / u8::BITS) as usize;
        }
        same += STEP;
    }
    let rest = one[same..].iter().zip(&other[same..]);
    same + rest.take_while(|(one, other)| one == other).count()
}

#[inline]
fn read_chunk(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn compressed(input: &[u8]) -> Vec<u8> {
        let mut out = vec![7];
        assert!(compress(input, &mut out, usize::MAX / 2));
        out.split_off(1)
    }

    fn decompressed(input: &[u8], size: usize) -> Result<Vec<u8>, Malformed> {
        let mut out = b"before".to_vec();
        let result = decompress(input, &mut out, size);
        assert!(out.len() <= 6 + size, "more than it may");
        result.map(|()| out.split_off(6))
    }

    /// The examples of MS-XCA §3.1.
    #[test]
    fn specification_examples_match() {
        let alphabet = b"abcdefghijklmnopqrstuvwxyz";
        let literals = [&[0x3f, 0, 0, 0][..], alphabet].concat();
        let abc = b"abc".repeat(100);
        let repeated =
            [0xff, 0xff, 0xff, 0x1f, 0x61, 0x62, 0x63, 0x17, 0x00, 0x0f, 0xff, 0x26, 0x01].to_vec();
        for (plain, expected) in [(&alphabet[..], literals), (&abc, repeated)] {
            assert_eq!(compressed(plain), expected);
            assert_eq!(decompressed(&expected, plain.len()).as_deref(), Ok(plain));
        }
    }

    /// Every encoding of a length, at its bounds, in both nibbles.
    #[test]
    fn match_of_every_length_round_trips() {
        let lengths = [4, 9, 10, 24, 25, 279, 280, 281, 65_537, 65_538, 65_539, 100_000];
        for first in lengths {
            for second in lengths {
                let mut plain = vec![b'a'; first + 1];
                plain.extend(b"0123");
                plain.extend(vec![b'b'; second + 1]);
                let packed = compressed(&plain);
                assert!(packed.len() < 48, "{first} {second}: {}", packed.len());
                assert_eq!(decompressed(&packed, plain.len()).as_deref(), Ok(&plain[..]));
            }
        }
    }

    #[test]
    fn full_flag_word_starts_another() {
        for length in [0, 1, 31, 32, 33, 63, 64, 65] {
            let plain: Vec<u8> = (0..length).collect();
            let packed = compressed(&plain);
            assert_eq!(packed.len(), plain.len() + 4 * (plain.len() / 32 + 1));
            assert_eq!(decompressed(&packed, plain.len()), Ok(plain));
        }
    }

    #[test]
    fn match_distance_is_at_most_8_kib() {
        for (distance, length) in [(DISTANCE_MAX, 21), (DISTANCE_MAX + 1, 27)] {
            let plain = [b"a match!", &vec![b'.'; distance - 8][..], b"a match!"].concat();
            let packed = compressed(&plain);
            assert_eq!(packed.len(), length, "{distance}");
            assert_eq!(decompressed(&packed, plain.len()).as_deref(), Ok(&plain[..]));
        }
    }

    #[test]
    fn incompressible_input_is_refused() {
        let plain = b"abcabcabcabcabcabcabcabc";
        let length = compressed(plain).len();
        assert!(compress(plain, &mut Vec::new(), length + 1));
        assert!(!compress(plain, &mut Vec::new(), length));
        assert!(!compress(plain, &mut Vec::new(), 0) && !compress(&[], &mut Vec::new(), 4));
    }

    #[test]
    fn end_flag_is_optional_and_trailing_bytes_are_refused() {
        assert_eq!(decompressed(&[0, 0, 0, 0, 1, 2], 2), Ok(vec![1, 2]));
        assert_eq!(decompressed(&[0, 0, 0, 0, 1, 2], 1), Err(LONG));
        assert_eq!(decompressed(&[0, 0, 0, 0x20, 1, 2, 1, 0], 6), Ok(vec![1, 2, 2, 2, 2, 2]));
        assert_eq!(decompressed(&[], 0), Ok(vec![]));
        assert_eq!(decompressed(&[0xff; 4], 0), Ok(vec![]));
    }

    #[test]
    fn malformed_input_is_refused() {
        let packed = compressed(&b"abc".repeat(100));
        for size in [0, 1, 3, 299, 301, 100_000] {
            assert!(decompressed(&packed, size).is_err(), "{size}");
        }
        for length in 0..packed.len() {
            assert!(decompressed(&packed[..length], 300).is_err(), "{length}");
        }
        let with = |tail: &[u8]| [&[0, 0, 0, 0x40, b'a'], tail].concat();
        assert_eq!(decompressed(&with(&[0, 0]), 4), Ok(b"aaaa".to_vec()));
        let refused: [(&[u8], &str); 6] = [
            (&[8, 0], "before its start"),
            (&[0xff, 0xff], "without its length"),
            (&[7, 0, 0xf, 0xff, 21, 0], "a length that is too short"),
            (&[7, 0, 0xf, 0xff, 0, 0, 21, 0, 0, 0], "a length that is too short in 32 bits"),
            (&[7, 0, 0xf, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff], "4 GiB"),
            (&[7, 0, 0xf, 0xfe], "more than there is room for"),
        ];
        for (tail, what) in refused {
            assert!(decompressed(&with(tail), 100).is_err(), "{what}");
        }
    }

    /// The encoder skips through noise, then still finds matches.
    #[test]
    fn text_after_noise_is_compressed() {
        let mut state = 1_u64;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_le_bytes()[7]
        });
        let mut plain: Vec<u8> = noise.take(1 << 20).collect();
        plain.extend(b"all work and no play makes jack a dull boy. ".repeat(100));
        let packed = compressed(&plain);
        assert!(packed.len() < (1 << 20) / 32 * 36 + 1000, "{}", packed.len());
        assert_eq!(decompressed(&packed, plain.len()), Ok(plain));
    }

    proptest! {
        #[test]
        fn compression_round_trips(
            words in vec((0_usize..12, 1_usize..400), 0..60),
            noise in vec(any::<u8>(), 0..3000),
        ) {
            let mut plain = noise;
            for (word, times) in words {
                let start = (word * 97) % (plain.len() + 1);
                let piece = plain[start..plain.len().min(start + word * 31)].to_vec();
                plain.extend(piece);
                plain.extend(vec![b'x'; if word % 3 == 0 { times } else { 0 }]);
            }
            let packed = compressed(&plain);
            prop_assert!(packed.len() <= plain.len() + 4 * (plain.len() / 32 + 1));
            prop_assert_eq!(decompressed(&packed, plain.len()), Ok(plain));
        }

        #[test]
        fn arbitrary_input_never_exceeds_size(input in vec(any::<u8>(), 0..300), size in 0_usize..5000) {
            let _ = decompressed(&input, size);
        }
    }
}
