//! The fixture of the cases, their results, and the lists of families.

use crate::UncheckedNode;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use vfs::{Backend, FsError, Name, NewInode, NodeRef, PosixAcl};

/// Opens the storage again as after a restart. The first backend is not used any more but may still exist.
pub type Reopen = Box<dyn Fn() -> Arc<dyn Backend>>;

/// The lists of POSIX that a file may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclKind {
    Access,
    Default,
}

/// Sets or removes a POSIX ACL of a path below the root, as another program on the machine would.
pub type SetAcl = Box<dyn Fn(&str, AclKind, Option<&PosixAcl>)>;

/// The fixture of one case: a backend whose storage is not in use otherwise.
pub struct Fixture {
    /// The backend. Its root may already hold something; its clock moves on by itself, in steps of at most 10 ms.
    pub backend: Arc<dyn Backend>,
    /// Restarts the backend, if it outlives a process.
    pub reopen: Option<Reopen>,
    /// Features that the backend lacks, each with the reason.
    pub lacks: Vec<(Lack, &'static str)>,
    /// Sets POSIX ACLs outside the backend, if the storage has them.
    pub set_acl: Option<SetAcl>,
    /// A value that must live as long as the case, such as a temporary directory.
    pub keep: Option<Box<dyn Any>>,
    dirs: AtomicU32,
}

/// A feature that a backend may lack where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Make block and character devices.
    Devices,
    /// Set the owner and the group of regular files and directories.
    Owners,
    /// Set the owner and the group of anything else.
    SpecialOwners,
    /// Use files and directories whose mode bits forbid their owner to.
    ForbiddenModes,
    /// Leave the set-id bits alone when it writes.
    KeptSetId,
    /// Count the subdirectories in the links of a directory.
    DirectoryLinks,
    /// Keep device numbers past 511 (major) and 262,143 (minor).
    LargeDevices,
    /// Keep targets of symbolic links of more than 1,023 bytes.
    LongTargets,
    Xattrs,
    /// Keep values of extended attributes as large as the largest.
    LargeXattrs,
    /// Let files share storage.
    Clones,
    /// Know the holes of files, and release their storage.
    Holes,
}

#[derive(Clone, Copy)]
pub struct Case {
    /// Family and promise, as `rename/same_file_is_left_alone`.
    pub name: &'static str,
    pub run: fn(&Fixture) -> Outcome,
}

pub type Outcome<T = ()> = Result<T, Failure>;

/// A broken promise, and the step that found it.
#[derive(Debug)]
pub struct Failure {
    what: String,
    at: &'static Location<'static>,
}

impl Case {
    /// Runs the case on a fixture of its own. A panic is a failure.
    pub fn failure(&self, make: &dyn Fn() -> Fixture) -> Option<Failure> {
        let fixture = make();
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.run)(&fixture)));
        outcome.unwrap_or_else(|_| Err(Failure::new("it panicked"))).err()
    }
}

impl Fixture {
    /// A fixture that can do everything but restart.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        let dirs = AtomicU32::new(0);
        Self { backend, reopen: None, lacks: Vec::new(), set_acl: None, keep: None, dirs }
    }

    #[must_use]
    pub fn reopened_by(mut self, reopen: Reopen) -> Self {
        self.reopen = Some(reopen);
        self
    }

    #[must_use]
    pub fn with_acls_set_by(mut self, set_acl: SetAcl) -> Self {
        self.set_acl = Some(set_acl);
        self
    }

    /// Excludes `lack` for `reason`.
    #[must_use]
    pub fn without(mut self, lack: Lack, reason: &'static str) -> Self {
        self.lacks.push((lack, reason));
        self
    }

    #[must_use]
    pub fn keeping(mut self, keep: impl Any) -> Self {
        self.keep = Some(Box::new(keep));
        self
    }

    pub(super) fn can(&self, what: Lack) -> bool {
        self.lacks.iter().all(|&(lack, _)| lack != what)
    }

    /// A fresh directory below the root.
    pub(super) fn dir(&self) -> Outcome<NodeRef> {
        Ok(self.named_dir()?.1)
    }

    pub(super) fn named_dir(&self) -> Outcome<(String, NodeRef)> {
        let text = format!("case-{}", self.dirs.fetch_add(1, Ordering::Relaxed));
        let node = self.backend.root().make_dir_unchecked(name(&text), &self.new_dir())?.found.node;
        Ok((text, node))
    }

    /// Attributes of most files in the cases: with owners that the backend can set.
    pub(super) fn new_inode(&self) -> NewInode {
        let (uid, gid) = if self.can(Lack::Owners) { (1234, 5678) } else { self.own_ids() };
        NewInode { mode: 0o644, uid, gid, times: None, size: 0 }
    }

    pub(super) fn new_dir(&self) -> NewInode {
        NewInode { mode: 0o755, ..self.new_inode() }
    }

    /// The owners of the root: those an ordinary user has.
    pub(super) fn own_ids(&self) -> (u32, u32) {
        self.backend.root().attrs(vfs::Blocking::Allowed).map_or((0, 0), |attrs| (attrs.uid, attrs.gid))
    }

    /// Waits until the clock of the storage shows another time than at the last change.
    pub(super) fn tick(&self) {
        std::thread::sleep(Duration::from_millis(12));
    }
}

impl Failure {
    #[track_caller]
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), at: Location::caller() }
    }

    /// Adds the step in which the failure was found.
    pub(super) fn during(self, what: impl fmt::Display) -> Self {
        Self { what: format!("{what}: {}", self.what), at: self.at }
    }
}

impl From<FsError> for Failure {
    #[track_caller]
    fn from(error: FsError) -> Self {
        Self::new(format!("refused: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.at.file().rsplit('/').next().unwrap_or_default();
        write!(f, "{} ({file}:{})", self.what, self.at.line())
    }
}

/// A name that is known to be one.
pub(super) fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).expect("the suite's own names are valid")
}

/// Lists the cases of a family under their function's names.
macro_rules! family {
    ($family:literal: $($case:ident),* $(,)?) => {
        pub(super) const CASES: &[$crate::conformance::Case] = &[$($crate::conformance::Case {
            name: concat!($family, "/", stringify!($case)),
            run: $case,
        }),*];
    };
}
pub(super) use family;
