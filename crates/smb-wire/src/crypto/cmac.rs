//! AES-128-CMAC, RFC 4493: of one message, or of many in lockstep.

use aes::Aes128;
use aes::cipher::consts::U16;
use aes::cipher::{
    Block, BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, KeyInit,
};

use super::Key128;

const BLOCK: usize = 16;
/// Messages whose MACs are computed side by side. The blocks of one message depend on each other, those of different
/// messages do not; the AES unit of a processor has room for about this many.
const LANES: usize = 8;

/// A prepared key.
pub(super) struct Cmac {
    cipher: Aes128,
    /// `K1`, for a whole last block.
    k1: u128,
    /// `K2`, for a padded last block.
    k2: u128,
}

struct Lane<'m> {
    index: usize,
    state: Block<Aes128>,
    /// The remaining blocks, without the last one.
    blocks: &'m [[u8; BLOCK]],
    /// The last block, padded and masked.
    last: [u8; BLOCK],
}

impl Cmac {
    pub(super) fn new(key: &Key128) -> Self {
        let cipher = Aes128::new(key.into());
        let mut zero = Block::<Aes128>::default();
        cipher.encrypt_block(&mut zero);
        let whole = double(u128::from_be_bytes(zero.into()));
        Self { cipher, k1: whole, k2: double(whole) }
    }

    /// Computes the MAC of `parts`, concatenated. All but the last must be whole blocks.
    pub(super) fn mac<const N: usize>(&self, parts: [&[u8]; N]) -> [u8; 16] {
        let used = parts.iter().rposition(|part| !part.is_empty()).unwrap_or(0);
        let mut lane = self.lane(0, parts[used]);
        let blocks = lane.blocks;
        for blocks in parts[..used].iter().map(|part| part.as_chunks().0).chain([blocks]) {
            lane.blocks = blocks;
            self.absorb(std::slice::from_mut(&mut lane), blocks.len());
        }
        self.finish(&mut lane)
    }

    pub(super) fn macs<'m>(&self, messages: impl IntoIterator<Item = &'m [u8]>) -> Vec<[u8; 16]> {
        let mut macs = Vec::new();
        let mut waiting = messages.into_iter();
        let mut lanes = Vec::with_capacity(LANES);
        loop {
            for message in waiting.by_ref().take(LANES - lanes.len()) {
                lanes.push(self.lane(macs.len(), message));
                macs.push([0; 16]);
            }
            let Some(rounds) = lanes.iter().map(|lane| lane.blocks.len()).min() else { return macs };
            self.absorb(&mut lanes, rounds);
            for mut lane in lanes.extract_if(.., |lane| lane.blocks.is_empty()) {
                macs[lane.index] = self.finish(&mut lane);
            }
        }
    }

    fn lane<'m>(&self, index: usize, message: &'m [u8]) -> Lane<'m> {
        let state = Block::<Aes128>::default();
        let (blocks, rest) = message.as_chunks();
        if let (Some((last, blocks)), []) = (blocks.split_last(), rest) {
            let last = (u128::from_be_bytes(*last) ^ self.k1).to_be_bytes();
            return Lane { index, state, blocks, last };
        }
        let mut last = [0; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        last[rest.len()] = 0x80;
        let last = (u128::from_be_bytes(last) ^ self.k2).to_be_bytes();
        Lane { index, state, blocks, last }
    }

    /// Absorbs the next `rounds` blocks of every lane.
    fn absorb(&self, lanes: &mut [Lane<'_>], rounds: usize) {
        match lanes.len() {
            1 => self.cipher.encrypt_with_backend(Absorb::<1> { lanes, rounds }),
            2..=4 => self.cipher.encrypt_with_backend(Absorb::<4> { lanes, rounds }),
            _ => self.cipher.encrypt_with_backend(Absorb::<LANES> { lanes, rounds }),
        }
    }

    fn finish(&self, lane: &mut Lane<'_>) -> [u8; 16] {
        xor(&mut lane.state, &lane.last);
        self.cipher.encrypt_block(&mut lane.state);
        lane.state.into()
    }
}

/// The loop over blocks, as a closure that the cipher runs after one check of the processor's features. Missing lanes
/// repeat the first one: a constant `N` lets the compiler keep all states in registers.
struct Absorb<'l, 'm, const N: usize> {
    lanes: &'l mut [Lane<'m>],
    rounds: usize,
}

impl<const N: usize> BlockSizeUser for Absorb<'_, '_, N> {
    type BlockSize = U16;
}

impl<const N: usize> BlockCipherEncClosure for Absorb<'_, '_, N> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let source = |index| if index < self.lanes.len() { index } else { 0 };
        let mut states: [_; N] = std::array::from_fn(|index| self.lanes[source(index)].state);
        let blocks: [_; N] = std::array::from_fn(|index| &self.lanes[source(index)].blocks[..self.rounds]);
        for round in 0..self.rounds {
            for (state, blocks) in states.iter_mut().zip(&blocks) {
                xor(state, &blocks[round]);
            }
            for state in &mut states {
                backend.encrypt_block_inplace(state);
            }
        }
        for (lane, state) in self.lanes.iter_mut().zip(states) {
            lane.state = state;
            lane.blocks = &lane.blocks[self.rounds..];
        }
    }
}

#[inline(always)]
fn xor(state: &mut Block<Aes128>, block: &[u8; BLOCK]) {
    let sum = u128::from_le_bytes((*state).into()) ^ u128::from_le_bytes(*block);
    *state = sum.to_le_bytes().into();
}

/// Multiplies by x in GF(2¹²⁸), RFC 4493 §2.3, in constant time.
fn double(value: u128) -> u128 {
    (value << 1) ^ ((value >> 127) * 0x87)
}
