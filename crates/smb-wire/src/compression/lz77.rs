//! Plain LZ77, MS-XCA §2.3 and §2.4: literals and matches, 32 flags in front of as many of them.

use crate::{Malformed, Reader};

/// How far back a match may lie.
const DISTANCE_MAX: usize = 1 << 13;
/// The shortest match of the format.
const MATCH_MIN: usize = 3;
/// The shortest match that is looked for: shorter ones save a byte at most.
const FOUND_MIN: usize = 4;
/// Places that are remembered, by the hash of the four bytes there.
const SLOT_BITS: u32 = 13;
/// After 2⁵ places at which no match begins, some are passed over; more of them as that goes on.
const PATIENCE_BITS: u32 = 5;
/// The most that are.
const SKIPPED_MAX: usize = 15;
/// Flags of one word.
const FLAGS: u32 = 32;
/// The length in the three bits of a match that says that more of it follows.
const LENGTH_MORE: usize = 7;
/// The same in half a byte, and in a byte.
const HALF_MORE: usize = 15;
/// See [`HALF_MORE`].
const BYTE_MORE: usize = 255;

/// Appends `input` in compressed form to `out`. `false` if that takes `room` bytes or more; what was appended then is no
/// compressed form of anything.
pub fn compress(input: &[u8], out: &mut Vec<u8>, room: usize) -> bool {
    let end = out.len() + room;
    let mut encoder = Encoder::new(out);
    let mut places = [0_u16; 1 << SLOT_BITS];
    let (mut at, mut written, mut misses) = (0, 0, 0_usize);
    while let Some(word) = four(input, at) {
        // A place is remembered by its last 16 bits, which is enough: matches lie nearer.
        let place = &mut places[slot(word)];
        let distance = usize::from(low(at).wrapping_sub(*place));
        *place = low(at);
        let is_near = (1..=DISTANCE_MAX.min(at)).contains(&distance);
        if !is_near || four(input, at - distance) != Some(word) {
            misses += 1;
            at += 1 + (misses >> PATIENCE_BITS).min(SKIPPED_MAX);
            continue;
        }
        let length = FOUND_MIN + common(&input[at - distance + FOUND_MIN..], &input[at + FOUND_MIN..]);
        encoder.literals(&input[written..at]);
        encoder.repeat(length, distance);
        if encoder.out.len() >= end {
            return false;
        }
        at += length;
        (written, misses) = (at, 0);
        if let Some(word) = four(input, at - 2) {
            places[slot(word)] = low(at - 2);
        }
    }
    encoder.literals(&input[written..]);
    encoder.finish();
    out.len() < end
}

/// Appends what `input` is the compressed form of, which are `size` bytes, to `out`. Whatever `input` is, never more than that are
/// appended.
pub fn decompress(input: &[u8], out: &mut Vec<u8>, size: usize) -> Result<(), Malformed> {
    let (base, end) = (out.len(), out.len() + size);
    let mut r = Reader::new(input);
    let mut half = None;
    while !(out.len() == end && r.rest().is_empty()) {
        // The next flag is the highest bit.
        let mut flags = u64::from(u32::from_le_bytes(r.array()?)) << FLAGS;
        let mut left = FLAGS as usize;
        while left > 0 {
            let room = end - out.len();
            if room == 0 {
                // A flag with nothing behind it ends the input (MS-XCA §2.4.4).
                return if r.rest().is_empty() { Ok(()) } else { Err(LONG) };
            }
            let literals = (flags.leading_zeros() as usize).min(left).min(room);
            let items = literals.max(1);
            if literals > 0 {
                out.extend_from_slice(r.bytes(literals)?);
            } else {
                let (length, distance) = read_match(&mut r, &mut half)?;
                if distance > out.len() - base {
                    return Err(Malformed("a match before the start of what is compressed"));
                }
                if length > room {
                    return Err(LONG);
                }
                repeat(out, length, distance);
            }
            (flags, left) = (flags << items, left - items);
        }
    }
    Ok(())
}

const LONG: Malformed = Malformed("more was compressed than is said");

/// What writes literals and matches with their flags.
struct Encoder<'o> {
    out: &'o mut Vec<u8>,
    /// The flags of the word that is not full, the last one lowest, and how many there are.
    flags: u64,
    count: u32,
    /// Where that word goes.
    flags_at: usize,
    /// Where half a byte is left that the next long match uses.
    half_at: Option<usize>,
}

impl<'o> Encoder<'o> {
    fn new(out: &'o mut Vec<u8>) -> Self {
        let flags_at = out.len();
        out.extend_from_slice(&[0; 4]);
        Self { out, flags: 0, count: 0, flags_at, half_at: None }
    }

    fn literals(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = (FLAGS - self.count) as usize;
            let (now, rest) = bytes.split_at(room.min(bytes.len()));
            self.out.extend_from_slice(now);
            (self.flags, bytes) = (self.flags << now.len(), rest);
            // No more than there is room for.
            self.counted(u32::try_from(now.len()).unwrap_or(FLAGS));
        }
    }

    fn repeat(&mut self, length: usize, distance: usize) {
        let (coded, place) = (length - MATCH_MIN, (distance - 1) << 3);
        self.out.extend_from_slice(&low(place | coded.min(LENGTH_MORE)).to_le_bytes());
        if let Some(more) = coded.checked_sub(LENGTH_MORE) {
            self.half(more.min(HALF_MORE));
            if let Some(more) = more.checked_sub(HALF_MORE) {
                self.long(coded, more);
            }
        }
        self.flags = self.flags << 1 | 1;
        self.counted(1);
    }

    /// The length in a half of a byte: that which is left, or the lower one of a new byte.
    fn half(&mut self, value: usize) {
        let [value, ..] = value.to_le_bytes();
        match self.half_at.take() {
            Some(at) => self.out[at] |= value << 4,
            None => {
                self.half_at = Some(self.out.len());
                self.out.push(value);
            }
        }
    }

    /// The length in a byte, or else as a whole in the next integer that it fits.
    fn long(&mut self, coded: usize, more: usize) {
        let [byte, ..] = more.min(BYTE_MORE).to_le_bytes();
        self.out.push(byte);
        if more < BYTE_MORE {
            return;
        }
        let [a, b, c, d, ..] = coded.to_le_bytes();
        match coded >> 16 {
            0 => self.out.extend_from_slice(&[a, b]),
            _ => self.out.extend_from_slice(&[0, 0, a, b, c, d]),
        }
    }

    fn counted(&mut self, count: u32) {
        self.count += count;
        if self.count == FLAGS {
            self.write_flags();
            (self.flags, self.count, self.flags_at) = (0, 0, self.out.len());
            self.out.extend_from_slice(&[0; 4]);
        }
    }

    /// Sets all flags that are left: the first of them ends the input.
    fn finish(mut self) {
        let left = FLAGS - self.count;
        self.flags = self.flags << left | ((1 << left) - 1);
        self.write_flags();
    }

    fn write_flags(&mut self) {
        let [a, b, c, d, ..] = self.flags.to_le_bytes();
        self.out[self.flags_at..][..4].copy_from_slice(&[a, b, c, d]);
    }
}

/// The length and distance of a match. `half` is half a byte that is left of one before.
fn read_match(r: &mut Reader<'_>, half: &mut Option<u8>) -> Result<(usize, usize), Malformed> {
    let coded = usize::from(u16::from_le_bytes(r.array()?));
    let (distance, mut length) = ((coded >> 3) + 1, coded & LENGTH_MORE);
    if length == LENGTH_MORE {
        length += usize::from(match half.take() {
            Some(upper) => upper,
            None => {
                let [byte] = r.array()?;
                *half = Some(byte >> 4);
                byte & 0xf
            }
        });
        if length == LENGTH_MORE + HALF_MORE {
            length = read_long(r, length)?;
        }
    }
    Ok((length + MATCH_MIN, distance))
}

/// A length that is at least `least`.
fn read_long(r: &mut Reader<'_>, least: usize) -> Result<usize, Malformed> {
    let [byte] = r.array()?;
    if usize::from(byte) < BYTE_MORE {
        return Ok(least + usize::from(byte));
    }
    let length = match u16::from_le_bytes(r.array()?) {
        0 => usize::try_from(u32::from_le_bytes(r.array()?)).unwrap_or(usize::MAX),
        short => usize::from(short),
    };
    // With what is still to be added, it is no number that overflows.
    let is_one = (least..=usize::MAX - MATCH_MIN).contains(&length);
    if is_one { Ok(length) } else { Err(Malformed("a match of a length that has a shorter form")) }
}

/// Appends `length` bytes to `out`, each the one that lies `distance` before it.
fn repeat(out: &mut Vec<u8>, mut length: usize, distance: usize) {
    let from = out.len() - distance;
    // What was copied repeats as well, so each step may take all that is there.
    while length > 0 {
        let step = length.min(out.len() - from);
        out.extend_from_within(from..from + step);
        length -= step;
    }
}

/// Four bytes of `input`, as a number.
#[inline]
fn four(input: &[u8], at: usize) -> Option<u32> {
    input.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

#[inline]
fn slot(word: u32) -> usize {
    (word.wrapping_mul(0x9e37_79b1) >> (u32::BITS - SLOT_BITS)) as usize
}

/// The last 16 bits of a number.
#[inline]
fn low(number: usize) -> u16 {
    let [a, b, ..] = number.to_le_bytes();
    u16::from_le_bytes([a, b])
}

/// How many bytes two slices begin with that are the same.
#[inline]
fn common(one: &[u8], other: &[u8]) -> usize {
    const STEP: usize = size_of::<u64>();
    let mut same = 0;
    while let (Some(one), Some(other)) = (chunk(one, same), chunk(other, same)) {
        if one != other {
            return same + ((one ^ other).trailing_zeros() / u8::BITS) as usize;
        }
        same += STEP;
    }
    let rest = one[same..].iter().zip(&other[same..]);
    same + rest.take_while(|(one, other)| one == other).count()
}

#[inline]
fn chunk(bytes: &[u8], at: usize) -> Option<u64> {
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
    fn alphabet_and_repeated_letters() {
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

    /// Every form that a length has, at its bounds, with one and with both halves of a byte.
    #[test]
    fn matches_of_every_length() {
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
    fn a_full_word_of_flags_is_followed_by_another() {
        for length in [0, 1, 31, 32, 33, 63, 64, 65] {
            let plain: Vec<u8> = (0..length).collect();
            let packed = compressed(&plain);
            assert_eq!(packed.len(), plain.len() + 4 * (plain.len() / 32 + 1));
            assert_eq!(decompressed(&packed, plain.len()), Ok(plain));
        }
    }

    #[test]
    fn matches_lie_up_to_8_kib_back() {
        for (distance, length) in [(DISTANCE_MAX, 21), (DISTANCE_MAX + 1, 27)] {
            let plain = [b"a match!", &vec![b'.'; distance - 8][..], b"a match!"].concat();
            let packed = compressed(&plain);
            assert_eq!(packed.len(), length, "{distance}");
            assert_eq!(decompressed(&packed, plain.len()).as_deref(), Ok(&plain[..]));
        }
    }

    #[test]
    fn what_is_not_shorter_is_not_compressed() {
        let plain = b"abcabcabcabcabcabcabcabc";
        let length = compressed(plain).len();
        assert!(compress(plain, &mut Vec::new(), length + 1));
        assert!(!compress(plain, &mut Vec::new(), length));
        assert!(!compress(plain, &mut Vec::new(), 0) && !compress(&[], &mut Vec::new(), 4));
    }

    #[test]
    fn an_end_may_go_without_its_flag_but_nothing_may_follow_it() {
        assert_eq!(decompressed(&[0, 0, 0, 0, 1, 2], 2), Ok(vec![1, 2]));
        assert_eq!(decompressed(&[0, 0, 0, 0, 1, 2], 1), Err(LONG));
        assert_eq!(decompressed(&[0, 0, 0, 0x20, 1, 2, 1, 0], 6), Ok(vec![1, 2, 2, 2, 2, 2]));
        assert_eq!(decompressed(&[], 0), Ok(vec![]));
        assert_eq!(decompressed(&[0xff; 4], 0), Ok(vec![]));
    }

    #[test]
    fn what_is_no_compressed_form_is_refused() {
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

    /// Nothing is found in noise, which is passed over quickly, but what follows it is.
    #[test]
    fn text_behind_noise_is_compressed() {
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
        fn what_was_compressed_comes_back(
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
        fn anything_gives_at_most_its_size(input in vec(any::<u8>(), 0..300), size in 0_usize..5000) {
            let _ = decompressed(&input, size);
        }
    }
}
