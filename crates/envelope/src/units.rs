//! Sizes, rates and operations as types: integers at the bottom, so that results are exact.
//!
//! TB (10¹² bytes) and TiB (2⁴⁰ bytes) are different words here and neither has a shorter one: `2T` is refused.

use crate::Refusal;
use crate::source::OWN;
use serde::{Deserialize, Serialize};
use std::fmt::{Display, Formatter};
use std::str::FromStr;

/// A size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A data rate in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BytesPerSecond(pub u64);

/// Operations per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Iops(pub u64);

/// Every unit of size, larger ones first.
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

/// Where the units begin in which rates are shown: all rates in MiB/s can be compared at a glance.
const RATE_UNITS_FROM: usize = 6;

/// Below this unit no fractions are shown: any number of bytes would be one.
const FRACTIONS_FROM: u64 = 1_000_000;

impl Bytes {
    /// `n` × 2³⁰ bytes.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    /// `n` × 2⁴⁰ bytes.
    pub const fn tib(n: u64) -> Self {
        Self(n << 40)
    }

    /// `n` × 2⁵⁰ bytes.
    pub const fn pib(n: u64) -> Self {
        Self(n << 50)
    }

    /// `n` × 10¹² bytes.
    pub const fn tb(n: u64) -> Self {
        Self(n * 1_000_000_000_000)
    }
}

impl BytesPerSecond {
    /// `n` × 2¹⁰ bytes per second.
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// `n` × 2²⁰ bytes per second.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// `n` × 2³⁰ bytes per second.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    /// `n` × 10⁶ bytes per second.
    pub const fn mb(n: u64) -> Self {
        Self(n * 1_000_000)
    }

    /// What `size` earns where each `per` earns `self`, rounded down to a byte.
    pub(crate) fn times(self, size: Bytes, per: Bytes) -> Self {
        Self(proportion(self.0, size.0, per.0))
    }
}

impl Iops {
    /// What `size` earns where each `per` earns `self`, rounded down to an operation.
    pub(crate) fn times(self, size: Bytes, per: Bytes) -> Self {
        Self(proportion(self.0, size.0, per.0))
    }
}

/// `value` × `numerator` ÷ `denominator`, rounded down; the greatest number where it does not fit.
pub(crate) fn proportion(value: u64, numerator: u64, denominator: u64) -> u64 {
    let exact = u128::from(value) * u128::from(numerator) / u128::from(denominator.max(1));
    u64::try_from(exact).unwrap_or(u64::MAX)
}

/// The number and the unit of a text like `1.5TiB`: digits, perhaps a fraction, perhaps a space, letters.
fn parse(text: &str, unit_of: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let unit = unit_of(text[end..].trim_start())?;
    let (whole, fraction) = match text[..end].split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (&text[..end], ""),
    };
    let digits: u128 = format!("{whole}{fraction}").parse().ok().filter(|_| !whole.is_empty())?;
    let divisor = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    u64::try_from(digits.checked_mul(u128::from(unit))? / divisor).ok()
}

/// The shortest text that [`parse`] reads as the same number: 1.6 GiB/s is 1,717,986,918.4 bytes and still `1638.4 MiB/s`.
fn show(f: &mut Formatter<'_>, value: u64, units: &[(&'static str, u64)], suffix: &str) -> std::fmt::Result {
    let fits = |&(name, unit): &(&'static str, u64)| {
        let thousandths = (u128::from(value) * 1000).div_ceil(u128::from(unit));
        let same = thousandths * u128::from(unit) / 1000 == u128::from(value);
        let shown = unit >= FRACTIONS_FROM || thousandths % 1000 == 0;
        (value >= unit && same && shown).then_some((thousandths, name))
    };
    let (thousandths, unit) = units.iter().find_map(fits).unwrap_or((u128::from(value) * 1000, "B"));
    let (whole, rest) = (thousandths / 1000, thousandths % 1000);
    let fraction = if rest == 0 { String::new() } else { format!(".{rest:03}") };
    f.pad(&format!("{whole}{} {unit}{suffix}", fraction.trim_end_matches('0')))
}

fn unit(name: &str) -> Option<u64> {
    UNITS.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
}

impl Display for Bytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        show(f, self.0, &UNITS, "")
    }
}

impl Display for BytesPerSecond {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        show(f, self.0, &UNITS[RATE_UNITS_FROM..], "/s")
    }
}

impl Display for Iops {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{} IOPS", self.0))
    }
}

impl FromStr for Bytes {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let allowed = "a number with B, KiB, MiB, GiB, TiB or PiB (powers of 1,024) or kB, MB, GB, TB or PB \
                       (powers of 1,000), like 2TiB, 1.5TiB, 100GiB or 60TB";
        parse(text, unit)
            .map(Self)
            .ok_or_else(|| Refusal::new(format!("\"{text}\" is no size"), allowed, OWN))
    }
}

impl FromStr for BytesPerSecond {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let allowed = "a number with KiB/s, MiB/s or GiB/s (powers of 1,024) or kB/s, MB/s or GB/s (powers of \
                       1,000), like 128MiB/s, 1.6GiB/s or 500MB/s";
        let per_second =
            |name: &str| name.strip_suffix("/s").or_else(|| name.strip_suffix("ps")).and_then(unit);
        let rate = parse(text, per_second).map(Self);
        rate.ok_or_else(|| Refusal::new(format!("\"{text}\" is no data rate"), allowed, OWN))
    }
}

impl FromStr for Iops {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let number = text.trim().strip_suffix("IOPS").unwrap_or(text).trim();
        let digits = number.bytes().all(|byte| byte.is_ascii_digit());
        let iops = number.parse().ok().filter(|_| digits).map(Self);
        iops.ok_or_else(|| {
            let what = format!("\"{text}\" is no number of operations per second");
            Refusal::new(what, "a whole number, like 16000 or 16000 IOPS", OWN)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_and_shown() {
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
    fn rates_are_read_and_shown() {
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
    fn no_unit_stands_for_another() {
        assert!(Bytes::tib(60) > Bytes::tb(60), "10 % apart");
        assert_ne!("60TB".parse::<Bytes>(), "60TiB".parse::<Bytes>());
        for text in
            ["2T", "2", "2 terabytes", "2tb", "2Tib", "2Ti", "", "TiB", "-2TiB", "1.TiB", ".5TiB", "1.2.3TiB"]
        {
            let refusal = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(refusal.contains("TiB or PiB") && refusal.contains("TB or PB"), "{text}: {refusal}");
        }
        for text in ["128MiB", "128", "128Mb/s", "128 MiB/h"] {
            assert!(text.parse::<BytesPerSecond>().unwrap_err().to_string().contains("MiB/s"), "{text}");
        }
        assert!("99999999PiB".parse::<Bytes>().is_err(), "does not fit");
    }

    #[test]
    fn operations_are_whole_numbers() {
        assert_eq!("16000".parse(), Ok(Iops(16_000)));
        assert_eq!("16000 IOPS".parse(), Ok(Iops(16_000)));
        assert_eq!(Iops(16_000).to_string(), "16000 IOPS");
        for text in ["16k", "1.5", "+5", "", "IOPS"] {
            assert!(text.parse::<Iops>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(value: u64) {
            prop_assert_eq!(Bytes(value).to_string().parse(), Ok(Bytes(value)));
            prop_assert_eq!(BytesPerSecond(value).to_string().parse(), Ok(BytesPerSecond(value)));
        }
    }
}
