//! Objects of a RADOS pool: pairs that change atomically, large values, and the exclusion of other clients.

mod change;
mod data;
mod error;
mod fence;
mod pairs;

pub use change::{ObjectChange, Presence};

use crate::error::OpenError;
use crate::ffi::rados::{Cluster, ConnectError, Pool, Settings};
use rustix::io::Errno;
use std::ffi::CString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// `osd_max_object_name_len`.
const OBJECT_NAME_BYTES_MAX: usize = 2048;

/// A pool of a Ceph cluster.
#[derive(Clone, Debug)]
pub struct RadosOptions {
    /// The configuration file of Ceph, with the addresses of the monitors.
    pub conf: PathBuf,
    /// The name of the Ceph user, without `client.`.
    pub user: String,
    /// The name of a replicated pool.
    pub pool: String,
    /// The time until the monitors must have answered, at least a second.
    pub connect_timeout: Duration,
}

impl RadosOptions {
    /// A time for `connect_timeout`.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
}

/// A connection to a pool.
///
/// Any number of threads may use it. Every call waits until the cluster answers, however long that takes. After an error a
/// change has not happened, with one exception: a client that the cluster excludes meanwhile does not learn the outcome. A
/// full cluster refuses data and new objects, but changes pairs of existing objects.
///
/// Kinds of errors:
/// - `ConnectionAborted`: the cluster has excluded this client (blocklist). The change may have happened. All later calls
///   fail as well: connect again.
/// - `PermissionDenied`: the Ceph user lacks a capability.
/// - `NotFound`: the pool was removed.
/// - `StorageFull`, `QuotaExceeded`: no space in the cluster, or in the pool.
/// - `InvalidInput`: a name or a size is out of bounds.
pub struct Rados {
    pool: Pool,
    cluster: Arc<Cluster>,
    options: RadosOptions,
}

impl Rados {
    /// Connects to the cluster and opens the pool.
    pub fn connect(options: &RadosOptions) -> Result<Self, OpenError> {
        let text = |text: &str| {
            CString::new(text)
                .map_err(|_| OpenError::new(format!("{text:?} must not contain a NUL character")))
        };
        let conf = options.conf.to_str();
        let conf = conf.ok_or_else(|| OpenError::new("the path of ceph.conf is not UTF-8".into()))?;
        let settings = client_options(options.connect_timeout).into_iter();
        let settings = settings.map(|(option, value)| Ok((text(option)?, text(&value)?)));
        let settings: Vec<_> = settings.collect::<Result<_, OpenError>>()?;
        let cluster = Cluster::connect(&Settings {
            user: &text(&options.user)?,
            conf: &text(conf)?,
            options: &settings,
        })
        .map_err(|error| refused(options, &error))?;
        let pool = Pool::open(&cluster, &text(&options.pool)?).map_err(|errno| no_pool(options, errno))?;
        let rados = Self { pool, cluster, options: options.clone() };
        if rados.is_erasure_coded()? {
            return Err(OpenError::new(format!(
                "the pool {} is erasure-coded; Plimsoll needs a replicated pool",
                options.pool
            )));
        }
        Ok(rados)
    }

    /// The number of this connection, unique in the cluster.
    pub fn instance_id(&self) -> u64 {
        self.cluster.instance_id()
    }

    /// Whether the pool is erasure-coded. An operation would wait while groups of the pool are not active.
    fn is_erasure_coded(&self) -> Result<bool, OpenError> {
        let command = format!(
            r#"{{"prefix": "osd pool get", "pool": {:?}, "var": "erasure_code_profile"}}"#,
            self.options.pool
        );
        let command =
            CString::new(command).map_err(|_| OpenError::new("the name of the pool has a NUL".into()))?;
        // Replicated pools do not have the variable. A user without the right to ask will see the errors of operations.
        Ok(self.cluster.mon_command(&command).is_ok())
    }

    /// The error of an operation on an object.
    fn failed(&self, action: &str, object: &str, errno: Errno) -> io::Error {
        let what = format!("cannot {action} the object {object} of the pool {}", self.options.pool);
        if errno == Errno::NOENT && !self.pool.is_present() {
            return io::Error::new(io::ErrorKind::NotFound, format!("{what}: the pool was removed"));
        }
        error::failed(&what, &self.options.user, errno)
    }

    /// `None` for an object that does not exist.
    fn unless_missing<T>(
        &self,
        action: &str,
        object: &str,
        result: Result<T, Errno>,
    ) -> io::Result<Option<T>> {
        match result {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) if self.pool.is_present() => Ok(None),
            Err(errno) => Err(self.failed(action, object, errno)),
        }
    }
}

fn object_name(object: &str) -> io::Result<CString> {
    if object.is_empty() || object.len() > OBJECT_NAME_BYTES_MAX {
        return Err(error::out_of_bounds(format!(
            "the name of an object has 1 to {OBJECT_NAME_BYTES_MAX} bytes, not {}",
            object.len()
        )));
    }
    CString::new(object)
        .map_err(|_| error::out_of_bounds(format!("the name {object:?} contains a NUL character")))
}

/// Options of the client, whatever its configuration file says.
fn client_options(connect_timeout: Duration) -> [(&'static str, String); 8] {
    let seconds = connect_timeout.as_secs().max(1);
    [
        ("client_mount_timeout", seconds.to_string()),
        // The outcome of an operation that timed out would be unknown.
        ("rados_osd_op_timeout", "0".into()),
        ("rados_mon_op_timeout", "0".into()),
        // Logs cost more than the calls.
        ("debug_rados", "0/0".into()),
        ("debug_objecter", "0/0".into()),
        ("debug_monc", "0/0".into()),
        ("debug_ms", "0/0".into()),
        ("log_to_stderr", "false".into()),
    ]
}

fn refused(options: &RadosOptions, error: &ConnectError) -> OpenError {
    let (conf, user) = (options.conf.display(), &options.user);
    let cause = |errno: &Errno| io::Error::from(*errno);
    OpenError::new(match error {
        ConnectError::Library(loader) => format!("cannot load librados: {loader}"),
        ConnectError::Conf(errno) => {
            format!("cannot read the configuration of Ceph {conf}: {}", cause(errno))
        }
        ConnectError::Client(errno) => format!("cannot make a client of Ceph: {}", cause(errno)),
        ConnectError::Monitors(Errno::NOENT) => {
            format!("no key of the Ceph user client.{user}, or no address of a monitor; see {conf}")
        }
        ConnectError::Monitors(Errno::ACCESS | Errno::PERM) => {
            format!("the Ceph cluster refuses the user client.{user} or its key; see the keyring of {conf}")
        }
        ConnectError::Monitors(Errno::TIMEDOUT) => format!(
            "no monitor of the Ceph cluster answers within {} s; see mon_host in {conf}",
            options.connect_timeout.as_secs().max(1)
        ),
        ConnectError::Monitors(errno) => {
            format!("cannot connect to the Ceph cluster of {conf} as client.{user}: {}", cause(errno))
        }
    })
}

fn no_pool(options: &RadosOptions, errno: Errno) -> OpenError {
    let pool = &options.pool;
    OpenError::new(match errno {
        Errno::NOENT => format!(
            "the Ceph cluster has no pool {pool}; create it: ceph osd pool create {pool} 8 && \
             ceph osd pool application enable {pool} plimsoll"
        ),
        errno => format!("cannot open the pool {pool}: {}", io::Error::from(errno)),
    })
}
