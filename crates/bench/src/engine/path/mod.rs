//! Load on a mounted file system, made by the installed fio.
//!
//! Files are in `plimsoll-bench` of the directory, one for each job; later runs reuse them. fio needs its window at
//! the start: the warm-up is its `ramp_time`, the window its `runtime`. Other users may write the directory: the files
//! are in a private one below it ([`crate::private_dir`]).

mod layout;
pub(super) mod mount;
mod nfs;
mod opening;
mod part;
mod plan;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{self, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use report::result::{Caveat, CaveatKind, MountFacts, Part, TargetFacts};
use report::scenario::{Stability, Work};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use super::interface::Engine;
use crate::error::Error;
use crate::fio::{Running, Tool};
use crate::job::Control;
use crate::job::{Job, LayoutProgress};
use crate::machine::{UsageSampler, co_located};
use crate::private_dir::{PrivateDir, descriptor_path, remove_empty};

use nfs::{Counters, History};
use plan::Access;

const FILES: &str = "plimsoll-bench";
/// fio's asynchronous engines, the preferred one first.
const ENGINES: [&str; 2] = ["libaio", "io_uring"];
const POLL: Duration = Duration::from_millis(20);
/// Bounds fio's operations in flight and its last fsync after the window.
const DRAIN_MAX: Duration = Duration::from_secs(600);
/// fio must end within this time after a signal.
const END_MAX: Duration = Duration::from_secs(20);
/// Reads count as the server's if the client's memory answers a smaller share.
const UNCACHED_BELOW: f64 = 0.01;

#[derive(Debug)]
pub struct Path {
    /// Opened once. All work happens below this descriptor.
    base: OwnedFd,
    directory: PathBuf,
    tool: Tool,
    mount: MountFacts,
    case: Option<String>,
    prepared: Option<Prepared>,
}

#[derive(Debug)]
struct Prepared {
    job: Job,
    access: Access,
    files: PrivateDir,
}

impl Path {
    /// Accepts an existing directory on any mount.
    ///
    /// # Errors
    /// The target is not a directory, or fio is not installed.
    pub fn open(directory: &path::Path) -> Result<Self, Error> {
        let tool = Tool::find()?;
        let doing = || format!("open {}", directory.display());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let base = match open(directory, flags, Mode::empty()) {
            Ok(base) => base,
            Err(Errno::NOTDIR) => {
                return Err(Error::Plan(format!("{} is not a directory", directory.display())));
            }
            Err(errno) => return Err(Error::io(doing())(errno.into())),
        };
        let directory = fs::read_link(descriptor_path(base.as_fd())).map_err(Error::io(doing()))?;
        let mount = mount::of(&directory)?;
        Ok(Self { base, directory, tool, mount, case: None, prepared: None })
    }

    /// Names the directory as one of several compared mounts. Their options differ on purpose, so they cause
    /// no caveat.
    pub fn as_case(self, name: &str) -> Self {
        Self { case: Some(name.to_owned()), ..self }
    }

    fn files(&self) -> Result<PrivateDir, Error> {
        PrivateDir::make(self.base.as_fd(), &self.directory, FILES)
    }

    fn access(&self, files: &PrivateDir) -> Result<Access, Error> {
        let engine = ENGINES.into_iter().find(|engine| self.tool.has_engine(engine));
        let engine = engine.ok_or_else(|| {
            Error::Plan(format!("{} has none of the engines {}", self.tool.version, ENGINES.join(", ")))
        })?;
        Ok(Access { engine, is_direct: layout::takes_direct(files)? })
    }

    /// Effects of the mount that fio's figures do not show.
    fn caveats(&self, job: &Job, access: Access) -> Vec<Caveat> {
        let mut caveats = Vec::new();
        let mut caveat = |kind, text: String| caveats.push(Caveat::new(kind, text));
        if !access.is_direct {
            caveat(CaveatKind::CacheMixed, client_cache(access).to_owned());
        }
        let is_nfs = mount::is_nfs(&self.mount);
        let (connections, option) = mount::connections(&self.mount);
        if self.case.is_none() && job.connections != connections {
            let has = option
                .map_or_else(|| "there are none".to_owned(), |option| format!("{option} is {connections}"));
            caveat(
                CaveatKind::Other,
                format!(
                    "{} connections were requested; on a path the mount decides, and {has}",
                    job.connections
                ),
            );
        }
        if is_nfs && access.is_direct && job.read_percent < 100 && job.stability == Stability::Unstable {
            let text = "Linux makes direct writes over NFS stable before it answers them (FILE_SYNC, or UNSTABLE and COMMIT for \
                each): slower than UNSTABLE with a COMMIT at the end";
            caveat(CaveatKind::Other, text.to_owned());
        }
        caveats
    }

    /// Opens small files and reads them. The client is expected to cache their data.
    fn open_files(&self, files: &PrivateDir, job: &Job, control: &Control) -> Result<Part, Error> {
        let server = mount::server(&self.mount).unwrap_or(Ipv4Addr::LOCALHOST.into());
        let usage = UsageSampler::start(server);
        let is_over = AtomicBool::new(false);
        let (part, history) = thread::scope(|scope| {
            let watching = scope.spawn(|| self.watch(&is_over));
            let part = opening::run(files, job, control);
            is_over.store(true, Ordering::Relaxed);
            (part, watching.join())
        });
        let mut part = part?;
        (part.usage.cpu_share, part.usage.network_share) = usage.finish();
        let history =
            history.map_err(|_| Error::Plan("who reads the kernel's counters panicked".to_owned()))??;
        history.iter().for_each(|history| add_calls(&mut part, history));
        Ok(part)
    }

    /// Samples the counters of the kernel's client until the load ends. `None` for other mounts than NFS.
    fn watch(&self, is_over: &AtomicBool) -> Result<Option<History>, Error> {
        if !mount::is_nfs(&self.mount) {
            return Ok(None);
        }
        let mut history = History::new(&self.mount.at);
        while !is_over.load(Ordering::Relaxed) {
            history.sample_if_due(now())?;
            thread::sleep(POLL);
        }
        Ok(Some(history))
    }

    /// Reports the load's progress, and samples the counters of the kernel's client on an NFS mount.
    fn wait_for_end(&self, running: &mut Running, control: &Control) -> Result<Option<History>, Error> {
        let latest = control.window().1.saturating_add(nanoseconds(DRAIN_MAX));
        let mut history = mount::is_nfs(&self.mount).then(|| History::new(&self.mount.at));
        let (mut told, mut stopped) = (since(control.begin), None);
        while !running.is_over()? {
            let now = since(control.begin);
            for rates in running.live_rates() {
                let share = now.saturating_sub(told) as f64 / 1e9;
                // A line covers about the time since the previous one, so it counts at the middle.
                control.count(
                    told.midpoint(now),
                    count(rates.ops_per_s * share),
                    count(rates.bytes_per_s * share),
                );
                told = now;
            }
            history.as_mut().map_or(Ok(()), |history| history.sample_if_due(control.begin + now))?;
            let ends = control.is_stopped() || now > latest;
            if ends && stopped.is_none() {
                running.interrupt();
                stopped = Some(now);
            }
            if stopped.is_some_and(|at| now - at > nanoseconds(END_MAX)) {
                return Err(Error::Plan(format!(
                    "fio did not end within {} s after it was told to; an operation may hang",
                    END_MAX.as_secs()
                )));
            }
            thread::sleep(POLL);
        }
        Ok(history)
    }
}

impl Engine for Path {
    fn facts(&mut self) -> Result<TargetFacts, Error> {
        let files = self.files()?;
        let access = self.access(&files)?;
        let size = |name| mount::option(&self.mount, name).and_then(|size| size.parse().ok());
        let is_ours = |address: IpAddr| co_located(SocketAddr::new(address, 0));
        Ok(TargetFacts {
            target: self.directory.display().to_string(),
            protocol: "mounted path".to_owned(),
            generator: self.tool.version.clone(),
            read_max: size("rsize"),
            write_max: size("wsize"),
            // The files of earlier runs are reused, or make room.
            free_bytes: Some(files.free_bytes()? + layout::held_bytes(&files)?),
            case: self.case.clone(),
            smb: None,
            mount: Some(self.mount.clone()),
            co_located: mount::is_co_located(&self.mount, is_ours),
            client_cache: client_cache(access).to_owned(),
            volume: None,
        })
    }

    fn prepare(
        &mut self,
        job: &Job,
        progress: &mut dyn FnMut(LayoutProgress) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.prepared = None;
        let files = self.files()?;
        let access = self.access(&files)?;
        plan::check(job, &self.mount, access)?;
        match job.work {
            Work::OpenRead => opening::lay_out(&files, job, progress)?,
            _ => layout::lay_out(&files, job, &self.tool, access, progress)?,
        }
        self.prepared = Some(Prepared { job: job.clone(), access, files });
        Ok(())
    }

    fn run(&mut self, control: &Control) -> Result<Part, Error> {
        let Some(Prepared { job, access, files }) = &self.prepared else {
            return Err(Error::Plan("nothing was prepared".to_owned()));
        };
        let (start, end) = control.window();
        if end == u64::MAX {
            return Err(Error::Plan("fio needs its window before it starts, and none is set".to_owned()));
        }
        if job.work == Work::OpenRead {
            return self.open_files(files, job, control);
        }
        let (ramp_s, length_s) = (start / 1_000_000_000, (end - start) / 1_000_000_000);
        let scratch = self.tool.scratch()?;
        let text = plan::load(job, *access, (ramp_s, length_s), scratch.path())?;
        while now() < control.begin && !control.is_stopped() {
            thread::sleep(Duration::from_nanos(control.begin - now()).min(POLL));
        }
        let server = mount::server(&self.mount).unwrap_or(Ipv4Addr::LOCALHOST.into());
        let usage = UsageSampler::start(server);
        let mut running = self.tool.start(&text, files, scratch)?;
        let history = self.wait_for_end(&mut running, control)?;
        let mut part = part::part(job, &running.finish()?, length_s as f64)?;
        // Includes the warm-up, as for the built-in client.
        (part.usage.cpu_share, part.usage.network_share) = usage.finish();
        let began = count(part.started * 1e9).saturating_sub(control.begin);
        control.note_began(began.saturating_sub(start));
        control.note_ended(began + count(part.seconds * 1e9));
        part.caveats.extend(self.caveats(job, *access));
        if let Some(history) = &history {
            add_calls(&mut part, history);
            add_cached(&mut part, history);
        }
        Ok(part)
    }

    fn accepts_late_window(&self) -> bool {
        false
    }

    fn clear(&mut self) -> Result<(), Error> {
        self.prepared = None;
        let base = self.base.as_fd();
        let Some(files) = PrivateDir::existing(base, &self.directory, FILES)? else { return Ok(()) };
        // Keeps files of others, and of loads of another kind.
        if layout::remove_files(&files)? {
            remove_empty(base, &self.directory, FILES)?;
        }
        Ok(())
    }
}

fn at_edges<'h>(part: &Part, history: &'h History) -> Option<(&'h Counters, &'h Counters)> {
    let [start, end] = [part.started, part.started + part.seconds].map(|at| count(at * 1e9));
    history.window(start, end)
}

fn add_calls(part: &mut Part, history: &History) {
    part.wire = at_edges(part, history).map(|(before, after)| after.calls_since(before)).unwrap_or_default();
}

/// Adds a caveat if the client's memory answered reads in the part's window.
fn add_cached(part: &mut Part, history: &History) {
    let Some((before, after)) = at_edges(part, history) else { return };
    let hits = after.client_hits_since(before).filter(|hits| *hits >= UNCACHED_BELOW);
    part.caveats.extend(hits.map(|hits| {
        let text = format!("the client's memory answered {:.1} % of the bytes read", hits * 100.0);
        Caveat::new(CaveatKind::CacheMixed, text)
    }));
}

fn client_cache(access: Access) -> &'static str {
    if access.is_direct {
        "bypassed (O_DIRECT)"
    } else {
        "in the way: this file system refuses O_DIRECT, so the client's page cache answers reads and takes writes"
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanoseconds)
}

fn since(begin: u64) -> u64 {
    now().saturating_sub(begin)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// 0 for an invalid rate.
fn count(things: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    let count = things.round() as u64;
    count
}
