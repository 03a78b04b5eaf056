//! The table of mounts, as reported by clients.

use crate::limits::MOUNTS_MAX;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::MutexGuard;
use vfs::bounds::{Network, Networks};
use vfs::sync::Mutex;

/// The mounts that DUMP lists, at most [`MOUNTS_MAX`]. A full table drops the oldest of the network with most.
/// Clients that crash never unmount, so the list shows mounts, not use (RFC 1813 §5.2.2 asks for no more).
#[derive(Default)]
pub struct MountTable {
    mounts: Mutex<VecDeque<Mount>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The client's canonical address.
    pub client: IpAddr,
    /// The normalized path.
    pub path: Vec<u8>,
}

impl MountTable {
    /// Adds a mount as the newest.
    pub fn add(&self, networks: Networks, client: IpAddr, path: &[u8]) {
        let mut mounts = self.lock();
        let client = client.to_canonical();
        mounts.retain(|mount| mount.client != client || mount.path != path);
        if mounts.len() == MOUNTS_MAX {
            let of = |mount: &Mount| networks.of(mount.client);
            let mut counts: HashMap<Network, usize> = HashMap::new();
            mounts.iter().for_each(|mount| *counts.entry(of(mount)).or_default() += 1);
            let most = counts.values().copied().max();
            mounts
                .iter()
                .position(|mount| counts.get(&of(mount)).copied() == most)
                .map(|at| mounts.remove(at));
        }
        mounts.push_back(Mount { client, path: path.to_vec() });
    }

    pub fn remove(&self, client: IpAddr, path: &[u8]) {
        let client = client.to_canonical();
        self.lock().retain(|mount| mount.client != client || mount.path != path);
    }

    pub fn remove_all(&self, client: IpAddr) {
        let client = client.to_canonical();
        self.lock().retain(|mount| mount.client != client);
    }

    /// All mounts, the oldest first.
    pub fn list(&self) -> Vec<Mount> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Mount>> {
        self.mounts.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn client(n: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + n).into()
    }

    #[test]
    fn a_full_table_forgets_the_oldest() {
        let table = MountTable::default();
        let most = u32::try_from(MOUNTS_MAX).unwrap();
        (0..most).for_each(|n| table.add(Networks::default(), client(n), b"/e"));
        table.add(Networks::default(), client(0), b"/e");
        assert_eq!(table.list().len(), MOUNTS_MAX, "known already");
        table.add(Networks::default(), client(most), b"/e");
        let list = table.list();
        assert_eq!(list.len(), MOUNTS_MAX);
        assert_eq!(list[0].client, client(2), "0 was mounted again since, so 1 was the oldest");
        assert_eq!(list[MOUNTS_MAX - 2].client, client(0));
        assert_eq!(list[MOUNTS_MAX - 1].client, client(most));
    }

    #[test]
    fn a_client_with_many_mounts_drives_out_its_own() {
        let table = MountTable::default();
        table.add(Networks::default(), client(1), b"/e");
        for number in 0..2 * MOUNTS_MAX {
            table.add(Networks::default(), client(2), number.to_string().as_bytes());
        }
        let list = table.list();
        assert_eq!((list.len(), list[0].client), (MOUNTS_MAX, client(1)));
        assert_eq!(list[1].path, (MOUNTS_MAX + 1).to_string().as_bytes());
    }

    #[test]
    fn a_client_is_the_same_over_both_families() {
        let table = MountTable::default();
        table.add(Networks::default(), "::ffff:10.0.0.1".parse().unwrap(), b"/e");
        assert_eq!(table.list(), [Mount { client: client(1), path: b"/e".to_vec() }]);
        table.remove(client(1), b"/e");
        assert_eq!(table.list(), []);
    }
}
