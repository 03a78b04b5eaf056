//! The user's table of prices.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use envelope::{BytesPerSecond, Iops, Level, Price, Prices};
use serde::Deserialize;
use std::collections::BTreeMap;

use crate::exit::usage;
use crate::form::{Form, TEXT};
use crate::toml_file;

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
    args.form.check_extension(if args.example { &["toml"] } else { TEXT }, "")?;
    let shown = parse(EXAMPLE, Path::new("prices.toml"))?;
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

/// Reads the text of the file `path`.
pub(super) fn parse(text: &str, path: &Path) -> anyhow::Result<Prices> {
    let table: Table = toml_file::parse(text, path).map_err(usage)?;
    let mut levels = Vec::new();
    for (name, entry) in &table.level {
        let pointer = format!("/level/{}", name.replace('/', "~1"));
        let fault =
            |key: &str, wrong: String| usage(toml_file::fault(text, path, &(pointer.clone() + key), &wrong));
        let level: Level =
            name.parse().map_err(|wrong: envelope::Refusal| fault("", format!("({wrong})")))?;
        let millionths = |key: &str, price| millionths(price).map_err(|wrong| fault(key, wrong));
        let price = Price {
            per_gib: millionths("/per_gib", entry.per_gib)?,
            per_mib_per_s: millionths("/per_mib_per_s", entry.per_mib_per_s)?,
            included_throughput: BytesPerSecond::mib(entry.included_mib_per_s.min(1 << 40)),
            per_iops: millionths("/per_iops", entry.per_iops)?,
            included_iops: Iops(entry.included_iops),
        };
        levels.push((level, price));
    }
    Ok(Prices { currency: table.currency, levels })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
fn millionths(price: f64) -> Result<u64, String> {
    if !(0.0..1e9).contains(&price) {
        return Err(format!("is {price}; allowed: 0 or more, and less than 1,000,000,000"));
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
        let prices = parse(text, Path::new("p.toml")).unwrap();
        assert_eq!(prices.currency, "EUR");
        let of = |level| prices.levels.iter().find(|(one, _)| *one == level).unwrap().1;
        assert_eq!(of(Level::AnfPremium).per_gib, 294_030);
        assert_eq!(of(Level::AnfFlexible).included_throughput, BytesPerSecond::mib(128));
    }

    #[test]
    fn example_has_every_cloud_level_and_says_that_it_is_one() {
        let levels: Vec<Level> =
            parse(EXAMPLE, Path::new("p.toml")).unwrap().levels.into_iter().map(|(level, _)| level).collect();
        for level in envelope::Catalog::default().levels {
            let is_own = level.info().provider == envelope::Provider::Plimsoll;
            assert_eq!(levels.contains(&level), !is_own, "{level}");
        }
        let prices = parse(EXAMPLE, Path::new("p.toml")).unwrap();
        for (level, price) in prices.levels {
            let settable = level.info().settable;
            assert_eq!(price.per_iops > 0, settable.iops, "{level}: what can be set has a price");
            assert_eq!(price.per_mib_per_s > 0, settable.throughput, "{level}: what can be set has a price");
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
            (
                "currency = \"EUR\"\n[level.\"anf/premium\"]\nper_gib = -1.0",
                "line 3: level.\"anf/premium\".per_gib is -1; allowed: 0 or more",
            ),
            (
                "currency = \"EUR\"\n[level.\"anf/premium\"]\nper_tib = 1.0",
                "p.toml: line 3: level.\"anf/premium\".per_tib is unknown; allowed: per_gib, ",
            ),
        ] {
            let error = format!("{:#}", parse(text, Path::new("p.toml")).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
    }
}
