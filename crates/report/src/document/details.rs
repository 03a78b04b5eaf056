//! Details behind the figures, for verification.

use super::axes::{self, Axis};
use super::table::{Table, Value};
use super::words;
use crate::result::{Cell, Limits, Measurement, Run, ServerSide, VolumeFacts};

/// Includes every probe. `None` without a search.
pub(super) fn searches(cells: &[&Cell], varying: &[Axis]) -> Option<Table> {
    const HEAD: [&str; 8] =
        ["Search for", "Calls in flight a job", "IOPS", "MiB/s", "mean ms", "p50 ms", "p95 ms", "p99 ms"];
    let mut table = Table::new("Search for the number of calls in flight", &HEAD);
    for cell in cells {
        for probe in &cell.search {
            let latency = &probe.latency;
            let mut row = vec![Value::Number(probe.depth as f64, 0)];
            row.extend(
                [
                    probe.ops_per_s,
                    probe.mib_per_s,
                    latency.mean_ms,
                    latency.p50_ms,
                    latency.p95_ms,
                    latency.p99_ms,
                ]
                .map(Value::figure),
            );
            table.row(name(cell, varying), row);
        }
    }
    non_empty(table)
}

pub(super) fn server(volume: Option<&VolumeFacts>, cells: &[&Cell], varying: &[Axis]) -> Option<Table> {
    const HEAD: [&str; 9] = [
        "Seen by the server",
        "IOPS",
        "Read MiB/s",
        "Write MiB/s",
        "Closest limit",
        "Of it %",
        "Throttled % of operations",
        "Connections",
        "READs from memory %",
    ];
    let mut table = Table::new("The server's side", &HEAD);
    let sides = valid(cells, varying).filter_map(|(name, one)| Some((name, one, one.server.as_ref()?)));
    for (name, one, side) in sides {
        let mib = f64::from(1 << 20);
        let [ops, read, write] =
            [side.ops as f64, side.read_bytes as f64 / mib, side.write_bytes as f64 / mib]
                .map(|count| count / seconds_of(side, one));
        let closest = uses(volume, side, one).into_iter().next();
        let waited = side.throttled_ops as f64 / (side.ops as f64).max(1.0);
        let row = vec![
            Value::figure(ops),
            Value::figure(read),
            Value::figure(write),
            closest
                .as_ref()
                .map_or(Value::Nothing, |one| one.name.trim_start_matches("the limit on ").into()),
            closest.map_or(Value::Nothing, |one| Value::percent(one.share)),
            throttling(waited, side),
            Value::count(side.connections),
            side.cache_hit_ratio.map_or(Value::Nothing, Value::percent),
        ];
        table.row(name, row);
    }
    non_empty(table)
}

/// Falls back to the window for servers that report no time.
fn seconds_of(side: &ServerSide, one: &Measurement) -> f64 {
    if side.seconds > 0.0 { side.seconds } else { one.seconds }
}

/// The share of operations that waited for a limit, and their mean wait.
fn throttling(share: f64, side: &ServerSide) -> Value {
    if side.throttled_ops == 0 {
        return Value::percent(0.0);
    }
    let each_ms = side.throttle_s * 1e3 / side.throttled_ops as f64;
    format!("{} (each {} ms)", Value::percent(share), Value::figure(each_ms)).into()
}

/// The rates of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    pub read_mib_per_s: f64,
    pub write_mib_per_s: f64,
    pub read_iops: f64,
    pub write_iops: f64,
    /// With operations that neither read nor write.
    pub iops: f64,
}

/// The use of one limit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LimitUse {
    /// The limit with its figure.
    pub(super) name: String,
    /// The rate, as the limit counts it.
    rate: String,
    pub(super) share: f64,
}

impl LimitUse {
    fn new(name: String, used: f64, limit: f64, unit: &str) -> Self {
        let rate = format!("{} {unit}", Value::figure(used));
        Self { name, rate, share: used / limit.max(f64::MIN_POSITIVE) }
    }

    /// `97 % of the limit on all operations 500 IOPS (485 IOPS)`.
    pub(super) fn in_words(&self) -> String {
        let Self { name, rate, share } = self;
        format!("{:.0}\u{a0}% of {name} ({rate})", share * 100.0)
    }
}

impl Used {
    /// The use of each limit, the most used first. The volume's published curve is one of the limits.
    pub(super) fn uses(self, volume: Option<&VolumeFacts>, limits: &Limits) -> Vec<LimitUse> {
        let cost = volume.and_then(|volume| volume.write_cost_thousandths).unwrap_or(1000);
        let one = |(name, limit, unit): (&str, f64, &'static str)| {
            let used = match (name, unit) {
                ("reads", "MiB/s") => self.read_mib_per_s,
                ("writes", "MiB/s") => self.write_mib_per_s,
                (_, "MiB/s") => self.read_mib_per_s + self.write_mib_per_s,
                ("reads", _) => self.read_iops,
                ("writes", _) => self.write_iops,
                _ => self.iops + self.write_iops * (f64::from(cost) / 1000.0 - 1.0),
            };
            let is_weighted = cost != 1000 && unit == "IOPS" && !matches!(name, "reads" | "writes");
            let weight = if is_weighted {
                format!(" with each write as {}", Value::figure(f64::from(cost) / 1e3))
            } else {
                String::new()
            };
            let name = format!("the limit on {name} {} {unit}{weight}", Value::figure(limit));
            LimitUse::new(name, used, limit, unit)
        };
        let curve = volume.and_then(|volume| self.of_curve(volume));
        let mut uses: Vec<LimitUse> = words::limits(limits).into_iter().map(one).chain(curve).collect();
        uses.sort_by(|a, b| b.share.total_cmp(&a.share));
        uses
    }

    /// The use of the volume's curve at this mix. Blocks of at least the curve's size are limited in bytes, smaller
    /// blocks in operations.
    fn of_curve(self, volume: &VolumeFacts) -> Option<LimitUse> {
        let shape: envelope::Shape = volume.shape.as_ref()?.parse().ok()?;
        let shaping = envelope::Shaping { shape, scale_thousandths: volume.shape_scale_thousandths? };
        let mib_per_s = self.read_mib_per_s + self.write_mib_per_s;
        let reads = if mib_per_s > 0.0 { self.read_mib_per_s / mib_per_s } else { 0.0 };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 1000")]
        let ceiling = shaping.ceiling((reads * 1000.0) as u32);
        let (mib_max, iops_max) =
            ((ceiling.bandwidth.0 as f64 / f64::from(1 << 20)).max(1e-6), (ceiling.iops.0 as f64).max(1.0));
        let (by_bytes, by_ops) = (mib_per_s / mib_max, self.iops / iops_max);
        // Operations smaller than the curve's count as such.
        let are_counted = shape.metric() == envelope::Metric::Iops || by_ops > by_bytes * 1.05;
        let (used, limit, unit) =
            if are_counted { (self.iops, iops_max, "IOPS") } else { (mib_per_s, mib_max, "MiB/s") };
        let name = format!("its curve at this mix, {} {unit}", Value::figure(limit));
        Some(LimitUse { share: by_bytes.max(by_ops), ..LimitUse::new(name, used, limit, unit) })
    }
}

/// The use of each limit, the most used first. Empty if the limits changed in the window.
pub(super) fn uses(volume: Option<&VolumeFacts>, side: &ServerSide, one: &Measurement) -> Vec<LimitUse> {
    use crate::result::Direction::{Read, Write};
    if side.limits_before.is_some() {
        return Vec::new();
    }
    let seconds = seconds_of(side, one);
    let mib = |bytes: u64| bytes as f64 / seconds / f64::from(1 << 20);
    // The server counts operations of all kinds together; their shares are those of the generator.
    let used = Used {
        read_mib_per_s: mib(side.read_bytes),
        write_mib_per_s: mib(side.write_bytes),
        read_iops: one.ops(Some(Read)) as f64 / one.seconds,
        write_iops: one.ops(Some(Write)) as f64 / one.seconds,
        iops: side.ops as f64 / seconds,
    };
    used.uses(volume, &side.limits)
}

pub(super) fn wire(cells: &[&Cell], varying: &[Axis]) -> Option<Table> {
    let mut names: Vec<&str> =
        valid(cells, varying).flat_map(|(_, one)| one.wire.keys().map(String::as_str)).collect();
    names.sort_unstable();
    names.dedup();
    let mut table = Table::new("Calls on the wire a second", &["Calls of", "Operations of the application"]);
    table.head.extend(names.iter().map(|&name| name.to_owned()));
    for (name, one) in valid(cells, varying) {
        let mut row = vec![Value::figure(one.ops(None) as f64 / one.seconds)];
        let rate = |calls: &u64| Value::figure(*calls as f64 / one.seconds);
        row.extend(names.iter().map(|&name| one.wire.get(name).map_or(Value::Nothing, rate)));
        table.row(name.as_str(), row);
    }
    if names.is_empty() { None } else { non_empty(table) }
}

pub(super) fn cost(run: &Run, cells: &[&Cell], varying: &[Axis]) -> Option<Table> {
    const HEAD: [&str; 7] = [
        "Load of",
        "Machine",
        "Generator's CPUs",
        "Busiest thread %",
        "Machine busy %",
        "Sent late",
        "Network %",
    ];
    let mut table = Table::new("Cost of the load on its machines", &HEAD);
    for (name, one) in valid(cells, varying) {
        for (index, used) in one.machines.iter().enumerate() {
            let machine = run.machines.get(index).map_or("?", |machine| machine.name.as_str());
            let row = vec![
                machine.into(),
                Value::figure(used.cpu_s / one.seconds),
                Value::percent(used.busiest_thread),
                Value::percent(used.cpu_share),
                Value::count(used.late),
                used.network_share.map_or(Value::Nothing, Value::percent),
            ];
            table.row(name.as_str(), row);
        }
    }
    non_empty(table)
}

pub(super) fn errors(cells: &[&Cell], varying: &[Axis]) -> Option<Table> {
    let mut table = Table::new("Errors", &["At", "Error", "Count", "First messages"]);
    for cell in cells {
        for one in &cell.measurements {
            let first = one.error_details.join("; ");
            for (what, count) in &one.errors {
                let row = vec![what.as_str().into(), Value::count(*count), first.as_str().into()];
                table.row(name(cell, varying), row);
            }
        }
    }
    non_empty(table)
}

pub(super) fn machines(run: &Run) -> Option<Table> {
    const HEAD: [&str; 6] = ["Machine", "Host", "Kernel", "CPUs", "Version", "Clock off by ms"];
    let mut table = Table::new("Machines", &HEAD);
    for machine in &run.machines {
        let ms = |us: f64| format!("{:.3}", us / 1e3);
        let clock = format!("{} ± {}", ms(machine.clock_offset_us), ms(machine.clock_bound_us));
        let row = vec![
            machine.host.as_str().into(),
            machine.kernel.as_str().into(),
            Value::Number(machine.cpus as f64, 0),
            machine.version.as_str().into(),
            clock.into(),
        ];
        table.row(machine.name.as_str(), row);
    }
    non_empty(table)
}

fn valid<'a>(cells: &[&'a Cell], varying: &[Axis]) -> impl Iterator<Item = (String, &'a Measurement)> {
    let of_cell = |&cell: &&'a Cell| {
        let name = name(cell, varying);
        let several = cell.measurements.len() > 1;
        let numbered = move |(index, one)| {
            let number = if several {
                format!(", {} of {}", index + 1, cell.measurements.len())
            } else {
                String::new()
            };
            (format!("{name}{number}"), one)
        };
        cell.measurements.iter().enumerate().map(numbered).filter(|(_, one)| one.is_valid())
    };
    cells.iter().flat_map(of_cell)
}

fn name(cell: &Cell, varying: &[Axis]) -> String {
    axes::label(&cell.point, varying)
}

fn non_empty(table: Table) -> Option<Table> {
    (!table.rows.is_empty()).then_some(table)
}
