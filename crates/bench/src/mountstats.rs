//! The counters of the kernel's NFS client for each mount: the text of `/proc/self/mountstats`.
//!
//! The values are those of Linux: `nfs_show_stats` and `rpc_clnt_show_stats`.

use std::collections::BTreeMap;

use envelope::Protocol;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) source: String,
    pub(crate) at: String,
    /// `nfs`, `nfs4`, or a kind without counters.
    pub(crate) kind: String,
    pub(crate) options: String,
    /// Since the mount, in seconds.
    pub(crate) age_s: Option<u64>,
    pub(crate) bytes: Option<Moved>,
    pub(crate) transports: u32,
    /// Calls by procedure, including zeros.
    pub(crate) calls: BTreeMap<String, Calls>,
}

/// Bytes of file data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) read: u64,
    pub(crate) from_server: u64,
    pub(crate) to_server: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    pub(crate) count: u64,
    /// From the queue to the end, summed over all calls.
    pub(crate) ms: u64,
}

impl Mount {
    pub(crate) fn all(text: &str) -> Vec<Self> {
        let mut mounts: Vec<Self> = Vec::new();
        for line in text.lines().map(str::trim) {
            if let Some(mount) = Self::heading(line) {
                mounts.push(mount);
            } else if let Some(mount) = mounts.last_mut() {
                mount.add(line);
            }
        }
        mounts
    }

    /// The last of several mounts at a place hides the others.
    pub(crate) fn find(text: &str, at: &str) -> Option<Self> {
        Self::all(text).into_iter().rev().find(|mount| mount.is_nfs() && mount.at == at)
    }

    pub(crate) fn is_nfs(&self) -> bool {
        matches!(self.kind.as_str(), "nfs" | "nfs4")
    }

    /// Parses `device SOURCE mounted on PLACE with fstype KIND …`.
    fn heading(line: &str) -> Option<Self> {
        let (source, rest) = line.strip_prefix("device ")?.split_once(" mounted on ")?;
        let (at, kind) = rest.split_once(" with fstype ")?;
        let kind = kind.split(' ').next().unwrap_or("").to_owned();
        Some(Self { source: unescaped(source), at: unescaped(at), kind, ..Self::default() })
    }

    fn add(&mut self, line: &str) {
        let Some((name, rest)) = line.split_once(':') else { return };
        let values: Vec<u64> = rest.split_ascii_whitespace().map_while(|value| value.parse().ok()).collect();
        match (name, values.as_slice()) {
            ("opts", _) => rest.trim().clone_into(&mut self.options),
            ("age", [seconds]) => self.age_s = Some(*seconds),
            ("xprt", _) => self.transports += 1,
            // normal read, normal write, direct read, direct write, from the server, to the server, pages
            ("bytes", [read, _, direct, _, from_server, to_server, ..]) => {
                let (from_server, to_server) = (*from_server, *to_server);
                self.bytes = Some(Moved { read: read.saturating_add(*direct), from_server, to_server });
            }
            // Calls, transmissions, timeouts, bytes sent and received, milliseconds queued, on the way and in
            // all, and errors in newer kernels.
            (_, [count, _, _, _, _, _, _, ms, ..])
                if name.bytes().all(|c| c.is_ascii_uppercase() || c == b'_') =>
            {
                self.calls.insert(name.to_owned(), Calls { count: *count, ms: *ms });
            }
            _ => {}
        }
    }
}

/// `None` if volumes are not served over this kind of mount.
pub(crate) fn protocol(kind: &str, options: &str) -> Option<Protocol> {
    let version = options.split(',').find_map(|option| option.strip_prefix("vers="));
    match (kind, version) {
        ("nfs", Some("3")) => Some(Protocol::NfsV3),
        ("nfs4" | "nfs", Some("4.1")) => Some(Protocol::NfsV41),
        ("nfs4" | "nfs", Some("4.2")) => Some(Protocol::NfsV42),
        ("cifs" | "smb3", _) => Some(Protocol::Smb),
        _ => None,
    }
}

/// Replaces `\040` and similar escapes of the kernel's tables.
pub(crate) fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut bytes = parts.next().unwrap_or("").as_bytes().to_vec();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.extend(code.or(Some(b'\\')));
        bytes.extend_from_slice(part.as_bytes().get(if code.is_some() { 3 } else { 0 }..).unwrap_or(&[]));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
