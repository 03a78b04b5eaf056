//! The question: reads flags and measurements as a workload and a catalog.

mod catalog;
pub(crate) mod file;
mod flags;
mod hidden;
mod load;

use std::fs;
use std::path::Path;

use anyhow::Context;
use bench::workload::{Observed, Pick};
use clap::Args;
use envelope::{Bytes, Catalog, Protocol, Stream, Workload, size};

use crate::exit::usage;
use crate::manage::ServiceArgs;

use flags::{ChoiceFlags, ClientFlags, FromFlags, LoadFlags};
use load::{Counted, assumed};

pub(super) use hidden::{ELSEWHERE, GivenFlags, HiddenQuestion, LongHelp};

/// A workload, and the choice of levels for it.
#[derive(Debug, Args)]
pub(crate) struct Question {
    // First, because each flag that a field reads is gone for the fields after it.
    #[command(flatten)]
    pub(super) given: GivenFlags,
    #[command(flatten)]
    load: LoadFlags,
    #[command(flatten)]
    clients: LongHelp<ClientFlags>,
    #[command(flatten)]
    from: LongHelp<FromFlags>,
    #[command(flatten)]
    choice: ChoiceFlags,
}

/// The workload and the catalog that the question describes.
pub(super) struct SizingRequest {
    pub(super) workload: Workload,
    pub(super) catalog: Catalog,
    /// Notes for the user about assumptions, sources and ignored flags.
    pub(super) notes: Vec<String>,
    /// The years to show.
    pub(super) years: Option<u32>,
    /// The workload's name in a file of a plan.
    pub(super) name: Option<String>,
}

/// One workload, or several with one catalog.
pub(super) enum Asked {
    One(Box<SizingRequest>),
    Several(Box<SeveralRequests>),
}

/// Workloads with one catalog.
pub(super) struct SeveralRequests {
    pub(super) workloads: Vec<SizingRequest>,
    pub(super) catalog: Catalog,
    /// The years to show.
    pub(super) years: Option<u32>,
}

/// The facts beside the flags.
struct Known<'a> {
    observed: Option<&'a Observed>,
    /// Bytes stored in the watched volume.
    stored: Option<Bytes>,
    /// The capacity of the counted users, streams, machines, GPUs or jobs.
    counted: Option<Bytes>,
}

impl Question {
    /// The workloads of the flags, or of the plan's file.
    pub(super) fn asked(&self) -> anyhow::Result<Asked> {
        let Some(file) = &self.choice.plan else { return Ok(Asked::One(Box::new(self.ask()?))) };
        let catalog = self.choice.catalog()?;
        let mut workloads = file::workloads(file)?;
        let years = self.load.years;
        workloads.iter_mut().for_each(|one| one.workload.years = years.unwrap_or(1));
        match workloads.pop() {
            Some(only) if workloads.is_empty() => {
                Ok(Asked::One(Box::new(SizingRequest { catalog, years: self.load.years, ..only })))
            }
            last => {
                workloads.extend(last);
                Ok(Asked::Several(Box::new(SeveralRequests { workloads, catalog, years: self.load.years })))
            }
        }
    }

    /// Builds the workload and the catalog. Reads files, and watches a running volume, if the flags say so.
    fn ask(&self) -> anyhow::Result<SizingRequest> {
        if self.load.years.is_some() && self.load.growth.is_none() {
            return Err(usage(
                "--years needs the growth of the data in a year: give --growth, like --growth 20",
            ));
        }
        let mut notes = Vec::new();
        let (observed, stored) = self.observed()?;
        let mut streams: Vec<Stream> = self.load.stream()?.into_iter().collect();
        notes.extend(self.load.kind().map(assumed));
        let counted = self.load.counted()?;
        notes.extend(counted.as_ref().map(Counted::assumed));
        if let Some(observed) = &observed {
            notes.push(format!("the load is that of {}", observed.source));
            notes.extend(observed.latency_us.map(|us| format!("an operation took {us} µs of it on average")));
            notes.extend(observed.notes.iter().cloned());
            streams.extend(&observed.streams);
        }
        streams.extend(&self.load.loads);
        streams.extend(self.load.eda.map(Stream::eda));
        streams.extend(self.load.metadata.map(Stream::metadata));
        let known =
            Known { observed: observed.as_ref(), stored, counted: counted.map(|counted| counted.capacity()) };
        let workload = self.workload(streams, &known, &mut notes)?;
        workload.check().map_err(|refusal| usage(refusal.to_string()))?;
        notes.extend(self.clients.0.without_number(&workload));
        let catalog = self.choice.catalog()?;
        Ok(SizingRequest { workload, catalog, notes, years: self.load.years, name: None })
    }

    /// The service that `watch` and `apply` use.
    pub(super) fn service(&self) -> &ServiceArgs {
        &self.from.0.watch.service
    }

    /// The measured load, and the bytes stored if known.
    fn observed(&self) -> anyhow::Result<(Option<Observed>, Option<Bytes>)> {
        if let Some((observed, stored)) = self.from.0.watch.observe(self.load.pattern)? {
            return Ok((Some(observed), Some(stored).filter(|stored| stored.0 > 0)));
        }
        let Some(file) = &self.from.0.from else { return Ok((None, None)) };
        let pick = Pick {
            cell: self.from.0.cell,
            mount: self.from.0.mount.clone(),
            since: self.from.0.since.as_deref().map(read).transpose()?,
            pattern: self.load.pattern,
        };
        let observed = bench::workload::read(&file.display().to_string(), &read(file)?, &pick);
        Ok((Some(observed.map_err(|wrong| usage(wrong.to_string()))?), None))
    }

    fn workload(
        &self,
        streams: Vec<Stream>,
        known: &Known<'_>,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Workload> {
        let (load, clients) = (&self.load, &self.clients.0);
        let Known { observed, stored, counted } = *known;
        let found = |part: fn(&Observed) -> Option<u32>| observed.and_then(part);
        let working_set = load.working_set.or_else(|| observed.and_then(|observed| observed.working_set));
        let Some(capacity) = load.capacity.or(counted).or(stored).or(working_set) else {
            return Err(usage("the capacity is missing: give --capacity SIZE, like --capacity 40TiB"));
        };
        if load.capacity.or(counted).is_none() {
            let what = if stored.is_some() { "the data stored there" } else { "the data in use" };
            let shown = size(capacity);
            notes.push(format!("the capacity is {what}, {shown}: --capacity overrides it"));
        }
        Ok(Workload {
            growth_percent: load.growth.unwrap_or(0),
            years: load.years.unwrap_or(1),
            capacity_headroom_percent: load.capacity_headroom,
            streams,
            average_percent: load.average.or(found(|observed| observed.average_percent)).unwrap_or(100),
            headroom_percent: load.headroom,
            cached: load.cached,
            working_set,
            clients: clients.clients.or(found(|observed| observed.clients)),
            connections: clients.connections.or(found(|observed| observed.connections)),
            machine: clients.machine,
            egress: clients.egress.or(clients.nic),
            ingress: clients.ingress.or(clients.nic),
            latency_us: clients.latency,
            protocol: self.protocol(observed),
            volumes_max: self.choice.volumes,
            capacity_max: self.choice.capacity_max,
            ..Workload::new(capacity)
        })
    }

    fn protocol(&self, observed: Option<&Observed>) -> Protocol {
        let asked = self.clients.0.protocol.map(Protocol::from);
        asked.or(observed.and_then(|observed| observed.protocol)).unwrap_or(Protocol::NfsV3)
    }
}

impl ClientFlags {
    /// A note that limits of each client do not count without the number of clients.
    fn without_number(&self, workload: &Workload) -> Option<String> {
        let is_said =
            [self.egress, self.ingress, self.nic].iter().any(Option::is_some) || self.machine.is_some();
        (is_said && workload.clients.is_none())
            .then(|| "network limits of each client do not count without --clients".to_owned())
    }
}

/// The text of a file; `-` is the standard input.
fn read(file: &Path) -> anyhow::Result<String> {
    let text = if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        fs::read_to_string(file)
    };
    text.with_context(|| format!("cannot read {}", file.display()))
}
