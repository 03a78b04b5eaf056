//! GHASH, two blocks per multiplication, or four for long messages on processors with AVX-512 (`four`).
//!
//! GHASH is POLYVAL of byte-reversed blocks, under a key multiplied by x (RFC 8452, appendix A): no product has to be
//! shifted. A sum of products is reduced once, by Montgomery's method. No branch or address depends on a secret.
//!
//! ```text
//!    state ⊕ block 1   block 2   …   block 16        two of them in each of eight vectors
//!          ×              ×              ×
//!        H^16           H^15     …      H
//!          └──────────────┴── ⊕ ──┴─────┘ ── reduce ──► state
//! ```

mod four;

use std::arch::x86_64::{
    __m128i, __m256i, _mm_alignr_epi8, _mm_clmulepi64_si128, _mm_cvtsi128_si64, _mm_set_epi64x,
    _mm_setzero_si128, _mm_slli_si128, _mm_srli_si128, _mm_unpackhi_epi64, _mm_xor_si128,
    _mm256_broadcastsi128_si256, _mm256_castsi256_si128, _mm256_clmulepi64_epi128, _mm256_extracti128_si256,
    _mm256_set_epi64x, _mm256_set_m128i, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_xor_si256,
    _mm256_zextsi128_si256,
};

use super::BLOCK_SIZE;

/// Bytes per multiplication.
const PAIR_SIZE: usize = 2 * BLOCK_SIZE;
/// Pairs of blocks whose products are added before one reduction.
const PAIRS: usize = 8;
const GROUP_SIZE: usize = PAIRS * PAIR_SIZE;
/// x^127 + x^126 + x^121, divided by x^64.
const REDUCTION: u64 = 0xc200_0000_0000_0000;
/// x^128 + x^127 + x^126 + x^121 + 1, without its highest term.
const POLYNOMIAL: u128 = (REDUCTION as u128) << 64 | 1;

/// Powers of a key. A value of this type proves that the processor has the instructions.
pub(super) struct Powers {
    /// The powers from the 16th down to the first: two in each vector.
    pairs: Pairs,
    /// `Some` proves that the processor also has AVX-512.
    fours: Option<four::Powers>,
}

type Pairs = [__m256i; PAIRS];

impl Powers {
    /// `None` if the processor lacks the instructions.
    pub(super) fn new(key: [u8; BLOCK_SIZE]) -> Option<Self> {
        let can = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("pclmulqdq")
            && is_x86_feature_detected!("vpclmulqdq");
        if !can {
            return None;
        }
        #[allow(unsafe_code, reason = "the only way into code for certain processors")]
        // SAFETY: this processor has what `pairs` is compiled for.
        let pairs = unsafe { pair_powers(key) };
        #[allow(unsafe_code, reason = "the only way into code for certain processors")]
        // SAFETY: this processor has what `fours` is compiled for: the above, and AVX-512.
        let fours = is_x86_feature_detected!("avx512bw").then(|| unsafe { quad_powers(key) });
        Some(Self { pairs, fours })
    }

    /// Simulates a processor without AVX-512.
    #[cfg(test)]
    pub(super) fn without_avx512(self) -> Self {
        Self { fours: None, ..self }
    }

    /// Hashes `parts`, each padded with zeros to whole blocks, and the block of their lengths.
    pub(super) fn hash<const N: usize>(
        &self,
        parts: [&[u8]; N],
        lengths: [u8; BLOCK_SIZE],
    ) -> [u8; BLOCK_SIZE] {
        #[allow(unsafe_code, reason = "the only way into code for certain processors")]
        // SAFETY: `new` has made this, so the processor has what both are compiled for.
        unsafe {
            match &self.fours {
                Some(fours) if parts.iter().any(|part| part.len() >= 2 * four::GROUP_SIZE) => {
                    hash_avx512(&self.pairs, fours, parts, lengths)
                }
                _ => hash(&self.pairs, parts, lengths),
            }
        }
    }
}

#[target_feature(enable = "avx2,pclmulqdq,vpclmulqdq")]
fn pair_powers(key: [u8; BLOCK_SIZE]) -> Pairs {
    let mut pairs = [_mm256_setzero_si256(); PAIRS];
    for (pair, powers) in pairs.iter_mut().zip(powers::<{ 2 * PAIRS }>(key).as_chunks::<2>().0) {
        *pair = _mm256_set_m128i(powers[1], powers[0]);
    }
    pairs
}

#[target_feature(enable = "avx2,pclmulqdq,avx512bw,vpclmulqdq")]
fn quad_powers(key: [u8; BLOCK_SIZE]) -> four::Powers {
    four::pack_powers(&powers(key))
}

/// The powers from the highest down to the key itself.
#[target_feature(enable = "avx2,pclmulqdq,vpclmulqdq")]
fn powers<const N: usize>(key: [u8; BLOCK_SIZE]) -> [__m128i; N] {
    let key = u128::from_be_bytes(key);
    // Multiplies by x. A mask replaces the branch, because the key is a secret.
    let times_x = (key << 1) ^ (POLYNOMIAL & (key >> 127).wrapping_neg());
    let bytes = times_x.to_le_bytes();
    let (words, _) = bytes.as_chunks();
    let key = _mm_set_epi64x(i64::from_le_bytes(words[1]), i64::from_le_bytes(words[0]));
    let mut powers = [key; N];
    for exponent in 1..powers.len() {
        let mut product = UnreducedSum::new();
        product.add(_mm256_zextsi128_si256(powers[exponent - 1]), _mm256_zextsi128_si256(key));
        powers[exponent] = product.reduce();
    }
    powers.reverse();
    powers
}

#[target_feature(enable = "avx2,pclmulqdq,vpclmulqdq")]
fn hash<const N: usize>(pairs: &Pairs, parts: [&[u8]; N], lengths: [u8; BLOCK_SIZE]) -> [u8; BLOCK_SIZE] {
    let state = parts.iter().fold(_mm_setzero_si128(), |state, part| absorb_part(pairs, state, part));
    bytes(absorb_part(pairs, state, &lengths))
}

#[target_feature(enable = "avx2,pclmulqdq,avx512bw,vpclmulqdq")]
fn hash_avx512<const N: usize>(
    pairs: &Pairs,
    fours: &four::Powers,
    parts: [&[u8]; N],
    lengths: [u8; BLOCK_SIZE],
) -> [u8; BLOCK_SIZE] {
    let mut state = _mm_setzero_si128();
    for part in parts {
        let (groups, rest) = part.as_chunks();
        state = absorb_part(pairs, four::absorb_groups(fours, state, groups), rest);
    }
    bytes(absorb_part(pairs, state, &lengths))
}

#[target_feature(enable = "avx2,pclmulqdq,vpclmulqdq")]
#[inline]
fn bytes(state: __m128i) -> [u8; BLOCK_SIZE] {
    let [low, high] =
        [state, _mm_unpackhi_epi64(state, state)].map(|half| _mm_cvtsi128_si64(half).cast_unsigned());
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

/// Absorbs bytes padded with zeros to whole blocks, and returns the new state.
#[target_feature(enable = "avx2,pclmulqdq,vpclmulqdq")]
#[inline]
fn absorb_part(powers: &Pairs, mut state: __m128i, part: &[u8]) -> __m128i {
    let (groups, rest) = part.as_chunks::<GROUP_SIZE>();
    for group in groups {
        state = absorb_pairs(powers, _mm256_zextsi128_si256(state), group.as_chunks().0);
    }
    if rest.is_empty() { state } else { absorb_tail(powers, state, rest) }
}

/// Absorbs at most a group of blocks. An odd number gets a zero block in front; the state is then added to the second
/// block, the first real one.
#[target_feature(enable = "avx2,pclmulqdq,vpclmulqdq")]
fn absorb_tail(powers: &Pairs, state: __m128i, bytes: &[u8]) -> __m128i {
    let start = GROUP_SIZE - bytes.len().next_multiple_of(BLOCK_SIZE);
    let mut group = [0; GROUP_SIZE];
    group[start..][..bytes.len()].copy_from_slice(bytes);
    let first = start / PAIR_SIZE;
    let state = if start.is_multiple_of(PAIR_SIZE) {
        _mm256_zextsi128_si256(state)
    } else {
        _mm256_set_m128i(state, _mm_setzero_si128())
    };
    absorb_pairs(&powers[first..], state, &group.as_chunks().0[first..])
}

/// Absorbs pairs of blocks, each multiplied by its powers. The state is added to the first.
#[target_feature(enable = "avx2,pclmulqdq,vpclmulqdq")]
#[inline]
fn absorb_pairs(powers: &[__m256i], mut state: __m256i, pairs: &[[u8; PAIR_SIZE]]) -> __m128i {
    let mut sum = UnreducedSum::new();
    for (pair, powers) in pairs.iter().zip(powers) {
        sum.add(_mm256_xor_si256(load_blocks(pair), state), *powers);
        state = _mm256_setzero_si256();
    }
    sum.reduce()
}

/// Loads two blocks, the first into the lower half.
#[target_feature(enable = "avx2,pclmulqdq,vpclmulqdq")]
#[inline]
fn load_blocks(pair: &[u8; PAIR_SIZE]) -> __m256i {
    let words = pair.as_chunks().0;
    let [first, second, third, fourth] = std::array::from_fn(|index| i64::from_le_bytes(words[index]));
    let reversed = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
    _mm256_shuffle_epi8(
        _mm256_set_epi64x(fourth, third, second, first),
        _mm256_broadcastsi128_si256(reversed),
    )
}

/// Two 256-bit sums of products side by side, each in three overlapping parts.
struct UnreducedSum {
    low: __m256i,
    middle: __m256i,
    high: __m256i,
}

impl UnreducedSum {
    #[target_feature(enable = "avx2,pclmulqdq,vpclmulqdq")]
    #[inline]
    fn new() -> Self {
        let zero = _mm256_setzero_si256();
        Self { low: zero, middle: zero, high: zero }
    }

    #[target_feature(enable = "avx2,pclmulqdq,vpclmulqdq")]
    #[inline]
    fn add(&mut self, one: __m256i, other: __m256i) {
        self.low = _mm256_xor_si256(self.low, _mm256_clmulepi64_epi128::<0x00>(one, other));
        self.middle = _mm256_xor_si256(self.middle, _mm256_clmulepi64_epi128::<0x01>(one, other));
        self.middle = _mm256_xor_si256(self.middle, _mm256_clmulepi64_epi128::<0x10>(one, other));
        self.high = _mm256_xor_si256(self.high, _mm256_clmulepi64_epi128::<0x11>(one, other));
    }

    /// Adds both sums, modulo the polynomial and divided by x^128.
    #[target_feature(enable = "avx2,pclmulqdq,vpclmulqdq")]
    #[inline]
    fn reduce(self) -> __m128i {
        let [low, middle, high] = [self.low, self.middle, self.high]
            .map(|both| _mm_xor_si128(_mm256_castsi256_si128(both), _mm256_extracti128_si256::<1>(both)));
        reduce_parts(low, middle, high)
    }
}

/// Reduces a sum of three overlapping parts, modulo the polynomial and divided by x^128.
#[target_feature(enable = "avx2,pclmulqdq,vpclmulqdq")]
#[inline]
fn reduce_parts(low: __m128i, middle: __m128i, high: __m128i) -> __m128i {
    let high = _mm_xor_si128(high, _mm_srli_si128::<8>(middle));
    let mut low = _mm_xor_si128(low, _mm_slli_si128::<8>(middle));
    let polynomial = _mm_set_epi64x(0, REDUCTION.cast_signed());
    for _ in 0..2 {
        let swapped = _mm_alignr_epi8::<8>(low, low);
        low = _mm_xor_si128(swapped, _mm_clmulepi64_si128::<0x00>(low, polynomial));
    }
    _mm_xor_si128(low, high)
}
