//! Repeated checks of figures that a machine standing still for a moment spoils.
#![allow(dead_code, reason = "each test binary uses its own part")]

const TRIES: usize = 5;

/// Repeats a check until it passes, at most five times. A failure prints its figures. Chance spoils one try,
/// a fault all of them.
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

pub fn ensure(is_so: bool, figures: String) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(figures) }
}

/// Whether the figures differ by less than `share`.
pub fn near(found: f64, wanted: f64, share: f64) -> Result<(), String> {
    ensure((found / wanted - 1.0).abs() < share, format!("{found} instead of {wanted}"))
}
