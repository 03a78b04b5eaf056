//! Messages that a client decodes: NFSv4. The first byte picks the decoder.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    nfs_wire::fuzz::decode(nfs_wire::fuzz::V4_REPLIES, input);
});
