//! The mount of a path, from the kernel.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use report::result::MountFacts;

use crate::error::Error;
use crate::mountstats::unescaped;

const MOUNTS: &str = "/proc/self/mountinfo";
/// Kinds whose files are presumably not on this host.
const REMOTE: [&str; 12] =
    ["9p", "afs", "beegfs", "ceph", "cifs", "fuse", "gpfs", "lustre", "nfs", "nfs4", "smb3", "virtiofs"];

/// `path` must not contain symbolic links.
pub(in crate::engine) fn of(path: &Path) -> Result<MountFacts, Error> {
    let text = fs::read_to_string(MOUNTS).map_err(Error::io(format!("read {MOUNTS}")))?;
    // The last of several mounts at a place hides the others.
    let mounts = text.lines().filter_map(parse).filter(|mount| path.starts_with(&mount.at));
    let deepest = mounts.max_by_key(|mount| mount.at.len());
    deepest.ok_or_else(|| Error::Plan(format!("{} is on no mount of {MOUNTS}", path.display())))
}

/// Parses `36 35 98:0 /dir /at options [fields] - kind source options` (proc_pid_mountinfo(5)).
fn parse(line: &str) -> Option<MountFacts> {
    let (left, right) = line.split_once(" - ")?;
    let (mut left, mut right) = (left.split(' ').skip(4), right.split(' '));
    let (at, options) = (unescaped(left.next()?), left.next()?);
    let (kind, source) = (right.next()?.to_owned(), unescaped(right.next()?));
    let options = format!("{options},{}", right.next().unwrap_or(""));
    let mut seen = Vec::new();
    for option in options.split(',').filter(|option| !option.is_empty()) {
        if !seen.contains(&option) {
            seen.push(option);
        }
    }
    Some(MountFacts { kind, source, at, options: seen.join(",") })
}

pub(super) fn option<'m>(mount: &'m MountFacts, name: &str) -> Option<&'m str> {
    mount.options.split(',').find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
}

pub(super) fn is_nfs(mount: &MountFacts) -> bool {
    matches!(mount.kind.as_str(), "nfs" | "nfs4")
}

/// The number of connections. The mount option for it is present if the mount is remote.
pub(super) fn connections(mount: &MountFacts) -> (usize, Option<&'static str>) {
    let name = match mount.kind.as_str() {
        "nfs" | "nfs4" => "nconnect",
        "cifs" | "smb3" => "max_channels",
        _ => return (1, None),
    };
    (option(mount, name).and_then(|count| count.parse().ok()).unwrap_or(1), Some(name))
}

/// Whether the files are on this host: local file systems, and servers with an address of this host.
pub(super) fn is_co_located(mount: &MountFacts, is_ours: impl Fn(IpAddr) -> bool) -> bool {
    let kind = mount.kind.split('.').next().unwrap_or("");
    if !REMOTE.contains(&kind) {
        return true;
    }
    server(mount).is_some_and(is_ours)
}

pub(in crate::engine) fn server(mount: &MountFacts) -> Option<IpAddr> {
    option(mount, "addr")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NFS: &str = "50 29 0:46 / /mnt/a\\040b\\134c rw,relatime shared:1 - nfs 10.0.0.7:/data rw,relatime,vers=3,\
        rsize=262144,nconnect=8,addr=10.0.0.7";

    #[test]
    fn line_is_read_with_its_escapes() {
        let mount = parse(NFS).unwrap();
        assert_eq!((mount.kind.as_str(), mount.source.as_str()), ("nfs", "10.0.0.7:/data"));
        assert_eq!(mount.at, "/mnt/a b\\c");
        assert_eq!(mount.options, "rw,relatime,vers=3,rsize=262144,nconnect=8,addr=10.0.0.7");
        assert_eq!((option(&mount, "nconnect"), option(&mount, "connect")), (Some("8"), None));
        assert_eq!(connections(&mount), (8, Some("nconnect")));
        let other = |kind: &str, options: &str| MountFacts {
            kind: kind.to_owned(),
            options: options.to_owned(),
            ..mount.clone()
        };
        assert_eq!(
            connections(&other("cifs", "rw,multichannel,max_channels=16")),
            (16, Some("max_channels"))
        );
        assert_eq!(connections(&other("cifs", "rw")), (1, Some("max_channels")));
        assert_eq!(connections(&other("ext4", "rw,nconnect=9")), (1, None));
        assert!(is_nfs(&mount) && parse("").is_none());
    }

    #[test]
    fn co_located_is_what_is_local_or_served_from_here() {
        let nfs = parse(NFS).unwrap();
        assert!(is_co_located(&nfs, |_| true) && !is_co_located(&nfs, |_| false));
        for (kind, is_here) in [("ext4", true), ("tmpfs", true), ("fuse.sshfs", false), ("ceph", false)] {
            let mount = MountFacts { kind: kind.to_owned(), ..MountFacts::default() };
            assert_eq!(is_co_located(&mount, |_| true), is_here, "{kind}");
        }
    }

    #[test]
    fn every_path_has_a_mount() {
        let mount = of(Path::new("/proc/self")).unwrap();
        assert_eq!((mount.kind.as_str(), mount.at.as_str()), ("proc", "/proc"));
    }
}
