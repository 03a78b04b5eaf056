//! Sizes, counts and durations as people write them.

use std::time::Duration;

/// Bytes: `4096`, `8k`, `8KiB`, `1m`, `1g`, `1t`; every letter stands for a power of two, with or without `B`
/// or `iB`.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!("\"{text}\" is not a size; write bytes or a number with k, m, g or t, like 4096, 8k or 1MiB")
    };
    let (number, unit) = split(text);
    let unit = unit.to_ascii_lowercase();
    let letter = unit.strip_suffix("ib").or_else(|| unit.strip_suffix('b')).unwrap_or(&unit);
    let shift = match (letter, unit.as_str()) {
        ("", "" | "b") => 0,
        ("k", _) => 10,
        ("m", _) => 20,
        ("g", _) => 30,
        ("t", _) => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("\"{text}\" is too large; at most 16777215t"))
}

/// A number of things: `900`, `120k`, `1.2M`; the letters stand for thousands and millions, in either case.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "\"{text}\" is not a whole number; write digits or a number with k or M, like 900, 120k or 1.2M"
        )
    };
    let trimmed = text.trim();
    let (number, zeros) = match trimmed.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (trimmed[..at].trim_end(), 3),
        Some((at, 'm' | 'M')) => (trimmed[..at].trim_end(), 6),
        _ => (trimmed, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
    let behind = fraction.trim_end_matches('0');
    if !is_number(whole) || !is_number(fraction) || behind.len() > zeros {
        return Err(wrong());
    }
    format!("{whole}{behind:0<zeros$}").parse().map_err(|_| wrong())
}

/// A time: `500ms`, `10s`, `2m`, `1h`; a bare number is seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("\"{text}\" is not a time; write a number with ms, s, m or h, like 500ms, 10s or 2m");
    let (number, unit) = split(text);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let ms: u64 = match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(ms).map(Duration::from_millis).ok_or_else(wrong)
}

/// A size in the largest unit that divides it: 8192 is `8 KiB`.
pub fn show_size(bytes: u64) -> String {
    let (shift, unit) = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")]
        .into_iter()
        .find(|(shift, _)| bytes != 0 && bytes.is_multiple_of(1 << shift))
        .unwrap_or((0, "B"));
    format!("{} {unit}", bytes >> shift)
}

/// The digits at the start, and the rest without the spaces between.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (&text[..digits], text[digits..].trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("4096", 4096),
            ("8k", 8192),
            ("8KiB", 8192),
            ("1 MiB", 1 << 20),
            ("1gb", 1 << 30),
            ("2T", 2 << 40),
            ("7b", 7),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "k", "8x", "-1", "1.5g", "8kk", "8ibk", "ib", "5ib", "99999999999t"] {
            assert!(parse_size(text).unwrap_err().contains(text), "{text}");
        }
        assert_eq!([0, 1000, 8192, 3 << 20].map(show_size), ["0 B", "1000 B", "8 KiB", "3 MiB"]);
    }

    #[test]
    fn counts() {
        for (text, count) in [
            ("900", 900),
            ("120k", 120_000),
            ("1.2M", 1_200_000),
            (" 1.25 K ", 1250),
            ("0.5k", 500),
            ("7.0", 7),
            ("2m", 2_000_000),
        ] {
            assert_eq!(parse_count(text), Ok(count), "{text}");
        }
        for text in
            ["", "k", "1.5", "1.2345k", "-1", "1.", ".5k", "1.2.3k", "1e3", "8ki", "99999999999999999M"]
        {
            let said = parse_count(text).unwrap_err();
            assert!(said.contains(&format!("\"{text}\"")) && said.contains("1.2M"), "{said}");
        }
    }

    #[test]
    fn durations() {
        for (text, ms) in
            [("500ms", 500), ("10s", 10_000), ("10", 10_000), ("2m", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "1d", "1.5s", "-1s"] {
            assert!(parse_duration(text).unwrap_err().contains("500ms, 10s or 2m"), "{text}");
        }
    }
}
