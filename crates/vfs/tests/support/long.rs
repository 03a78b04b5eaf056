//! The long form of tests.

/// Whether tests of random changes, of kills and of power cuts take many more steps. `cargo xtask full` sets it.
pub(crate) fn is_long() -> bool {
    std::env::var_os("PLIMSOLL_TESTS_LONG").is_some()
}
