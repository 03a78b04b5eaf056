//! Skips of tests that need what is not there: another file system, rights, a program.

use std::io::Write;

/// `cargo xtask test` sets it as root: no test may be skipped.
const REQUIRE_ALL: &str = "PLIMSOLL_TESTS_REQUIRE_ALL";
/// `cargo xtask test` sets it: a file that lists the skipped tests.
const SKIPPED_TO: &str = "PLIMSOLL_TESTS_SKIPPED";

/// Says why a test, or a part of it, is skipped. Fails where no test may be skipped.
#[track_caller]
pub(crate) fn skip(why: &str) {
    assert!(std::env::var_os(REQUIRE_ALL).is_none(), "{why}, and {REQUIRE_ALL} is set");
    eprintln!("skipped: {why}");
    if let Some(path) = std::env::var_os(SKIPPED_TO) {
        let thread = std::thread::current();
        let line = format!("{}\t{}\n", thread.name().unwrap_or("a test"), why.replace('\n', " "));
        // One write: programs append to the file at the same time.
        let written = std::fs::File::options().append(true).open(path);
        written.and_then(|mut file| file.write_all(line.as_bytes())).expect("the list of skipped tests");
    }
}
