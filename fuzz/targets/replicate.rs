//! Objects of vaults, and messages of peers in replications. The first byte or two pick the decoder.
#![no_main]

use replicate::fuzz::{REPLICATION, VAULT, decode, frames, pack, sealed};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((table, input)) = input.split_first() else { return };
    match table % 5 {
        0 => decode(VAULT, input),
        1 => decode(REPLICATION, input),
        2 => frames(input),
        3 => pack(input),
        _ => sealed(input),
    };
});
