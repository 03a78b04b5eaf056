//! Evaluates the load curve of job sets.

use envelope::Unit;

use super::axes::{self, Axis, Group};
use super::facts::Fact;
use super::table::{Row, RowKind, Table, Value};
use super::{plots, published};
use crate::curve::{Curve, CurvePoint, Time};
use crate::result::Cell;
use crate::scenario::Series;

pub(super) const NOTE: &str = "Operations of the application, here and there: clients with nocto,actimeo=600 answer many of them \
                    themselves, and so does this load where attributes are cached. The mixes are alike, not the same.";

/// One curve for each combination of values other than job sets.
pub(super) fn curves<'a>(series: &Series, cells: &[&'a Cell]) -> Vec<(Group<'a>, Curve)> {
    let mut axes = Axis::varying(series, cells);
    axes.retain(|axis| *axis != Axis::JobSets);
    let groups = axes::groups(cells, &axes).into_iter();
    let curve = |group: Group<'a>| {
        let curve = Curve::of_cells(group.cells.iter().copied());
        (group, curve)
    };
    groups.map(curve).collect()
}

pub(super) fn facts(name: &str, curve: &Curve) -> Vec<Fact> {
    let fact = |what: &str, value: String| {
        (if name.is_empty() { what.to_owned() } else { format!("{name}: {what}") }, value)
    };
    let steps = curve.steps();
    let by = |curve: &Curve, of: fn(&Curve, Time) -> Option<&CurvePoint>| {
        let [response, service] = [Time::Response, Time::Service].map(|time| rate(of(curve, time), time));
        if of(curve, Time::Response) == of(curve, Time::Service) {
            response
        } else {
            format!("{response}; by the service time {service}")
        }
    };
    let mut facts = vec![fact("Rate at 2 ms", by(&steps, Curve::rate_at_2ms))];
    if curve.points.iter().any(|point| point.refined) {
        facts.push(fact("Refined", by(curve, Curve::rate_at_2ms)));
    }
    facts.push(fact("Rate at p99 of 10 ms", by(curve, Curve::rate_at_p99_10ms)));
    let overall = curve
        .overall_over_range(Time::Response)
        .zip(curve.overall_over_peak(Time::Response))
        .map(|(range, peak)| format!("{range:.2} ms over the range, {peak:.2} ms over the peak"));
    facts.extend(overall.map(|text| fact("Overall response time", text)));
    let knee = curve.knee(Time::Response).map_or_else(
        || "not reached: beyond the last valid point".to_owned(),
        |knee| format!("{} operations a second, by the half-latency rule", Value::figure(knee)),
    );
    facts.push(fact("Knee", knee));
    facts.push(fact("Valid", validity(curve)));
    facts
}

pub(super) fn headline(curve: &Curve) -> String {
    let Some(point) = curve.rate_at_2ms(Time::Response) else {
        return "no valid point with a mean response time of at most 2 ms".to_owned();
    };
    let s = if point.job_sets == 1 { "" } else { "s" };
    let [rate, p99] = [point.achieved, point.response.p99_ms].map(Value::figure);
    let (sets, mean) = (point.job_sets, point.response.mean_ms);
    format!("{rate} operations a second ({sets} job set{s}) within 2 ms: mean {mean:.2} ms, p99 {p99} ms")
}

fn rate(point: Option<&CurvePoint>, time: Time) -> String {
    point.map_or_else(
        || "no point".to_owned(),
        |point| {
            let s = if point.job_sets == 1 { "" } else { "s" };
            let (rate, sets) = (Value::figure(point.achieved), point.job_sets);
            let mean = point.times(time).mean_ms;
            format!("{rate} operations a second ({sets} job set{s}, mean {mean:.2} ms)")
        },
    )
}

fn validity(curve: &Curve) -> String {
    let (valid, all) = (curve.valid().len(), curve.points.len());
    let ended = curve.first_invalid().map_or(String::new(), |point| {
        let why = point.invalid_reason.as_deref().unwrap_or_default();
        format!("; the first that is not, at {} job sets: {why}", point.job_sets)
    });
    format!("{valid} of {all} points{ended}")
}

/// `None` if no figures are published.
pub(super) fn compare_published(
    name: &str,
    series: &Series,
    cells: &[&Cell],
    curve: &Curve,
) -> Option<Table> {
    const HEAD: [&str; 5] =
        ["", "Job sets", "Overall response ms", "Operations a second at 2 ms", "MiB/s at that"];
    const UNITS: [Unit; 4] = [Unit::JobSets, Unit::Milliseconds, Unit::Iops, Unit::MibPerSecond];
    let mut table = Table::new(plots::titled("Compared with published figures", name), &HEAD);
    let best = curve.rate_at_2ms(Time::Response);
    let peak = curve.valid().last();
    let of_best = |cell: &&&Cell| cell.point.job_sets == best.map(|point| point.job_sets);
    let mib = best.and_then(|_| cells.iter().find(of_best)).map(|cell| cell.summary.mib_per_s.median);
    let own = [
        peak.map(|point| Value::count(point.job_sets.into())),
        curve.overall_over_range(Time::Response).map(|ms| Value::Number(ms, 2)),
        best.map(|point| Value::figure(point.achieved)),
        mib.map(Value::figure),
    ];
    table.row("Measured", own.map(|value| value.unwrap_or(Value::Nothing)).to_vec());
    for (one, name) in published::short_names(series) {
        let figures = one.figures();
        let of_unit = |unit| {
            let figure = figures.iter().find(|figure| figure.unit == unit);
            figure.map_or(Value::Nothing, published::value)
        };
        let cells = UNITS.map(of_unit).to_vec();
        table.rows.push(Row { kind: RowKind::Published, label: format!("{name} (published)"), cells });
    }
    (table.rows.len() > 1).then_some(table)
}
