//! Sizes, times and switches as fio reads them.

/// Bytes: a number with k, m, g, t or p, in powers of `base`, which is `kb_base`. With `i` the other base is
/// meant: with the usual 1024, `4k` and `4kb` are 4096 and `4kib` is 4000.
pub(super) fn bytes(text: &str, base: u64) -> Result<u64, String> {
    let wrong = || {
        format!("\"{text}\" is not a size; fio reads bytes or a number with k, m, g, t or p, like 4k or 20G")
    };
    if text.contains('%') {
        return Err(format!(
            "\"{text}\" is a share of what is there when fio runs, and nobody knows it here; write bytes, like 20G"
        ));
    }
    let (number, unit) = split(text);
    let unit = unit.to_ascii_lowercase();
    let mut letters = unit.chars();
    let power = letters
        .next()
        .map_or(Some(0), |letter| "kmgtp".find(letter).map(|place| place + 1))
        .ok_or_else(wrong)?;
    let other = if base == 1024 { 1000u64 } else { 1024 };
    let base = match letters.as_str() {
        "" | "b" => base,
        "ib" => other,
        _ => return Err(wrong()),
    };
    let factor = base.checked_pow(u32::try_from(power).unwrap_or(0)).ok_or_else(wrong)?;
    number.and_then(|number| number.checked_mul(factor)).ok_or_else(wrong)
}

/// Seconds: a number with us, ms, s, m, h or d; a bare one is seconds.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let wrong =
        || format!("\"{text}\" is not a time; fio reads seconds or a number with us, ms, s, m, h or d");
    let (number, unit) = split(text);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "us" | "usec" => 1e-6,
        "ms" | "msec" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    number.map(|number| number as f64 * factor).ok_or_else(wrong)
}

/// A count.
pub(super) fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("\"{text}\" is not a number"))
}

/// A switch; on if it has no value.
pub(super) fn switch(text: Option<&str>) -> Result<bool, String> {
    match text {
        None | Some("1" | "true") => Ok(true),
        Some("0" | "false") => Ok(false),
        Some(other) => Err(format!("\"{other}\" is no switch; fio reads 0 and 1")),
    }
}

/// The digits at the start, as a number if there are any, and the rest.
fn split(text: &str) -> (Option<u64>, &str) {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (text[..digits].parse().ok(), &text[digits..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_fio_s_opposite_units() {
        for (text, base, size) in [
            ("4k", 1024, 4096),
            ("4K", 1024, 4096),
            ("4KiB", 1024, 4000),
            ("4kb", 1000, 4000),
            ("4kib", 1000, 4096),
            ("1m", 1024, 1 << 20),
            ("20G", 1024, 20 << 30),
            ("512", 1024, 512),
            ("1T", 1024, 1 << 40),
        ] {
            assert_eq!(bytes(text, base), Ok(size), "{text}");
        }
        for text in ["", "k", "4x", "-1", "(4*2)k", "4kbb", "99999999p"] {
            assert!(bytes(text, 1024).unwrap_err().contains(text), "{text}");
        }
        assert!(bytes("50%", 1024).unwrap_err().contains("share"));
    }

    #[test]
    fn times_and_switches() {
        assert_eq!(["600", "500ms", "2m", "1h"].map(seconds), [600.0, 0.5, 120.0, 3600.0].map(Ok));
        assert!(seconds("1w").is_err() && seconds("s").is_err());
        assert_eq!([None, Some("0"), Some("1")].map(switch), [true, false, true].map(Ok));
        assert!(switch(Some("2")).is_err() && count("x").is_err());
    }
}
