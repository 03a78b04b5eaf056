//! The lease of the endpoint that this process serves: it is renewed, and the process ends when it cannot be.

use super::clock::since_boot;
use super::store::RadosStore;
use anyhow::Context;
use cluster::{Holding, RenewError, Times};
use rustix::process::{Signal, getpid, kill_process};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use transport::{ReplyDeadline, ReplyLease};

/// The pause after a renewal that the store refused.
const RETRY: Duration = Duration::from_millis(50);

/// Work after each confirmed renewal.
pub(crate) type AfterRenewal = Box<dyn Fn() + Send>;

/// Renews a lease on a thread of its own until it is released.
pub(crate) struct LeaseKeeper {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Holding<RadosStore>>,
    /// The time until which clients are answered.
    pub(crate) deadline: ReplyDeadline,
}

/// The time until which this process may answer, for the code that sends and for the thread that ends the process.
struct Answers {
    lease: ReplyLease,
    until: Arc<AtomicU64>,
}

impl Answers {
    fn until(time: Duration) -> Self {
        let until = nanos(time);
        Self { lease: ReplyLease::new(until), until: Arc::new(AtomicU64::new(until)) }
    }

    fn extend(&self, time: Duration) {
        self.lease.extend(nanos(time));
        self.until.store(nanos(time), Ordering::Release);
    }
}

impl LeaseKeeper {
    /// Renews once, and goes on in the background. From now on this process ends by itself when the lease does.
    pub(crate) fn start(
        mut holding: Holding<RadosStore>,
        times: Times,
        make: impl FnOnce(ReplyDeadline) -> anyhow::Result<AfterRenewal>,
    ) -> anyhow::Result<Self> {
        let sent = since_boot();
        holding.renew(sent).map_err(|error| anyhow::anyhow!("cannot renew the lease: {error}"))?;
        let answers = Answers::until(holding.answers_until());
        let (watched, deadline) = (Arc::clone(&answers.until), answers.lease.deadline());
        thread::Builder::new()
            .name("lease watch".into())
            .spawn(move || watch(&watched))
            .context("a thread")?;
        let after_renewal = make(deadline)?;
        let (stop, stopped) = mpsc::channel();
        let renew = move || keep(holding, times, &answers, &stopped, &after_renewal);
        let thread = thread::Builder::new().name("lease".into()).spawn(renew).context("a thread")?;
        Ok(Self { stop, thread, deadline })
    }

    /// Ends the lease, so that another gateway need not wait for its end.
    pub(crate) fn release(self) {
        drop(self.stop);
        match self.thread.join().map(Holding::release) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("other gateways wait for the end of the lease: {error}"),
            Err(_) => tracing::error!("the thread of the lease panicked"),
        }
    }
}

fn keep(
    mut holding: Holding<RadosStore>,
    times: Times,
    answers: &Answers,
    stopped: &mpsc::Receiver<()>,
    after_renewal: &AfterRenewal,
) -> Holding<RadosStore> {
    let mut pause = times.renewal;
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        match holding.renew(since_boot()) {
            Ok(()) => {
                answers.extend(holding.answers_until());
                after_renewal();
                pause = times.renewal;
            }
            Err(RenewError::Lost) => end_now("another gateway has taken the endpoint"),
            Err(RenewError::Store(error)) if error.is_final() => end_now(&error.to_string()),
            Err(RenewError::Store(error)) => {
                tracing::warn!("cannot renew the lease: {error}");
                pause = RETRY;
            }
        }
    }
    holding
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Ends the process when the lease is over: a thread of it may be stuck in the cluster's library, so nothing else is sure.
fn watch(until: &AtomicU64) {
    loop {
        let rest = Duration::from_nanos(until.load(Ordering::Acquire)).saturating_sub(since_boot());
        if rest.is_zero() {
            end_now(
                "the lease was not renewed in time: Ceph did not answer, or this machine was stopped or overloaded",
            );
        }
        thread::sleep(rest);
    }
}

/// Kills this process: the kernel closes its connections, and no destructor of a library waits for the cluster.
pub(crate) fn end_now(reason: &str) -> ! {
    tracing::error!("this endpoint ends here: {reason}");
    loop {
        _ = kill_process(getpid(), Signal::KILL);
    }
}
