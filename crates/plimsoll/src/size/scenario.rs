//! `plimsoll size scenario`: the workload as a scenario of the benchmark.

use anyhow::bail;
use envelope::{Access, Stream};
use report::scenario::{Depth, Pattern, Scenario, Series, Targets};

use super::question::SizingRequest;

/// Jobs of each client.
const JOBS: usize = 4;
/// The most calls in flight of each job; the schedule determines the actual number.
const DEPTH: usize = 64;

/// A scenario with one series for each load, at the rate of the load.
pub(super) fn of(asked: &SizingRequest) -> anyhow::Result<Scenario> {
    let workload = &asked.workload;
    if workload.streams.is_empty() {
        bail!("there is no load to measure: give --iops or --throughput");
    }
    if workload.streams.len() > 1 {
        bail!(
            "the benchmark runs one kind of load at a time, and this workload has {}",
            workload.streams.len()
        );
    }
    let series =
        workload.streams.iter().map(|stream| series(stream, asked)).collect::<anyhow::Result<Vec<_>>>()?;
    let scenario = Scenario {
        name: "workload".to_owned(),
        title: "The workload that was sized, at its peak".to_owned(),
        about: "Delivered must be what was asked, and the response time within the target.".to_owned(),
        page: None,
        series,
        pairs: Vec::new(),
    };
    let text = toml::to_string(&scenario)?;
    if let Err(wrong) = text.parse::<Scenario>() {
        bail!("the benchmark cannot run this load: {wrong}");
    }
    Ok(scenario)
}

fn series(stream: &Stream, asked: &SizingRequest) -> anyhow::Result<Series> {
    let workload = &asked.workload;
    let pattern = match stream.access {
        Access::Random => Pattern::Random,
        Access::Sequential => Pattern::Sequential,
        Access::Metadata => bail!("metadata is measured by \"plimsoll bench load --op create\""),
        Access::Eda => {
            bail!("an EDA load is measured by the scenario eda-blend: plimsoll bench run eda-blend")
        }
    };
    let percent = u8::try_from((stream.read_thousandths + 5) / 10).unwrap_or(100);
    let clients = usize::try_from(workload.clients.unwrap_or(1))?;
    let connections = usize::try_from(workload.connections.unwrap_or(4))?;
    let iops = u32::try_from(stream.iops().0)?;
    let latency_ms = workload.latency_us.map(|us| us as f64 / 1e3);
    Ok(Series {
        name: "at the peak".to_owned(),
        blocks: vec![stream.block.0],
        pattern,
        reads: vec![percent],
        clients: vec![clients],
        jobs: JOBS,
        connections: vec![connections],
        depths: Depth::Fixed(vec![DEPTH]),
        rate: Some(f64::from(iops)),
        targets: Some(Targets { iops: Some(f64::from(iops)), latency_ms, ..Targets::default() }),
        working_set: workload.working_set.unwrap_or(workload.capacity).0,
        ..Series::default()
    })
}
