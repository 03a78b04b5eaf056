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
        let closest = closest_limit(volume, side, one);
        let waited = side.throttled_ops as f64 / (side.ops as f64).max(1.0);
        let row = vec![
            Value::figure(ops),
            Value::figure(read),
            Value::figure(write),
            closest.as_ref().map_or(Value::Nothing, |(name, _)| name.as_str().into()),
            closest.map_or(Value::Nothing, |(_, share)| Value::percent(share)),
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

impl Used {
    /// The name of each limit, and its used share.
    pub(super) fn shares(self, limits: &Limits) -> impl Iterator<Item = (String, f64)> {
        let used = move |name: &str, unit: &str| match (name, unit) {
            ("reads", "MiB/s") => self.read_mib_per_s,
            ("writes", "MiB/s") => self.write_mib_per_s,
            (_, "MiB/s") => self.read_mib_per_s + self.write_mib_per_s,
            ("reads", _) => self.read_iops,
            ("writes", _) => self.write_iops,
            _ => self.iops,
        };
        words::limits(limits).into_iter().map(move |(name, limit, unit)| {
            (format!("{name} {} {unit}", Value::figure(limit)), used(name, unit) / limit)
        })
    }
}

/// The limit with the highest use, and its share. The volume's published curve is one of the limits.
pub(super) fn closest_limit(
    volume: Option<&VolumeFacts>,
    side: &ServerSide,
    one: &Measurement,
) -> Option<(String, f64)> {
    use crate::result::Direction::{Read, Write};
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
    let shares = used.shares(&side.limits);
    let curve = volume.and_then(|volume| curve_use(volume, side, seconds));
    shares.chain(curve).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The used share of the volume's curve at the mix that the server saw. Blocks of at least the curve's size
/// are limited in bytes, smaller blocks in operations.
fn curve_use(volume: &VolumeFacts, side: &ServerSide, seconds: f64) -> Option<(String, f64)> {
    let shape: envelope::Shape = volume.shape.as_ref()?.parse().ok()?;
    let shaping = envelope::Shaping { shape, scale_thousandths: volume.shape_scale_thousandths? };
    let bytes = (side.read_bytes + side.write_bytes) as f64;
    let read_thousandths = side.read_bytes.saturating_mul(1000) / (side.read_bytes + side.write_bytes).max(1);
    let ceiling = shaping.ceiling(u32::try_from(read_thousandths).unwrap_or(1000));
    let by_bytes = bytes / seconds / (ceiling.bandwidth.0 as f64).max(1.0);
    let by_ops = side.ops as f64 / seconds / (ceiling.iops.0 as f64).max(1.0);
    let mib = Value::figure(ceiling.bandwidth.0 as f64 / f64::from(1 << 20));
    let iops = Value::figure(ceiling.iops.0 as f64);
    // Operations smaller than the curve's count as such.
    let are_counted = shape.metric() == envelope::Metric::Iops || by_ops > by_bytes * 1.05;
    let limit = if are_counted { format!("{iops} IOPS") } else { format!("{mib} MiB/s") };
    Some((format!("its curve at this mix, {limit}"), by_bytes.max(by_ops)))
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
