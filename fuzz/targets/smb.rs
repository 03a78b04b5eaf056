//! SMB messages in both directions, and their bodies. The first byte or two pick the decoder.
#![no_main]

use smb_wire::fuzz::{CLASSES, CONTEXTS, MESSAGES, chains, compound, compressed, decode, pipe, sealed};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((table, input)) = input.split_first() else { return };
    match table % 8 {
        0 => decode(MESSAGES, input),
        1 => decode(CONTEXTS, input),
        2 => compound(input),
        3 => pipe(input),
        4 => decode(CLASSES, input),
        5 => chains(input),
        6 => compressed(input),
        _ => sealed(input),
    };
});
