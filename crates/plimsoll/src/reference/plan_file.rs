//! The keys of a plan's file, which are flags of `plimsoll size`.

use super::commands::meaning;
use super::row;
use crate::size::question::file::flags_of_keys;
use clap::Arg;

const INTRODUCTION: &str = "# Plan file

`plimsoll size --plan FILE` plans several workloads. [Size
storage](../how-to/size.md#users-plans-and-years) shows how. The file is TOML, with one
`[[workload]]` table for each workload:

```toml
[[workload]]
name = \"home\"
users = 500
growth = 20

[[workload]]
name = \"db\"
capacity = \"2TiB\"
iops = \"8k\"
block = \"8k\"
read = 70
load = [\"sequential,256k,100,200MiB/s\"]
```

`name` is required, and no two workloads have the same. The other keys are flags of `plimsoll size`
without the dashes. A workload needs an amount: `capacity`, or a number of `users`, `streams`,
`machines` or `gpus`.

- Sizes, rates and times are strings with a unit: `\"4TiB\"`. Counts and percentages may be numbers.
- A key without a value in the table below is `true` or `false`.
- A repeatable key takes a list.
- An unknown key is refused. The message lists the allowed keys.
- Levels, prices and years are of the whole plan. Give them as flags: `--provider`, `--level`,
  `--prices`, `--years`.
- Paths of files are relative to the current directory.

| key | value | meaning |
|---|---|---|
";

pub(super) fn page() -> String {
    let mut page =
        INTRODUCTION.to_owned() + &row(&["`name`", "NAME", "Name of the workload and its volumes"]);
    for flag in flags_of_keys() {
        let key = format!("`{}`", flag.get_long().unwrap_or_default());
        page.push_str(&row(&[&key, &value(&flag), &without_dashes(&meaning(&flag))]));
    }
    page
}

fn value(flag: &Arg) -> String {
    let names = flag.get_value_names().filter(|_| flag.get_action().takes_values()).unwrap_or_default();
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// A sentence about flags as one about keys.
fn without_dashes(text: &str) -> String {
    text.replace(" --", " ")
}
