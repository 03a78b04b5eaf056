//! Service levels and scenarios.

use super::{cell, row};
use crate::manage::limits::{iops, summary, throughput};
use api_client::model::Ceilings;
use envelope::{Bands, Bytes, Level, LevelInfo, Limits, Owner, Pool, Provider, Volume};
use report::scenario;
use std::fmt::Write as _;

pub(super) fn levels() -> String {
    let mut page = "# Service levels

A pool has a level. [Levels, pools, volumes and limits](../concepts/levels.md) explains how limits
follow from it. `plimsoll level show LEVEL --size SIZE` shows the limits of a size, with the source
of each.

"
    .to_owned();
    page.push_str(&limits_of_sizes());
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
        page.push_str(&limits_at_the_ends(*level, info));
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

/// A table with a row for each level of a provider.
fn limits_of_sizes() -> String {
    let mut table = "## Limits by size

These are the limits that a size buys without further settings. At `gcnv/flex…` and
`anf/flexible` the size is that of the pool, and its volumes share the limits. At the others it is
that of a volume.

- `r` is for reads, `w` for writes. One figure is for both together.
- `-` means no limit. An empty cell means that the level does not have this size.
- Levels without any of these sizes are left out. Each section below has the limits of the smallest
  and the largest size.
- At `plimsoll/…` the size sets no limit.

| level | MiB/s: 1 TiB | 10 TiB | 100 TiB | IOPS: 1 TiB | 10 TiB | 100 TiB |
|---|---|---|---|---|---|---|
"
    .to_owned();
    for level in Level::all().iter().filter(|level| level.info().provider != Provider::Plimsoll) {
        let limits = [1, 10, 100].map(|size| limits(*level, Bytes::tib(size)));
        if limits.iter().all(Option::is_none) {
            continue;
        }
        let shown = |show: fn(&Ceilings) -> String| {
            let text = |limits: &Option<Limits>| limits.as_ref().map(|of| show(&of.total.into()));
            limits.iter().map(|limits| text(limits).unwrap_or_default()).collect::<Vec<_>>()
        };
        let cells: Vec<String> = shown(throughput).into_iter().chain(shown(iops)).collect();
        let name = format!("`{}`", level.info().name);
        let cells: Vec<&str> =
            std::iter::once(name.as_str()).chain(cells.iter().map(String::as_str)).collect();
        table.push_str(&row(&cells));
    }
    table
}

/// The limits of the smallest and the largest size.
fn limits_at_the_ends(level: Level, info: &LevelInfo) -> String {
    let ranges = priced_sizes(info).map_or(&[][..], |bands| bands.ranges);
    let ends = [ranges.first().map(|range| range.min), ranges.last().map(|range| range.max)];
    let line = |size: Bytes| {
        let limits = limits(level, size)?;
        Some(row(&[&format!("limits of {size}"), &summary(&limits.into())]))
    };
    ends.into_iter().flatten().filter_map(line).collect()
}

/// The sizes that the limits follow from.
fn priced_sizes(info: &LevelInfo) -> Option<Bands> {
    match info.owner {
        Owner::Volume if !info.is_instance => info.volume_sizes,
        _ => info.pool_sizes,
    }
}

/// The limits that a size buys; none if the level does not sell it.
fn limits(level: Level, size: Bytes) -> Option<Limits> {
    let info = level.info();
    let is_sold = priced_sizes(info)?.ranges.iter().any(|range| (range.min..=range.max).contains(&size));
    if !is_sold {
        return None;
    }
    let smallest = info.pool_sizes?.ranges.first()?.min;
    let pool = Pool::new(level, size.max(smallest));
    match info.owner {
        Owner::Pool => pool.limits().ok(),
        // With manual QoS alone, a volume has no throughput before it is set: a part of the pool's.
        Owner::Volume => pool.volume_limits(&Volume::new(size)).or_else(|_| pool.limits()).ok(),
    }
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
