//! Generators of load, and the interface that they share.
//!
//! A [`Job`] describes the load of all generators, and this generator's share of the clients. The engine lays out the
//! job's files, begins at the moment in [`Control`], reports its progress each second, and measures in the window that
//! the coordinator sets while the load runs.

pub(crate) mod built_in;
pub(crate) mod interface;
mod path;

use crate::error::Error;
use report::result::MountFacts;
use std::net::IpAddr;
use wire_client::Target;

pub use crate::job::{Caller, Control, Job, LayoutProgress, Metadata, SECONDS_MAX, moment};
pub use built_in::{BuiltIn, COMMIT_EVERY};
pub use interface::Engine;
pub use path::Path;

/// `directory` must not contain symbolic links. Also returns the server's address if known.
///
/// # Errors
/// The kernel does not list its mounts.
pub fn mounted(directory: &std::path::Path) -> Result<(MountFacts, Option<IpAddr>), Error> {
    let mount = path::mount::of(directory)?;
    let server = path::mount::server(&mount);
    Ok((mount, server))
}

/// Opens `nfs://HOST[:PORT]/EXPORT`, `smb://USER@HOST[:PORT]/SHARE`, or a directory of a mounted file system.
///
/// # Errors
/// The target is none of these. For a directory: fio is not installed.
pub fn open(target: &str, caller: &Caller) -> Result<Box<dyn Engine>, Error> {
    check(target).map_err(Error::Plan)?;
    match target.parse() {
        Ok(target) => Ok(Box::new(BuiltIn::new(target, caller.clone()))),
        Err(_) => Ok(Box::new(Path::open(std::path::Path::new(target))?)),
    }
}

/// Whether the text names a target: an export, a share or a directory. Reaches no server.
///
/// # Errors
/// Says what is allowed.
pub fn check(target: &str) -> Result<(), String> {
    match target.parse::<Target>() {
        Ok(_) => Ok(()),
        Err(_) if std::path::Path::new(target).is_dir() => Ok(()),
        Err(wrong) if target.contains("://") => Err(wrong),
        Err(_) => Err(format!(
            "\"{target}\" is not a valid target: HOST:/EXPORT, nfs://HOST[:PORT]/EXPORT, smb://USER@HOST[:PORT]/SHARE, or \
             a directory of a mounted file system"
        )),
    }
}
