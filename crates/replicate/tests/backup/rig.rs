//! A vault in memory, and what a backup needs besides.

pub(crate) use crate::volume::{Volume, name, noise, plain, seconds};
use replicate::store::{ObjectSink, ObjectStore, Pace};
use replicate::{
    BackupId, Error, Job, Key, Manifest, Owner, Progress, Restore, Selection, Source, Sweep, Swept, Vault,
    VaultOptions, backup, compare, restore, sweep,
};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use vfs::{Backend, Time};

type Hook = Box<dyn FnOnce() + Send>;

/// Objects in memory. Counts what it receives, and fails on request.
#[derive(Default)]
pub(crate) struct MemStore {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    pub(crate) sent: AtomicU64,
    pub(crate) puts: AtomicU64,
    /// Changes until every call fails; negative for never.
    left: AtomicI64,
    /// Calls until another process comes in between.
    hook: Mutex<Option<(u64, Hook)>>,
    /// Whether the last change before the failure takes place without an answer.
    pub(crate) is_answer_lost: bool,
}

impl MemStore {
    pub(crate) fn new() -> Self {
        Self { left: AtomicI64::new(-1), ..Self::default() }
    }

    pub(crate) fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.objects.lock().unwrap()
    }

    pub(crate) fn fail_after(&self, changes: i64) {
        self.left.store(changes, Ordering::Relaxed);
    }

    pub(crate) fn heal(&self) {
        self.fail_after(-1);
    }

    /// Runs `hook` before the call after `calls` others. Returns whether an earlier hook did not run.
    pub(crate) fn interleave(&self, calls: u64, hook: Option<Hook>) -> bool {
        let hook = hook.map(|hook| (calls, hook));
        std::mem::replace(&mut *self.hook.lock().unwrap(), hook).is_some()
    }

    fn check(&self) -> io::Result<()> {
        let mut hook = self.hook.lock().unwrap();
        let due = match &mut *hook {
            Some((0, _)) => hook.take(),
            Some((left, _)) => {
                *left -= 1;
                None
            }
            None => None,
        };
        drop(hook);
        if let Some((_, run)) = due {
            run();
        }
        if self.left.load(Ordering::Relaxed) == 0 { Err(io::Error::other("planned")) } else { Ok(()) }
    }

    fn change<T>(&self, change: impl FnOnce() -> T) -> io::Result<T> {
        self.check()?;
        let left = self.left.load(Ordering::Relaxed);
        self.left.store((left - 1).max(-1), Ordering::Relaxed);
        let result = change();
        if left == 1 && self.is_answer_lost { Err(io::Error::other("lost")) } else { Ok(result) }
    }
}

impl ObjectStore for MemStore {
    fn put_new(&self, name: &str, content: &[u8], pace: &mut Pace<'_>) -> io::Result<bool> {
        if pace(content.len() as u64).is_break() {
            return Err(ErrorKind::Interrupted.into());
        }
        self.change(|| {
            if self.objects().contains_key(name) {
                return false;
            }
            self.sent.fetch_add(content.len() as u64, Ordering::Relaxed);
            self.puts.fetch_add(1, Ordering::Relaxed);
            self.objects().insert(name.to_owned(), content.to_vec());
            true
        })
    }

    fn read(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.check()?;
        let objects = self.objects();
        let content = objects.get(name).ok_or(ErrorKind::NotFound)?;
        let start = usize::try_from(offset).unwrap().min(content.len());
        Ok(content[start..content.len().min(start + len)].to_vec())
    }

    fn size(&self, name: &str) -> io::Result<Option<u64>> {
        self.check()?;
        Ok(self.objects().get(name).map(|content| content.len() as u64))
    }

    fn list(&self, prefix: &str, sink: &mut ObjectSink<'_>) -> io::Result<()> {
        self.check()?;
        let names: Vec<_> =
            self.objects().iter().map(|(name, content)| (name.clone(), content.len())).collect();
        for (name, size) in names.iter().filter(|(name, _)| name.starts_with(prefix)) {
            if sink(name, *size as u64).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.change(|| drop(self.objects().remove(name)))
    }

    fn retain(&self, _: &str, _: Time) -> io::Result<bool> {
        Ok(false)
    }
}

/// Random bytes that differ in every call and process.
pub(crate) fn random(bytes: &mut [u8]) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    for part in bytes.chunks_mut(8) {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) + (u64::from(std::process::id()) << 32);
        let mut word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word ^= word >> 29;
        part.copy_from_slice(&word.wrapping_mul(0xbf58_476d_1ce4_e5b9).to_be_bytes()[..part.len()]);
    }
}

pub(crate) fn new_id() -> BackupId {
    let mut id = [0; 8];
    random(&mut id);
    BackupId(id)
}

pub(crate) fn owner(number: u8) -> Owner {
    Owner { token: [number; 16], name: format!("service {number}") }
}

pub(crate) struct Rig {
    pub(crate) store: Arc<MemStore>,
    pub(crate) vault: Vault,
    pub(crate) scratch: tempfile::TempDir,
}

impl Rig {
    pub(crate) fn new(key: Option<Key>) -> Self {
        Self::with_store(MemStore::new(), key)
    }

    pub(crate) fn with_store(store: MemStore, key: Option<Key>) -> Self {
        let store = Arc::new(store);
        let options = VaultOptions { key, owner: owner(1), created: seconds(1) };
        let vault = Vault::create(store.clone(), &options, &mut random).unwrap();
        Self { store, vault, scratch: tempfile::tempdir().unwrap() }
    }

    /// Backs up the present state of a volume, taken now.
    pub(crate) fn back_up(&self, volume: &Volume, previous: Option<BackupId>) -> Manifest {
        self.try_back_up(volume, new_id(), previous).unwrap().0
    }

    pub(crate) fn try_back_up(
        &self,
        volume: &Volume,
        id: BackupId,
        previous: Option<BackupId>,
    ) -> Result<(Manifest, Progress), Error> {
        let taken = seconds(volume.now());
        let source = source(volume, previous, taken);
        self.run(id, &source)
    }

    pub(crate) fn run(&self, id: BackupId, source: &Source<'_>) -> Result<(Manifest, Progress), Error> {
        let mut last = Progress::default();
        let mut job = Job {
            scratch: self.scratch.path(),
            random: &mut random,
            now: &|| seconds(2_000),
            pace: &mut |_| ControlFlow::Continue(()),
            progress: &mut |progress| {
                last = *progress;
                ControlFlow::Continue(())
            },
        };
        let manifest = backup(&self.vault, id, source, &mut job)?;
        Ok((manifest, last))
    }

    pub(crate) fn restore(&self, manifest: &Manifest, selection: Selection<'_>) -> Result<Volume, Error> {
        let target = Volume::new();
        target.clock.store(50_000, Ordering::Relaxed);
        self.restore_to(manifest, selection, &target).map(|_| target)
    }

    pub(crate) fn restore_to(
        &self,
        manifest: &Manifest,
        selection: Selection<'_>,
        target: &Volume,
    ) -> Result<Progress, Error> {
        let mut job = Restore {
            selection,
            pace: &mut |_| ControlFlow::Continue(()),
            progress: &mut |_| ControlFlow::Continue(()),
        };
        restore(&self.vault, manifest, &target.fs, &mut job)
    }

    /// Restores a backup and compares the result with the backup, and with the volume that it was made of.
    pub(crate) fn check_restore(&self, manifest: &Manifest, volume: &Volume) -> Volume {
        let restored = self.restore(manifest, Selection::Whole).unwrap();
        for fs in [&restored.fs, &volume.fs] {
            let found = compare(&self.vault, manifest, fs, 20, &mut || ControlFlow::Continue(())).unwrap();
            assert_eq!(found, []);
        }
        restored
    }

    pub(crate) fn sweep_at(&self, now: i64) -> Result<Swept, Error> {
        let mut job = Sweep {
            random: &mut random,
            now: &|| seconds(now),
            progress: &mut |_, _| ControlFlow::Continue(()),
        };
        sweep(&self.vault, &mut job)
    }
}

pub(crate) fn source(volume: &Volume, previous: Option<BackupId>, taken: Time) -> Source<'_> {
    source_of(&volume.fs, previous, taken)
}

pub(crate) fn source_of(backend: &dyn Backend, previous: Option<BackupId>, taken: Time) -> Source<'_> {
    Source { backend, volume: "v1", snapshot: "daily", taken, previous, changes: None, locked_until: None }
}
