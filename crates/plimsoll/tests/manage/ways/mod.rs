//! Calls that change files, over each protocol and version.

mod nfs;
mod smb;

pub use nfs::{Nfs4, V3, V40};
pub use smb::Smb;

use crate::quota_writers::{identity, target};
use wire_client::Identity;

/// The group of all users over NFS.
pub const GROUP: u32 = 3000;

/// A refusal, by its name in the specification.
pub type Outcome = Result<(), String>;

/// A call. Offsets and sizes are in bytes, files are names in the volume's root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Create {
        file: u64,
        size: u64,
    },
    /// With `fill` in every byte.
    Write {
        file: u64,
        offset: u64,
        len: u64,
        fill: u8,
    },
    Resize {
        file: u64,
        size: u64,
    },
    Allocate {
        file: u64,
        offset: u64,
        len: u64,
    },
    Deallocate {
        file: u64,
        offset: u64,
        len: u64,
    },
    Copy {
        from: u64,
        file: u64,
        offset: u64,
        len: u64,
    },
    Clone {
        from: u64,
        file: u64,
        offset: u64,
        len: u64,
    },
    /// Writes to a stream.
    Stream {
        file: u64,
        offset: u64,
        len: u64,
    },
    SetXattr {
        file: u64,
        len: u64,
    },
    Link {
        from: u64,
        file: u64,
    },
    Rename {
        from: u64,
        file: u64,
    },
    Remove {
        file: u64,
    },
    Symlink {
        file: u64,
    },
    /// By root, to a user.
    ChangeOwner {
        file: u64,
        uid: u32,
    },
    /// By root, to the group or to another one without a limit.
    ChangeGroup {
        file: u64,
        gid: u32,
    },
}

pub fn name(file: u64) -> String {
    format!("f{file}")
}

impl Call {
    pub fn verb(self) -> String {
        format!("{self:?}").split(' ').next().unwrap_or_default().to_owned()
    }
}

/// A way to the volume; `None`: it has no such call.
pub trait Way: Send {
    fn name(&self) -> String;
    fn run(&mut self, call: Call) -> Option<Outcome>;
}

fn user(uid: u32) -> Identity {
    Identity { gid: GROUP, ..identity(uid) }
}
