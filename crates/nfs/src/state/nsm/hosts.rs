//! [`LockHosts`]: hosts with locks, recorded so that they are notified of a restart and can reclaim
//! (`docs/formats/lock-hosts.md`).

use crate::limits::LOCK_HOSTS_MAX;
use stable::{RecordLog, StableDir};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, MutexGuard};
use vfs::bounds::{Bounds, Party, Slot};
use vfs::claims::RecordId;
use vfs::sync::{Mutex, RwLock};

const NAME: &str = "lock-hosts";
/// Magic number and version.
const KIND: &[u8; 12] = b"PLMLOCKS\0\0\0\x01";
const HEADER_BYTES: usize = 16;
const RECORD_BYTES: usize = 40;

type Log = RecordLog<HEADER_BYTES, RECORD_BYTES>;
/// Obsolete records after which the file is rewritten.
const RECORDS_SPARE: usize = 4096;
/// The record that stands for all hosts in a volume's grace period: NLM has no message that ends reclaiming.
const RECORD: RecordId = RecordId(u64::MAX);

/// A host that holds locks, and the address by which it knows us.
type LocalByHost = HashMap<IpAddr, IpAddr>;

/// The hosts that hold locks, in a file.
pub struct LockHosts {
    /// Odd, and larger after each restart.
    state: u32,
    earlier: Vec<(IpAddr, IpAddr)>,
    recorded: RwLock<LocalByHost>,
    /// The room of those that were recorded since the start.
    slots: Mutex<HashMap<IpAddr, Slot>>,
    bounds: Arc<Bounds>,
    file: Mutex<Log>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Holds = 1,
    HoldsNothing = 2,
}

impl LockHosts {
    /// Opens or creates the file in `dir`, with the next state number. On a full disk the recorded hosts can reclaim,
    /// and no other can lock until there is room.
    pub fn open(dir: &Arc<StableDir>) -> io::Result<Self> {
        let path = dir.file(NAME);
        let found = stable::read(&path, KIND)?;
        let (last, recorded) =
            found.map_or((0, LocalByHost::new()), |(header, records)| parse(&header, &records));
        let state = next_state(last);
        let mut log = Log::unwritable(dir, NAME);
        match write_anew(&mut log, state, &recorded) {
            Err(error) if stable::is_temporary(&error) => {
                tracing::warn!(path = %path.display(), %error, "cannot write lock hosts: new clients get no locks until the disk has space");
            }
            written => written?,
        }
        let earlier = recorded.iter().map(|(&client, &local)| (client, local)).collect();
        let (slots, bounds) = (Mutex::default(), Bounds::new(LOCK_HOSTS_MAX, 0));
        Ok(Self { state, earlier, recorded: RwLock::new(recorded), slots, bounds, file: Mutex::new(log) })
    }

    pub fn state(&self) -> u32 {
        self.state
    }

    /// The hosts that held locks when the last run ended, and the addresses by which they knew us.
    pub fn earlier(&self) -> &[(IpAddr, IpAddr)] {
        &self.earlier
    }

    /// The record that the grace period waits for, if any host had locks.
    pub fn expected(&self) -> Option<RecordId> {
        (!self.earlier.is_empty()).then_some(RECORD)
    }

    pub(crate) fn has(&self, client: IpAddr) -> bool {
        self.recorded.read().contains_key(&client)
    }

    pub(crate) fn clients(&self) -> Vec<IpAddr> {
        self.recorded.read().keys().copied().collect()
    }

    /// Records a host that knows us by the address `local`: durable when this returns.
    pub(crate) fn add(&self, client: IpAddr, local: IpAddr, party: &Party) -> io::Result<()> {
        if self.has(client) {
            return Ok(());
        }
        let mut log = self.log();
        if self.clients().len() >= LOCK_HOSTS_MAX {
            return Err(io::Error::other(format!(
                "{LOCK_HOSTS_MAX} clients have locks, which is the maximum"
            )));
        }
        let full = |full| io::Error::other(format!("too many clients with locks ({full:?})"));
        let slot = self.bounds.take(party, 1).map_err(full)?;
        if !log.is_writable() {
            write_anew(&mut log, self.state, &self.recorded.read())?;
        }
        log.append(&record(Kind::Holds, client, local))?;
        log.sync()?;
        self.recorded.write().insert(client, local);
        self.slots().insert(client, slot);
        Ok(())
    }

    /// Forgets a host that holds nothing any more. It costs nothing if that is lost.
    pub(crate) fn forget(&self, client: IpAddr) {
        let mut log = self.log();
        let mut recorded = self.recorded.write();
        let Some(local) = recorded.remove(&client) else { return };
        self.slots().remove(&client);
        let mut forgotten = log.append(&record(Kind::HoldsNothing, client, local));
        if log.records() > 2 * recorded.len() + RECORDS_SPARE {
            forgotten = write_anew(&mut log, self.state, &recorded);
        }
        if let Err(error) = forgotten {
            tracing::warn!(%client, %error, "cannot remove the record of a client without locks");
        }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<IpAddr, Slot>> {
        self.slots.lock()
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.file.lock()
    }
}

/// Odd, larger, and positive as a signed number (XNFS §11.2).
fn next_state(last: u32) -> u32 {
    let next = last.saturating_add(2) | 1;
    if next > i32::MAX.unsigned_abs() { 1 } else { next }
}

/// Rewrites the file without obsolete records.
fn write_anew(log: &mut Log, state: u32, recorded: &LocalByHost) -> io::Result<()> {
    let mut header = [0; HEADER_BYTES];
    header[..KIND.len()].copy_from_slice(KIND);
    header[KIND.len()..].copy_from_slice(&state.to_be_bytes());
    log.rewrite(&header, recorded.iter().map(|(&client, &local)| record(Kind::Holds, client, local)))
}

fn record(kind: Kind, client: IpAddr, local: IpAddr) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[0] = kind as u8;
    record[4..20].copy_from_slice(&octets(client));
    record[20..36].copy_from_slice(&octets(local));
    stable::seal(record)
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The state number and the hosts of a file.
fn parse(header: &[u8; HEADER_BYTES], records: &[Option<[u8; RECORD_BYTES]>]) -> (u32, LocalByHost) {
    let [.., a, b, c, d] = *header;
    let mut recorded = LocalByHost::new();
    // A lock is granted only after its record is durable, so records after a torn one do not count.
    for record in records.iter().map_while(Option::as_ref) {
        let address = |at: usize| {
            let octets: [u8; 16] = std::array::from_fn(|index| record[at + index]);
            IpAddr::from(Ipv6Addr::from(octets)).to_canonical()
        };
        let (client, local) = (address(4), address(20));
        if record[0] == Kind::Holds as u8 {
            recorded.insert(client, local);
        } else {
            recorded.remove(&client);
        }
    }
    (u32::from_be_bytes([a, b, c, d]), recorded)
}

#[cfg(test)]
impl LockHosts {
    pub(crate) fn fill(&self) {
        let mut recorded = self.recorded.write();
        for number in 0..LOCK_HOSTS_MAX {
            let [.., high, low] = number.to_be_bytes();
            recorded.insert([10, 2, high, low].into(), [10, 1, 0, 1].into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stable::{MemoryReplica, TestDir};
    use std::fs;

    fn party() -> Party {
        Party::of(vfs::bounds::Networks::default().of([10, 1, 0, 9].into()))
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn earlier(hosts: &LockHosts) -> Vec<(IpAddr, IpAddr)> {
        let mut earlier = hosts.earlier().to_vec();
        earlier.sort();
        earlier
    }

    #[test]
    fn hosts_are_known_after_a_restart_and_states_are_odd_and_grow() {
        let dir = TestDir::new();
        let open = || LockHosts::open(&dir.open()).unwrap();
        let (v4, v6, server) = (address("10.1.0.9"), address("fd00::9"), address("10.1.0.1"));
        let hosts = open();
        assert_eq!((hosts.state(), earlier(&hosts)), (3, vec![]));
        assert_eq!(hosts.expected(), None);
        for _ in 0..2 {
            hosts.add(v4, server, &party()).unwrap();
        }
        hosts.add(v6, address("fd00::1"), &party()).unwrap();
        hosts.add(address("10.1.0.10"), server, &party()).unwrap();
        hosts.forget(address("10.1.0.10"));
        assert!(hosts.has(v4) && !hosts.has(address("10.1.0.10")));
        drop(hosts);
        let path = dir.path().join(NAME);
        assert_eq!(fs::metadata(&path).unwrap().len(), 16 + 4 * 40);
        let hosts = open();
        assert_eq!((hosts.state(), earlier(&hosts)), (5, vec![(v4, server), (v6, address("fd00::1"))]));
        assert_eq!(hosts.expected(), Some(RECORD));
        assert_eq!(fs::metadata(&path).unwrap().len(), 16 + 2 * 40, "written anew");
    }

    #[test]
    fn a_torn_record_is_the_last_and_other_files_are_left_alone() {
        let dir = TestDir::new();
        let hosts = LockHosts::open(&dir.open()).unwrap();
        for last in 1..=3 {
            hosts.add(IpAddr::from([10, 0, 0, last]), address("10.1.0.1"), &party()).unwrap();
        }
        drop(hosts);
        let path = dir.path().join(NAME);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(LockHosts::open(&dir.open()).unwrap().earlier().len(), 2);
        fs::write(&path, b"PLMLOCKS\0\0\0\x02\0\0\0\x03").unwrap();
        assert_eq!(LockHosts::open(&dir.open()).err().unwrap().kind(), io::ErrorKind::InvalidData);
        assert_eq!(fs::read(&path).unwrap(), b"PLMLOCKS\0\0\0\x02\0\0\0\x03");
    }

    #[test]
    fn hosts_are_known_on_another_machine() {
        let (dir, replica) = (TestDir::new(), Arc::new(MemoryReplica::default()));
        let server = address("10.1.0.1");
        let hosts = LockHosts::open(&dir.open_with(&replica)).unwrap();
        for last in 1..=4 {
            hosts.add(IpAddr::from([10, 0, 0, last]), server, &party()).unwrap();
        }
        hosts.forget(address("10.0.0.2"));
        // The record of the removal goes with the next one.
        hosts.add(address("10.0.0.5"), server, &party()).unwrap();
        let dir = TestDir::new();
        stable::restore(dir.path(), &replica.pairs()).unwrap();
        let moved = LockHosts::open(&dir.open_with(&replica)).unwrap();
        let expected = [1, 3, 4, 5].map(|last| (IpAddr::from([10, 0, 0, last]), server));
        assert_eq!((moved.state(), earlier(&moved)), (hosts.state() + 2, expected.to_vec()));
        assert_eq!(replica.pairs().len(), 1 + 4, "obsolete records are gone");
    }

    #[test]
    fn the_file_does_not_grow_for_ever() {
        let dir = TestDir::new();
        let hosts = LockHosts::open(&dir.open()).unwrap();
        let host = address("10.0.0.1");
        for _ in 0..RECORDS_SPARE {
            hosts.log().append(&record(Kind::Holds, host, host)).unwrap();
        }
        hosts.add(host, host, &party()).unwrap();
        hosts.forget(host);
        assert_eq!(fs::metadata(dir.path().join(NAME)).unwrap().len(), 16);
        hosts.add(host, host, &party()).unwrap();
        drop(hosts);
        assert_eq!(LockHosts::open(&dir.open()).unwrap().earlier(), [(host, host)]);
    }

    #[test]
    fn state_numbers_stay_positive() {
        assert_eq!([0, 1, 2, 3, i32::MAX.unsigned_abs(), u32::MAX].map(next_state), [3, 3, 5, 5, 1, 1]);
    }
}
