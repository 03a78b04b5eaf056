//! The workload of the advice.

use envelope::{BytesPerSecond, Catalog, Stream, Workload, mib_within, size, size_within};

use super::super::facts::Fact;
use super::super::table::{Row, RowKind, Table, Value};

/// The title of a page; `name` is that of the workloads together.
pub(super) fn title(name: &str, workload: &Workload) -> String {
    let capacity = size(workload.planned());
    if workload.streams.is_empty() {
        return format!("What to buy for {name}{capacity}");
    }
    let (rate, iops) = Stream::total(&workload.streams);
    format!("What to buy for {name}{capacity}, {} MiB/s and {} IOPS", load_in_mib(rate), Value::count(iops.0))
}

pub(super) fn facts(workload: &Workload, catalog: &Catalog) -> Vec<Fact> {
    let has_load = !workload.streams.is_empty();
    let growth = match (workload.growth_percent, workload.years) {
        (0, _) => String::new(),
        (percent, 1) => format!(" now, {} with {percent} % growth", size(workload.planned())),
        (percent, years) => {
            format!(" now, {} with {percent} % growth a year over {years} years", size(workload.planned()))
        }
    };
    let of_load = has_load.then(|| format!("{} % over the peak", workload.headroom_percent));
    let of_data = (workload.capacity_headroom_percent > 0).then(|| {
        let needed = size(workload.needed_capacity());
        format!("{} % over the data, for snapshots: {needed}", workload.capacity_headroom_percent)
    });
    let headroom: Vec<String> = of_load.into_iter().chain(of_data).collect();
    let is_average_known = has_load && workload.average_percent < 100;
    let measured = catalog.measured.iter().map(|one| format!("{} ({})", one.source, one.level));
    let measured = measured.collect::<Vec<_>>().join("; ");
    let all = [
        ("Capacity", Some(format!("{}{growth}", size(workload.capacity)))),
        ("Capacity allowed", workload.capacity_max.map(|max| format!("at most {}", size_within(max)))),
        ("Average", is_average_known.then(|| format!("{} % of the peak", workload.average_percent))),
        ("Headroom", (!headroom.is_empty()).then(|| headroom.join(", "))),
        ("Reads", workload.cached.then(|| "come again to the same places, from caches".to_owned())),
        ("Working set", workload.working_set.map(size)),
        ("Over", Some(workload.protocol.name().to_owned())),
        ("Clients", workload.clients.map(|clients| clients.to_string())),
        ("Connections", workload.connections.map(|connections| format!("{connections} of each client"))),
        ("Machines", workload.machine.map(|machine| format!("{}: {}", machine.name, machine.about))),
        (
            "Egress",
            workload.egress.map(|rate| format!("{} of each client, which bounds writes", mib_within(rate))),
        ),
        (
            "Ingress",
            workload.ingress.map(|rate| format!("{} of each client, which bounds reads", mib_within(rate))),
        ),
        ("Latency", workload.latency_us.map(|us| format!("at most {} ms on average", milliseconds(us)))),
        ("Volumes", Some(format!("at most {}", workload.volumes_max))),
        ("Measured", (!measured.is_empty()).then_some(measured)),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn milliseconds(us: u64) -> Value {
    Value::figure(us as f64 / 1e3)
}

pub(super) fn load(workload: &Workload) -> Option<Table> {
    let head = ["Load at its peak", "MiB/s", "IOPS", "Block", "Pattern", "Reads %"];
    let mut table = Table::new("", &head);
    for (index, stream) in workload.streams.iter().enumerate() {
        let row = vec![
            load_in_mib(stream.rate),
            Value::count(stream.iops().0),
            size(stream.block).into(),
            stream.access.name().into(),
            percent(stream.read_thousandths),
        ];
        table.row(format!("Stream {}", index + 1), row);
    }
    if table.rows.len() > 1 {
        let (rate, iops) = Stream::total(&workload.streams);
        let reads = percent(workload.read_thousandths());
        let cells = vec![load_in_mib(rate), Value::count(iops.0), Value::Nothing, Value::Nothing, reads];
        table.rows.push(Row { kind: RowKind::Page, label: "Together".to_owned(), cells });
    }
    (!table.rows.is_empty()).then_some(table)
}

/// For a column with the unit in its head; rounded up.
fn load_in_mib(rate: BytesPerSecond) -> Value {
    in_mib(rate, |scaled| scaled.div_ceil(1 << 20))
}

/// For a column with the unit in its head; rounded down.
pub(super) fn ceiling_in_mib(rate: BytesPerSecond) -> Value {
    in_mib(rate, |scaled| scaled >> 20)
}

/// Three digits, but whole numbers are not rounded.
fn in_mib(rate: BytesPerSecond, whole: fn(u128) -> u128) -> Value {
    let Value::Number(_, digits) = Value::figure(rate.0 as f64 / f64::from(1 << 20)) else {
        return Value::Nothing;
    };
    let scale = 10u32.pow(u32::try_from(digits).unwrap_or(0));
    Value::Number(whole(u128::from(rate.0) * u128::from(scale)) as f64 / f64::from(scale), digits)
}

fn percent(thousandths: u32) -> Value {
    let digits = if thousandths.is_multiple_of(10) { 0 } else { 1 };
    Value::Number(f64::from(thousandths) / 10.0, digits)
}
