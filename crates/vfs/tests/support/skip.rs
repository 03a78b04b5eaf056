//! What tests do that need what is not there: another file system, rights, a program.

/// `cargo xtask ci` sets it: nothing may be left out.
const REQUIRE_ALL: &str = "PLIMSOLL_TESTS_REQUIRE_ALL";

/// Says why a test, or a part of it, is left out. A failure where everything must be there.
#[track_caller]
pub(crate) fn skip(why: &str) {
    assert!(std::env::var_os(REQUIRE_ALL).is_none(), "{why}, and {REQUIRE_ALL} is set");
    eprintln!("skipped: {why}");
}
