//! The suite of provisioners on the one in memory, and on some with one known defect each, which it must notice.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use vfs::sync::Mutex;
use vfs::{
    Backend, Blocking, Capabilities, Capacity, FileKey, FsError, FsLimits, FsResult, FsStat, NodeRef, Pace,
    Provisioner, QuotaCheck, QuotaOwner, QuotaReport, QuotaRule, QuotaUse, Quotas, Root, Snapshots, Time,
    Usage, ViewId, VolumeId, unpaced,
};
use vfs_testing::MemProvisioner;
use vfs_testing::conformance::capacity::{self, Charging, End, Fixture};
use vfs_testing::memfs::Clock;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Bug {
    /// None: the wrapper itself conforms.
    None,
    /// A volume may exceed its capacity by a block.
    OneBlockMore,
    /// A volume may exceed its capacity by a file.
    OneFileMore,
    KeepsOldCapacity,
    RemovesNothing,
    /// After a kill, a file is counted twice.
    RecountsWrongly,
    /// The declared root of an existing volume is ignored.
    KeepsOldRoot,
    RevertsNothing,
    /// A revert of an open volume is reported as done.
    RevertsOpenVolumes,
    /// Files get all of the volume.
    ReservesNothing,
    /// A revert does not end when it should.
    EndsNothing,
    /// A clone has the live files.
    ClonesLiveFiles,
    /// An owner may exceed its quota by a block.
    OneQuotaBlockMore,
    /// Default rules bind nobody.
    NoDefaultQuota,
    /// Rules do not outlive a restart.
    ForgetsQuotas,
    /// A report shows one file too many.
    ReportsAnotherFile,
}

/// A volume with a defect in its quotas.
struct LooseQuotas {
    bug: Bug,
    inner: Arc<dyn Backend>,
}

impl Backend for LooseQuotas {
    fn root(&self) -> NodeRef {
        self.inner.root()
    }

    fn node(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        self.inner.node(key, blocking)
    }

    fn stat(&self) -> FsResult<FsStat> {
        self.inner.stat()
    }

    fn limits(&self) -> FsLimits {
        self.inner.limits()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn sync(&self) -> FsResult<()> {
        self.inner.sync()
    }

    fn flush_failures(&self) -> u64 {
        self.inner.flush_failures()
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        self.inner.snapshots()
    }

    fn quotas(&self) -> Option<&dyn Quotas> {
        Some(self)
    }
}

impl LooseQuotas {
    fn inner(&self) -> &dyn Quotas {
        self.inner.quotas().expect("a volume in memory has quotas")
    }
}

impl Quotas for LooseQuotas {
    fn set_rules(&self, rules: &[QuotaRule]) -> FsResult<()> {
        let mut rules = rules.to_vec();
        match self.bug {
            Bug::NoDefaultQuota => rules.retain(|rule| rule.target.id.is_some()),
            Bug::OneQuotaBlockMore => rules.iter_mut().for_each(|rule| {
                rule.limits.bytes = rule.limits.bytes.map(|bytes| bytes + 4096);
            }),
            _ => {}
        }
        self.inner().set_rules(&rules)
    }

    fn rules(&self) -> Vec<QuotaRule> {
        self.inner().rules()
    }

    fn has_rules(&self) -> bool {
        self.inner().has_rules()
    }

    fn report(&self) -> FsResult<QuotaReport> {
        let mut report = self.inner().report()?;
        let more = u64::from(self.bug == Bug::ReportsAnotherFile);
        report.uses.iter_mut().for_each(|of| of.used.files += more);
        Ok(report)
    }

    fn usage(&self, owner: QuotaOwner) -> FsResult<QuotaUse> {
        self.inner().usage(owner)
    }

    fn check(&self) -> FsResult<QuotaCheck> {
        self.inner().check()
    }
}

struct Mutant {
    bug: Bug,
    inner: Arc<MemProvisioner>,
    was_killed: bool,
}

impl Mutant {
    fn loosened(&self, capacity: Capacity) -> Capacity {
        let more = |bug, amount| if self.bug == bug { amount } else { 0 };
        Capacity {
            bytes: capacity.bytes + more(Bug::OneBlockMore, 4096),
            files: capacity.files + more(Bug::OneFileMore, 1),
        }
    }
}

impl Provisioner for Mutant {
    fn make(&self, id: VolumeId, root: &Root, capacity: Capacity) -> FsResult<()> {
        self.inner.make(id, root, self.loosened(capacity))
    }

    fn open(&self, id: VolumeId) -> FsResult<Arc<dyn Backend>> {
        let inner = self.inner.open(id)?;
        if self.bug == Bug::ForgetsQuotas && self.was_killed {
            inner.quotas().expect("a volume in memory has quotas").set_rules(&[])?;
        }
        Ok(Arc::new(LooseQuotas { bug: self.bug, inner }))
    }

    fn set_capacity(&self, id: VolumeId, capacity: Capacity) -> FsResult<()> {
        if self.bug == Bug::KeepsOldCapacity {
            return self.inner.usage(id).map(drop);
        }
        self.inner.set_capacity(id, self.loosened(capacity))
    }

    fn set_snapshot_reserve(&self, id: VolumeId, bytes: u64) -> FsResult<()> {
        if self.bug == Bug::ReservesNothing {
            return Ok(());
        }
        self.inner.set_snapshot_reserve(id, bytes)
    }

    fn set_root(&self, id: VolumeId, root: &Root) -> FsResult<()> {
        if self.bug == Bug::KeepsOldRoot { Ok(()) } else { self.inner.set_root(id, root) }
    }

    fn usage(&self, id: VolumeId) -> FsResult<Usage> {
        let usage = self.inner.usage(id)?;
        let twice = u64::from(self.bug == Bug::RecountsWrongly && self.was_killed);
        Ok(Usage { files: usage.files + twice, ..usage })
    }

    fn remove(&self, id: VolumeId) -> FsResult<()> {
        if self.bug == Bug::RemovesNothing { Ok(()) } else { self.inner.remove(id) }
    }

    fn revert(&self, id: VolumeId, view: ViewId, pace: &mut Pace<'_>) -> FsResult<bool> {
        match self.bug {
            Bug::RevertsNothing => self.inner.usage(id).map(|_| true),
            Bug::RevertsOpenVolumes => self.inner.revert(id, view, pace).or_else(|error| match error {
                FsError::Locked => Ok(true),
                error => Err(error),
            }),
            Bug::EndsNothing => self.inner.revert(id, view, &mut unpaced),
            _ => self.inner.revert(id, view, pace),
        }
    }

    fn clone_volume(
        &self,
        source: VolumeId,
        view: ViewId,
        id: VolumeId,
        root: &Root,
        capacity: Capacity,
        pace: &mut Pace<'_>,
    ) -> FsResult<bool> {
        let view = match self.inner.open(source) {
            Ok(volume) if self.bug == Bug::ClonesLiveFiles => {
                let live = ViewId(99);
                volume.snapshots().map_or(Ok(()), |snapshots| snapshots.create(live)).map_or(view, |()| live)
            }
            _ => view,
        };
        self.inner.clone_volume(source, view, id, root, capacity, pace)
    }

    fn snapshot_bytes(&self, id: VolumeId) -> FsResult<Option<u64>> {
        self.inner.snapshot_bytes(id)
    }

    fn list(&self) -> FsResult<Vec<VolumeId>> {
        self.inner.list()
    }

    fn room(&self) -> FsResult<FsStat> {
        self.inner.room()
    }
}

/// A clock that advances at each reading.
fn clock() -> Clock {
    let ticks = AtomicI64::new(1_600_000_000_000);
    Arc::new(move || {
        let millis = ticks.fetch_add(1, Ordering::Relaxed);
        Time { seconds: millis / 1000, nanos: u32::try_from(millis % 1000).unwrap() * 1_000_000 }
    })
}

fn fixture(bug: Bug) -> Fixture {
    let first = Arc::new(MemProvisioner::new(clock(), Capacity { bytes: 1 << 40, files: 1 << 30 }));
    let mutant = move |inner, was_killed| Arc::new(Mutant { bug, inner, was_killed });
    // Besides the suite's own, because ending it takes more than the trait has.
    let last = Mutex::new(first.clone());
    let again = move |given: Arc<dyn Provisioner>, volume: Arc<dyn Backend>, end| {
        volume.sync().unwrap();
        drop((given, volume));
        let mut last = last.lock();
        *last = Arc::new(last.crash());
        mutant(last.clone(), end == End::Killed) as Arc<dyn Provisioner>
    };
    Fixture {
        provisioner: mutant(first, false),
        charging: Charging::Blocks,
        ids: (1234, 5678),
        again: Arc::new(again),
        sweep: Arc::new(|| ()),
    }
}

#[test]
fn memory_keeps_to_its_capacity() {
    capacity::run(&|| fixture(Bug::None));
}

#[test]
fn defects_are_noticed() {
    for (bug, by) in [
        (Bug::OneBlockMore, "counting/writers_meet_exactly_at_the_limit"),
        (Bug::OneBlockMore, "counting/the_state_shows_capacity_and_use"),
        (Bug::OneFileMore, "counting/every_object_is_a_file"),
        (Bug::KeepsOldCapacity, "counting/capacity_moves_below_use_and_up"),
        (Bug::RemovesNothing, "verbs/a_removed_volume_comes_back_empty"),
        (Bug::RecountsWrongly, "counting/a_recount_finds_what_was_counted"),
        (Bug::RecountsWrongly, "verbs/all_is_there_after_an_end"),
        (Bug::KeepsOldRoot, "verbs/the_root_is_as_declared"),
        (Bug::RevertsNothing, "snapshots/a_revert_brings_the_files_back"),
        (Bug::RevertsNothing, "snapshots/all_is_there_after_an_end"),
        (Bug::RevertsOpenVolumes, "snapshots/an_open_volume_is_not_reverted"),
        (Bug::EndsNothing, "steps/a_revert_ends_at_a_step_and_goes_on"),
        (Bug::ClonesLiveFiles, "snapshots/a_clone_is_a_volume_of_its_own"),
        (Bug::ReservesNothing, "reserve/files_leave_it_to_snapshots"),
        (Bug::OneQuotaBlockMore, "quotas/limit_refuses_growth_alone"),
        (Bug::OneQuotaBlockMore, "quotas/writers_meet_exactly_at_the_limit"),
        (Bug::OneQuotaBlockMore, "quotas/chown_moves_the_charge_or_is_refused"),
        (Bug::NoDefaultQuota, "quotas/defaults_bind_present_owners"),
        (Bug::ForgetsQuotas, "quotas/rules_and_usage_outlive_an_end"),
        (Bug::ReportsAnotherFile, "quotas/traces_agree_with_a_walk"),
    ] {
        let case = capacity::cases().into_iter().find(|case| case.name == by).expect("a case");
        assert!((case.run)(fixture(bug)).is_err(), "{bug:?} was not noticed by {by}");
    }
}
