//! Service levels and scenarios.

use super::{cell, row};
use envelope::{Bands, Level, Owner};
use report::scenario;
use std::fmt::Write as _;

pub(super) fn levels() -> String {
    let mut page = "# Service levels

A pool has a level. [Levels, pools, volumes and limits](../concepts/levels.md) explains how limits
follow from it. `plimsoll level show LEVEL --size SIZE` shows the limits of a size, with the source
of each.
"
    .to_owned();
    for level in Level::all() {
        let info = level.info();
        _ = write!(
            page,
            "\n## `{}`\n\n{}.\n\n| property | value |\n|---|---|\n",
            info.name,
            cell(info.title)
        );
        let owner = match info.owner {
            Owner::Pool => "the pool's, shared by its volumes",
            Owner::Volume => "each volume's",
        };
        let volume = if info.is_instance { "that of the pool".to_owned() } else { sizes(info.volume_sizes) };
        let protocols: Vec<&str> = info.protocols.iter().map(|protocol| protocol.name()).collect();
        page.push_str(&row(&["limits", owner]));
        page.push_str(&row(&["size of a pool", &sizes(info.pool_sizes)]));
        page.push_str(&row(&["size of a volume", &volume]));
        if info.large_volume_sizes.is_some() {
            page.push_str(&row(&["size of a large volume", &sizes(info.large_volume_sizes)]));
        }
        page.push_str(&row(&["pools can shrink", if info.pool_shrinks { "yes" } else { "no" }]));
        page.push_str(&row(&["protocols", &protocols.join(", ")]));
        page.push_str(&row(&["SMB and NFS on one volume", if info.smb_with_nfs { "yes" } else { "no" }]));
        for source in info.sources {
            let page_of = if source.date.is_empty() {
                source.page.to_owned()
            } else {
                format!("{}, {}", source.page, source.date)
            };
            page.push_str(&row(&["source", &format!("{}: {}", cell(source.name), cell(&page_of))]));
        }
    }
    page
}

fn sizes(bands: Option<Bands>) -> String {
    bands.map_or_else(|| "any".to_owned(), |bands| cell(&bands.to_string()))
}

pub(super) fn scenarios() -> String {
    let mut page = "# Scenarios

`plimsoll bench run NAME --target nfs://HOST/PATH` runs one of these. A series *on request* runs only
with `--series NAME`. [Scenario files](scenario-file.md) has the form of your own.
"
    .to_owned();
    for scenario in scenario::all() {
        _ = write!(page, "\n## `{}`\n\n{}.\n", scenario.name, cell(scenario.title.trim_end_matches('.')));
        let about = cell(&scenario.about);
        if !about.is_empty() {
            _ = write!(page, "\n{about}\n");
        }
        page.push_str("\n| series | points | |\n|---|---|---|\n");
        for series in &scenario.series {
            let points =
                if series.is_curve() { "a curve".to_owned() } else { series.points().len().to_string() };
            let on_request = if series.on_request { "on request" } else { "" };
            page.push_str(&row(&[&cell(&series.name), &points, on_request]));
        }
    }
    page
}
