//! The user's table of prices.

use anyhow::bail;
use envelope::{BytesPerSecond, Iops, Level, Price, Prices};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// The currency, like `EUR`, which only appears in the output.
    currency: String,
    /// The prices by level.
    #[serde(default)]
    level: BTreeMap<String, Entry>,
}

/// The price of a level for a month; the fields of [`Price`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    per_gib: f64,
    #[serde(default)]
    per_mib_per_s: f64,
    #[serde(default)]
    included_mib_per_s: u64,
    #[serde(default)]
    per_iops: f64,
    #[serde(default)]
    included_iops: u64,
}

pub(super) fn parse(text: &str) -> anyhow::Result<Prices> {
    let table: Table = toml::from_str(text)?;
    let mut levels = Vec::new();
    for (name, entry) in &table.level {
        let level: Level = name.parse()?;
        let price = Price {
            per_gib: millionths(level, entry.per_gib)?,
            per_mib_per_s: millionths(level, entry.per_mib_per_s)?,
            included_throughput: BytesPerSecond::mib(entry.included_mib_per_s.min(1 << 40)),
            per_iops: millionths(level, entry.per_iops)?,
            included_iops: Iops(entry.included_iops),
        };
        levels.push((level, price));
    }
    Ok(Prices { currency: table.currency, levels })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
fn millionths(level: Level, price: f64) -> anyhow::Result<u64> {
    if !(0.0..1e9).contains(&price) {
        bail!("{level}: a price of {price}; allowed: 0 or more");
    }
    Ok((price * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_read_to_a_millionth() {
        let text = "currency = \"EUR\"\n[level.\"anf/premium\"]\nper_gib = 0.29403\n\
                    [level.\"anf/flexible\"]\nper_gib = 0.2\nper_mib_per_s = 1.5\nincluded_mib_per_s = 128\n";
        let prices = parse(text).unwrap();
        assert_eq!(prices.currency, "EUR");
        let of = |level| prices.levels.iter().find(|(one, _)| *one == level).unwrap().1;
        assert_eq!(of(Level::AnfPremium).per_gib, 294_030);
        assert_eq!(of(Level::AnfFlexible).included_throughput, BytesPerSecond::mib(128));
    }

    #[test]
    fn invalid_table_is_refused_with_a_reason() {
        for (text, why) in [
            ("[level.\"anf/premium\"]\nper_gib = 1.0", "currency"),
            ("currency = \"EUR\"\n[level.\"anf/gold\"]\nper_gib = 1.0", "anf/standard, anf/premium"),
            ("currency = \"EUR\"\n[level.\"anf/premium\"]\nper_gib = -1.0", "0 or more"),
            ("currency = \"EUR\"\n[level.\"anf/premium\"]\nper_tib = 1.0", "per_tib"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
    }
}
