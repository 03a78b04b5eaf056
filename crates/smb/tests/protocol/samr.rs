//! The users and groups, over the pipe `samr`.

use crate::rig::{Client, Opening, Rig, output};
use identity::Group;
use smb::limits::{ACCOUNT_LIST_BYTES_MAX, PIPE_HANDLES_MAX};
use smb_wire::create::CreateDisposition;
use smb_wire::ioctl::CtlCode;
use smb_wire::rpc::{Fault, Syntax, lsarpc, samr};
use smb_wire::types::AccessMask;
use smb_wire::{Encode, FileId, NtStatus};

const MAXIMUM_ALLOWED: u32 = 0x0200_0000;
/// The relative identifiers of alice and bob, and of the group with gid 3000.
const RIDS: [u32; 2] = [3000, 3002];
const GROUP_RID: u32 = 7001;

type Handle = [u8; 20];

/// An open pipe, bound to an interface.
struct Pipe {
    client: Client,
    id: FileId,
}

/// A cursor over results, with NDR alignment.
struct Results {
    bytes: Vec<u8>,
    at: usize,
}

impl Results {
    fn take(&mut self, count: usize, alignment: usize) -> &[u8] {
        let start = self.at.next_multiple_of(alignment);
        self.at = start + count;
        &self.bytes[start..self.at]
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take(2, 2).try_into().unwrap())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4, 4).try_into().unwrap())
    }

    fn u32s(&mut self, count: u32) -> Vec<u32> {
        (0..count).map(|_| self.u32()).collect()
    }

    fn text(&mut self) -> String {
        let [most, offset, actual] = [self.u32(), self.u32(), self.u32()];
        assert_eq!((most, offset), (actual, 0));
        let units: Vec<u16> = (0..actual).map(|_| self.u16()).collect();
        String::from_utf16(&units).unwrap()
    }

    /// An array of 32-bit numbers behind its count and pointer.
    fn longs(&mut self) -> Vec<u32> {
        let [count, pointer, most] = [self.u32(), self.u32(), self.u32()];
        assert!(pointer != 0 && most == count);
        self.u32s(count)
    }

    /// The status, the last field.
    fn status(mut self) -> NtStatus {
        let status = NtStatus(self.u32());
        assert_eq!(self.at, self.bytes.len(), "nothing is behind the status");
        status
    }
}

/// The arguments of a call: a handle, and numbers.
fn stub(handle: Handle, numbers: &[u32]) -> Vec<u8> {
    [&handle[..], numbers.iter().map(|number| number.to_le_bytes()).collect::<Vec<_>>().as_flattened()]
        .concat()
}

fn unit(kind: u8, body: &[u8]) -> Vec<u8> {
    let [low, high] = u16::try_from(16 + body.len()).unwrap().to_le_bytes();
    [&[5, 0, kind, 3, 0x10, 0, 0, 0, low, high, 0, 0, 1, 0, 0, 0][..], body].concat()
}

impl Pipe {
    fn open(rig: &Rig) -> Self {
        Self::bound(rig, "samr", samr::INTERFACE)
    }

    fn bound(rig: &Rig, name: &str, interface: Syntax) -> Self {
        let mut client = rig.alice();
        client.mount("IPC$");
        let access = AccessMask::READ_DATA | AccessMask::WRITE_DATA;
        let id = client.open(name, Opening { access, ..Opening::by(CreateDisposition::OPEN) });
        let mut pipe = Self { client, id };
        let head = [0xd0, 0x16, 0xd0, 0x16, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0];
        let body = [&head[..], &interface.to_bytes(), &Syntax::NDR.to_bytes()].concat();
        let answer = pipe.exchange(&unit(11, &body));
        assert_eq!(answer[2], 12, "the bind succeeds");
        pipe
    }

    /// Writes a PDU and reads the first fragment of the reply.
    fn exchange(&mut self, unit: &[u8]) -> Vec<u8> {
        let reply = self.client.ioctl(self.id, CtlCode::PIPE_TRANSCEIVE, unit, 8192);
        assert_eq!(reply.status(), NtStatus::SUCCESS);
        output(&reply).to_vec()
    }

    /// Runs a call. Returns the reassembled results or the fault.
    fn call(&mut self, opnum: u16, stub: &[u8]) -> Result<Results, Fault> {
        let [low, high] = opnum.to_le_bytes();
        let mut fragment = self.exchange(&unit(0, &[&[0, 0, 0, 0, 0, 0, low, high], stub].concat()));
        let mut bytes = Vec::new();
        loop {
            if fragment[2] == 3 {
                return Err(Fault(u32::from_le_bytes(fragment[24..28].try_into().unwrap())));
            }
            bytes.extend_from_slice(&fragment[24..]);
            if fragment[3] & 2 != 0 {
                return Ok(Results { bytes, at: 0 });
            }
            let reply = self.client.read(self.id, 0, 8192);
            assert_eq!(reply.status(), NtStatus::SUCCESS);
            fragment = reply.body::<smb_wire::file::ReadResponse<&[u8]>>().data.to_vec();
        }
    }

    /// Runs a call that returns a handle.
    #[track_caller]
    fn handle(&mut self, opnum: u16, stub: &[u8]) -> Result<Handle, NtStatus> {
        let mut results = self.call(opnum, stub).unwrap();
        let handle = results.take(20, 4).try_into().unwrap();
        match results.status() {
            NtStatus::SUCCESS => Ok(handle),
            status => Err(status),
        }
    }

    /// A server handle.
    fn connect(&mut self) -> Handle {
        self.handle(0, &stub_of(&[0, MAXIMUM_ALLOWED])).unwrap()
    }

    fn open_domain(&mut self, server: Handle, sid: &[u32]) -> Result<Handle, NtStatus> {
        let count = u32::try_from(sid.len()).unwrap();
        let head = [&[1, u8::try_from(count).unwrap(), 0, 0, 0, 0, 0, 5][..]].concat();
        let stub = [stub(server, &[MAXIMUM_ALLOWED, count]), head, stub_of(sid)].concat();
        self.handle(7, &stub)
    }

    /// A handle of the machine's domain.
    fn domain(&mut self) -> Handle {
        let server = self.connect();
        self.open_domain(server, &[21, 1, 2, 3]).unwrap()
    }

    /// Part of a list: relative identifiers with names, the resume context, and the status.
    fn enumerate(&mut self, opnum: u16, arguments: &[u8]) -> (Vec<(u32, String)>, u32, NtStatus) {
        let mut results = self.call(opnum, arguments).unwrap();
        let context = results.u32();
        let [_, count, _, most] = [results.u32(), results.u32(), results.u32(), results.u32()];
        assert_eq!(count, most);
        let rids: Vec<u32> = (0..count).map(|_| results.u32s(3)[0]).collect();
        let names: Vec<String> = rids.iter().map(|_| results.text()).collect();
        assert_eq!(results.u32(), count);
        (rids.into_iter().zip(names).collect(), context, results.status())
    }
}

fn stub_of(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// An array of texts for `SamrLookupNamesInDomain`.
fn names(names: &[&str]) -> Vec<u8> {
    let count = u32::try_from(names.len()).unwrap();
    let mut bytes = stub_of(&[count, 1000, 0, count]);
    for name in names {
        let length = u32::try_from(2 * name.encode_utf16().count()).unwrap();
        bytes.extend(stub_of(&[length << 16 | length, 1]));
    }
    for name in names {
        let units = u32::try_from(name.encode_utf16().count()).unwrap();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(stub_of(&[units, 0, units]));
        bytes.extend(name.encode_utf16().flat_map(u16::to_le_bytes));
    }
    bytes
}

fn artists(members: &[&str]) -> Group {
    let members = members.iter().map(|member| member.parse().unwrap()).collect();
    Group { name: "Künstler".parse().unwrap(), gid: 3000, members }
}

fn pairs(listed: &[(u32, &str)]) -> Vec<(u32, String)> {
    listed.iter().map(|(rid, name)| (*rid, (*name).to_owned())).collect()
}

#[test]
fn users_and_groups_are_enumerated() {
    let rig = Rig::with_accounts(vec![artists(&["bob"])], 0);
    let mut pipe = Pipe::open(&rig);
    let server = pipe.connect();
    let (domains, context, status) = pipe.enumerate(6, &stub(server, &[0, u32::MAX]));
    assert_eq!((domains, status), (pairs(&[(0, "FILES"), (1, "Builtin")]), NtStatus::SUCCESS));
    assert_eq!(pipe.enumerate(6, &stub(server, &[context, u32::MAX])).0, []);
    let domain = pipe.open_domain(server, &[21, 1, 2, 3]).unwrap();
    let all = |handle| stub(handle, &[0, u32::MAX]);
    let users = |control| stub(domain, &[0, control, u32::MAX]);
    let expected = pairs(&[(RIDS[0], "alice"), (RIDS[1], "bob")]);
    assert_eq!(pipe.enumerate(13, &users(0)), (expected.clone(), RIDS[1], NtStatus::SUCCESS));
    assert_eq!(pipe.enumerate(13, &users(0x10)).0, expected, "they are normal accounts");
    assert_eq!(pipe.enumerate(13, &users(0x80)).0, [], "there are no workstations");
    assert_eq!(pipe.enumerate(11, &all(domain)).0, pairs(&[(513, "None")]));
    assert_eq!(pipe.enumerate(15, &all(domain)).0, pairs(&[(GROUP_RID, "Künstler")]));
    let builtin = pipe.open_domain(server, &[32]).unwrap();
    let expected = pairs(&[(544, "Administrators"), (545, "Users"), (546, "Guests")]);
    assert_eq!(pipe.enumerate(15, &all(builtin)).0, expected);
    assert_eq!(pipe.enumerate(11, &all(builtin)).0, []);
    assert_eq!(pipe.enumerate(13, &stub(builtin, &[0, 0, u32::MAX])).0, []);
    assert_eq!(pipe.open_domain(server, &[21, 1, 2, 4]), Err(NtStatus::NO_SUCH_DOMAIN));
}

/// 10,000 users are listed in parts without duplicates or gaps. No reply exceeds the client's preference, or the limit,
/// by much.
#[test]
fn long_lists_are_paged() {
    let others = 9998;
    let rig = Rig::with_accounts(vec![], others);
    let mut pipe = Pipe::open(&rig);
    let domain = pipe.domain();
    let expected: Vec<u32> = RIDS.into_iter().chain((0..others).map(|number| 5000 + 2 * number)).collect();
    for preferred in [20_000, u32::MAX] {
        let (mut found, mut context, mut calls) = (Vec::new(), 0, 0);
        loop {
            let (part, next, status) = pipe.enumerate(13, &stub(domain, &[context, 0, preferred]));
            let bytes = usize::try_from(preferred).unwrap().min(ACCOUNT_LIST_BYTES_MAX);
            assert!(part.len() <= bytes / 24, "{} entries in {bytes} bytes", part.len());
            found.extend(part.into_iter().map(|(rid, _)| rid));
            (context, calls) = (next, calls + 1);
            if status == NtStatus::SUCCESS {
                break;
            }
            assert_eq!(status, NtStatus::MORE_ENTRIES);
        }
        assert!(found == expected && calls > 3, "{} users in {calls} calls", found.len());
    }
    let (mut found, mut calls) = (Vec::new(), 0);
    loop {
        let index = u32::try_from(found.len()).unwrap();
        let mut results = pipe.call(51, &stub(domain, &[1, index, 4096, u32::MAX])).unwrap();
        let [available, returned] = [results.u32(), results.u32()];
        assert!(available > 700_000 && usize::try_from(returned).unwrap() <= ACCOUNT_LIST_BYTES_MAX);
        let [class, count, _, most] = [results.u32(), results.u32(), results.u32(), results.u32()];
        assert_eq!((class, count), (1, most));
        for place in 0..count {
            let entry = results.u32s(9);
            assert_eq!(entry[0], index + place + 1);
            found.push(entry[1]);
        }
        for place in 0..3 * count {
            assert_eq!(results.text().is_empty(), place % 3 != 0);
        }
        calls += 1;
        match results.status() {
            NtStatus::SUCCESS => break,
            status => assert_eq!(status, NtStatus::MORE_ENTRIES),
        }
    }
    // The order of names equals the order of numbers here.
    assert!(found == expected && calls > 3, "{} users in {calls} calls", found.len());
    let group = pipe.handle(19, &stub(domain, &[MAXIMUM_ALLOWED, 513])).unwrap();
    let mut results = pipe.call(25, &group).unwrap();
    let [_, count, _, _, most] = [results.u32(), results.u32(), results.u32(), results.u32(), results.u32()];
    assert_eq!((count, most), (10_000, 10_000));
    assert!(results.u32s(count) == expected, "all of them are in the group of all");
}

#[test]
fn samr_and_lsarpc_agree() {
    let rig = Rig::with_accounts(vec![artists(&["alice"])], 0);
    let mut pipe = Pipe::open(&rig);
    let domain = pipe.domain();
    let wanted = ["ALICE", "bob", "KÜNSTLER", "none", "nobody", "Administrators"];
    let mut results = pipe.call(17, &[&domain[..], &names(&wanted)].concat()).unwrap();
    let (rids, uses) = (results.longs(), results.longs());
    assert_eq!(rids, [RIDS[0], RIDS[1], GROUP_RID, 513, 0, 0]);
    assert_eq!(uses, [1, 1, 4, 2, 8, 8], "users, an alias, a group, and two unknown names");
    assert_eq!(results.status(), NtStatus::SOME_NOT_MAPPED);
    let mut results =
        pipe.call(18, &[&domain[..], &stub_of(&[4, 1000, 0, 4]), &stub_of(&rids[..4])].concat());
    let results = results.as_mut().unwrap();
    let [count, _, most] = [results.u32(), results.u32(), results.u32()];
    assert_eq!((count, most), (4, 4));
    results.u32s(8);
    let told: Vec<String> = (0..4).map(|_| results.text()).collect();
    assert_eq!(told, ["alice", "bob", "Künstler", "None"]);
    assert_eq!(results.longs(), uses[..4]);
    // The Local Security Authority returns the same names.
    let mut authority = Pipe::bound(&rig, "lsarpc", lsarpc::INTERFACE);
    let policy = authority.handle(44, &[]).unwrap();
    let array = &names(&wanted[..4]);
    let arguments = [&policy[..], &stub_of(&[4, 4]), &array[16..], &[0; 32]].concat();
    let mut results = authority.call(14, &arguments).unwrap();
    let [_, domains, _, _, _] = [results.u32(), results.u32(), results.u32(), results.u32(), results.u32()];
    assert_eq!(domains, 1);
    results.u32s(3);
    assert_eq!(results.text(), "FILES");
    results.u32s(7);
    let [count, _, most] = [results.u32(), results.u32(), results.u32()];
    assert_eq!((count, most), (4, 4));
    for place in 0..4 {
        let name_use = results.u16();
        assert_eq!((u32::from(name_use), results.u32s(2)), (uses[place], vec![rids[place], 0]));
    }
}

#[test]
fn group_memberships_match() {
    let rig = Rig::with_accounts(
        vec![artists(&["bob"]), Group { name: "staff".parse().unwrap(), gid: 100, members: vec![] }],
        0,
    );
    let mut pipe = Pipe::open(&rig);
    let domain = pipe.domain();
    let mut aliases_of = |rid: u32| {
        let sid = [5_u32, 0x0501, 0x0500_0000, 21, 1, 2, 3, rid];
        let arguments = [&domain[..], &stub_of(&[1, 1, 1, 1]), &stub_of(&sid)].concat();
        let mut results = pipe.call(16, &arguments).unwrap();
        let aliases = results.longs();
        assert_eq!(results.status(), NtStatus::SUCCESS);
        aliases
    };
    // The primary group counts: this is its relative identifier.
    assert_eq!(aliases_of(RIDS[0]), [1201]);
    assert_eq!(aliases_of(RIDS[1]), [1201, GROUP_RID]);
    assert_eq!(aliases_of(9999), [] as [u32; 0]);
    for (alias, members) in [(1201, &RIDS[..]), (GROUP_RID, &RIDS[1..])] {
        let handle = pipe.handle(27, &stub(domain, &[MAXIMUM_ALLOWED, alias])).unwrap();
        let mut results = pipe.call(33, &handle).unwrap();
        let [count, _, most] = [results.u32(), results.u32(), results.u32()];
        assert_eq!((count, most), (u32::try_from(members.len()).unwrap(), count));
        results.u32s(count);
        for member in members {
            assert_eq!(results.u32s(8), [5, 0x0501, 0x0500_0000, 21, 1, 2, 3, *member]);
        }
        assert_eq!(results.status(), NtStatus::SUCCESS);
        let mut results = pipe.call(28, &[&handle[..], &[1, 0]].concat()).unwrap();
        assert_eq!(results.u32s(5)[4], count, "the count matches");
    }
    let user = pipe.handle(34, &stub(domain, &[MAXIMUM_ALLOWED, RIDS[1]])).unwrap();
    let mut results = pipe.call(39, &user).unwrap();
    assert_eq!(results.u32s(7)[1..], [1, 0x2_0004, 1, 513, 7, 0][..]);
    // User information has no secrets; classes with nothing but secrets are refused.
    let mut results = pipe.call(36, &[&user[..], &[21, 0]].concat()).unwrap();
    results.u32s(2 + 12 + 20);
    assert_eq!(results.u32s(4), [0; 4], "no hashes");
    for class in [18, 23, 24, 25, 26] {
        let mut results = pipe.call(47, &[&user[..], &[class, 0]].concat()).unwrap();
        assert_eq!(results.u32(), 0);
        assert_eq!(results.status(), NtStatus::INVALID_INFO_CLASS);
    }
}

#[test]
fn only_read_access_is_granted() {
    let rig = Rig::with_accounts(vec![artists(&[])], 0);
    let mut pipe = Pipe::open(&rig);
    let mut connect = |access| pipe.handle(0, &stub_of(&[0, access]));
    // MAXIMUM_ALLOWED, GENERIC_READ, GENERIC_EXECUTE, READ_CONTROL, and the rights that reading needs.
    for access in [MAXIMUM_ALLOWED, 0x8000_0000, 0x2000_0000, 0x2_0000, 0x31] {
        connect(access).unwrap();
    }
    // Shutting down, initializing, creating domains, DELETE, WRITE_DAC, WRITE_OWNER, the system's list, GENERIC_WRITE, GENERIC_ALL.
    for access in
        [2, 4, 8, 0x1_0000, 0x4_0000, 0x8_0000, 0x100_0000, 0x4000_0000, 0x1000_0000, MAXIMUM_ALLOWED | 2]
    {
        assert_eq!(connect(access), Err(NtStatus::ACCESS_DENIED), "{access:#x}");
    }
    let domain = pipe.domain();
    // A user's password, a group's members.
    for (opnum, rid, granted, denied) in
        [(34, RIDS[0], 0x31b, [0x80, 0x40]), (27, GROUP_RID, 0xc, [1, 2]), (19, 513, 0x11, [4, 8])]
    {
        pipe.handle(opnum, &stub(domain, &[granted, rid])).unwrap();
        for access in denied {
            let refused = pipe.handle(opnum, &stub(domain, &[granted | access, rid]));
            assert_eq!(refused, Err(NtStatus::ACCESS_DENIED));
        }
    }
    let missing =
        [(34, NtStatus::NO_SUCH_USER), (27, NtStatus::NO_SUCH_ALIAS), (19, NtStatus::NO_SUCH_GROUP)];
    for (opnum, status) in missing {
        for rid in [0, 500, 501, 9999, u32::MAX] {
            assert_eq!(pipe.handle(opnum, &stub(domain, &[MAXIMUM_ALLOWED, rid])), Err(status));
        }
    }
    let mut results = pipe.call(12, &[0; 64]).unwrap();
    results.u32s(6);
    assert_eq!(results.status(), NtStatus::ACCESS_DENIED, "no user is made");
    let user = pipe.handle(34, &stub(domain, &[MAXIMUM_ALLOWED, RIDS[0]])).unwrap();
    for opnum in [37, 38, 58] {
        assert_eq!(pipe.call(opnum, &user).unwrap().status(), NtStatus::ACCESS_DENIED, "nor changed");
    }
    assert_eq!(pipe.handle(35, &user), Err(NtStatus::ACCESS_DENIED), "nor deleted");
    assert_eq!(pipe.call(99, &user).err(), Some(Fault::OP_RNG_ERROR));
    assert_eq!(pipe.call(34, &user).err(), Some(Fault::NDR), "arguments are missing");
}

/// A handle is valid for its kind, on its pipe, until closed.
#[test]
fn handle_is_bound_to_kind_and_pipe() {
    let rig = Rig::with_accounts(vec![artists(&[])], 0);
    let mut pipe = Pipe::open(&rig);
    let server = pipe.connect();
    let domain = pipe.open_domain(server, &[21, 1, 2, 3]).unwrap();
    let user = pipe.handle(34, &stub(domain, &[MAXIMUM_ALLOWED, RIDS[0]])).unwrap();
    let alias = pipe.handle(27, &stub(domain, &[MAXIMUM_ALLOWED, GROUP_RID])).unwrap();
    let group = pipe.handle(19, &stub(domain, &[MAXIMUM_ALLOWED, 513])).unwrap();
    // Every operation with each kind of handle, with arguments that fit all of them: numbers, and a name of one unit.
    let arguments = [1, 1, 1, 0, 1, 1, 1, 1];
    let of: [(u16, &[Handle]); 16] = [
        (3, &[server, domain, user, alias, group]),
        (5, &[server]),
        (6, &[server]),
        (8, &[domain]),
        (11, &[domain]),
        (13, &[domain]),
        (15, &[domain]),
        (19, &[domain]),
        (20, &[group]),
        (25, &[group]),
        (28, &[alias]),
        (33, &[alias]),
        (36, &[user]),
        (39, &[user]),
        (44, &[user]),
        (51, &[domain]),
    ];
    let mut other = Pipe::open(&rig);
    let theirs = other.connect();
    let unknown = [[0; 20], [0xff; 20], theirs];
    for (opnum, takes) in of {
        let mut call = |handle: Handle| pipe.call(opnum, &stub(handle, &arguments)).err();
        for handle in [server, domain, user, alias, group] {
            let expected = (!takes.contains(&handle)).then_some(Fault::CONTEXT_MISMATCH);
            assert_eq!(call(handle), expected, "operation {opnum}");
        }
        for handle in unknown {
            assert_eq!(call(handle), Some(Fault::CONTEXT_MISMATCH), "operation {opnum}");
        }
    }
    assert_eq!(pipe.handle(1, &user), Ok([0; 20]));
    for opnum in [1, 39] {
        assert_eq!(pipe.call(opnum, &user).err(), Some(Fault::CONTEXT_MISMATCH), "the handle is closed");
    }
    // Other handles stay open; all close with the pipe.
    pipe.call(33, &alias).unwrap();
    pipe.client.close(pipe.id);
    assert_eq!(other.call(33, &alias).err(), Some(Fault::CONTEXT_MISMATCH));
    other.call(6, &stub(theirs, &[0, 0])).unwrap();
}

#[test]
fn handles_per_pipe_are_limited() {
    let rig = Rig::new();
    let mut pipe = Pipe::open(&rig);
    let open: Vec<Handle> = (0..PIPE_HANDLES_MAX).map(|_| pipe.connect()).collect();
    let connect = stub_of(&[0, MAXIMUM_ALLOWED]);
    assert_eq!(pipe.handle(0, &connect), Err(NtStatus::INSUFFICIENT_RESOURCES));
    pipe.handle(1, &open[0]).unwrap();
    pipe.handle(0, &connect).unwrap();
    let mut other = Pipe::open(&rig);
    other.connect();
}
