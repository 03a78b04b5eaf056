//! The connections of this process to a CephFS.

use crate::ffi::{Client, Inode, Settings};
use crate::log_flush::LogFlush;
use std::ffi::CString;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use vfs::sync::Mutex;
use vfs::{FsError, FsResult};

/// The place of volumes in a Ceph cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// The configuration file of Ceph, with the addresses of the monitors.
    pub conf: PathBuf,
    /// The name of the Ceph user, without `client.`.
    pub user: String,
    /// The name of the CephFS; `None` for the only one.
    pub file_system: Option<String>,
    /// The directory below which volumes are, from the root of the CephFS. It is made if missing.
    pub directory: String,
    /// Whether no other process may use the directory at the same time.
    pub is_exclusive: bool,
    /// The name of this process among those that use the directory. A session that an earlier process of the same name left
    /// behind is ended.
    pub name: String,
}

/// The reason why volumes cannot be opened.
#[derive(Debug)]
pub struct OpenError(String);

impl OpenError {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OpenError {}

pub(crate) struct Cluster {
    options: Options,
    log_flush: OnceLock<LogFlush>,
    pub(crate) client: Arc<Client>,
    /// See [`Cluster::spare`].
    spare: Mutex<Option<Arc<Client>>>,
}

impl Cluster {
    pub(crate) fn connect(options: &Options) -> Result<Arc<Self>, OpenError> {
        let client = connect(options, "")?;
        let log_flush = OnceLock::new();
        Ok(Arc::new(Self { options: options.clone(), log_flush, client, spare: Mutex::default() }))
    }

    /// Flushes the log of the metadata server for calls that wait for it. `dir` is a directory that no other process uses.
    pub(crate) fn watch_calls(&self, dir: Inode) -> Result<(), OpenError> {
        let started =
            LogFlush::start(&self.client, dir).map_err(|error| OpenError::new(error.to_string()))?;
        let _first = self.log_flush.set(started);
        Ok(())
    }

    /// Notes that the metadata server was asked for a change.
    pub(crate) fn note_change(&self) {
        self.log_flush.get().into_iter().for_each(LogFlush::note);
    }

    /// A second client, for changes that confuse the cache of the client that makes them. The metadata server tells the first
    /// one about them, as about those of another machine.
    pub(crate) fn spare(&self) -> FsResult<Arc<Client>> {
        let mut spare = self.spare.lock();
        if let Some(client) = &*spare {
            return Ok(Arc::clone(client));
        }
        let client = connect(&self.options, ":spare").map_err(|error| {
            tracing::error!(%error, "cannot make a second client of CephFS");
            FsError::Io
        })?;
        Ok(Arc::clone(spare.insert(client)))
    }
}

fn connect(options: &Options, suffix: &str) -> Result<Arc<Client>, OpenError> {
    let text = |text: &str| {
        CString::new(text).map_err(|_| OpenError::new(format!("{text:?} must not contain a NUL character")))
    };
    let conf =
        options.conf.to_str().ok_or_else(|| OpenError::new("the path of ceph.conf is not UTF-8".into()))?;
    let settings = client_options().into_iter().map(|(option, value)| Ok((text(option)?, text(value)?)));
    let settings: Vec<_> = settings.collect::<Result<_, OpenError>>()?;
    let file_system = options.file_system.as_deref().map(text).transpose()?;
    let uuid = text(&format!("plimsoll:{}:{}{suffix}", options.directory, options.name))?;
    Client::mount(&Settings {
        user: &text(&options.user)?,
        conf: &text(conf)?,
        file_system: file_system.as_deref(),
        options: &settings,
        uuid: &uuid,
    })
    .map_err(|error| OpenError::new(format!("{}: {}", error.step, error.cause)))
}

/// Options of the client, whatever its configuration file says.
fn client_options() -> [(&'static str, &'static str); 12] {
    [
        // Permissions are decided above the backend.
        ("client_permissions", "false"),
        ("fuse_default_permissions", "true"),
        // The size of a directory is its number of entries, not the bytes below it.
        ("client_dirsize_rbytes", "false"),
        ("client_quota", "true"),
        ("client_acl_type", ""),
        // No name that a client of a volume can know.
        ("client_snapdir", ".plimsoll-snapshots-of-cephfs"),
        // Logs cost more than the calls.
        ("debug_client", "0/0"),
        ("debug_objecter", "0/0"),
        ("debug_objectcacher", "0/0"),
        ("debug_ms", "0/0"),
        ("log_to_stderr", "false"),
        ("client_cache_size", "262144"),
    ]
}
