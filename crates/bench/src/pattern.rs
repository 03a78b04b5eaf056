//! Data that names its own place, so that any read can verify it.
//!
//! A file is a sequence of units of 4096 bytes (512 for smaller blocks). Each begins with a head:
//!
//! ```text
//!  0      4      8      12           16       24         32                unit
//!  ┌──────┬──────┬──────┬────────────┬────────┬──────────┬───────────────────┐
//!  │"PLMS"│ unit │ file │ generation │ offset │ checksum │ pseudo-random ... │   all big endian
//!  └──────┴──────┴──────┴────────────┴────────┴──────────┴───────────────────┘
//! ```
//!
//! `generation` counts the writes of a run to the block, from 0 for the layout, so that a verifying run detects lost
//! writes. `checksum` covers the rest of the unit. The body's part of it is computed once for each buffer, so that
//! stamping a buffer costs a few nanoseconds a unit.

/// In bytes.
const HEAD: usize = 32;
const MAGIC: [u8; 4] = *b"PLMS";
const LANES: usize = 4;

/// `None` if no unit divides `block`.
pub(crate) fn unit_for(block: u64) -> Option<usize> {
    match block {
        0 => None,
        _ if block.is_multiple_of(4096) => Some(4096),
        _ if block.is_multiple_of(512) => Some(512),
        _ => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileOffset {
    pub file: u32,
    pub offset: u64,
}

/// A buffer of incompressible units. [`stamp`](Self::stamp) gives the buffer its position.
#[derive(Debug)]
pub(crate) struct Payload {
    bytes: Vec<u8>,
    unit: usize,
    /// Each unit's checksum without the head.
    bodies: Vec<u64>,
}

impl Payload {
    /// `length` must be a multiple of `unit`. Each `seed` gives other bytes.
    pub(crate) fn new(length: usize, unit: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut bytes = vec![0; length];
        bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|word| *word = random.bits().to_be_bytes());
        let bodies = bytes.chunks_exact(unit).map(|unit| hash(&unit[HEAD..])).collect();
        Self { bytes, unit, bodies }
    }

    #[inline]
    pub(crate) fn stamp(&mut self, position: FileOffset, generation: u32) {
        let (mut offset, length) = (position.offset, unit_length(self.unit));
        for (unit, body) in self.bytes.chunks_exact_mut(self.unit).zip(&self.bodies) {
            let sum = checksum(*body, length, position.file, generation, offset);
            unit[..4].copy_from_slice(&MAGIC);
            unit[4..8].copy_from_slice(&length.to_be_bytes());
            unit[8..12].copy_from_slice(&position.file.to_be_bytes());
            unit[12..16].copy_from_slice(&generation.to_be_bytes());
            unit[16..24].copy_from_slice(&offset.to_be_bytes());
            unit[24..HEAD].copy_from_slice(&sum.to_be_bytes());
            offset += u64::from(length);
        }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Checks that `data`, in whole units, was written for `position`. Checks the generation too if one is given.
///
/// # Errors
/// Describes the first wrong unit.
pub(crate) fn verify(
    data: &[u8],
    unit: usize,
    position: FileOffset,
    generation: Option<u32>,
) -> Result<(), String> {
    let mut offset = position.offset;
    for bytes in data.chunks(unit) {
        verify_unit(bytes, unit, FileOffset { offset, ..position }, generation)
            .map_err(|wrong| format!("file {}, offset {offset}: {wrong}", position.file))?;
        offset += u64::from(unit_length(unit));
    }
    Ok(())
}

fn verify_unit(
    bytes: &[u8],
    unit: usize,
    position: FileOffset,
    generation: Option<u32>,
) -> Result<(), String> {
    if bytes.len() != unit {
        return Err(format!("{} bytes instead of a unit of {unit}", bytes.len()));
    }
    if bytes[..4] != MAGIC {
        let zeros = bytes.iter().all(|&byte| byte == 0);
        return Err(if zeros { "all zeros".to_owned() } else { format!("starts with {:02x?}", &bytes[..8]) });
    }
    let length = word(bytes, 4);
    let (file, written, offset) = (word(bytes, 8), word(bytes, 12), long(bytes, 16));
    if (length, file, offset) != (unit_length(unit), position.file, position.offset) {
        return Err(format!("holds data of file {file}, offset {offset}, in units of {length}"));
    }
    if long(bytes, 24) != checksum(hash(&bytes[HEAD..]), length, file, written, offset) {
        return Err("its checksum is wrong".to_owned());
    }
    match generation {
        Some(wanted) if wanted != written => {
            Err(format!("holds write {written} of it, not the last one, {wanted}"))
        }
        Some(_) | None => Ok(()),
    }
}

/// A small pseudo-random generator (xorshift64*) for offsets and bytes, not for secrets.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighboring seeds must not give similar sequences, and xorshift never leaves a state of zero.
        Self(mix(seed ^ 0x9E37_79B9_7F4A_7C15) | 1)
    }

    #[inline]
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// `bound` must not be zero. The bias is below 2^-32 for any bound that a run uses.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let [high, ..] = split(u128::from(self.bits()) * u128::from(bound));
        high
    }
}

#[inline]
fn split(value: u128) -> [u64; 2] {
    let bytes = value.to_be_bytes();
    [long(&bytes, 0), long(&bytes, 8)]
}

/// Every bit of `value` affects every bit of the result.
#[inline]
pub(crate) fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    value = (value ^ (value >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    value ^ (value >> 32)
}

#[inline]
fn checksum(body: u64, unit: u32, file: u32, generation: u32, offset: u64) -> u64 {
    let head = mix((u64::from(file) << 32) | u64::from(generation))
        .wrapping_add(mix(!offset))
        .wrapping_add(u64::from(unit));
    mix(head) ^ body
}

/// Hashes by four independent chains of multiplications: as fast as memory, and sensitive to any changed,
/// moved or missing word.
fn hash(bytes: &[u8]) -> u64 {
    let mut lanes = [1u64, 2, 3, 4];
    for chunk in bytes.as_chunks::<{ LANES * 8 }>().0 {
        for (lane, word) in lanes.iter_mut().zip(chunk.as_chunks::<8>().0) {
            *lane = (*lane ^ u64::from_be_bytes(*word)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        }
    }
    lanes.into_iter().fold(0, |sum, lane| mix(sum ^ lane))
}

#[inline]
fn unit_length(unit: usize) -> u32 {
    if unit == 512 { 512 } else { 4096 }
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |word| u32::from_be_bytes(*word))
}

#[inline]
fn long(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |word| u64::from_be_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POSITION: FileOffset = FileOffset { file: 3, offset: 40_960 };

    #[test]
    fn stamped_payload_verifies() {
        for (block, unit) in [(8192, 4096), (1536, 512), (512, 512)] {
            assert_eq!(unit_for(block), Some(unit));
            let mut payload = Payload::new(usize::try_from(block).unwrap(), unit, 7);
            payload.stamp(POSITION, 1);
            payload.stamp(POSITION, 2);
            assert_eq!(verify(payload.bytes(), unit, POSITION, None), Ok(()));
            assert_eq!(verify(payload.bytes(), unit, POSITION, Some(2)), Ok(()));
            assert!(verify(payload.bytes(), unit, POSITION, Some(3)).unwrap_err().contains("write 2"));
        }
        assert_eq!([0, 1, 1000, 4095].map(unit_for), [None; 4]);
    }

    #[test]
    fn every_changed_byte_shows() {
        let mut payload = Payload::new(4096, 4096, 7);
        payload.stamp(POSITION, 0);
        let mut bytes = payload.bytes().to_vec();
        for at in 0..bytes.len() {
            bytes[at] ^= 0x10;
            assert!(verify(&bytes, 4096, POSITION, None).is_err(), "byte {at}");
            bytes[at] ^= 0x10;
        }
        assert!(
            verify(&bytes, 4096, FileOffset { offset: 0, ..POSITION }, None)
                .unwrap_err()
                .contains("offset 40960")
        );
        assert!(
            verify(&bytes, 4096, FileOffset { file: 4, ..POSITION }, None)
                .unwrap_err()
                .contains("data of file 3")
        );
        assert!(verify(&bytes[..100], 4096, POSITION, None).unwrap_err().contains("100 bytes"));
        assert!(verify(&[0; 4096], 4096, POSITION, None).unwrap_err().contains("zeros"));
        bytes.swap(64, 72);
        assert!(verify(&bytes, 4096, POSITION, None).is_err());
    }

    #[test]
    fn random_numbers_stay_below_their_bound_and_reach_it() {
        let mut random = Random::new(1);
        let mut seen = [0u32; 10];
        (0..10_000).for_each(|_| seen[usize::try_from(random.below(10)).unwrap()] += 1);
        assert!(seen.iter().all(|&count| (800..1200).contains(&count)), "{seen:?}");
    }
}
