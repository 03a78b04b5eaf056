//! Messages that a client decodes: NFSv3, MOUNT and portmap. The first byte picks the decoder.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    nfs_wire::fuzz::decode(nfs_wire::fuzz::REPLIES, input);
});
