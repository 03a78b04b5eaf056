//! The state that the process keeps between runs, in its state directory (`docs/formats/data-directory.md`).

use crate::lease::LeaseArgs;
use anyhow::Context;
use control::KeyFile;
use nfs::handle::HandleSigner;
use nfs::nsm::LockHosts;
use nfs::state::nfs4::records::ClientRecords;
use nfs::state::nlm::Locks;
use smb::persistent::PersistentOpens;
use stable::{Replica, StableDir, files};
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::claims::Grace;
use vfs::qos::Nanos;

const KEY_FILE: &str = "handle.key";
const KEY_BYTES: usize = 16;

/// The state directory of root's service.
const SYSTEM_DIR: &str = "/var/lib/plimsoll";

/// The default state directory: `/var/lib/plimsoll` for root, `~/.local/state/plimsoll` for other users.
pub(crate) fn default_dir() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from(SYSTEM_DIR);
    }
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let base = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).or_else(home);
    base.unwrap_or_else(|| PathBuf::from(".")).join("plimsoll")
}

/// Whether `dir` is the default one of an ordinary user, and root has a service of its own on this machine.
pub(crate) fn is_beside_system_dir(dir: &Path) -> bool {
    dir != Path::new(SYSTEM_DIR) && dir == default_dir() && Path::new(SYSTEM_DIR).exists()
}

/// Makes `dir` if it is not there, for the owner only. A directory to which others may write is refused: they could put their own
/// keys, state and addresses there.
pub(crate) fn make_dir(dir: &Path) -> anyhow::Result<()> {
    let made = files::make_dirs(dir, files::PRIVATE_DIR);
    made.with_context(|| format!("cannot make the directory {}", dir.display()))?;
    files::check_dir(dir).with_context(|| format!("cannot use the directory {}", dir.display()))
}

/// Fills a buffer with random bytes.
pub(crate) fn random(bytes: &mut [u8]) -> anyhow::Result<()> {
    fs::File::open("/dev/urandom")?.read_exact(bytes).context("cannot get random bytes")
}

/// Random bytes like [`random`], or a panic.
#[expect(clippy::panic, reason = "guessable numbers would be worse than an end")]
pub(crate) fn must_random(bytes: &mut [u8]) {
    if let Err(error) = random(bytes) {
        panic!("{error:#}");
    }
}

/// A number that differs at every start, so that clients see that unstable writes may be lost.
pub(crate) fn instance() -> anyhow::Result<u64> {
    let mut bytes = [0; 8];
    random(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

/// The signer of all handles: the key in `dir`, made at the first start.
pub(crate) fn handle_signer(dir: &Path, replica: Option<&Arc<dyn Replica>>) -> anyhow::Result<HandleSigner> {
    let stakes = "the key can forge handles. If other users may have read it, delete it; then every client must \
                  unmount and mount again";
    let file = KeyFile::<KEY_BYTES>::new(dir.join(KEY_FILE), stakes).with_replica(replica);
    Ok(HandleSigner::new(file.read_or_make(must_random).context("the key of file handles")?))
}

/// The client state of the last run.
pub(crate) struct Stable {
    /// The locks of NFSv3 clients.
    pub(crate) locks: Locks,
    /// The clients of NFSv4.
    pub(crate) records: Arc<ClientRecords>,
    /// Opens of SMB clients on continuously available shares; none if they are not kept.
    pub(crate) opens: Option<PersistentOpens>,
    /// The server scope of NFSv4, if the service shares it with others.
    pub(crate) scope: Option<String>,
    /// The time in which they claim again what they had, for all volumes that are there already.
    pub(crate) grace: Grace,
}

/// Reads the owners of locks and open files of the last run from `dir`.
///
/// With a replica the directory is a copy of it.
pub(crate) fn stable(
    dir: &Path,
    now: Nanos,
    lease: &LeaseArgs,
    replica: Option<Arc<dyn Replica>>,
) -> anyhow::Result<Stable> {
    lease.check()?;
    let grace = lease.grace();
    let random = u32::try_from(instance()? >> 32)?;
    let locked = match StableDir::open(dir) {
        Ok(locked) => Arc::new(match replica {
            Some(replica) => locked.with_replica(replica),
            None => locked,
        }),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            tracing::warn!(
                "another process keeps its clients' locks in {}: locks of this process are lost when it restarts, and clients \
                 are not notified. Give it a directory of its own",
                dir.display()
            );
            let records = Arc::new(ClientRecords::in_memory(random));
            return Ok(Stable {
                locks: Locks::default(),
                records,
                opens: None,
                scope: None,
                grace: Grace::default(),
            });
        }
        Err(error) => {
            return Err(error).with_context(|| format!("cannot lock the directory {}", dir.display()));
        }
    };
    let what = |name| {
        format!(
            "cannot use {}; without it, clients lose what they had open or locked in this restart",
            dir.join(name).display()
        )
    };
    let hosts = Arc::new(LockHosts::open(&locked).with_context(|| what("lock-hosts"))?);
    let records = Arc::new(ClientRecords::open(&locked, random).with_context(|| what("clients"))?);
    let opens = PersistentOpens::open(&locked).with_context(|| what("persistent-opens"))?;
    let until = Nanos(now.0.saturating_add(u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX)));
    let expected: Vec<_> = hosts.expected().into_iter().chain(records.expected()).collect();
    let until_ended = Arc::clone(&records);
    let of_volumes = Grace::ending_with(until, expected, move || has_ended(&until_ended));
    if grace.is_zero() {
        of_volumes.expire(now);
    }
    let locks = Locks::restarted_with(hosts, grace);
    Ok(Stable { locks, records, opens: Some(opens), scope: None, grace: of_volumes })
}

/// Whether it is on disk that the grace period is over.
fn has_ended(records: &ClientRecords) -> bool {
    let ended = records.end_grace();
    if let Err(error) = &ended {
        tracing::error!(%error, "no new locks are given until it can be written that the grace period is over");
    }
    ended.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn the_key_of_handles_is_kept_private() {
        let dir = crate::testing::private_dir();
        let path = dir.path().join(KEY_FILE);
        let made = handle_signer(dir.path(), None).unwrap().number("x");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(handle_signer(dir.path(), None).unwrap().number("x"), made);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = format!("{:#}", handle_signer(dir.path(), None).err().unwrap());
        assert!(
            error.contains("handle.key: users other than its owner have access (mode 644)")
                && error.contains("forge"),
            "{error}"
        );
    }
}
