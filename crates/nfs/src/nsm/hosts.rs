//! [`LockHosts`]: who holds locks, kept over a restart, so that those can be told and claim again what they
//! had (`docs/formats/lock-hosts.md`).

use crate::limits::LOCK_HOSTS_MAX;
use siphasher::sip::SipHasher24;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::Hasher;
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use vfs::claims::{Grace, RecordId};
use vfs::qos::Nanos;

const NAME: &str = "lock-hosts";
const MAGIC: &[u8; 8] = b"PLMLOCKS";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 16;
const RECORD_BYTES: usize = 40;
const CHECKED_BYTES: usize = RECORD_BYTES - 4;
/// Records of the file beyond those that count, at which it is written anew.
const RECORDS_SPARE: usize = 4096;
/// What all hosts together are recorded as in the grace period of a volume: none of them says when it has
/// claimed all.
const RECORD: RecordId = RecordId(u64::MAX);

/// A host that holds locks, and the address by which it knows us.
type Known = HashMap<IpAddr, IpAddr>;

/// The hosts that hold locks, in a file.
pub struct LockHosts {
    path: PathBuf,
    /// Odd, and larger after each restart.
    state: u32,
    earlier: Vec<(IpAddr, IpAddr)>,
    known: RwLock<Known>,
    file: Mutex<Log>,
    /// The directory, locked: another process writes its hosts elsewhere.
    _dir: File,
}

/// The file as far as it is written.
struct Log {
    /// `None` if there was no room for it at the start: what it says is of an earlier run.
    file: Option<File>,
    records: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Holds = 1,
    HoldsNothing = 2,
}

impl LockHosts {
    /// Opens or makes the file in `dir`, with the next state number. [`ErrorKind::WouldBlock`] if another
    /// process has it. On a full disk those who held locks are known, and nobody else can hold any before there is room.
    pub fn open(dir: &Path) -> io::Result<Self> {
        let locked = File::open(dir)?;
        locked.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => ErrorKind::WouldBlock.into(),
            TryLockError::Error(error) => error,
        })?;
        let path = dir.join(NAME);
        let (last, known) = match fs::read(&path) {
            Ok(bytes) => parse(&bytes)?,
            Err(error) if error.kind() == ErrorKind::NotFound => (0, Known::new()),
            Err(error) => return Err(error),
        };
        let state = next_state(last);
        let log = match write_anew(&path, state, &known) {
            Err(error) if is_for_now(&error) => {
                tracing::warn!(path = %path.display(), %error, "no further client can hold locks until this can be written");
                Log { file: None, records: 0 }
            }
            written => written?,
        };
        let earlier = known.iter().map(|(&client, &local)| (client, local)).collect();
        Ok(Self { path, state, earlier, known: known.into(), file: log.into(), _dir: locked })
    }

    /// The state number of this run.
    pub fn state(&self) -> u32 {
        self.state
    }

    /// The hosts that held locks when the last run ended, and the addresses by which they knew us.
    pub fn earlier(&self) -> &[(IpAddr, IpAddr)] {
        &self.earlier
    }

    /// The grace period of volumes that were there in the last run, from `now` on; none if nobody held locks.
    pub fn grace(&self, now: Nanos, length: Duration) -> Grace {
        let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        let until = Nanos(now.0.saturating_add(length));
        Grace::new(until, (!self.earlier.is_empty() && length > 0).then_some(RECORD))
    }

    /// Whether a host is recorded.
    pub(crate) fn has(&self, client: IpAddr) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).contains_key(&client)
    }

    /// The hosts that are recorded.
    pub(crate) fn clients(&self) -> Vec<IpAddr> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    /// Records a host that knows us by the address `local`: durable when this returns.
    pub(crate) fn add(&self, client: IpAddr, local: IpAddr) -> io::Result<()> {
        if self.has(client) {
            return Ok(());
        }
        let mut log = self.log();
        if self.clients().len() >= LOCK_HOSTS_MAX {
            return Err(io::Error::other(format!(
                "locks are known of {LOCK_HOSTS_MAX} clients, and of no more"
            )));
        }
        if log.file.is_none() {
            *log = write_anew(
                &self.path,
                self.state,
                &self.known.read().unwrap_or_else(PoisonError::into_inner),
            )?;
        }
        log.append(Kind::Holds, client, local)?;
        if let Some(file) = &log.file {
            file.sync_data()?;
        }
        self.known.write().unwrap_or_else(PoisonError::into_inner).insert(client, local);
        Ok(())
    }

    /// Forgets a host that holds nothing any more. It costs nothing if that is lost.
    pub(crate) fn forget(&self, client: IpAddr) {
        let mut log = self.log();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let Some(local) = known.remove(&client) else { return };
        let mut forgotten = log.append(Kind::HoldsNothing, client, local);
        if log.records > 2 * known.len() + RECORDS_SPARE {
            forgotten = write_anew(&self.path, self.state, &known).map(|written| *log = written);
        }
        if let Err(error) = forgotten {
            tracing::warn!(%client, %error, "a client without locks stays recorded");
        }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    /// Adds a record, whole or not at all.
    fn append(&mut self, kind: Kind, client: IpAddr, local: IpAddr) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        if let Err(error) = file.write_all(&record(kind, client, local)) {
            // What follows a torn record would not be read.
            file.set_len((HEADER_BYTES + self.records * RECORD_BYTES) as u64)?;
            return Err(error);
        }
        self.records += 1;
        Ok(())
    }
}

/// Whether something cannot be written now that can be once somebody makes room: a service comes up all the same.
fn is_for_now(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem)
}

/// Odd, larger, and positive as a signed number (XNFS §11.2).
fn next_state(last: u32) -> u32 {
    let next = last.saturating_add(2) | 1;
    if next > i32::MAX.unsigned_abs() { 1 } else { next }
}

/// Writes the file under another name and puts it in the place of the old one: a crash leaves one of both.
fn write_anew(path: &Path, state: u32, known: &Known) -> io::Result<Log> {
    let draft = path.with_extension("new");
    let mut bytes = [&MAGIC[..], &VERSION.to_be_bytes(), &state.to_be_bytes()].concat();
    for (&client, &local) in known {
        bytes.extend(record(Kind::Holds, client, local));
    }
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&draft)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&draft, path)?;
    if let Some(dir) = path.parent() {
        File::open(dir)?.sync_all()?;
    }
    let file = OpenOptions::new().append(true).open(path)?;
    Ok(Log { file: Some(file), records: known.len() })
}

fn record(kind: Kind, client: IpAddr, local: IpAddr) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[0] = kind as u8;
    record[4..20].copy_from_slice(&octets(client));
    record[20..CHECKED_BYTES].copy_from_slice(&octets(local));
    let check = check(&record[..CHECKED_BYTES]);
    record[CHECKED_BYTES..].copy_from_slice(&check);
    record
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

fn check(bytes: &[u8]) -> [u8; 4] {
    let mut hasher = SipHasher24::new();
    hasher.write(bytes);
    let [.., a, b, c, d] = hasher.finish().to_be_bytes();
    [a, b, c, d]
}

/// The state number and the hosts of a file. A record that is not whole is the last: it was never
/// acknowledged.
fn parse(bytes: &[u8]) -> io::Result<(u32, Known)> {
    let wrong =
        || io::Error::new(ErrorKind::InvalidData, "it is no list of hosts with locks of this version");
    let (header, records) = bytes.split_at_checked(HEADER_BYTES).ok_or_else(wrong)?;
    let (magic, numbers) = header.split_at(MAGIC.len());
    let (version, state) = numbers.split_at(4);
    if magic != MAGIC || version != VERSION.to_be_bytes() {
        return Err(wrong());
    }
    let state = u32::from_be_bytes(state.try_into().map_err(|_| wrong())?);
    let mut known = Known::new();
    for record in records.as_chunks::<RECORD_BYTES>().0 {
        if check(&record[..CHECKED_BYTES]) != record[CHECKED_BYTES..] {
            break;
        }
        let address = |at: usize| {
            let octets: [u8; 16] = std::array::from_fn(|index| record[at + index]);
            IpAddr::from(Ipv6Addr::from(octets)).to_canonical()
        };
        let (client, local) = (address(4), address(20));
        if record[0] == Kind::Holds as u8 {
            known.insert(client, local);
        } else {
            known.remove(&client);
        }
    }
    Ok((state, known))
}

#[cfg(test)]
impl LockHosts {
    /// As if there were as many as there may be.
    pub(crate) fn fill(&self) {
        let mut known = self.known.write().unwrap();
        for number in 0..LOCK_HOSTS_MAX {
            let [.., high, low] = number.to_be_bytes();
            known.insert([10, 2, high, low].into(), [10, 1, 0, 1].into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn dir() -> PathBuf {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("plimsoll-lock-hosts-{}-{number}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        dir
    }

    fn earlier(hosts: &LockHosts) -> Vec<(IpAddr, IpAddr)> {
        let mut earlier = hosts.earlier().to_vec();
        earlier.sort();
        earlier
    }

    #[test]
    fn hosts_are_known_after_a_restart_and_states_are_odd_and_grow() {
        let dir = dir();
        let (v4, v6, server) = (address("10.1.0.9"), address("fd00::9"), address("10.1.0.1"));
        let hosts = LockHosts::open(&dir).unwrap();
        assert_eq!((hosts.state(), earlier(&hosts)), (3, vec![]));
        assert!(!hosts.grace(Nanos(7), Duration::from_secs(45)).is_active());
        for _ in 0..2 {
            hosts.add(v4, server).unwrap();
        }
        hosts.add(v6, address("fd00::1")).unwrap();
        hosts.add(address("10.1.0.10"), server).unwrap();
        hosts.forget(address("10.1.0.10"));
        assert!(hosts.has(v4) && !hosts.has(address("10.1.0.10")));
        assert_eq!(LockHosts::open(&dir).err().unwrap().kind(), ErrorKind::WouldBlock);
        drop(hosts);
        let path = dir.join(NAME);
        assert_eq!(fs::metadata(&path).unwrap().len(), 16 + 4 * 40);
        let hosts = LockHosts::open(&dir).unwrap();
        assert_eq!((hosts.state(), earlier(&hosts)), (5, vec![(v4, server), (v6, address("fd00::1"))]));
        let grace = hosts.grace(Nanos(7), Duration::from_secs(45));
        assert_eq!(grace.deadline(), Some(Nanos(45_000_000_007)));
        assert!(!hosts.grace(Nanos(7), Duration::ZERO).is_active());
        assert_eq!(fs::metadata(&path).unwrap().len(), 16 + 2 * 40, "written anew");
        drop(hosts);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_record_that_is_not_whole_is_the_last_and_other_files_are_left_alone() {
        let dir = dir();
        let server = address("10.1.0.1");
        let hosts = LockHosts::open(&dir).unwrap();
        for last in 1..=3 {
            hosts.add(IpAddr::from([10, 0, 0, last]), server).unwrap();
        }
        drop(hosts);
        let whole = fs::read(dir.join(NAME)).unwrap();
        for cut in 1..=40 {
            assert_eq!(parse(&whole[..whole.len() - cut]).unwrap().1.len(), 2, "{cut}");
        }
        for byte in 56..96 {
            let mut torn = whole.clone();
            torn[byte] ^= 1;
            assert_eq!(parse(&torn).unwrap().1.len(), 1, "{byte}");
        }
        for wrong in [&b""[..], b"PLMLOCKS", b"PLMLOCKS\0\0\0\x02\0\0\0\x03", b"something else!!"] {
            fs::write(dir.join(NAME), wrong).unwrap();
            assert_eq!(LockHosts::open(&dir).err().unwrap().kind(), ErrorKind::InvalidData);
            assert_eq!(fs::read(dir.join(NAME)).unwrap(), wrong);
        }
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn the_file_does_not_grow_for_ever() {
        let dir = dir();
        let hosts = LockHosts::open(&dir).unwrap();
        let host = address("10.0.0.1");
        for _ in 0..RECORDS_SPARE {
            hosts.log().append(Kind::Holds, host, host).unwrap();
        }
        hosts.add(host, host).unwrap();
        hosts.forget(host);
        assert_eq!(fs::metadata(dir.join(NAME)).unwrap().len(), 16);
        hosts.add(host, host).unwrap();
        drop(hosts);
        assert_eq!(LockHosts::open(&dir).unwrap().earlier(), [(host, host)]);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn state_numbers_stay_positive() {
        assert_eq!([0, 1, 2, 3, i32::MAX.unsigned_abs(), u32::MAX].map(next_state), [3, 3, 5, 5, 1, 1]);
    }
}
