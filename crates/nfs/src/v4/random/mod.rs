//! Compounds by chance: whatever a client sends, each gets a reply that can be read, and ended clients leave nothing behind.

mod replies;

use crate::testing::v4::{Client, put};
use crate::testing::{TestEnv, export, rule};
use nfs_wire::v4::{
    Argument, CreateHow, CreateType, Fattr, FileHandle, LockReply, Locker, Op, OpReply, OpenClaim, OpenFlag,
    PutfhArgs, ReclaimCompleteArgs, Reply, Stateid, Status,
};
use std::collections::BTreeMap;
use xdr::{Encode, Reader, Writer};

/// Numbers by chance that are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 27
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    fn of<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[self.below(all.len())]
    }

    /// A word as protocols have them: mostly small, sometimes at an edge.
    fn word(&mut self) -> u32 {
        match self.below(16) {
            0 => u32::MAX,
            1 => 1 << self.below(32),
            2 => 4096,
            _ => u32::try_from(self.below(4)).unwrap(),
        }
    }

    /// Random words to decode as arguments.
    fn stream(&mut self) -> Vec<u8> {
        (0..64).flat_map(|_| self.word().to_be_bytes()).collect()
    }
}

/// Handles and stateids seen in replies, to be sent back.
struct Seen {
    handles: Vec<Vec<u8>>,
    /// Stateids with the handles of their files.
    stateids: Vec<(Stateid, Vec<u8>)>,
    /// Index of the file with which the compound begins.
    chosen: usize,
    /// Number of successes, by operation.
    done: BTreeMap<Op, u32>,
}

/// Number of handles and stateids retained. The first handles are always retained.
const RETAINED: usize = 24;
const HANDLES: usize = 3;
const NAMES: [&[u8]; 6] = [b"a", b"b", b"c", b"dir", b"", b".."];
/// Operations chosen more often.
const OFTEN: [Op; 12] = [
    Op::OPEN,
    Op::OPEN,
    Op::OPEN,
    Op::LOCK,
    Op::LOCKU,
    Op::READ,
    Op::WRITE,
    Op::CLOSE,
    Op::LOOKUP,
    Op::GETFH,
    Op::CREATE,
    Op::REMOVE,
];

impl Seen {
    fn stateid(&self, random: &mut Random) -> Stateid {
        let mut stateid = match random.below(8) {
            0 => Stateid::ANONYMOUS,
            1 | 2 => Stateid::CURRENT,
            3 => Stateid::INVALID,
            4 => random.of(&self.stateids).0,
            _ => self.stateids[self.chosen].0,
        };
        match random.below(8) {
            0 => stateid.seqid = stateid.seqid.wrapping_add(random.word()),
            1 => stateid.other[random.below(12)] ^= 1,
            2 | 3 => stateid.seqid = 0,
            _ => {}
        }
        stateid
    }

    /// Adds a random operation to a compound, with seen values in some arguments. Returns the number of operations
    /// added.
    fn add_operation(&self, random: &mut Random, encoded: &mut Vec<u8>) -> u32 {
        let op = if random.below(2) == 0 {
            *random.of(&OFTEN)
        } else {
            Op(u32::try_from(random.below(80)).unwrap())
        };
        let streams: Vec<Vec<u8>> = (0..32).map(|_| random.stream()).collect();
        let mut arguments = streams.iter().map(|stream| Argument::decode_body(op, &mut Reader::new(stream)));
        let Some(mut argument) = arguments.find_map(Result::ok) else { return 0 };
        let (name, stateid) = (*random.of(&NAMES), self.stateid(random));
        match &mut argument {
            Argument::Putfh(args) => {
                *args = PutfhArgs { object: FileHandle(random.of::<Vec<u8>>(&self.handles).as_slice()) }
            }
            Argument::Lookup(args) => args.objname = name,
            Argument::Remove(args) => args.target = name,
            Argument::Create(args) => {
                args.objname = name;
                if random.below(4) > 0 {
                    (args.objtype, args.createattrs) = (CreateType::Directory, Fattr::default());
                }
            }
            Argument::Rename(args) => (args.oldname, args.newname) = (name, random.of(&NAMES)),
            Argument::Link(args) => args.newname = name,
            Argument::Open(args) => {
                args.share_access.0 = 1 + args.share_access.0 % 3;
                args.share_deny.0 %= if random.below(4) == 0 { 4 } else { 1 };
                match random.below(4) {
                    0 => {}
                    1 => args.claim = OpenClaim::Fh,
                    _ => args.claim = OpenClaim::Null(name),
                }
                if random.below(4) > 0 {
                    args.openhow = OpenFlag::Create(CreateHow::Unchecked(Fattr::default()));
                }
            }
            Argument::Read(args) => args.stateid = stateid,
            Argument::Write(args) => args.stateid = stateid,
            Argument::Close(args) => args.open_stateid = stateid,
            Argument::OpenDowngrade(args) => args.open_stateid = stateid,
            Argument::Setattr(args) => args.stateid = stateid,
            Argument::Locku(args) => args.lock_stateid = stateid,
            Argument::FreeStateid(args) => args.stateid = stateid,
            Argument::Lock(args) => {
                args.reclaim &= random.below(8) == 0;
                match &mut args.locker {
                    Locker::New(new) => new.open_stateid = stateid,
                    Locker::Existing(existing) => existing.lock_stateid = stateid,
                }
            }
            Argument::Allocate(args) => args.stateid = stateid,
            Argument::Seek(args) => args.stateid = stateid,
            _ => {}
        }
        // Mostly with a plausible object: names in a directory, stateids on their file.
        let (at_directory, at_file) = (random.of(&self.handles[1..HANDLES]), &self.stateids[self.chosen].1);
        let takes_name = [Op::OPEN, Op::CREATE, Op::REMOVE, Op::RENAME, Op::LINK, Op::LOOKUP].contains(&op);
        let mut all = match random.below(4) {
            0 => vec![],
            _ if takes_name => vec![put(at_directory), Argument::Savefh],
            _ => vec![put(at_file)],
        };
        all.push(argument);
        if op == Op::OPEN {
            // The handle of an opened file is needed later.
            all.push(Argument::Getfh);
        }
        all.iter().for_each(|one| one.encode(&mut Writer::new(encoded)));
        u32::try_from(all.len()).unwrap()
    }

    fn learn(&mut self, results: &[OpReply<'_>]) {
        let mut opened = None;
        for result in results {
            let encoded = result.to_bytes();
            if encoded[4..8] == Status::OK.0.to_be_bytes() {
                *self.done.entry(result.op()).or_default() += 1;
            }
            match result {
                OpReply::Open(Reply::Ok(ok)) => opened = Some(ok.stateid),
                OpReply::Lock(LockReply::Ok(stateid)) => {
                    let file = self.stateids[self.chosen].1.clone();
                    self.keep(*stateid, file);
                }
                OpReply::Getfh(Reply::Ok(ok)) => {
                    let handle = ok.object.0.to_vec();
                    if let Some(stateid) = opened.take() {
                        self.keep(stateid, handle.clone());
                    }
                    self.handles.push(handle);
                    let surplus = self.handles.len().saturating_sub(RETAINED);
                    self.handles.drain(HANDLES..HANDLES + surplus);
                }
                _ => {}
            }
        }
    }

    /// Keeps a stateid, or its newest sequence number.
    fn keep(&mut self, stateid: Stateid, handle: Vec<u8>) {
        match self.stateids.iter_mut().find(|(known, _)| known.other == stateid.other) {
            Some(known) => known.0 = stateid,
            None => self.stateids.push((stateid, handle)),
        }
        let surplus = self.stateids.len().saturating_sub(RETAINED);
        self.stateids.drain(..surplus);
    }
}

/// Runs random compounds.
fn play(minor: u32, seed: u64, compounds: usize) -> (Client, Seen) {
    let env = TestEnv::new([export("/e", 1, vec![rule(&[])]), export("/x/y", 2, vec![rule(&[])])], vec![]);
    let client = Client::new(env, minor);
    let handles = vec![client.handle(&[]), client.handle(&[b"e"]), client.handle(&[b"x", b"y"])];
    client.status(&[Argument::ReclaimComplete(ReclaimCompleteArgs { one_fs: false })]);
    let stateids = vec![(Stateid::ANONYMOUS, handles[1].clone())];
    let mut seen = Seen { handles, stateids, chosen: 0, done: BTreeMap::new() };
    let mut random = Random(seed);
    for _ in 0..compounds {
        seen.chosen = random.below(seen.stateids.len());
        let file = match random.below(2) {
            0 => &seen.stateids[seen.chosen].1,
            _ => random.of(&seen.handles),
        };
        let mut encoded = put(file).to_bytes();
        let more = random.below(6);
        let operations = 1 + (0..more).map(|_| seen.add_operation(&mut random, &mut encoded)).sum::<u32>();
        if random.below(16) == 0 {
            let at = random.below(encoded.len());
            encoded[at] ^= 1 << random.below(8);
        }
        let results = client.ask_encoded(operations, &encoded);
        // Panics if the reply is malformed.
        let results = results.all();
        assert!(results.len() <= operations as usize);
        seen.learn(&results);
    }
    (client, seen)
}

#[test]
fn random_compounds_get_replies_and_leak_nothing() {
    for (minor, seed) in [(1, 1), (2, 2)] {
        let (client, seen) = play(minor, seed, 8000);
        let done = [Op::OPEN, Op::LOCK, Op::LOCKU, Op::CLOSE, Op::READ, Op::WRITE, Op::CREATE, Op::REMOVE];
        for op in done {
            assert!(seen.done.contains_key(&op), "{op:?} never had an effect: {:?}", seen.done);
        }
        assert!(seen.done.len() >= 25, "{} operations had an effect: {:?}", seen.done.len(), seen.done);
        let volumes = client.env.service.namespace.load_full();
        let is_unclaimed = || volumes.exports().iter().all(|export| export.volume.claims().is_empty());
        assert!(!is_unclaimed(), "something is open");
        (0..100_000).for_each(|_| client.env.service.v4.tick());
        assert!(is_unclaimed(), "what nobody holds any more is gone");
    }
}

#[test]
fn random_compounds_without_session_get_replies() {
    let (_, seen) = play(0, 3, 8000);
    for op in [Op::CREATE, Op::REMOVE, Op::RENAME, Op::READDIR, Op::SETCLIENTID] {
        assert!(seen.done.contains_key(&op), "{op:?} never had an effect: {:?}", seen.done);
    }
}
