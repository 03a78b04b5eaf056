//! Debian packages that the tests need, installed if missing.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::process;

/// A program, and its package in Debian 12.
type Tool = (&'static str, &'static str);

pub(crate) const FOR_TESTS: &[Tool] = &[
    ("nfs-ls", "libnfs-utils"),
    ("smbclient", "smbclient"),
    ("rpcclient", "smbclient"),
    ("mke2fs", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("setcap", "libcap2-bin"),
    ("setpriv", "util-linux"),
    ("prlimit", "util-linux"),
    ("ip", "iproute2"),
    ("strace", "strace"),
    ("iptables", "iptables"),
    ("fio", "fio"),
    ("git", "git"),
    ("ganesha.nfsd", "nfs-ganesha"),
    (GANESHA_VFS, "nfs-ganesha-vfs"),
    ("rpcbind", "rpcbind"),
    ("rpcinfo", "rpcbind"),
    ("showmount", "nfs-common"),
    ("unshare", "util-linux"),
    ("openssl", "openssl"),
    ("curl", "curl"),
    ("go", "golang-go"),
    ("python3", "python3"),
    (ENSUREPIP, "python3-venv"),
];
pub(crate) const FOR_GUEST: &[Tool] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("mmdebstrap", "mmdebstrap"),
    ("mke2fs", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("cpio", "cpio"),
    ("xz", "xz-utils"),
    ("openssl", "openssl"),
];
pub(crate) const FOR_PERF: &[Tool] = &[
    ("ganesha.nfsd", "nfs-ganesha"),
    (GANESHA_VFS, "nfs-ganesha-vfs"),
    ("rpcbind", "rpcbind"),
    ("rpcinfo", "rpcbind"),
    ("taskset", "util-linux"),
];
pub(crate) const FOR_GENERATORS: &[Tool] =
    &[("python3", "python3"), (ENSUREPIP, "python3-venv"), ("curl", "curl"), ("setpriv", "util-linux")];
pub(crate) const FOR_PACKAGE: &[Tool] = &[
    ("strip", "binutils"),
    ("dpkg-deb", "dpkg"),
    ("dpkg-shlibdeps", "dpkg-dev"),
    ("gzip", "gzip"),
    ("lintian", "lintian"),
    ("man", "man-db"),
];
pub(crate) const FOR_BOOTSTRAP: &[Tool] = &[("mmdebstrap", "mmdebstrap")];
pub(crate) const FOR_CEPH: &[Tool] = &[
    ("ceph", "ceph-common"),
    ("ceph-mon", "ceph-mon"),
    ("ceph-mgr", "ceph-mgr"),
    ("ceph-osd", "ceph-osd"),
    ("ceph-mds", "ceph-mds"),
    (LIBCEPHFS_HEADER, "libcephfs-dev"),
    (LIBRADOS_HEADER, "librados-dev"),
    (LIBFAKETIME, "libfaketime"),
    ("cc", "gcc"),
    ("ip", "iproute2"),
    ("unshare", "util-linux"),
];
/// With Ceph in a root directory of its own.
pub(crate) const FOR_CEPH_IN_ROOT: &[Tool] = &[("ip", "iproute2"), ("unshare", "util-linux")];
pub(crate) const FOR_DIST: &[Tool] = &[("objcopy", "binutils")];
pub(crate) const FOR_INSTRUCTIONS: &[Tool] = &[("valgrind", "valgrind"), ("vgdb", "valgrind")];
/// No program identifies the packages. Tests compare the declarations of the crate `ceph` with them.
const LIBCEPHFS_HEADER: &str = "/usr/include/cephfs/libcephfs.h";
const LIBRADOS_HEADER: &str = "/usr/include/rados/librados.h";
/// The library that gives a program another time of day.
pub(crate) const LIBFAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
/// No program identifies the package; it creates Python environments.
const ENSUREPIP: &str = "/usr/lib/python3.11/ensurepip";
/// No program identifies the package.
const GANESHA_VFS: &str = "/etc/ganesha/vfs.conf";
const INSTALL_MAX: Duration = Duration::from_secs(900);

/// Needs root.
pub(crate) fn require(tools: &[Tool]) -> anyhow::Result<()> {
    let missing = missing(tools);
    if missing.is_empty() {
        return Ok(());
    }
    let wanted = missing.join(" ");
    if !rustix::process::geteuid().is_root() {
        bail!(
            "{wanted} must be installed, which needs root: run this as root, or first `sudo apt-get install {wanted}`"
        );
    }
    eprintln!("installing {wanted}");
    let log = process::target_dir().join("install.log");
    let apt = |arguments: &[&str]| {
        let argv = [&["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-y"], arguments].concat();
        process::run(&argv, &log, INSTALL_MAX)
    };
    apt(&["update"]).context("cannot run apt-get, which these tests need (Debian 12)")?;
    apt(&[&["install", "--no-install-recommends"], missing.as_slice()].concat())?;
    let absent: Vec<&str> = tools.iter().map(|(tool, _)| *tool).filter(|tool| !is_installed(tool)).collect();
    ensure!(absent.is_empty(), "still missing after the installation of {wanted}: {}", absent.join(" "));
    Ok(())
}

pub(crate) fn missing(tools: &[Tool]) -> Vec<&'static str> {
    let mut missing: Vec<&str> =
        tools.iter().filter(|(tool, _)| !is_installed(tool)).map(|&(_, package)| package).collect();
    missing.sort_unstable();
    missing.dedup();
    missing
}

/// `tool` is a program in the path or a system directory, or a file's path.
fn is_installed(tool: &str) -> bool {
    if tool.starts_with('/') {
        return Path::new(tool).exists();
    }
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    path.split(':').any(|dir| Path::new(dir).join(tool).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_tools_need_no_installation() {
        require(&[("sh", "none-of-this-name"), ("/proc/self/status", "none-of-this-name")]).unwrap();
        assert!(!is_installed("none-of-this-name") && !is_installed("/none/of/this/name"));
    }
}
