//! A network namespace for the suite, because some tests have the packet filter drop a connection's packets.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::namespace;

/// Tests that block connections. They share the chains of the filter, so one runs at a time.
const BLOCKING: [&str; 5] = [
    "smb2.multichannel.leases.test2",
    "smb2.multichannel.leases.test4",
    "smb2.multichannel.oplocks.test",
    "smb2.oplock.batch22b",
    "smb2.replay.dhv2-pending3",
];
/// A replacement for iptables. A client's system acknowledges data up to 40 ms later. If the connection is blocked
/// before, the server retransmits that data endlessly, and the event that the test waits for does not follow.
const FILTER: &str =
    "#!/bin/sh\ncase \"$*\" in *\" -j DROP\") sleep 0.1 ;; esac\nexec /usr/sbin/iptables \"$@\"\n";
/// Marks a process that is already in such a namespace.
const INSIDE: &str = "XTASK_SMBTORTURE_NETWORK";

pub(super) fn blocks(test: &str) -> bool {
    BLOCKING.iter().any(|blocking| test.starts_with(blocking))
}

/// The options that make smbtorture use the filter, in place of a request that only Samba supports.
pub(super) fn with_filter(work: &Path) -> anyhow::Result<[String; 2]> {
    let filter = work.join("iptables");
    fs::write(&filter, FILTER)?;
    fs::set_permissions(&filter, Permissions::from_mode(0o755))?;
    let command = format!("--option=torture:iptables_command={}", filter.display());
    Ok(["--option=torture:use_iptables=yes".to_owned(), command])
}

/// Without root the suite stays outside: a namespace needs root.
pub(super) fn is_outside() -> bool {
    rustix::process::geteuid().is_root() && !namespace::is_inside(INSIDE)
}

pub(super) fn run_inside() -> anyhow::Result<()> {
    namespace::run_inside(INSIDE)
}
