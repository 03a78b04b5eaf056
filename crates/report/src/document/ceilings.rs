//! The limits of a volume, in the unit of a plot.

use super::axes::Form;
use super::plot::Ceiling;
use super::table::Value;
use super::words;
use crate::result::{Cell, Limits, Run, VolumeFacts};
use crate::scenario::{Point, Series, Work};
use crate::units::show_size;

const MIB: f64 = 1_048_576.0;
/// A limit above this multiple of all values would flatten them.
const FAR: f64 = 3.0;

/// The limit of each cell, and a note about a limit that is too high for the plot.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Drawn {
    pub(super) ceiling: Option<Ceiling>,
    pub(super) note: String,
}

/// The lowest limit of each cell. The rates of the cells must have the unit of `form`.
pub(super) fn of_cells(run: &Run, series: &Series, cells: &[&Cell], form: Form) -> Drawn {
    let Some(volume) = &run.target.volume else { return Drawn::default() };
    let limits: Vec<Option<(f64, String)>> =
        cells.iter().map(|cell| lowest(volume, series, &cell.point, form)).collect();
    let Some((lowest, text)) = limits.iter().flatten().min_by(|a, b| a.0.total_cmp(&b.0)) else {
        return Drawn::default();
    };
    let differ = limits.iter().flatten().any(|(limit, _)| (limit / lowest - 1.0).abs() > 0.001);
    let place = format!("volume {}, level {}", volume.name, volume.level);
    let name = if differ { format!("limit of {place}") } else { format!("limit {text}: {place}") };
    let max = cells.iter().map(|cell| form.rate(cell, envelope::Direction::Total)).fold(0.0, f64::max);
    if max > 0.0 && *lowest > FAR * max {
        return Drawn { ceiling: None, note: format!("Above the plot: {name}.") };
    }
    let near = |limit: &Option<(f64, String)>| {
        limit.as_ref().map(|(limit, _)| *limit).filter(|limit| max == 0.0 || *limit <= FAR * max)
    };
    let values = limits.iter().map(near).collect();
    Drawn { ceiling: Some(Ceiling { name, values }), note: String::new() }
}

/// The limit, if all cells have the same.
pub(super) fn of_all(run: &Run, series: &Series, cells: &[&Cell], form: Form) -> Option<(f64, String)> {
    let Ceiling { name, values } = of_cells(run, series, cells, form).ceiling?;
    let first = (*values.first()?)?;
    let same = |value: &Option<f64>| value.is_some_and(|value| (value / first - 1.0).abs() <= 0.001);
    values.iter().all(same).then_some((first, name))
}

/// The limits that each client has.
pub(super) fn of_each_client(run: &Run, cells: &[&Cell], form: Form) -> Option<Ceiling> {
    let volume = run.target.volume.as_ref()?;
    let lowest = |cell: &&Cell| {
        let limits = of_limits(&volume.client_limits, &cell.point, form, 1.0, " of each client");
        limits.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))
    };
    let all: Vec<Option<(f64, String)>> = cells.iter().map(lowest).collect();
    let (_, text) = all.iter().flatten().next()?;
    let name = format!("limit {text}: volume {}", volume.name);
    Some(Ceiling { name, values: all.iter().map(|one| one.as_ref().map(|(limit, _)| *limit)).collect() })
}

/// Adds a sentence to a note.
pub(super) fn noted(note: &str, more: &str) -> String {
    if note.is_empty() || more.is_empty() { format!("{note}{more}") } else { format!("{note} {more}") }
}

/// The lowest limit of reads and writes together at the mix and block of a point, and its text.
fn lowest(volume: &VolumeFacts, series: &Series, point: &Point, form: Form) -> Option<(f64, String)> {
    // Operations on names and mixes of unknown blocks have no rate in bytes.
    if series.work != Work::Transfers {
        let iops = volume.limits.iops.filter(|_| form == Form::Iops)? as f64;
        return Some((iops, format!("{} IOPS", Value::figure(iops))));
    }
    let own = of_limits(&volume.limits, point, form, 1.0, "");
    let clients = point.clients as f64;
    let of_clients = match point.clients {
        1 => " of the client".to_owned(),
        several => format!(" of {several} clients together"),
    };
    let each = of_limits(&volume.client_limits, point, form, clients, &of_clients);
    let all = own.into_iter().chain(each).chain(of_curve(volume, point, form));
    all.min_by(|a, b| a.0.total_cmp(&b.0))
}

/// `times` is the number of holders of the limits.
fn of_limits(limits: &Limits, point: &Point, form: Form, times: f64, whose: &str) -> Vec<(f64, String)> {
    let reads = f64::from(point.read_percent) / 100.0;
    let of = |(name, limit, unit): (&'static str, f64, &'static str)| {
        let (share, kind) = match name {
            "reads" => (reads, " of reads"),
            "writes" => (1.0 - reads, " of writes"),
            _ => (1.0, ""),
        };
        // A limit of reads does not bound a load without reads.
        (share > 0.0).then_some(())?;
        let limit = limit * times;
        let set = format!("{} {unit}{kind}{whose}", Value::figure(limit));
        let calls = if unit == Form::Iops.unit() { calls(point) } else { 1.0 };
        let total = limit / share / calls;
        if unit == form.unit() {
            let is_as_set = share * calls == 1.0;
            let text = if is_as_set { set } else { format!("{} {unit} ({set})", Value::figure(total)) };
            return Some((total, text));
        }
        let total = match form {
            Form::Iops => total * MIB / point.block as f64,
            Form::Mib => total * point.block as f64 / MIB,
        };
        let block = show_size(point.block);
        Some((total, format!("{} {} ({set} in blocks of {block})", Value::figure(total), form.unit())))
    };
    words::limits(limits).into_iter().filter_map(of).collect()
}

/// Calls on the wire of one operation: the service counts calls.
fn calls(point: &Point) -> f64 {
    point.transfer.map_or(1, |transfer| point.block.div_ceil(transfer.max(1))).max(1) as f64
}

fn of_curve(volume: &VolumeFacts, point: &Point, form: Form) -> Option<(f64, String)> {
    let shape: envelope::Shape = volume.shape.as_ref()?.parse().ok()?;
    let shaping = envelope::Shaping { shape, scale_thousandths: volume.shape_scale_thousandths? };
    let ceiling = shaping.ceiling(u32::from(point.read_percent) * 10);
    let (bytes, iops) = (ceiling.bandwidth.0 as f64, ceiling.iops.0 as f64 / calls(point));
    let limit = match form {
        Form::Iops => iops.min(bytes / point.block as f64),
        Form::Mib => bytes.min(iops * point.block as f64) / MIB,
    };
    Some((limit, format!("{} {} (its curve)", Value::figure(limit), form.unit())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(limits: Limits) -> VolumeFacts {
        VolumeFacts { name: "v1".to_owned(), level: "anf/ultra".to_owned(), limits, ..VolumeFacts::default() }
    }

    fn point(block: u64, read_percent: u8) -> Point {
        Point { block, read_percent, clients: 2, ..Point::default() }
    }

    #[test]
    fn limit_of_bytes_bounds_operations_of_small_blocks() {
        let volume = volume(Limits { bytes_per_s: Some(128 << 20), ..Limits::default() });
        let series = Series::default();
        let limit = |form| lowest(&volume, &series, &point(8 << 10, 100), form);
        assert_eq!(
            limit(Form::Iops),
            Some((16_384.0, "16,384 IOPS (128 MiB/s in blocks of 8 KiB)".to_owned()))
        );
        assert_eq!(limit(Form::Mib), Some((128.0, "128 MiB/s".to_owned())));
    }

    #[test]
    fn limit_of_one_direction_bounds_its_share() {
        let volume = volume(Limits { write_iops: Some(1_000), iops: Some(3_000), ..Limits::default() });
        let series = Series::default();
        let at = |reads| lowest(&volume, &series, &point(8 << 10, reads), Form::Iops).unwrap();
        assert_eq!(at(100).0, 3_000.0);
        assert_eq!(at(50), (2_000.0, "2,000 IOPS (1,000 IOPS of writes)".to_owned()));
        let each =
            VolumeFacts { client_limits: Limits { iops: Some(100), ..Limits::default() }, ..volume.clone() };
        let bound = lowest(&each, &series, &point(8 << 10, 100), Form::Iops);
        assert_eq!(bound, Some((200.0, "200 IOPS of 2 clients together".to_owned())));
    }
}
