//! GHASH of long messages, four blocks per multiplication, for processors with AVX-512. The method is that of `wide`. A
//! group has 64 blocks, so that the next products do not wait for a reduction.

use std::arch::x86_64::{
    __m128i, __m512i, _mm_set_epi64x, _mm_xor_si128, _mm512_broadcast_i32x4, _mm512_castsi512_si128,
    _mm512_clmulepi64_epi128, _mm512_extracti32x4_epi32, _mm512_inserti32x4, _mm512_set_epi64,
    _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_xor_si512, _mm512_zextsi128_si512,
};

use super::{BLOCK_SIZE, reduce_parts};

/// Bytes per multiplication.
const QUAD_SIZE: usize = 4 * BLOCK_SIZE;
/// Vectors whose products are added before one reduction.
const QUADS: usize = 16;
/// Powers of the key that a group needs.
pub(super) const POWERS: usize = 4 * QUADS;
pub(super) const GROUP_SIZE: usize = QUADS * QUAD_SIZE;

/// Powers of the key, from the 64th down to the first: four in each vector.
pub(super) type Powers = [__m512i; QUADS];

#[target_feature(enable = "avx512bw,vpclmulqdq")]
pub(super) fn pack_powers(powers: &[__m128i; POWERS]) -> Powers {
    let mut joined = [_mm512_setzero_si512(); QUADS];
    for (four, powers) in joined.iter_mut().zip(powers.as_chunks::<4>().0) {
        *four = _mm512_zextsi128_si512(powers[0]);
        *four = _mm512_inserti32x4::<1>(*four, powers[1]);
        *four = _mm512_inserti32x4::<2>(*four, powers[2]);
        *four = _mm512_inserti32x4::<3>(*four, powers[3]);
    }
    joined
}

#[target_feature(enable = "avx2,pclmulqdq,avx512bw,vpclmulqdq")]
#[inline]
pub(super) fn absorb_groups(powers: &Powers, mut state: __m128i, groups: &[[u8; GROUP_SIZE]]) -> __m128i {
    for group in groups {
        let mut before = _mm512_zextsi128_si512(state);
        let [mut low, mut middle, mut high] = [_mm512_setzero_si512(); 3];
        for (four, powers) in group.as_chunks().0.iter().zip(powers) {
            let blocks = _mm512_xor_si512(load_blocks(four), before);
            before = _mm512_setzero_si512();
            low = _mm512_xor_si512(low, _mm512_clmulepi64_epi128::<0x00>(blocks, *powers));
            middle = _mm512_xor_si512(middle, _mm512_clmulepi64_epi128::<0x01>(blocks, *powers));
            middle = _mm512_xor_si512(middle, _mm512_clmulepi64_epi128::<0x10>(blocks, *powers));
            high = _mm512_xor_si512(high, _mm512_clmulepi64_epi128::<0x11>(blocks, *powers));
        }
        state = reduce_parts(xor_lanes(low), xor_lanes(middle), xor_lanes(high));
    }
    state
}

/// Loads four blocks, the first into the lowest lane.
#[target_feature(enable = "avx512bw")]
#[inline]
fn load_blocks(four: &[u8; QUAD_SIZE]) -> __m512i {
    let words = four.as_chunks().0;
    let [a, b, c, d, e, f, g, h] = std::array::from_fn(|index| i64::from_le_bytes(words[index]));
    let reversed = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
    _mm512_shuffle_epi8(_mm512_set_epi64(h, g, f, e, d, c, b, a), _mm512_broadcast_i32x4(reversed))
}

#[target_feature(enable = "avx512bw")]
#[inline]
fn xor_lanes(quarters: __m512i) -> __m128i {
    let lower = _mm_xor_si128(_mm512_castsi512_si128(quarters), _mm512_extracti32x4_epi32::<1>(quarters));
    let upper =
        _mm_xor_si128(_mm512_extracti32x4_epi32::<2>(quarters), _mm512_extracti32x4_epi32::<3>(quarters));
    _mm_xor_si128(lower, upper)
}
