//! Sizes, rates and operations as types: integers, so that results are exact.
//!
//! TB (10¹² bytes) and TiB (2⁴⁰ bytes) are different units. A letter alone is a power of 1,024, as in fio, dd and zfs:
//! `2T` is 2 TiB. `tb` and `Gb` are refused as ambiguous: they could mean bits or bytes.

use crate::Refusal;
use crate::source::OWN;
use serde::{Deserialize, Serialize};
use std::fmt::{Display, Formatter};
use std::str::FromStr;
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BytesPerSecond(pub u64);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Iops(pub u64);

const UNITS: [(&str, u64); 11] = [
    ("PiB", 1 << 50),
    ("PB", 1_000_000_000_000_000),
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

/// Index of the largest unit for rates. Rates are in MiB/s or less, so that rates are easy to compare.
const RATE_UNITS_FROM: usize = 6;

/// Units smaller than this show no fractions: any number of bytes would have one.
const FRACTIONS_FROM: u64 = 1_000_000;

impl Bytes {
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    pub const fn tib(n: u64) -> Self {
        Self(n << 40)
    }

    pub const fn pib(n: u64) -> Self {
        Self(n << 50)
    }

    /// `n` × 10⁹ bytes.
    pub(crate) const fn gb(n: u64) -> Self {
        Self(n * 1_000_000_000)
    }

    /// `n` × 10¹² bytes.
    pub const fn tb(n: u64) -> Self {
        Self(n * 1_000_000_000_000)
    }

    /// The size for messages: `8.37 TiB (9199023255552 bytes)` where the exact text would be a long number of small units.
    pub fn for_people(self) -> SizeForPeople {
        SizeForPeople(self)
    }
}

/// A size as [`Bytes::for_people`] shows it.
#[derive(Clone, Copy, Debug)]
pub struct SizeForPeople(Bytes);

/// Digits before the unit; a size with more is shown rounded too.
const DIGITS_FOR_PEOPLE: usize = 6;

impl Display for SizeForPeople {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self(Bytes(bytes)) = *self;
        let exact = Bytes(bytes).to_string();
        let digits = exact.bytes().take_while(u8::is_ascii_digit).count();
        let binary = UNITS.iter().filter(|(name, _)| name.ends_with("iB"));
        let Some((name, unit)) = binary.clone().find(|(_, unit)| bytes >= *unit) else {
            return f.pad(&exact);
        };
        if digits <= DIGITS_FOR_PEOPLE {
            return f.pad(&exact);
        }
        let hundredths = (u128::from(bytes) * 100 + u128::from(unit / 2)) / u128::from(*unit);
        let fraction = format!(".{:02}", hundredths % 100);
        let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
        write!(f, "{}{fraction} {name} ({bytes} bytes)", hundredths / 100)
    }
}

impl BytesPerSecond {
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    /// `n` × 10⁶ bytes per second.
    pub const fn mb(n: u64) -> Self {
        Self(n * 1_000_000)
    }

    /// The rate of `size` if each `per` has `self`, rounded down to a byte.
    pub(crate) fn scale(self, size: Bytes, per: Bytes) -> Self {
        Self(proportion(self.0, size.0, per.0))
    }
}

impl Iops {
    /// The operations of `size` if each `per` has `self`, rounded down.
    pub(crate) fn scale(self, size: Bytes, per: Bytes) -> Self {
        Self(proportion(self.0, size.0, per.0))
    }
}

/// `value` × `numerator` ÷ `denominator`, rounded down; the maximum if it does not fit.
pub(crate) fn proportion(value: u64, numerator: u64, denominator: u64) -> u64 {
    let exact = u128::from(value) * u128::from(numerator) / u128::from(denominator.max(1));
    u64::try_from(exact).unwrap_or(u64::MAX)
}

/// The number and the unit of a text like `1.5TiB`: digits, an optional fraction, an optional space, letters. The
/// result is in units of `1 / per`, rounded down.
fn parse(text: &str, unit_of: impl Fn(&str) -> Option<u64>, per: u64) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let unit = unit_of(text[end..].trim_start())?;
    let (whole, fraction) = match text[..end].split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (&text[..end], ""),
    };
    let digits: u128 = format!("{whole}{fraction}").parse().ok().filter(|_| !whole.is_empty())?;
    let divisor = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?.checked_mul(u128::from(per))?;
    u64::try_from(digits.checked_mul(u128::from(unit))? / divisor).ok()
}

/// Bytes of a unit: `KiB`, `MB`, or a letter alone in either case, optionally with an `i`. No unit is bytes.
pub(crate) fn bytes_per_unit(name: &str) -> Option<u64> {
    if let Some((_, bytes)) = UNITS.iter().find(|(known, _)| *known == name) {
        return Some(*bytes);
    }
    let lower = name.to_ascii_lowercase();
    let is_binary = lower.ends_with("ib");
    match lower.strip_suffix("ib").or_else(|| lower.strip_suffix('i')).unwrap_or(&lower) {
        "" if !lower.contains('i') => Some(1),
        "b" if !is_binary => Some(1),
        "k" => Some(1 << 10),
        "m" => Some(1 << 20),
        "g" => Some(1 << 30),
        "t" => Some(1 << 40),
        "p" => Some(1 << 50),
        _ => None,
    }
}

fn bits_per_second(name: &str) -> Option<u64> {
    let endings = ["bit/s", "bitps", "bps"];
    match endings.into_iter().find_map(|ending| name.strip_suffix(ending))? {
        "k" | "K" => Some(1_000),
        "M" => Some(1_000_000),
        "G" => Some(1_000_000_000),
        "T" => Some(1_000_000_000_000),
        _ => None,
    }
}

/// The shortest text that [`parse`] reads as the same number: 1.6 GiB/s is 1,717,986,918.4 bytes and still `1638.4
/// MiB/s`. With `#`, digits are grouped for people: `1,638.4 MiB/s`.
fn format_unit(
    f: &mut Formatter<'_>,
    value: u64,
    units: &[(&'static str, u64)],
    suffix: &str,
) -> std::fmt::Result {
    let fits = |&(name, unit): &(&'static str, u64)| {
        let thousandths = (u128::from(value) * 1000).div_ceil(u128::from(unit));
        let same = thousandths * u128::from(unit) / 1000 == u128::from(value);
        let shown = unit >= FRACTIONS_FROM || thousandths % 1000 == 0;
        (value >= unit && same && shown).then_some((thousandths, name))
    };
    let (thousandths, unit) = units.iter().find_map(fits).unwrap_or((u128::from(value) * 1000, "B"));
    let (whole, rest) = (thousandths / 1000, thousandths % 1000);
    let fraction = if rest == 0 { String::new() } else { format!(".{rest:03}") };
    let whole =
        u64::try_from(whole).map_or_else(|_| whole.to_string(), |whole| grouped_if_alternate(f, whole));
    f.pad(&format!("{whole}{} {unit}{suffix}", fraction.trim_end_matches('0')))
}

fn grouped_if_alternate(f: &Formatter<'_>, number: u64) -> String {
    if f.alternate() { grouped(number) } else { number.to_string() }
}

pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

impl Display for Bytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        format_unit(f, self.0, &UNITS, "")
    }
}

impl Display for BytesPerSecond {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        format_unit(f, self.0, &UNITS[RATE_UNITS_FROM..], "/s")
    }
}

impl Display for Iops {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{} IOPS", grouped_if_alternate(f, self.0)))
    }
}

/// A capacity: a bare number is refused, because it is a forgotten unit more often than a number of bytes.
impl FromStr for Bytes {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let bytes = parse_size(text)?;
        if text.trim().ends_with(|last: char| last.is_ascii_digit()) {
            let number = text.trim();
            let like = if bytes == 0 { "4" } else { number };
            let what = format!("\"{number}\" has no unit: a size needs a unit, like {like}GiB");
            return Err(Refusal::new(what, SIZES, OWN));
        }
        Ok(Self(bytes))
    }
}

impl FromStr for BytesPerSecond {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let allowed = "a number with KiB/s, MiB/s or GiB/s, or k/s, M/s or G/s for short (powers of 1,024), with kB/s, MB/s \
                       or GB/s (powers of 1,000), or with Mbit/s or Gbit/s, like 128MiB/s, 1.6GiB/s, 500MB/s or 16Gbit/s";
        let per_second = |name: &str| {
            let name = name.strip_suffix("/s").or_else(|| name.strip_suffix("ps"))?;
            bytes_per_unit(name).filter(|_| !name.is_empty())
        };
        let rate = parse(text, per_second, 1).or_else(|| parse(text, bits_per_second, 8));
        rate.map(Self).ok_or_else(|| Refusal::new(format!("\"{text}\" is not a data rate"), allowed, OWN))
    }
}

impl FromStr for Iops {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let number = text.trim().strip_suffix("IOPS").unwrap_or(text);
        parse_thousands(number).map(Self).ok_or_else(|| {
            let what = format!("\"{text}\" is not a number of operations per second");
            Refusal::new(what, COUNTS, OWN)
        })
    }
}

const COUNTS: &str = "a whole number, or one with k (thousands) or M (millions), like 900, 120k or 1.2M";

fn parse_thousands(text: &str) -> Option<u64> {
    // Never rounded: a fraction of a count is invalid.
    let thousandths = |name: &str| match name {
        "" => Some(1_000_000),
        "k" | "K" => Some(1_000_000_000),
        "m" | "M" => Some(1_000_000_000_000),
        _ => None,
    };
    parse(text, thousandths, 1)
        .filter(|millionths| millionths.is_multiple_of(1_000_000))
        .map(|all| all / 1_000_000)
}

const SIZES: &str = "a number with KiB, MiB, GiB, TiB or PiB, or k, M, G, T or P for short (powers of 1,024), with kB, MB, \
                     GB, TB or PB (powers of 1,000), or with B, like 4096B, 8k, 1.5TiB, 100G or 60TB";

/// The size of a block or a file, in bytes; a bare number is bytes, as in fio and dd.
pub fn parse_size(text: &str) -> Result<u64, Refusal> {
    parse(text, bytes_per_unit, 1).ok_or_else(|| {
        let unit = text.trim().trim_start_matches(|c: char| c.is_ascii_digit());
        let is_form =
            unit.len() < text.trim().len() && parse(&format!("1{unit}"), bytes_per_unit, 1).is_some();
        match is_form {
            true => Refusal::new(format!("\"{text}\" is too large"), "less than 16,384 PiB", OWN),
            false => Refusal::new(format!("\"{text}\" is not a size"), SIZES, OWN),
        }
    })
}

/// A count: `900`, `120k`, `1.2M`; the letters mean thousands and millions, in either case.
pub fn parse_count(text: &str) -> Result<u64, Refusal> {
    parse_thousands(text)
        .ok_or_else(|| Refusal::new(format!("\"{text}\" is not a whole number"), COUNTS, OWN))
}

/// A time: `800us`, `0.5ms`, `10s`, `2m`, `1h`; a bare number is seconds.
pub fn parse_duration(text: &str) -> Result<Duration, Refusal> {
    let nanoseconds = |name: &str| match name {
        "us" | "µs" | "μs" => Some(1_000),
        "ms" => Some(1_000_000),
        "" | "s" => Some(1_000_000_000),
        "m" | "min" => Some(60_000_000_000),
        "h" => Some(3_600_000_000_000),
        _ => None,
    };
    parse(text, nanoseconds, 1).map(Duration::from_nanos).ok_or_else(|| {
        let allowed = "a number with us, ms, s, m or h, like 800us, 0.5ms, 10s or 2m";
        Refusal::new(format!("\"{text}\" is not a time"), allowed, OWN)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_parse_and_print() {
        for (text, bytes, shown) in [
            ("2TiB", 2_199_023_255_552, "2 TiB"),
            ("100GiB", 107_374_182_400, "100 GiB"),
            ("10TB", 10_000_000_000_000, "10 TB"),
            ("1.5 TiB", 1_649_267_441_664, "1.5 TiB"),
            ("9.75TiB", 10_720_238_370_816, "9.75 TiB"),
            ("63.9TiB", 70_258_793_014_886, "63.9 TiB"),
            ("2048TiB", 2 << 50, "2 PiB"),
            ("1025TiB", 1025 << 40, "1025 TiB"),
            ("0B", 0, "0 B"),
            ("1000GiB", 1000 << 30, "1000 GiB"),
            ("1234567B", 1_234_567, "1234567 B"),
        ] {
            let read: Bytes = text.parse().unwrap();
            assert_eq!((read, read.to_string().as_str()), (Bytes(bytes), shown), "{text}");
        }
    }

    #[test]
    fn rates_parse_and_print() {
        for (text, bytes, shown) in [
            ("128MiB/s", 134_217_728, "128 MiB/s"),
            ("6.25MiB/s", 6_553_600, "6.25 MiB/s"),
            ("1.6GiB/s", 1_717_986_918, "1638.4 MiB/s"),
            ("5 GiBps", 5 << 30, "5120 MiB/s"),
            ("500MB/s", 500_000_000, "500 MB/s"),
            ("417.792MB/s", 417_792_000, "417.792 MB/s"),
            ("16KiB/s", 16_384, "16 KiB/s"),
        ] {
            let read: BytesPerSecond = text.parse().unwrap();
            assert_eq!((read, read.to_string().as_str()), (BytesPerSecond(bytes), shown), "{text}");
        }
    }

    #[test]
    fn sizes_for_people_are_short_and_exact() {
        for (bytes, shown) in [
            (9_199_023_255_552, "8.37 TiB (9199023255552 bytes)"),
            (4 << 40, "4 TiB"),
            ((4 << 40) + 1, "4 TiB (4398046511105 bytes)"),
            (1000 << 30, "1000 GiB"),
            (60_000_000_000_000, "60 TB"),
            (4096, "4 KiB"),
            (4097, "4097 B"),
            (1_234_567, "1.18 MiB (1234567 bytes)"),
            (0, "0 B"),
        ] {
            assert_eq!(Bytes(bytes).for_people().to_string(), shown);
        }
    }

    #[test]
    fn ambiguous_units_are_refused() {
        assert!(Bytes::tib(60) > Bytes::tb(60), "10 % apart");
        assert_ne!("60TB".parse::<Bytes>(), "60TiB".parse::<Bytes>());
        for text in [
            "2 terabytes",
            "2tb",
            "1gb",
            "64mb",
            "2Tb",
            "8x",
            "8kk",
            "8ibk",
            "ib",
            "5ib",
            "5i",
            "",
            "k",
            "TiB",
        ] {
            let refusal = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(refusal.contains("TiB or PiB") && refusal.contains("TB or PB"), "{text}: {refusal}");
        }
        for text in ["-2TiB", "1.TiB", ".5TiB", "1.2.3TiB", "99999999PiB", "99999999999t"] {
            assert!(text.parse::<Bytes>().unwrap_err().to_string().contains(text), "{text}");
        }
        for text in ["128MiB", "128", "128/s", "128Mb/s", "128 MiB/h", "16Gbit", "16gbit/s", "16Gibit/s"] {
            assert!(text.parse::<BytesPerSecond>().unwrap_err().to_string().contains("MiB/s"), "{text}");
        }
    }

    #[test]
    fn short_units_match_fio_and_zfs() {
        for (text, bytes) in [
            ("4096B", 4096),
            ("8k", 8 << 10),
            ("8K", 8 << 10),
            ("8kib", 8 << 10),
            ("64m", 64 << 20),
            ("1.5g", 3 << 29),
            ("100G", 100 << 30),
            ("100Gi", 100 << 30),
            ("2T", 2 << 40),
            ("1p", 1 << 50),
            ("7b", 7),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        assert_eq!("900M/s".parse(), Ok(BytesPerSecond::mib(900)));
    }

    #[test]
    fn size_without_unit_is_bytes_for_block_and_refused_for_capacity() {
        assert_eq!(parse_size("4096"), Ok(4096));
        for (text, like) in [("40", "40GiB"), (" 40 ", "40GiB"), ("0", "4GiB"), ("1.5", "1.5GiB")] {
            let refusal = text.parse::<Bytes>().unwrap_err().to_string();
            let hint = format!("a size needs a unit, like {like}");
            assert!(refusal.contains(&hint) && refusal.contains("4096B"), "{refusal}");
        }
        assert_eq!("40B".parse(), Ok(Bytes(40)));
        let refusal = "99999999999999999TiB".parse::<Bytes>().unwrap_err().to_string();
        assert!(refusal.contains("is too large; allowed: less than 16,384 PiB"), "{refusal}");
    }

    #[test]
    fn network_units_count_bits() {
        for (text, bytes) in [
            ("16Gbit/s", 2_000_000_000),
            ("16 Gbps", 2_000_000_000),
            ("100Gbitps", 12_500_000_000),
            ("2.5Gbit/s", 312_500_000),
            ("800 Mbit/s", 100_000_000),
        ] {
            assert_eq!(text.parse(), Ok(BytesPerSecond(bytes)), "{text}");
        }
    }

    #[test]
    fn counts_parse_whole_numbers() {
        assert_eq!("16000".parse(), Ok(Iops(16_000)));
        assert_eq!("16000 IOPS".parse(), Ok(Iops(16_000)));
        assert_eq!("120k".parse(), Ok(Iops(120_000)));
        assert_eq!(Iops(16_000).to_string(), "16000 IOPS");
    }

    #[test]
    fn alternate_format_groups_digits() {
        let shown = [0, 999, 1_000, 12_345, 120_000, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "12,345", "120,000", "1,234,567"]);
        assert_eq!(format!("{:#}", Iops(16_000)), "16,000 IOPS");
        assert_eq!(format!("{:#}", BytesPerSecond(1_717_986_918)), "1,638.4 MiB/s");
        assert_eq!(format!("{:#} {:#}", Bytes::tib(2), Bytes(4_097)), "2 TiB 4,097 B");
        for (text, count) in [
            ("900", 900),
            ("1.2M", 1_200_000),
            (" 1.25 K ", 1250),
            ("0.5k", 500),
            ("7.0", 7),
            ("2m", 2_000_000),
        ] {
            assert_eq!(parse_count(text), Ok(count), "{text}");
        }
        for text in [
            "",
            "k",
            "1.5",
            "1.2345k",
            "-1",
            "+5",
            "1.",
            ".5k",
            "1.2.3k",
            "1e3",
            "8ki",
            "99999999999999999M",
            "IOPS",
        ] {
            let message = parse_count(text).unwrap_err().to_string();
            assert!(message.contains(&format!("\"{text}\"")) && message.contains("1.2M"), "{message}");
            assert!(text.parse::<Iops>().is_err(), "{text}");
        }
    }

    #[test]
    fn durations_parse_units() {
        for (text, us) in [
            ("800us", 800),
            ("0.5ms", 500),
            ("500ms", 500_000),
            ("10s", 10_000_000),
            ("10", 10_000_000),
            ("1.5s", 1_500_000),
            ("2m", 120_000_000),
            ("1h", 3_600_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_micros(us)), "{text}");
        }
        for text in ["", "s", "1d", "-1s", "1.s", "2 hours"] {
            assert!(parse_duration(text).unwrap_err().to_string().contains("0.5ms, 10s or 2m"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_value_parses_back(value: u64) {
            prop_assert_eq!(Bytes(value).to_string().parse(), Ok(Bytes(value)));
            prop_assert_eq!(BytesPerSecond(value).to_string().parse(), Ok(BytesPerSecond(value)));
        }
    }
}
