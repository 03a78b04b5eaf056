//! Names and patterns in requests of SMB clients, and stored names in replies. The first byte picks the kind.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((which, input)) = input.split_first() else { return };
    match which % 3 {
        0 => smb::fuzz::path(input),
        1 => smb::fuzz::stored(input),
        _ => smb::fuzz::pattern(input),
    };
});
