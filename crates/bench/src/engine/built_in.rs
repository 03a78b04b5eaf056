//! The built-in client as an engine: many connections and calls in flight, no mount.

use report::result::{
    Caveat, CaveatKind, ClientResult, Distribution, MachineUse, Operation, Part, SmbFacts, TargetFacts,
};
use report::scenario::{Cache, MetadataOperation, Pattern, Protocol, Stability, Work};

use super::interface::Engine;
use crate::admission;
use crate::driver::counters::{Clock, OpCounters};
use crate::eda;
use crate::error::Error;
use crate::job::Caller;
use crate::job::Control;
use crate::job::{Job, LayoutProgress};
use crate::load::{self, BlockOrder, FileSet, Kind, LaidOut, Op, Placement, Plan, Prepared};
use crate::machine::{UsageSampler, co_located};
use wire_client::Identity;
use wire_client::{Target, Version};

/// Unstable writes of a job are committed after this many bytes.
pub const COMMIT_EVERY: u64 = 16 << 20;
pub(crate) const SMALL_FILES: u64 = 64;
/// The golden section of 2^64, which keeps the starts of repetitions apart.
const APART: u64 = 0x9E37_79B9_7F4A_7C15;

/// An export of an NFS server, or a share of an SMB server.
#[derive(Debug)]
pub struct BuiltIn {
    target: Target,
    caller: Caller,
    laid_out: LaidOut,
    /// The server caches the files that were read last, if they fit.
    warmed: Option<Files>,
    prepared: Option<Ready>,
}

/// The first file, the count, bytes of each file, and bytes of each unit.
type Files = (u32, usize, u64, usize);

#[derive(Debug)]
enum Ready {
    Load(Box<Plan>, Box<Prepared>),
    Eda(eda::Prepared),
}

impl BuiltIn {
    /// Sends nothing yet.
    pub fn new(target: Target, caller: Caller) -> Self {
        Self { target, caller, laid_out: LaidOut::new(), warmed: None, prepared: None }
    }

    fn identity(&self) -> Identity {
        let Caller { uid, gid, privileged_port, nt_hash, .. } = self.caller;
        Identity { privileged_port, nt_hash, ..Identity::new(uid, gid) }
    }

    fn look(&self) -> Result<TargetFacts, Error> {
        let mut client = admission::mount(&self.target, &self.identity())?;
        let limits = client.limits()?;
        Ok(TargetFacts {
            target: self.target.to_string(),
            protocol: self.target.version.to_string(),
            generator: format!("built-in {} client", self.target.version),
            read_max: Some(limits.read_max.into()),
            write_max: Some(limits.write_max.into()),
            free_bytes: Some(client.free_bytes()? + FileSet::bytes(&mut client)?),
            co_located: self.target.addresses()?.into_iter().any(co_located),
            smb: self.smb(),
            client_cache: "none: every operation goes to the server".to_owned(),
            ..TargetFacts::default()
        })
    }

    fn smb(&self) -> Option<SmbFacts> {
        let Version::Smb(protection) = self.target.version else { return None };
        Some(SmbFacts {
            dialect: "3.1.1".to_owned(),
            signing: protection.signing().map(str::to_owned),
            encryption: protection.encryption().map(str::to_owned),
            multichannel: self.target.channels > 1,
        })
    }

    /// Uses the version that the job requests. Fails if the target does not speak it.
    fn target_for(&self, job: &Job) -> Result<Target, Error> {
        let is_share = self.target.version.is_smb();
        let version = match job.protocol {
            None => self.target.version,
            Some(Protocol::Smb) if is_share => self.target.version,
            Some(Protocol::NfsV3) if !is_share => Version::V3,
            Some(Protocol::NfsV41) if !is_share => Version::V41,
            Some(wanted) => {
                let text = format!("the load is over {wanted}, which {} is not for", self.target);
                return Err(Error::Plan(text));
            }
        };
        // Points with fewer connections have smaller sessions.
        let channels = self.target.channels.min(job.connections.max(1));
        Ok(Target { version, channels, ..self.target.clone() })
    }

    fn plan(&self, job: &Job) -> Result<Plan, Error> {
        let op = match (job.work, job.read_percent) {
            (Work::OpenRead, _) => Op::OpenRead,
            (Work::Transfers, 100) => Op::Read,
            (Work::Transfers, 0) => Op::Write,
            (Work::Transfers, _) => Op::Mix,
            (Work::Metadata, _) => match job.metadata.map(|metadata| metadata.operation) {
                Some(MetadataOperation::Stat) => Op::Lookup,
                Some(MetadataOperation::Create) => Op::Create,
                Some(MetadataOperation::Rename) => Op::Rename,
                None => return Err(Error::Plan("no operation on names was named".to_owned())),
            },
            (Work::EdaBlend, _) => return Err(Error::Plan("eda-blend is not a load of blocks".to_owned())),
        };
        let jobs = job.clients * job.jobs;
        let small = if job.work == Work::OpenRead { SMALL_FILES } else { 1 };
        let per_job = usize::try_from(small).unwrap_or(1);
        let first_file = u32::try_from(job.first_client * job.jobs * per_job)
            .map_err(|_| Error::Plan("more than 2^32 files".to_owned()))?;
        let (spread, cold) = (APART.wrapping_mul(u64::from(job.repetition)), job.cache == Cache::Cold);
        let unstable = job.stability == Stability::Unstable;
        Ok(Plan {
            op,
            block: job.block,
            transfer_max: (job.transfer < job.block).then_some(job.transfer),
            attribute_cache: job.attribute_cache,
            order: match job.pattern {
                Pattern::Sequential => BlockOrder::Sequential,
                Pattern::Random => BlockOrder::Random,
                Pattern::Shuffled => BlockOrder::Shuffled,
            },
            read_percent: job.read_percent,
            stability: job.stability,
            commit_every: unstable.then_some(COMMIT_EVERY),
            rate: job.rate.map(|rate| rate * job.clients as f64 / job.clients_total as f64),
            placement: Placement::Jobs(job.jobs),
            start_at: if cold { spread } else { 0 },
            first_client: job.first_client,
            first_file,
            connections: job.connections,
            depth: job.depth,
            clients: job.clients,
            sources: self.caller.sources.clone(),
            files: jobs * per_job,
            size: if job.work == Work::OpenRead { job.block } else { job.file_size },
            directories: job.metadata.map_or(1, |metadata| metadata.directories),
            // With a warm cache every repetition uses the same random places.
            seed: if job.repeats_places() { job.seed } else { job.seed.wrapping_add(spread) },
            uid: self.caller.uid,
            gid: self.caller.gid,
            privileged_port: self.caller.privileged_port,
            nt_hash: self.caller.nt_hash,
            ..Plan::new(self.target_for(job)?, op)
        })
    }
}

impl Engine for BuiltIn {
    fn facts(&mut self) -> Result<TargetFacts, Error> {
        self.look().map_err(|wrong| wrong.at(&self.target.to_string()))
    }

    fn prepare(
        &mut self,
        job: &Job,
        progress: &mut dyn FnMut(LayoutProgress) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // Closes the old connections first, so that the server counts only those in use.
        self.prepared = None;
        let warmed = self.warmed.take();
        if job.work == Work::EdaBlend {
            let target = self.target_for(job)?;
            let prepared = eda::Prepared::new(&target, &self.identity(), job, progress)?;
            self.prepared = Some(Ready::Eda(prepared));
            return Ok(());
        }
        let plan = self.plan(job)?;
        let prepared = Prepared::new(&plan, &mut self.laid_out, progress)?;
        let files = (plan.first_file, plan.files, plan.size, plan.unit());
        let wanted = (job.cache == Cache::Warm).then_some(files);
        if wanted.is_some() && wanted != warmed {
            prepared.read_all(progress)?;
        }
        self.warmed = wanted;
        self.prepared = Some(Ready::Load(Box::new(plan), Box::new(prepared)));
        Ok(())
    }

    fn run(&mut self, control: &Control) -> Result<Part, Error> {
        let ready = self.prepared.as_mut().ok_or_else(|| Error::Plan("nothing was prepared".to_owned()))?;
        let usage = UsageSampler::start(self.target.address()?.ip());
        let mut part = match ready {
            Ready::Load(plan, prepared) => {
                let counters = prepared.measure(control, Clock::new(control))?;
                part(plan, prepared, &counters, control)?
            }
            Ready::Eda(prepared) => prepared.run(control)?,
        };
        // Includes the warm-up, whose utilization is that of the window.
        (part.usage.cpu_share, part.usage.network_share) = usage.finish();
        Ok(part)
    }

    fn accepts_late_window(&self) -> bool {
        true
    }

    fn clear(&mut self) -> Result<(), Error> {
        (self.warmed, self.prepared) = (None, None);
        self.laid_out.clear();
        eda::clear(&self.target, &self.identity())?;
        load::clear(&self.target, &self.caller)
    }
}

fn part(plan: &Plan, prepared: &Prepared, counters: &OpCounters, control: &Control) -> Result<Part, Error> {
    let (start, end) = control.window();
    if start == u64::MAX || control.is_stopped() {
        return Err(Error::Stopped);
    }
    let seconds = (end - start) as f64 / 1e9;
    let operations = Kind::ALL.into_iter().filter_map(|kind| {
        let counts = counters.operation(kind as usize)?;
        Some(Operation {
            name: operation(plan.op, kind),
            direction: kind.direction(),
            ops: counts.service.len(),
            bytes: counts.bytes,
            service: Distribution::from(&counts.service),
            response: counts.response.as_ref().map(Distribution::from),
        })
    });
    let client = |client: usize| {
        Ok::<_, Error>(ClientResult {
            name: format!("plimsoll-bench-{}", plan.first_client + client),
            machine: 0,
            endpoint: plan.target.endpoint_for(plan.first_client + client)?,
            seconds: counters.window(client),
            connections: prepared.connections(client),
        })
    };
    let clients = (0..plan.clients).map(client).collect::<Result<_, _>>()?;
    let mut caveats = Vec::new();
    if prepared.restarts() > 0 {
        let text = "the server restarted: its write verifier changed, unstable data may be lost";
        caveats.push(Caveat::new(CaveatKind::Void, text));
    }
    Ok(Part {
        started: (control.begin + start) as f64 / 1e9,
        seconds,
        operations: operations.collect(),
        wire: counters.wire(),
        clients,
        usage: MachineUse {
            cpu_s: counters.cpu.as_secs_f64(),
            busiest_thread: counters.busiest.as_secs_f64() / seconds,
            late: counters.late,
            ..MachineUse::default()
        },
        errors: counters.errors.clone(),
        error_details: counters.described.clone(),
        caveats,
        ..Part::default()
    })
}

fn operation(op: Op, kind: Kind) -> String {
    match kind {
        _ if op == Op::OpenRead => "open-read".to_owned(),
        Kind::Lookup => "stat".to_owned(),
        Kind::Remove => "unlink".to_owned(),
        _ => kind.to_string().to_lowercase(),
    }
}
