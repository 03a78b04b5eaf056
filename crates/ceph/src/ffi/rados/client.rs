//! Connections and pools, as owned values.

use super::library::{ClusterHandle, Functions, PoolHandle, RawCluster, RawPool, functions};
use crate::ffi::done;
use libc::{c_char, c_int};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::ptr::{NonNull, null, null_mut};
use std::sync::Arc;

/// The options of a connection.
pub(crate) struct Settings<'s> {
    /// The name of the Ceph user, without `client.`.
    pub(crate) user: &'s CStr,
    /// The file with the addresses of the monitors, and the key or the path of its file.
    pub(crate) conf: &'s CStr,
    pub(crate) options: &'s [(CString, CString)],
}

/// The step of a connection that failed.
#[derive(Debug)]
pub(crate) enum ConnectError {
    /// The library is missing or too old; the message of the loader.
    Library(&'static str),
    Conf(Errno),
    /// A setting is refused, or memory is short.
    Client(Errno),
    /// The monitors do not answer, or refuse the user.
    Monitors(Errno),
}

/// A connection to a cluster.
pub(crate) struct Cluster {
    functions: &'static Functions,
    handle: NonNull<ClusterHandle>,
}

// SAFETY: the library locks what its functions use.
unsafe impl Send for Cluster {}
// SAFETY: as above.
unsafe impl Sync for Cluster {}

impl Cluster {
    pub(crate) fn connect(settings: &Settings<'_>) -> Result<Arc<Self>, ConnectError> {
        let functions = functions().map_err(ConnectError::Library)?;
        let mut handle = null_mut();
        // SAFETY: the name is a string, and the result is written once.
        let made = unsafe { (functions.create)(&raw mut handle, settings.user.as_ptr()) };
        done(made).map_err(ConnectError::Client)?;
        let handle = NonNull::new(handle).ok_or(ConnectError::Client(Errno::NOMEM))?;
        let cluster = Arc::new(Self { functions, handle });
        // SAFETY: strings that live through the calls.
        let read = unsafe { (functions.conf_read_file)(cluster.raw(), settings.conf.as_ptr()) };
        done(read).map_err(ConnectError::Conf)?;
        for (option, value) in settings.options {
            // SAFETY: as above.
            let set = unsafe { (functions.conf_set)(cluster.raw(), option.as_ptr(), value.as_ptr()) };
            done(set).map_err(ConnectError::Client)?;
        }
        // SAFETY: the client is configured, and not connected yet.
        done(unsafe { (functions.connect)(cluster.raw()) }).map_err(ConnectError::Monitors)?;
        Ok(cluster)
    }

    fn raw(&self) -> RawCluster {
        self.handle.as_ptr()
    }

    /// The number of this connection, unique in the cluster.
    pub(crate) fn instance_id(&self) -> u64 {
        // SAFETY: no other argument.
        unsafe { (self.functions.get_instance_id)(self.raw()) }
    }

    /// The addresses that the cluster knows this connection by.
    pub(crate) fn addresses(&self) -> Result<Vec<u8>, Errno> {
        let mut text = null_mut();
        // SAFETY: the result is written once.
        done(unsafe { (self.functions.getaddrs)(self.raw(), &raw mut text) })?;
        let text = NonNull::new(text).ok_or(Errno::NOMEM)?;
        // SAFETY: a string of the library.
        let bytes = unsafe { CStr::from_ptr(text.as_ptr()) }.to_bytes().to_vec();
        // SAFETY: allocated by the library for the caller, and released once.
        unsafe { (self.functions.buffer_free)(text.as_ptr()) };
        Ok(bytes)
    }

    /// Waits until this client has the newest map of the OSDs, and the list of the excluded clients in it.
    pub(crate) fn wait_for_latest_map(&self) -> Result<(), Errno> {
        // SAFETY: no other argument.
        done(unsafe { (self.functions.wait_for_latest_osdmap)(self.raw()) }).map(drop)
    }

    /// Runs a command, given as JSON, at the monitors. The error has the text of the monitor.
    pub(crate) fn mon_command(&self, json: &CStr) -> Result<(), (Errno, String)> {
        let mut command = json.as_ptr();
        let (mut output, mut output_bytes) = (null_mut::<c_char>(), 0);
        let (mut status, mut status_bytes) = (null_mut::<c_char>(), 0);
        // SAFETY: one command, no input, and results that are written once.
        let result = unsafe {
            (self.functions.mon_command)(
                self.raw(),
                &raw mut command,
                1,
                null(),
                0,
                &raw mut output,
                &raw mut output_bytes,
                &raw mut status,
                &raw mut status_bytes,
            )
        };
        let text = self.take(status, status_bytes);
        self.take(output, output_bytes);
        done(result).map(drop).map_err(|errno| (errno, String::from_utf8_lossy(&text).trim().to_owned()))
    }

    /// Takes over a buffer of the library; null if there is none.
    fn take(&self, buffer: *mut c_char, bytes: usize) -> Vec<u8> {
        let Some(buffer) = NonNull::new(buffer) else { return Vec::new() };
        // SAFETY: the library has written the buffer, and nobody else has it.
        let copy = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), bytes) }.to_vec();
        // SAFETY: released once.
        unsafe { (self.functions.buffer_free)(buffer.as_ptr()) };
        copy
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SAFETY: nothing else has the handle, and pools hold this value. A client that is not connected is only released.
        unsafe { (self.functions.shutdown)(self.raw()) };
    }
}

/// An open pool.
pub(crate) struct Pool {
    cluster: Arc<Cluster>,
    handle: NonNull<PoolHandle>,
    name: CString,
    id: i64,
}

// SAFETY: the library locks what its functions use, and the version of the last operation is read by no other thread.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// Opens a pool; [`Errno::NOENT`] if there is none of this name.
    pub(crate) fn open(cluster: &Arc<Cluster>, name: &CStr) -> Result<Self, Errno> {
        Self::with_id(cluster, name, lookup(cluster, name)?)
    }

    fn with_id(cluster: &Arc<Cluster>, name: &CStr, id: i64) -> Result<Self, Errno> {
        let mut handle = null_mut();
        // SAFETY: the result is written once.
        done(unsafe { (cluster.functions.ioctx_create2)(cluster.raw(), id, &raw mut handle) })?;
        let handle = NonNull::new(handle).ok_or(Errno::NOMEM)?;
        Ok(Self { cluster: Arc::clone(cluster), handle, name: name.to_owned(), id })
    }

    /// A handle of the same pool for one thread, which can tell the version of its last operation.
    pub(super) fn duplicate(&self) -> Result<Self, Errno> {
        Self::with_id(&self.cluster, &self.name, self.id)
    }

    /// Whether the pool still is, as far as this client has heard.
    pub(crate) fn is_present(&self) -> bool {
        lookup(&self.cluster, &self.name) == Ok(self.id)
    }

    pub(super) fn functions(&self) -> &'static Functions {
        self.cluster.functions
    }

    pub(super) fn raw(&self) -> RawPool {
        self.handle.as_ptr()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: nothing else has the handle.
        unsafe { (self.cluster.functions.ioctx_destroy)(self.handle.as_ptr()) };
    }
}

/// The number of a pool.
fn lookup(cluster: &Cluster, name: &CStr) -> Result<i64, Errno> {
    // SAFETY: a string that lives through the call.
    let id = unsafe { (cluster.functions.pool_lookup)(cluster.raw(), name.as_ptr()) };
    // Numbers of errors are small.
    if id < 0 { done(c_int::try_from(id).unwrap_or(c_int::MIN)).map(|_| id) } else { Ok(id) }
}
