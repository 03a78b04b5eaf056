//! The connections of this process to a CephFS.

mod watch;

use crate::error::{OpenError, refused};
use crate::ffi::{Client, Handle, Inode, LIVE, Object, Settings};
use arc_swap::ArcSwap;
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{io, thread};
use vfs::sync::Mutex;
use vfs::{FsError, FsResult};
use watch::Watch;

/// The attribute that is changed to have a change.
const MARK: &CStr = c"trusted.plimsoll.flush";
/// A start that takes longer logs its reason.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// Time in which a start gets its name from an earlier process that connects again, and time between two attempts.
const RIVAL_MAX: Duration = Duration::from_secs(15);
const RIVAL_PAUSE: Duration = Duration::from_millis(100);

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

/// A session with the cluster.
pub(crate) struct Connection {
    /// Rises with each connection.
    pub(crate) generation: u64,
    /// The directory that this process alone changes.
    own: Inode,
    /// Locked as long as the session lasts, if no other process may use the directory.
    _lock: Option<Handle>,
    /// The directory of the volumes.
    base: Inode,
    flushes: AtomicU64,
    pub(crate) client: Arc<Client>,
}

impl Connection {
    fn open(options: &Options, generation: u64, snapshot_dir: &CStr) -> Result<Self, OpenError> {
        // A later connection must not end the session of another process: that may have taken over.
        let client = connect(options, "", generation == 1, snapshot_dir)?;
        let failed = |errno: Errno| {
            OpenError::new(format!("cannot use {} of CephFS: {}", options.directory, io::Error::from(errno)))
        };
        let base = make_path(&client, &options.directory).map_err(failed)?;
        let lock = options.is_exclusive.then(|| lock(&base, &options.directory)).transpose()?;
        let name = CString::new(&*options.name)
            .map_err(|_| OpenError::new("the name of a gateway must not contain a NUL character".into()))?;
        let own = make_private(&base, c"gateways").and_then(|gateways| make_private(&gateways, &name));
        let own = own.map_err(failed)?;
        base.sync(false).map_err(failed)?;
        Ok(Self { generation, own, _lock: lock, base, flushes: AtomicU64::new(0), client })
    }

    /// Asks the metadata server whether the session lasts.
    fn probe(&self) {
        // The client remembers the answer.
        let _asked = self.own.refresh_dir();
    }

    /// Makes the metadata server write its log.
    fn flush_log(&self) {
        let count = self.flushes.fetch_add(1, Ordering::Relaxed);
        // Only a hint: a call that needs durability flushes by itself, and sees the error.
        let _flushed = self.own.set_xattr(MARK, &count.to_be_bytes(), 0).and_then(|()| self.own.sync(false));
    }
}

pub(crate) struct Cluster {
    options: Options,
    watch: OnceLock<Watch>,
    current: ArcSwap<Connection>,
    /// The name under which every directory of CephFS has its snapshots.
    snapshot_dir: CString,
    /// See [`Cluster::spare`].
    spare: Mutex<Option<Arc<Client>>>,
}

impl Cluster {
    pub(crate) fn connect(options: &Options) -> Result<Arc<Self>, OpenError> {
        let snapshot_dir =
            random_name().map_err(|error| OpenError::new(format!("cannot get random bytes: {error}")))?;
        let current = announce_wait(options, || Connection::open(options, 1, &snapshot_dir))?;
        let current = ArcSwap::from_pointee(current);
        let (watch, spare) = (OnceLock::new(), Mutex::default());
        let cluster = Arc::new(Self { options: options.clone(), watch, current, snapshot_dir, spare });
        let watch =
            Watch::start(Arc::downgrade(&cluster)).map_err(|error| OpenError::new(error.to_string()))?;
        let _first = cluster.watch.set(watch);
        Ok(cluster)
    }

    pub(crate) fn connection(&self) -> Arc<Connection> {
        self.current.load_full()
    }

    /// The number of the present connection.
    pub(crate) fn generation(&self) -> u64 {
        self.current.load().generation
    }

    pub(crate) fn client(&self) -> Arc<Client> {
        Arc::clone(&self.current.load().client)
    }

    /// Whether an inode is of the present connection.
    pub(crate) fn is_current(&self, inode: &Inode) -> bool {
        inode.is_of(&self.current.load().client)
    }

    /// Notes that the metadata server was asked for a change.
    pub(crate) fn note_change(&self) {
        self.watch.get().into_iter().for_each(Watch::note);
    }

    pub(crate) fn stop_watch(&self) {
        self.watch.get().into_iter().for_each(Watch::stop);
    }

    /// Connects anew after the end of a session. Unstable data of the old one is lost. Returns whether it did.
    pub(crate) fn reconnect(&self) -> bool {
        match Connection::open(&self.options, self.generation() + 1, &self.snapshot_dir) {
            Ok(connection) => {
                self.current.store(Arc::new(connection));
                tracing::warn!(
                    directory = self.options.directory,
                    "the Ceph cluster ended the session of this service, and a new one began: clients send unstable data again"
                );
                true
            }
            Err(error) => {
                tracing::error!(%error, "the session with the Ceph cluster ended, and no new one begins");
                false
            }
        }
    }

    /// The name of the directory of snapshots in every directory. No client of a volume can know it.
    pub(crate) fn snapshot_dir(&self) -> &CStr {
        &self.snapshot_dir
    }

    /// A directory of the service below its base; made if missing.
    pub(crate) fn private_dir(self: &Arc<Self>, name: &CStr) -> FsResult<Place> {
        let dir = make_private(&self.connection().base, name).map_err(refused)?;
        Place::new(self, dir)
    }

    /// A second client, for changes that confuse the cache of the client that makes them. The metadata server tells the first
    /// one about them, as about those of another machine.
    pub(crate) fn spare(&self) -> FsResult<Arc<Client>> {
        let mut spare = self.spare.lock();
        if let Some(client) = spare.as_ref().filter(|client| !client.has_ended()) {
            return Ok(Arc::clone(client));
        }
        let client = connect(&self.options, ":spare", true, &self.snapshot_dir).map_err(|error| {
            tracing::error!(%error, "cannot make a second client of CephFS");
            FsError::Io
        })?;
        Ok(Arc::clone(spare.insert(client)))
    }
}

/// A directory of the service, found again after each new connection.
pub(crate) struct Place {
    cluster: Arc<Cluster>,
    number: u64,
    found: Mutex<Arc<Inode>>,
}

impl Place {
    pub(crate) fn new(cluster: &Arc<Cluster>, inode: impl Into<Arc<Inode>>) -> FsResult<Self> {
        let inode = inode.into();
        let number = inode.attrs().map_err(refused)?.inode;
        Ok(Self { cluster: Arc::clone(cluster), number, found: Mutex::new(inode) })
    }

    pub(crate) fn inode(&self) -> Result<Arc<Inode>, Errno> {
        let mut found = self.found.lock();
        if !self.cluster.is_current(&found) {
            *found = Arc::new(self.cluster.client().inode_of(self.number, LIVE)?);
        }
        Ok(Arc::clone(&found))
    }

    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }
}

fn connect(
    options: &Options,
    suffix: &str,
    resets: bool,
    snapshot_dir: &CStr,
) -> Result<Arc<Client>, OpenError> {
    let text = |text: &str| {
        CString::new(text).map_err(|_| OpenError::new(format!("{text:?} must not contain a NUL character")))
    };
    let conf =
        options.conf.to_str().ok_or_else(|| OpenError::new("the path of ceph.conf is not UTF-8".into()))?;
    let settings = client_options().into_iter().map(|(option, value)| Ok((text(option)?, text(value)?)));
    let mut settings: Vec<_> = settings.collect::<Result<_, OpenError>>()?;
    settings.push((c"client_snapdir".into(), snapshot_dir.into()));
    let file_system = options.file_system.as_deref().map(text).transpose()?;
    let uuid = text(&format!("plimsoll:{}:{}{suffix}", options.directory, options.name))?;
    let settings = Settings {
        user: &text(&options.user)?,
        conf: &text(conf)?,
        file_system: file_system.as_deref(),
        options: &settings,
        uuid: &uuid,
        resets,
    };
    let begun = Instant::now();
    loop {
        match Client::mount(&settings) {
            // The process whose session was ended may have taken the name again before this one.
            Err(error) if error.is_rejected && resets && begun.elapsed() < RIVAL_MAX => {
                thread::sleep(RIVAL_PAUSE);
            }
            mounted => {
                return mounted.map_err(|error| OpenError::new(format!("{}: {}", error.step, error.cause)));
            }
        }
    }
}

/// Logs a line if `connect` takes long.
fn announce_wait<T>(options: &Options, connect: impl FnOnce() -> T) -> T {
    let (connected, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if ended.recv_timeout(SILENCE_MAX) == Err(RecvTimeoutError::Timeout) {
                tracing::warn!(conf = %options.conf.display(), "waiting for the Ceph cluster: its monitors or its metadata server do not answer yet");
            }
        });
        let result = connect();
        drop(connected);
        result
    })
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
        // Logs cost more than the calls.
        ("debug_client", "0/0"),
        ("debug_objecter", "0/0"),
        ("debug_objectcacher", "0/0"),
        ("debug_ms", "0/0"),
        ("log_to_stderr", "false"),
        ("client_cache_size", "262144"),
        // Without an answer of the cluster a start fails after this time.
        ("client_mount_timeout", "30"),
    ]
}

/// A name that nobody can guess.
fn random_name() -> io::Result<CString> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(CString::new(format!(".{:032x}", u128::from_be_bytes(bytes)))?)
}

/// Locks the directory against other processes.
fn lock(base: &Inode, directory: &str) -> Result<Handle, OpenError> {
    let open = || match base.create(c"lock", 0o600, (0, 0)) {
        Err(Errno::EXIST) => base.lookup(c"lock")?.0.open(true),
        created => Ok(created?.1),
    };
    let locked = open().and_then(|file| file.lock().map(|()| file));
    locked.map_err(|errno| match errno {
        Errno::AGAIN | Errno::ACCESS => OpenError::new(format!(
            "another service uses {directory} of CephFS; if it has crashed, wait up to five minutes, or start one with its name \
             (ceph.gateway)"
        )),
        errno => OpenError::new(format!("cannot lock {directory} of CephFS: {}", io::Error::from(errno))),
    })
}

/// Opens a directory path; makes what is missing, with mode 700.
fn make_path(client: &Arc<Client>, path: &str) -> Result<Inode, Errno> {
    let mut dir = client.root()?;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let child = make_private(&dir, &CString::new(part).map_err(|_| Errno::INVAL)?)?;
        dir.sync(false)?;
        dir = child;
    }
    Ok(dir)
}

pub(crate) fn make_private(parent: &Inode, name: &CStr) -> Result<Inode, Errno> {
    match parent.lookup(name) {
        Ok((dir, _)) => return Ok(dir),
        Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    match parent.make(name, Object::Directory, 0o700, (0, 0)) {
        Ok(made) => Ok(made.inode),
        Err(Errno::EXIST) => Ok(parent.lookup(name)?.0),
        Err(errno) => Err(errno),
    }
}
