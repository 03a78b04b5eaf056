//! Conversion of a run to measurements for the advisor.

use envelope::{Bytes, Level, Measured, MeasuredPoint, Stream};
use report::document::words::{limits_line, time};
use report::result::{Cell, Limits, Probe, Run};
use report::scenario::{Series, Work};

use super::observed::whole;
use super::run::{is_co_located, latency_us, load, protocol, transfers, working_set};
use crate::error::Error;

/// The points of a run on volumes of `level`: the median of every cell with a result, and the search's probes at other
/// numbers of calls in flight. `name` is what people call the run.
///
/// # Errors
/// Nothing in it can be compared, or it was not of a volume over NFS or SMB.
pub fn measured(run: &Run, name: &str, level: Level, large: bool) -> Result<Measured, Error> {
    let wrong = |wrong: &str| Error::Plan(format!("{name}: {wrong}"));
    let protocol = protocol(&run.target).ok_or_else(|| {
        wrong("it did not go over NFSv3, NFSv4.1, NFSv4.2 or SMB, so it says nothing of a level")
    })?;
    let (mut points, mut bytes) = (Vec::new(), None);
    for cell in &run.cells {
        let Some(series) = run.scenario.series.get(cell.series) else { continue };
        let Ok(stream) = load(series, cell) else { continue };
        points.push(point(cell, stream, latency_us(cell)));
        points.extend(cell.search.iter().filter_map(|probe| probed(series, cell, probe)));
        bytes = bytes.max(working_set(run, series, cell));
    }
    points.retain(|point| point.rate.0 > 0 && point.latency_us > 0);
    if points.is_empty() {
        return Err(wrong("none of its cells has a result that can be compared"));
    }
    let series = run.scenario.series.iter();
    let wanted = || Bytes(series.map(|series| series.working_set).max().unwrap_or(0));
    Ok(Measured {
        source: source(run, name),
        level,
        large,
        protocol,
        co_located: is_co_located(run),
        working_set: bytes.unwrap_or_else(wanted),
        points,
    })
}

fn source(run: &Run, name: &str) -> String {
    let mut source = format!("{name}, run of {} on {}", time(run.started), run.target.target);
    if is_co_located(run) {
        source.push_str(", client and server on one host");
    }
    let limits = run.target.volume.as_ref().map(|volume| volume.limits);
    if let Some(limits) = limits.filter(|limits| *limits != Limits::default()) {
        source.push_str(&format!(", held to its limits ({})", limits_line(&limits)));
    }
    source
}

fn point(cell: &Cell, stream: Stream, latency_us: u64) -> MeasuredPoint {
    let Stream { access, block, read_thousandths, rate } = stream;
    let clients = u32::try_from(cell.point.clients).unwrap_or(u32::MAX);
    MeasuredPoint { access, block, read_thousandths, clients, rate, latency_us }
}

/// A probe at another depth. For job sets the search does not record the rate.
fn probed(series: &Series, cell: &Cell, probe: &Probe) -> Option<MeasuredPoint> {
    let is_other = series.work == Work::Transfers && probe.depth != cell.point.depth;
    let stream = transfers(series, cell, probe.mib_per_s).filter(|_| is_other)?;
    Some(point(cell, stream, whole(probe.latency.mean_ms * 1e3)))
}
