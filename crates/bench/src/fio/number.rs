//! Numbers, times and switches as fio reads them. fio silently ignores unknown parts of a unit.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Number(u64),
    Share(u64),
    /// A negative number, which fio reads as a very large one.
    Negative,
}

pub(super) const SECOND: u64 = 1_000_000;

/// The parts for reads, writes and trims. A trailing comma gives an empty last part.
pub(super) fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let piece = rest?;
        let cut = piece.find(',').or_else(|| piece.find(':')).or_else(|| piece.find('-'));
        rest = cut.map(|at| &piece[at + 1..]);
        // Only a comma ends a number; other separators cut its unit.
        Some(piece.split(',').next().unwrap_or(piece))
    })
}

/// fio compares only this part of a text with its choices.
pub(super) fn word(text: &str) -> &str {
    let end = text.find(',').or_else(|| text.find(':'));
    &text[..end.unwrap_or(text.len())]
}

/// A number with k, m, g, t or p, in powers of `base` (`kb_base`). With `ib` the other base applies: with the
/// usual 1024, `4k` and `4kb` are 4096 and `4kib` is 4000.
pub(super) fn bytes(piece: &str, base: u64) -> Option<Part> {
    let number = Digits::of(piece)?;
    let unit = size_unit(piece);
    if unit.starts_with('%') {
        return Some(if number.negative { Part::Negative } else { Part::Share(number.value) });
    }
    let power = unit.chars().next().and_then(|letter| "kmgtp".find(letter));
    let power = power.map_or(0, |place| place + 1);
    let is_other = power > 0 && unit[1..].starts_with("ib");
    let base = match (is_other, base) {
        (true, 1024) => 1000u64,
        (true, _) => 1024,
        (false, base) => base,
    };
    number.times(base.checked_pow(u32::try_from(power).ok()?)?)
}

/// In microseconds. A number without a unit counts `bare` microseconds each.
pub(super) fn time(piece: &str, bare: u64) -> Option<Part> {
    let number = Digits::of(piece)?;
    let factor = match time_unit(piece) {
        None => bare,
        Some(unit) if unit.starts_with("ms") => 1000,
        Some(unit) => match unit.as_str() {
            "s" => SECOND,
            "m" => 60 * SECOND,
            "h" => 3600 * SECOND,
            "d" => 86_400 * SECOND,
            _ => 1,
        },
    };
    number.times(factor)
}

/// Hexadecimal with `0x`, otherwise the leading digits.
pub(super) fn flag(text: &str) -> Option<u64> {
    let number = Digits::of(text).filter(|number| !number.negative)?;
    Some(number.value).filter(|value| i32::try_from(*value).is_ok())
}

/// The reason why fio reads another size than the text suggests.
pub(super) fn odd_size(piece: &str, base: u64) -> Option<&'static str> {
    const NO_UNIT: &str = "it passes over units that it does not know; it knows k, m, g, t and p";
    let digits = Digits::of(piece)?;
    let rest = piece[digits.end..].split([':', '-', '/']).next().unwrap_or("").to_ascii_lowercase();
    let mut letters = rest.chars();
    let (first, second) = (letters.next(), letters.as_str());
    match (first, second) {
        _ if piece.starts_with(char::is_whitespace) => Some("it knows no unit behind a space after the ="),
        (None, _) | (Some('b'), "") | (Some('%'), _) => None,
        (Some('k' | 'm' | 'g' | 't' | 'p'), _) if digits.hexadecimal => {
            Some("a hexadecimal number has no unit")
        }
        (Some('k' | 'm' | 'g' | 't' | 'p'), "ib") if base == 1024 => {
            Some("with kb_base=1024 units with \"ib\" are powers of 1000")
        }
        (Some('k' | 'm' | 'g' | 't' | 'p'), "" | "b" | "i" | "ib") => None,
        (Some('.'), _) => Some("it reads no fractions, and no unit behind them"),
        _ => Some(NO_UNIT),
    }
}

/// The reason why fio reads another time than the text suggests.
pub(super) fn odd_time(piece: &str) -> Option<&'static str> {
    let digits = Digits::of(piece)?;
    let rest = piece[digits.end..].to_ascii_lowercase();
    match rest.as_str() {
        "" | "us" | "usec" | "ms" | "msec" | "s" | "m" | "h" | "d" => None,
        _ if rest.starts_with('.') => Some("it reads no fractions"),
        _ => Some("it knows us, ms, s, m, h and d alone, and takes all other units for microseconds"),
    }
}

struct Digits {
    negative: bool,
    hexadecimal: bool,
    value: u64,
    end: usize,
}

impl Digits {
    /// Hexadecimal if the text contains `0x` anywhere, as in fio.
    fn of(text: &str) -> Option<Self> {
        let hexadecimal = text.contains("0x") || text.contains("0X");
        let start = text.find(|c: char| !c.is_ascii_whitespace())?;
        let negative = text[start..].starts_with('-');
        let start = start + usize::from(text[start..].starts_with(['+', '-']));
        let radix = if hexadecimal { 16 } else { 10 };
        let is_digit = |letter: &u8| char::from(*letter).is_digit(radix);
        let prefixed = ["0x", "0X"].iter().any(|prefix| text[start..].starts_with(prefix));
        let behind = text.as_bytes().get(start + 2);
        let start = if hexadecimal && prefixed && behind.is_some_and(is_digit) { start + 2 } else { start };
        let count = text[start..].bytes().take_while(is_digit).count();
        let end = start + count;
        let value = i64::from_str_radix(text.get(start..end)?, radix).ok()?;
        Some(Self { negative, hexadecimal, value: value.unsigned_abs(), end })
    }

    fn times(&self, factor: u64) -> Option<Part> {
        match self.negative {
            true => Some(Part::Negative),
            false => self.value.checked_mul(factor).map(Part::Number),
        }
    }
}

/// Letters after decimal digits, up to the next part.
fn size_unit(piece: &str) -> String {
    let mut seen = false;
    let end = piece.find(|c: char| {
        let sign = matches!(c, '+' | '-') && !seen;
        seen |= c.is_ascii_digit();
        !c.is_ascii_digit() && !sign
    });
    let unit = piece[end.unwrap_or(piece.len())..].to_ascii_lowercase();
    if !unit.starts_with(|c: char| c.is_ascii_alphabetic() || c == '%') {
        return String::new();
    }
    unit.split([':', '-', '/']).next().unwrap_or("").to_owned()
}

fn time_unit(piece: &str) -> Option<String> {
    let rest = piece.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-'));
    rest.starts_with(|c: char| c.is_ascii_alphabetic()).then(|| rest.to_ascii_lowercase())
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
            ("4096b", 1024, 4096),
            ("0x100000", 1024, 1 << 20),
            ("0X10k", 1024, 16),
            ("1T", 1024, 1 << 40),
            ("1.5g", 1024, 1),
            ("4q", 1024, 4),
            (" 8k", 1024, 8),
            ("4k-16k", 1024, 4096),
        ] {
            assert_eq!(bytes(text, base), Some(Part::Number(size)), "{text}");
        }
        for text in ["", "k", "(4*2)k", ".5", "99999999p", "99999999999999999999", "0xfffffffffffffffff"] {
            assert_eq!(bytes(text, 1024), None, "{text}");
        }
        assert_eq!(bytes("50%", 1024), Some(Part::Share(50)));
        assert_eq!(bytes("-1", 1024), Some(Part::Negative));
    }

    #[test]
    fn times_with_other_units_are_microseconds() {
        for (text, us) in [
            ("600", 600 * SECOND),
            ("500ms", 500_000),
            ("2m", 120 * SECOND),
            ("1h", 3600 * SECOND),
            ("2D", 172_800 * SECOND),
            ("7usec", 7),
            ("5min", 5),
            ("60sec", 60),
            ("1h30m", 1),
        ] {
            assert_eq!(time(text, SECOND), Some(Part::Number(us)), "{text}");
        }
        assert_eq!((time("20", 1), time("s", SECOND)), (Some(Part::Number(20)), None));
    }

    #[test]
    fn values_are_split_into_parts() {
        let all = |text| parts(text).collect::<Vec<_>>();
        assert_eq!(all("4k"), ["4k"]);
        assert_eq!(all(",8k"), ["", "8k"]);
        assert_eq!(all("8k,"), ["8k", ""]);
        assert_eq!(all("4k,8k,16k"), ["4k", "8k", "16k"]);
        assert_eq!(all("4k-16k"), ["4k-16k", "16k"]);
        assert_eq!(all("4k:8k,16k"), ["4k:8k", "16k"]);
    }

    #[test]
    fn flags_are_numbers() {
        assert_eq!(["0", "1", "0x1", "1x"].map(flag), [0, 1, 1, 1].map(Some));
        assert_eq!(["true", "", "yes", "-1", "99999999999"].map(flag), [None; 5]);
    }

    #[test]
    fn only_odd_units_are_odd() {
        let sizes = ["4k", "4kb", "4Ki", "20G", "4096b", "0x1000", "50%", "4k-16k", "512"];
        assert_eq!(sizes.map(|text| odd_size(text, 1024)), [None; 9]);
        for text in ["4kib", "4q", "1.5g", "0x10k", " 8k", "10kbytes"] {
            assert!(odd_size(text, 1024).is_some(), "{text}");
        }
        assert_eq!(["600", "5ms", "7usec", "1h", "2D"].map(odd_time), [None; 5]);
        for text in ["5min", "60sec", "1h30m", "1.5h", "1:30"] {
            assert!(odd_time(text).is_some(), "{text}");
        }
    }
}
