//! Conversion of a run of `plimsoll bench`: each cell is a load.

use std::str::FromStr;

use envelope::{Access, Bytes, Iops, Protocol, Stream};
use report::curve::CurvePoint;
use report::document::words::{caveats, time};
use report::result::{CaveatKind, Cell, Distribution, Measurement, Run, TargetFacts};
use report::scenario::{Pattern, Series, Work};

use super::observed::{Candidate, Observed, Pick, rates, select, stream, whole};
use crate::eda::mix;
use crate::mountstats;
use crate::run::Thoroughness;

pub(super) fn read(name: &str, text: &str, pick: &Pick) -> Result<Observed, String> {
    let run = Run::from_str(text).map_err(|wrong| wrong.to_string())?;
    let candidates = run.cells.iter().map(|cell| candidate(&run, cell)).collect();
    let (label, (series, cell, stream)) = select("cells", candidates, pick.cell)?;
    let mut notes = Vec::new();
    if stream.access != Access::Eda && series.rate.is_none() {
        notes.push("The load is what the target gave, not what an application asks for.".to_owned());
    }
    if is_co_located(&run) {
        notes.push("Client and server were on one host.".to_owned());
    }
    notes.extend(caveats(cell).into_iter().map(|caveat| format!("Its cell is doubtful: {}.", caveat.text)));
    Ok(Observed {
        source: format!("{name}, run of {} on {}: {label}", time(run.started), run.target.target),
        streams: vec![stream],
        average_percent: None,
        clients: u32::try_from(cell.point.clients).ok(),
        connections: u32::try_from(cell.point.connections).ok(),
        latency_us: Some(latency_us(cell)).filter(|us| *us > 0),
        protocol: protocol(&run.target),
        working_set: working_set(&run, series, cell),
        notes,
    })
}

fn candidate<'r>(run: &'r Run, cell: &'r Cell) -> Candidate<(&'r Series, &'r Cell, Stream)> {
    let Some(series) = run.scenario.series.get(cell.series) else {
        let wrong = format!("it is of series {}, which the scenario does not have", cell.series);
        return Candidate { label: "a cell".to_owned(), load: Err(wrong) };
    };
    let summary = &cell.summary;
    let rates = rates(summary.mib_per_s.median * f64::from(1 << 20), summary.iops.median);
    let load = load(series, cell).map(|stream| (series, cell, stream));
    Candidate { label: format!("{} ({rates})", series.label(&cell.point)), load }
}

pub(super) fn load(series: &Series, cell: &Cell) -> Result<Stream, String> {
    if !cell.has_result() {
        return Err("nothing was measured that counts".to_owned());
    }
    let found = match series.work {
        Work::OpenRead | Work::Metadata => {
            let wrong = "most of its calls ask for attributes, and only data can be sized; allowed: cells of transfers \
                         and of the EDA mix";
            return Err(wrong.to_owned());
        }
        Work::EdaBlend => {
            let point = CurvePoint::of(cell.point.job_sets.unwrap_or(0), &cell.measurements);
            match point.invalid_reason {
                Some(wrong) => return Err(format!("the target did not carry it: {wrong}")),
                None => Some(Stream::eda(Iops(whole(cell.summary.iops.median)))),
            }
        }
        Work::Transfers => transfers(series, cell, cell.summary.mib_per_s.median),
    };
    found.filter(|stream| stream.rate.0 > 0).ok_or_else(|| "no data was moved".to_owned())
}

pub(super) fn transfers(series: &Series, cell: &Cell, mib_per_s: f64) -> Option<Stream> {
    let access = match series.pattern {
        Pattern::Sequential => Access::Sequential,
        Pattern::Random | Pattern::Shuffled => Access::Random,
    };
    let (read, written) = (cell.summary.read_mib_per_s.median, cell.summary.write_mib_per_s.median);
    let bytes = mib_per_s * f64::from(1 << 20);
    let read = bytes * read / (read + written);
    stream(access, cell.point.block, read, bytes - read)
}

/// The mean from the intended start, in microseconds.
pub(super) fn latency_us(cell: &Cell) -> u64 {
    let valid = cell.measurements.iter().filter(|one| one.is_valid());
    whole(valid.map(Measurement::response).collect::<Distribution>().mean_ns() / 1e3)
}

pub(super) fn is_co_located(run: &Run) -> bool {
    run.target.co_located || run.caveats.iter().any(|caveat| caveat.kind == CaveatKind::CoLocated)
}

/// `None` if volumes are not served over the protocol.
pub(super) fn protocol(target: &TargetFacts) -> Option<Protocol> {
    match &target.mount {
        Some(mount) => mountstats::protocol(&mount.kind, &mount.options),
        None => (target.protocol == "NFSv3").then_some(Protocol::NfsV3),
    }
}

pub(super) fn working_set(run: &Run, series: &Series, cell: &Cell) -> Option<Bytes> {
    let bytes = match cell.point.job_sets {
        Some(sets) => {
            let scale = Thoroughness::from(run.preset).file_scale_thousandths;
            mix::bytes_per_set(scale).saturating_mul(sets.into())
        }
        None => {
            let files = series.jobs * cell.point.clients;
            run.file_sizes.get(cell.series)?.saturating_mul(files as u64)
        }
    };
    (bytes > 0).then_some(Bytes(bytes))
}
