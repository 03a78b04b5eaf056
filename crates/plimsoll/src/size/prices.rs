//! The user's table of prices.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use envelope::{BytesPerSecond, Iops, Level, Price, Prices};
use serde::Deserialize;
use std::collections::BTreeMap;

use crate::form::Form;

/// The example table, which shows the form and no provider's prices.
const EXAMPLE: &str = include_str!("prices-example.toml");

const ABOUT: &str = "\
No provider's prices are included: they differ by region, contract and day.

1. Write the example table:   plimsoll size prices --example > prices.toml
2. Fill in your prices:       Azure NetApp Files     https://azure.microsoft.com/pricing/details/netapp/
                              NetApp Volumes         https://cloud.google.com/netapp/volumes/pricing
                              Filestore              https://cloud.google.com/filestore/pricing
3. Compare options by cost:   plimsoll size --prices prices.toml --capacity 40TiB --iops 20k
";

#[derive(Debug, Args)]
pub(super) struct PricesArgs {
    /// Print a table of example numbers to fill in
    #[arg(long)]
    example: bool,
    #[command(flatten)]
    form: Form,
}

pub(super) fn run(args: &PricesArgs) -> anyhow::Result<ExitCode> {
    let shown = parse(EXAMPLE)?;
    args.form.show(&shown, |_| Ok(if args.example { EXAMPLE } else { ABOUT }.to_owned()))?;
    Ok(ExitCode::SUCCESS)
}

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
    fn example_has_every_cloud_level_and_says_that_it_is_one() {
        let levels: Vec<Level> = parse(EXAMPLE).unwrap().levels.into_iter().map(|(level, _)| level).collect();
        for level in envelope::Catalog::default().levels {
            let is_own = level.info().provider == envelope::Provider::Plimsoll;
            assert_eq!(levels.contains(&level), !is_own, "{level}");
        }
        for said in
            ["not the prices of any provider", "2026-11-29", "https://cloud.google.com/filestore/pricing"]
        {
            assert!(EXAMPLE.contains(said), "{said}");
        }
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
