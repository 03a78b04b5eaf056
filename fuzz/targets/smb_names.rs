//! Names and patterns as clients of SMB send them, and names of directories as they are told to clients. The first byte says which.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((which, input)) = input.split_first() else { return };
    match which % 3 {
        0 => smb::fuzz::path(input),
        1 => smb::fuzz::stored(input),
        _ => smb::fuzz::pattern(input),
    };
});
