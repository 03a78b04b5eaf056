//! Repeated checks of figures that a machine standing still for a moment spoils.
#![allow(dead_code, reason = "each test binary uses its own part")]

/// Tries of a check.
const TRIES: usize = 5;

/// Repeats a check until it passes, five times at most; a failure prints its figures. Chance spoils one try, a fault
/// all of them.
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

/// An error with the figures unless the condition is true.
pub fn ensure(is_so: bool, figures: String) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(figures) }
}

/// Whether a figure differs from the wanted one by less than this share.
pub fn near(found: f64, wanted: f64, share: f64) -> Result<(), String> {
    ensure((found / wanted - 1.0).abs() < share, format!("{found} instead of {wanted}"))
}
