//! [`ClientRecords`]: clients with state, recorded so that only they may reclaim it after a restart (RFC 8881 §8.4.2.1;
//! `docs/formats/clients.md`).

use super::client::Principal;
use crate::limits::CLIENT_RECORDS_MAX;
use nfs_wire::rpc::AuthFlavor;
use nfs_wire::v4::Verifier;
use sha2::{Digest, Sha256};
use stable::{RecordLog, StableDir};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, MutexGuard};
use vfs::bounds::{Bounds, Party, Slot};
use vfs::claims::RecordId;
use vfs::sync::Mutex;

const NAME: &str = "clients";
/// Magic number and version.
const KIND: &[u8; 12] = b"PLMCLNTS\0\0\0\x01";
/// A record never crosses a sector, so it is written whole or not at all.
const HEADER_BYTES: usize = 128;
const RECORD_BYTES: usize = 128;
const IN_USE: u8 = 1;
/// The first start counts from a random number below this one. Starts that cannot be counted have random numbers above it.
const BOOTS: u32 = 1 << 30;

type Log = RecordLog<HEADER_BYTES, RECORD_BYTES>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// SHA-256 of the name that it gives itself (`co_ownerid`, `nfs_client_id4.id`).
    owner: [u8; 32],
    verifier: Verifier,
    principal: Principal,
}

impl Identity {
    /// The identity of the client that gives itself this name.
    pub(crate) fn new(owner: &[u8], verifier: Verifier, principal: Principal) -> Self {
        Self { owner: Sha256::digest(owner).into(), verifier, principal }
    }

    /// Whether this can be the `recorded` client: the same user at the same address, or the same user with the same
    /// verifier, which is secret.
    fn matches(&self, recorded: &Self) -> bool {
        self.owner == recorded.owner
            && self.principal.user() == recorded.principal.user()
            && (self.principal.address == recorded.principal.address || self.verifier == recorded.verifier)
    }
}

#[derive(Debug)]
pub struct ClientRecords {
    boot: u32,
    /// The clients that had state when the last run ended.
    previous: HashMap<[u8; 32], (RecordId, Identity)>,
    file: Mutex<RecordFile>,
    bounds: Arc<Bounds>,
}

#[derive(Debug)]
struct RecordFile {
    /// `None` where nothing is remembered.
    log: Option<Log>,
    records: HashMap<[u8; 32], Record>,
    /// The room of those that were recorded since the start.
    slots: HashMap<[u8; 32], Slot>,
    /// Places of the file below its end that may be used again.
    free: Vec<usize>,
    /// Records of earlier starts than this one do not count: they were not claimed when there was time.
    since: u32,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    identity: Identity,
    /// The start in which it was made.
    boot: u32,
    place: usize,
}

impl ClientRecords {
    /// Opens or creates the file in `dir`, and counts this start. `random` is the first count. On a full disk the
    /// recorded clients can still reclaim.
    pub fn open(dir: &Arc<StableDir>, random: u32) -> io::Result<Self> {
        let path = dir.file(NAME);
        let (last, since, found) = match stable::read(&path, KIND)? {
            Some((header, records)) => parse(&header, &records)?,
            None => (random % BOOTS, 0, Vec::new()),
        };
        let boot = last.saturating_add(1);
        let places = found.iter().map(|record| record.place + 1).max().unwrap_or(0);
        let mut records: Vec<Record> = found.into_iter().filter(|record| record.boot >= since).collect();
        let since = if records.is_empty() { boot } else { since };
        let header = header(boot, since);
        let (log, boot) = match Log::create(dir, NAME, &header, records.iter().map(encode)) {
            Ok(log) => {
                (0..).zip(&mut records).for_each(|(place, record)| record.place = place);
                (log, boot)
            }
            Err(error) if stable::is_temporary(&error) => {
                tracing::warn!(path = %path.display(), %error, "cannot write client records: new clients cannot reclaim state after a restart");
                match Log::with_header(dir, NAME, &header, places) {
                    Ok(log) => (log, boot),
                    // This start cannot be counted. A random number above all counts is unique instead.
                    Err(_) => (Log::unwritable(dir, NAME), random | 1 << 31),
                }
            }
            Err(error) => return Err(error),
        };
        let is_used = |place: &usize| records.iter().any(|record| record.place == *place);
        let free = (0..log.records()).filter(|place| !is_used(place)).collect();
        let previous =
            (0..).zip(&records).map(|(id, record)| (record.identity.owner, (RecordId(id), record.identity)));
        let previous = previous.collect();
        let records = records.into_iter().map(|record| (record.identity.owner, record)).collect();
        let file = RecordFile { log: Some(log), records, slots: HashMap::new(), free, since };
        let bounds = Bounds::new(CLIENT_RECORDS_MAX, 0);
        Ok(Self { boot, previous, file: Mutex::new(file), bounds })
    }

    /// Nothing is remembered, and `random` tells this start from others.
    pub fn in_memory(random: u32) -> Self {
        let (records, slots) = (HashMap::new(), HashMap::new());
        let file = RecordFile { log: None, records, slots, free: Vec::new(), since: 0 };
        let bounds = Bounds::new(CLIENT_RECORDS_MAX, 0);
        Self { boot: random | 1 << 31, previous: HashMap::new(), file: Mutex::new(file), bounds }
    }

    /// The number of this start: larger than that of every start before.
    pub(crate) fn boot(&self) -> u32 {
        self.boot
    }

    /// The clients whose reclaims the grace period waits for.
    pub fn expected(&self) -> impl Iterator<Item = RecordId> {
        self.previous.values().map(|(id, _)| *id)
    }

    pub(crate) fn expects_clients(&self) -> bool {
        !self.previous.is_empty()
    }

    /// The record of a client that had state before the restart.
    pub(crate) fn record_before_restart(&self, identity: &Identity) -> Option<RecordId> {
        self.previous
            .get(&identity.owner)
            .filter(|(_, recorded)| identity.matches(recorded))
            .map(|(id, _)| *id)
    }

    /// Whether the name belonged to another client that had state before the restart.
    pub(crate) fn is_of_other_client(&self, identity: &Identity) -> bool {
        self.previous.get(&identity.owner).is_some_and(|(_, recorded)| !identity.matches(recorded))
    }

    /// Records a client of this start in place of its name's earlier record. Durable on return.
    pub(crate) fn remember(&self, identity: &Identity, party: &Party) -> io::Result<()> {
        let mut file = self.file();
        let Some(RecordFile { records, .. }) = Some(&*file).filter(|file| file.log.is_some()) else {
            return Ok(());
        };
        let before = records.get(&identity.owner);
        if before.is_some_and(|record| record.identity == *identity && record.boot == self.boot) {
            return Ok(());
        }
        if before.is_none() && records.len() >= CLIENT_RECORDS_MAX {
            let why = format!("{CLIENT_RECORDS_MAX} clients are recorded, which is the maximum");
            return Err(io::Error::other(why));
        }
        let party = party.admitted(true);
        let slot = match file.slots.remove(&identity.owner).filter(|slot| *slot.party() == party) {
            Some(slot) => slot,
            None => self
                .bounds
                .take(&party, 1)
                .map_err(|full| io::Error::other(format!("too many recorded clients ({full:?})")))?,
        };
        file.make_writable(self.boot)?;
        let RecordFile { log: Some(log), records, slots, free, .. } = &mut *file else {
            return Ok(());
        };
        let before = records.get(&identity.owner).map(|record| record.place);
        let place = before.or_else(|| free.pop()).unwrap_or(log.records());
        let record = Record { identity: *identity, boot: self.boot, place };
        if let Err(error) = log.replace(place, &encode(&record)).and_then(|()| log.sync()) {
            if before.is_none() && place < log.records() {
                free.push(place);
            }
            return Err(error);
        }
        records.insert(identity.owner, record);
        slots.insert(identity.owner, slot);
        Ok(())
    }

    /// Forgets a client, unless its name stands for another one by now: durable when this returns.
    pub(crate) fn forget(&self, identity: &Identity) -> io::Result<()> {
        let mut file = self.file();
        if file.records.get(&identity.owner).is_none_or(|record| record.identity != *identity) {
            return Ok(());
        }
        file.make_writable(self.boot)?;
        let RecordFile { log: Some(log), records, slots, free, .. } = &mut *file else {
            return Ok(());
        };
        let Some(place) = records.get(&identity.owner).map(|record| record.place) else { return Ok(()) };
        log.replace(place, &stable::seal([0; RECORD_BYTES])).and_then(|()| log.sync())?;
        records.remove(&identity.owner);
        slots.remove(&identity.owner);
        free.push(place);
        Ok(())
    }

    /// Ends reclaiming: clients that did not reclaim by now cannot do so after the next restart either (RFC 8881
    /// §8.4.3). Durable on return.
    pub fn end_grace(&self) -> io::Result<()> {
        let mut file = self.file();
        if file.since == self.boot {
            return Ok(());
        }
        file.make_writable(self.boot)?;
        let RecordFile { log: Some(log), records, free, since, .. } = &mut *file else {
            return Ok(());
        };
        log.set_header(&header(self.boot, self.boot))?;
        *since = self.boot;
        let over = records.extract_if(|_, record| record.boot < self.boot);
        free.extend(over.map(|(_, record)| record.place));
        Ok(())
    }

    fn file(&self) -> MutexGuard<'_, RecordFile> {
        self.file.lock()
    }
}

impl RecordFile {
    /// Writes the file if there was no room for it at the start.
    fn make_writable(&mut self, boot: u32) -> io::Result<()> {
        let Some(log) = self.log.as_mut().filter(|log| !log.is_writable()) else { return Ok(()) };
        (0..).zip(self.records.values_mut()).for_each(|(place, record)| record.place = place);
        log.rewrite(&header(boot, self.since), self.records.values().map(encode))
    }
}

fn header(boot: u32, since: u32) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..12].copy_from_slice(KIND);
    header[12..16].copy_from_slice(&boot.to_be_bytes());
    header[16..20].copy_from_slice(&since.to_be_bytes());
    stable::seal(header)
}

fn encode(record: &Record) -> [u8; RECORD_BYTES] {
    let Identity { owner, verifier, principal } = &record.identity;
    let address = match principal.address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let mut bytes = [0; RECORD_BYTES];
    bytes[0] = IN_USE;
    bytes[4..8].copy_from_slice(&record.boot.to_be_bytes());
    bytes[8..12].copy_from_slice(&principal.flavor.0.to_be_bytes());
    bytes[12..16].copy_from_slice(&principal.uid.to_be_bytes());
    bytes[16..32].copy_from_slice(&address.octets());
    bytes[32..40].copy_from_slice(verifier);
    bytes[40..72].copy_from_slice(owner);
    stable::seal(bytes)
}

/// The number of the last start, the earliest start whose records count, and the records.
fn parse(
    header: &[u8; HEADER_BYTES],
    records: &[Option<[u8; RECORD_BYTES]>],
) -> io::Result<(u32, u32, Vec<Record>)> {
    if stable::seal(*header) != *header {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the header is damaged"));
    }
    let records = (0..).zip(records).filter_map(|(place, record)| decode(place, record.as_ref()?));
    Ok((u32::from_be_bytes(part(header, 12)), u32::from_be_bytes(part(header, 16)), records.collect()))
}

fn decode(place: usize, bytes: &[u8; RECORD_BYTES]) -> Option<Record> {
    let number = |at| u32::from_be_bytes(part(bytes, at));
    let address = IpAddr::from(Ipv6Addr::from(part(bytes, 16))).to_canonical();
    let principal = Principal { flavor: AuthFlavor(number(8)), uid: number(12), address };
    let identity = Identity { owner: part(bytes, 40), verifier: part(bytes, 32), principal };
    (bytes[0] == IN_USE).then_some(Record { identity, boot: number(4), place })
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[at + index])
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::bounds::Networks;

    fn host() -> Party {
        Party::of(Networks::default().of([10, 1, 0, 9].into()))
    }
    use stable::{Failure, MemoryReplica, TestDir};
    use std::fs;

    fn who(number: u8) -> Identity {
        let address = IpAddr::from([10, 1, 0, number]);
        let principal = Principal { flavor: AuthFlavor::SYS, uid: 0, address };
        Identity::new(&[b'c', number], [number; 8], principal)
    }

    fn open(dir: &TestDir) -> ClientRecords {
        ClientRecords::open(&dir.open(), 41).unwrap()
    }

    fn known(records: &ClientRecords) -> Vec<u8> {
        (0..=9).filter(|&number| records.record_before_restart(&who(number)).is_some()).collect()
    }

    #[test]
    fn recorded_clients_are_known_after_a_restart_and_starts_are_counted() {
        let dir = TestDir::new();
        let first = open(&dir);
        assert_eq!((first.boot(), first.expected().count()), (42, 0));
        for number in [1, 2, 3, 2] {
            first.remember(&who(number), &host()).unwrap();
        }
        first.forget(&who(2)).unwrap();
        assert_eq!(fs::metadata(dir.path().join(NAME)).unwrap().len(), 4 * 128);
        drop(first);
        let second = open(&dir);
        assert_eq!((second.boot(), known(&second)), (43, vec![1, 3]));
        second.remember(&who(4), &host()).unwrap();
        drop(second);
        assert_eq!(known(&open(&dir)), [1, 3, 4], "there was no time to claim anything");
    }

    #[test]
    fn hosts_that_do_not_reclaim_are_forgotten() {
        let dir = TestDir::new();
        let first = open(&dir);
        [1, 2].iter().for_each(|&number| first.remember(&who(number), &host()).unwrap());
        drop(first);
        let second = open(&dir);
        second.remember(&who(2), &host()).unwrap();
        second.end_grace().unwrap();
        second.end_grace().unwrap();
        second.remember(&who(3), &host()).unwrap();
        assert_eq!(fs::metadata(dir.path().join(NAME)).unwrap().len(), 3 * 128, "the place is used again");
        drop(second);
        assert_eq!(known(&open(&dir)), [2, 3]);
    }

    #[test]
    fn recorded_clients_are_known_on_another_machine() {
        let (dir, replica) = (TestDir::new(), Arc::new(MemoryReplica::default()));
        let moved = || {
            let dir = TestDir::new();
            stable::restore(dir.path(), &replica.pairs()).unwrap();
            dir
        };
        let start = |dir: &TestDir| ClientRecords::open(&dir.open_with(&replica), 41).unwrap();
        let first = start(&dir);
        (0..4).for_each(|number| first.remember(&who(number), &host()).unwrap());
        first.forget(&who(2)).unwrap();
        // The first machine is lost here: nothing of it is used again.
        let dir = moved();
        let second = start(&dir);
        assert_eq!((second.boot(), known(&second)), (43, vec![0, 1, 3]));
        second.remember(&who(3), &host()).unwrap();
        second.end_grace().unwrap();
        second.remember(&who(5), &host()).unwrap();
        let dir = moved();
        let third = start(&dir);
        assert_eq!((third.boot(), known(&third)), (44, vec![3, 5]));
        assert_eq!(replica.pairs().len(), 3, "a header and two records");
        replica.fail_at(1, Failure::Lost);
        assert!(third.remember(&who(6), &host()).is_err());
    }

    #[test]
    fn others_with_the_name_of_a_client_are_not_it() {
        let dir = TestDir::new();
        let first = open(&dir);
        first.remember(&who(1), &host()).unwrap();
        let other = Identity { verifier: [9; 8], ..who(1) };
        first.forget(&other).unwrap();
        drop(first);
        let records = open(&dir);
        let elsewhere = Principal { address: IpAddr::from([10, 1, 0, 77]), ..who(1).principal };
        let user = Principal { uid: 7, ..who(1).principal };
        let is_known = |identity: Identity| records.record_before_restart(&identity).is_some();
        assert!(is_known(who(1)) && is_known(other));
        assert!(is_known(Identity { principal: elsewhere, ..who(1) }), "it has the verifier");
        assert!(!is_known(Identity { principal: elsewhere, ..other }));
        assert!(!is_known(Identity { principal: user, ..who(1) }));
        records.remember(&other, &host()).unwrap();
        records.forget(&who(1)).unwrap();
        drop(records);
        assert_eq!(open(&dir).expected().count(), 1, "the name stands for the other one");
    }

    #[test]
    fn damaged_records_do_not_count_and_other_files_are_left_alone() {
        let dir = TestDir::new();
        let path = dir.path().join(NAME);
        let first = open(&dir);
        (0..3).for_each(|number| first.remember(&who(number), &host()).unwrap());
        drop(first);
        let whole = fs::read(&path).unwrap();
        for byte in 256..384 {
            let mut torn = whole.clone();
            torn[byte] ^= 1;
            fs::write(&path, &torn).unwrap();
            assert_eq!(known(&open(&dir)), [0, 2], "{byte}");
        }
        for cut in 1..=128 {
            fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            assert_eq!(known(&open(&dir)), [0, 1], "{cut}");
        }
        for wrong in [&whole[..127], &[&whole[..14], &[9], &whole[15..]].concat(), b"PLMCLNTS\0\0\0\x02"] {
            fs::write(&path, wrong).unwrap();
            assert_eq!(ClientRecords::open(&dir.open(), 0).unwrap_err().kind(), io::ErrorKind::InvalidData);
            assert_eq!(fs::read(&path).unwrap(), wrong);
        }
    }

    #[test]
    fn clients_are_recorded_up_to_a_bound() {
        let dir = TestDir::new();
        let records = open(&dir);
        let identity =
            |number: usize| Identity { owner: Sha256::digest(number.to_be_bytes()).into(), ..who(1) };
        for number in 0..CLIENT_RECORDS_MAX {
            let record = Record { identity: identity(number), boot: 1, place: number };
            records.file().records.insert(record.identity.owner, record);
        }
        assert!(records.remember(&who(1), &host()).unwrap_err().to_string().contains("16384 clients"));
        records.remember(&identity(1), &host()).unwrap();
    }

    #[test]
    fn starts_that_cannot_be_counted_are_like_no_other() {
        let records = ClientRecords::in_memory(5);
        assert_eq!(records.boot(), 1 << 31 | 5);
        records.remember(&who(1), &host()).unwrap();
        records.forget(&who(1)).unwrap();
        records.end_grace().unwrap();
        assert_eq!(records.expected().count(), 0);
    }

    #[test]
    fn without_room_at_the_start_it_is_written_when_there_is_some() {
        let dir = TestDir::new();
        let first = open(&dir);
        [1, 2].iter().for_each(|&number| first.remember(&who(number), &host()).unwrap());
        drop(first);
        let stable = dir.open();
        let second = ClientRecords::open(&stable, 41).unwrap();
        second.file().log = Some(Log::unwritable(&stable, NAME));
        second.remember(&who(3), &host()).unwrap();
        second.forget(&who(1)).unwrap();
        drop((second, stable));
        assert_eq!(known(&open(&dir)), [2, 3]);
    }
}
