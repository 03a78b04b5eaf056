//! Checks of figures that are spoiled when the machine stands still for a moment.
#![allow(dead_code, reason = "each test binary uses its own part")]

/// Tries of a check.
const TRIES: usize = 5;

/// Tries a check until it passes, five times at most; one that fails tells its figures. Chance spoils a try,
/// what is wrong spoils all of them.
#[track_caller]
pub fn within_tries<T>(mut check: impl FnMut() -> Result<T, String>) -> T {
    let mut failed = Vec::new();
    while failed.len() < TRIES {
        match check() {
            Ok(passed) => return passed,
            Err(figures) => failed.push(figures),
        }
    }
    panic!("not once in {TRIES} tries: {failed:#?}");
}

/// Nothing if it is so, and else the figures.
pub fn ensure(is_so: bool, figures: String) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(figures) }
}

/// Whether a figure is off by less than this share of what is wanted.
pub fn near(found: f64, wanted: f64, share: f64) -> Result<(), String> {
    ensure((found / wanted - 1.0).abs() < share, format!("{found} instead of {wanted}"))
}
