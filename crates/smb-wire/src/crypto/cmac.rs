//! AES-128-CMAC, RFC 4493: of one message, or of many in lockstep.

use aes::Aes128;
use aes::cipher::consts::U16;
use aes::cipher::{
    Block, BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, KeyInit,
};

use super::Key128;

/// Bytes of a block.
const BLOCK: usize = 16;
/// Messages whose MACs are computed side by side. The blocks of one message wait for each other, those of several do not,
/// and a processor has room for about this many in its AES unit.
const LANES: usize = 8;

/// A key and what is derived from it.
pub(super) struct Cmac {
    cipher: Aes128,
    /// `K1`, for a last block that is whole.
    whole: u128,
    /// `K2`, for a last block that is filled up.
    filled: u128,
}

/// A message on its way.
struct Lane<'m> {
    index: usize,
    state: Block<Aes128>,
    /// Ahead, without the last one.
    blocks: &'m [[u8; BLOCK]],
    /// The last block, filled up and masked.
    last: [u8; BLOCK],
}

impl Cmac {
    pub(super) fn new(key: &Key128) -> Self {
        let cipher = Aes128::new(key.into());
        let mut zero = Block::<Aes128>::default();
        cipher.encrypt_block(&mut zero);
        let whole = double(u128::from_be_bytes(zero.into()));
        Self { cipher, whole, filled: double(whole) }
    }

    /// The MAC of `parts`, one after the other. All but the last are whole blocks.
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

    /// The MAC of each message, in their order.
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
            let last = (u128::from_be_bytes(*last) ^ self.whole).to_be_bytes();
            return Lane { index, state, blocks, last };
        }
        let mut last = [0; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        last[rest.len()] = 0x80;
        let last = (u128::from_be_bytes(last) ^ self.filled).to_be_bytes();
        Lane { index, state, blocks, last }
    }

    /// Takes the next `rounds` blocks of every lane.
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

/// The loop over blocks, within what the processor's features are asked for once. Of `N` lanes those that are not there are
/// the first one again: the number is known to the compiler, which keeps all states in registers.
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

/// Times x in GF(2¹²⁸), RFC 4493 §2.3, in constant time.
fn double(value: u128) -> u128 {
    (value << 1) ^ ((value >> 127) * 0x87)
}
