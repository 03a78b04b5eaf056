//! Clients that exhaust tables, beside one that needs little.

use super::*;
use crate::testing::v4::{Client as Asker, Host, at, put};
use crate::testing::{TestEnv, export, rule};
use nfs_wire::v4::{
    Argument, CbClient, ClientOwner, CreateArgs, CreateType, DestroyClientidArgs, DestroySessionArgs,
    ExchangeIdArgs, ExchangeIdFlags, ExchangeIdReply, Fattr, LockArgs, LockType, Locker, NetAddr,
    NfsClientId, OpReply, OpenArgs, OpenClaim, OpenFlag, OpenToLockOwner, ReclaimCompleteArgs, RenewArgs,
    Reply, SessionId, SetclientidArgs, SetclientidConfirmArgs, SetclientidReply, ShareAccess, ShareDeny,
    StateOwner, StateProtect, Stateid,
};
use vfs::{Caller, Disposition, PendingSync, SetAttrs};

const LEASE_S: u64 = 30;
const MINORS: [u32; 3] = [0, 1, 2];
/// Entries of a small table, and the number that a newcomer gets at least while one network fills it.
const ALL: usize = 1320;
const NEWCOMER: usize = ALL / 8 / 33;

/// A service whose export `/e` with the file `f` is for 10.1.0.0/16, and its clients of one minor version.
struct Rig {
    asker: Asker,
    minor: u32,
}

struct Guest {
    peer: String,
    user: (u32, u32),
    name: Vec<u8>,
    host: Host,
    /// The client id in 4.0.
    id: u64,
}

impl Rig {
    fn new(minor: u32) -> Self {
        let env = TestEnv::new([export("/e", 1, vec![rule(&["10.1.0.0/16"])])], vec![]);
        let root = env.service.namespace.load().exports()[0].root();
        let (caller, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
        let set = SetAttrs { mode: Some(0o666), ..SetAttrs::default() };
        root.create(&caller, b"f", Disposition::CreateNew, &set, &mut pending).unwrap();
        root.set_attrs(&caller, &SetAttrs { mode: Some(0o777), ..SetAttrs::default() }, None, &mut pending)
            .unwrap();
        Self { asker: Asker::new(env, minor), minor }
    }

    fn tables(&mut self) -> &mut Tables {
        &mut self.asker.env.service.v4.tables
    }

    fn state(&self) -> &ServiceState {
        &self.asker.env.service.v4
    }

    fn on<R>(&mut self, guest: &mut Guest, act: impl FnOnce(&mut Self, &Guest) -> R) -> R {
        let before = self.asker.env.peer;
        self.asker.swap(&mut guest.host);
        (self.asker.env.peer, self.asker.env.user) = (guest.peer.parse().unwrap(), guest.user);
        let done = act(self, guest);
        self.asker.env.peer = before;
        self.asker.swap(&mut guest.host);
        done
    }

    /// A client that introduces itself and, since 4.1, makes a session.
    fn try_guest(&mut self, address: &str, name: &[u8]) -> Result<Guest, Status> {
        let (peer, host) = (format!("{address}:700"), Host::default());
        let mut guest = Guest { peer, user: (0, 0), name: name.into(), host, id: 0 };
        guest.id = self.on(&mut guest, |rig, guest| rig.introduce(&guest.name))?;
        Ok(guest)
    }

    fn guest(&mut self, address: &str, name: &[u8]) -> Guest {
        self.try_guest(address, name).unwrap()
    }

    fn introduce(&mut self, name: &[u8]) -> Result<u64, Status> {
        if self.minor > 0 {
            self.asker.try_be(name)?;
            let complete = Argument::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
            assert_eq!(self.asker.status(&[complete]), Status::OK);
            return Ok(0);
        }
        let (clientid, setclientid_confirm) = self.ask_id(name)?;
        let confirm = SetclientidConfirmArgs { clientid, setclientid_confirm };
        match self.asker.status(&[Argument::SetclientidConfirm(confirm)]) {
            Status::OK => Ok(clientid),
            status => Err(status),
        }
    }

    /// SETCLIENTID alone.
    fn ask_id(&self, name: &[u8]) -> Result<(u64, [u8; 8]), Status> {
        let asked = SetclientidArgs {
            client: NfsClientId { verifier: [1; 8], id: name },
            callback: CbClient { cb_program: 0, cb_location: NetAddr::default() },
            callback_ident: 0,
        };
        let results = self.asker.ask(&[Argument::Setclientid(asked)]);
        match &*results.all() {
            [OpReply::Setclientid(SetclientidReply::Ok(ok))] => Ok((ok.clientid, ok.setclientid_confirm)),
            _ => Err(results.status()),
        }
    }

    /// EXCHANGE_ID alone.
    fn exchange_id(&self, name: &[u8], verifier: u8) -> Result<u64, Status> {
        let introduction = ExchangeIdArgs {
            clientowner: ClientOwner { verifier: [verifier; 8], ownerid: name },
            flags: ExchangeIdFlags(0),
            state_protect: StateProtect::None,
            client_impl_id: None,
        };
        let results = self.asker.run_alone(&Argument::ExchangeId(introduction));
        match &*results.all() {
            [OpReply::ExchangeId(ExchangeIdReply::Ok(ok))] => Ok(ok.clientid),
            _ => Err(results.status()),
        }
    }

    /// Introduces a client and does nothing more.
    fn only_introduce(&self, name: &[u8]) -> Result<(), Status> {
        if self.minor > 0 { self.exchange_id(name, 1).map(drop) } else { self.ask_id(name).map(drop) }
    }

    /// An OPEN of `f` by an owner of its own.
    fn open(&mut self, guest: &mut Guest, owner: usize) -> Result<Stateid, Status> {
        let owner = owner.to_be_bytes();
        self.on(guest, |rig, guest| {
            let open = Argument::Open(OpenArgs {
                seqid: 1,
                share_access: ShareAccess::BOTH,
                share_deny: ShareDeny::NONE,
                owner: StateOwner { clientid: guest.id, owner: &owner },
                openhow: OpenFlag::NoCreate,
                claim: OpenClaim::Null(b"f"),
            });
            let results = rig.asker.ask(&at(&[b"e"], [open]));
            match results.all().last() {
                // Before 4.1, the open of a new owner ends after a lease unless it is confirmed.
                Some(OpReply::Open(Reply::Ok(ok))) if rig.minor == 0 => {
                    rig.asker.confirm_open(&[b"e", b"f"], ok.stateid, 2)
                }
                Some(OpReply::Open(Reply::Ok(ok))) => Ok(ok.stateid),
                _ => Err(results.status()),
            }
        })
    }

    /// Opens by one owner after another, until one is refused: how many there are, and the refusal.
    fn open_all(&mut self, guest: &mut Guest) -> (usize, Status) {
        self.open_up_to(guest, 0, usize::MAX)
    }

    fn open_up_to(&mut self, guest: &mut Guest, first: usize, most: usize) -> (usize, Status) {
        for count in 0..most {
            if let Err(status) = self.open(guest, first + count) {
                return (count, status);
            }
        }
        (most, Status::OK)
    }

    /// Renews the lease of a client.
    fn renew(&mut self, guest: &mut Guest) -> Status {
        self.on(guest, |rig, guest| match rig.minor {
            0 => rig.asker.status(&[Argument::Renew(RenewArgs { clientid: guest.id })]),
            _ => rig.asker.status(&[Argument::Putrootfh]),
        })
    }

    /// Lets time pass in which only these clients renew their leases.
    fn pass(&mut self, seconds: u64, active: &mut [&mut Guest]) {
        for _ in 0..seconds {
            self.state().tick();
            for guest in active.iter_mut() {
                assert_eq!(self.renew(guest), Status::OK);
            }
        }
    }
}

#[test]
fn opens_of_a_client_that_falls_silent_give_way_and_within_its_lease_a_newcomer_finds_its_reserve() {
    for minor in MINORS {
        let mut rig = Rig::new(minor);
        rig.tables().states = Bounds::new(ALL, 0);
        let mut greedy = rig.guest("10.1.0.20", b"greedy");
        let (granted, refused) = rig.open_all(&mut greedy);
        assert_eq!(refused, Status::DELAY, "4.{minor}");
        assert!((ALL / 8..ALL / 2).contains(&granted), "4.{minor}: {granted}");
        greedy.user = (7, 7);
        assert!(rig.open_up_to(&mut greedy, 5000, 2).1 == Status::OK, "4.{minor}: another user of its host");
        let mut others: Vec<Guest> =
            (30..35).map(|host| rig.guest(&format!("10.1.0.{host}"), &[host])).collect();
        others.iter_mut().for_each(|other| _ = rig.open_all(other));
        let mut newcomer = rig.guest("10.1.0.21", b"newcomer");
        let (first, refused) = rig.open_all(&mut newcomer);
        assert!(first >= NEWCOMER, "4.{minor}: {first}");
        assert_eq!(refused, Status::DELAY, "4.{minor}");
        for other in others.iter_mut().chain([&mut greedy]) {
            assert_eq!(rig.renew(other), Status::OK, "4.{minor}: nobody loses anything within its lease");
        }
        rig.pass(LEASE_S + 1, &mut [&mut newcomer]);
        let (more, _) = rig.open_up_to(&mut newcomer, first, ALL / 8);
        assert_eq!(more, ALL / 8, "4.{minor}: those that are silent give way");
        let ended = if minor == 0 { Status::EXPIRED } else { Status::BADSESSION };
        assert_eq!(rig.renew(&mut greedy), ended, "4.{minor}: the one that was silent for longest has gone");
    }
}

#[test]
fn a_client_that_has_much_costs_those_nothing_that_are_silent_and_have_little() {
    for minor in MINORS {
        let mut rig = Rig::new(minor);
        rig.tables().states = Bounds::new(ALL, 0);
        let mut modest = rig.guest("10.1.0.20", b"modest");
        assert_eq!(rig.open_up_to(&mut modest, 0, 2).1, Status::OK);
        let mut greedy = rig.guest("10.1.0.21", b"greedy");
        rig.pass(LEASE_S + 1, &mut [&mut greedy]);
        assert_eq!(rig.open_all(&mut greedy).1, Status::DELAY);
        assert_eq!(rig.renew(&mut modest), Status::OK, "4.{minor}");
        assert!(rig.open(&mut modest, 9).is_ok(), "4.{minor}: what it has is its own again");
    }
}

#[test]
fn byte_ranges_of_a_client_that_falls_silent_give_way() {
    for minor in [1, 2] {
        let mut rig = Rig::new(minor);
        rig.tables().ranges = Bounds::new(ALL, 0);
        let lock_all = |rig: &mut Rig, guest: &mut Guest, first: u64| {
            let open_stateid = rig.open(guest, usize::try_from(first).unwrap()).unwrap();
            let handle = rig.asker.handle(&[b"e", b"f"]);
            rig.on(guest, |rig, guest| {
                for number in 0..ALL as u64 {
                    let owner = number.to_be_bytes();
                    let lock_owner = StateOwner { clientid: guest.id, owner: &owner };
                    let new = OpenToLockOwner { open_seqid: 0, open_stateid, lock_seqid: 0, lock_owner };
                    let (offset, locker) = (first + 2 * number, Locker::New(new));
                    let locktype = LockType::Write;
                    let lock = LockArgs { locktype, reclaim: false, offset, length: 1, locker };
                    let status = rig.asker.status(&[put(&handle), Argument::Lock(lock)]);
                    if status != Status::OK {
                        return (number, status);
                    }
                }
                panic!("all of them")
            })
        };
        let mut greedy = rig.guest("10.1.0.20", b"greedy");
        let (granted, refused) = lock_all(&mut rig, &mut greedy, 0);
        assert_eq!(refused, Status::DELAY, "4.{minor}");
        assert!(granted < ALL as u64 / 2, "4.{minor}: {granted}");
        let mut newcomer = rig.guest("10.1.0.21", b"newcomer");
        let (first, _) = lock_all(&mut rig, &mut newcomer, 100_000);
        assert!(first >= NEWCOMER as u64, "4.{minor}: {first}");
        rig.pass(LEASE_S + 1, &mut [&mut newcomer]);
        let (more, _) = lock_all(&mut rig, &mut newcomer, 200_000);
        assert!(first + more >= granted / 2, "4.{minor}: {more}");
        assert_eq!(rig.renew(&mut greedy), Status::BADSESSION, "4.{minor}");
    }
}

#[test]
fn open_owners_of_a_client_that_falls_silent_give_way() {
    let mut rig = Rig::new(0);
    rig.tables().open_owners = Bounds::new(ALL, 0);
    let mut greedy = rig.guest("10.1.0.20", b"greedy");
    let (granted, refused) = rig.open_all(&mut greedy);
    assert_eq!(refused, Status::DELAY);
    assert!(granted < ALL / 2, "{granted}");
    let mut newcomer = rig.guest("10.1.0.21", b"newcomer");
    let (first, _) = rig.open_all(&mut newcomer);
    assert!(first >= NEWCOMER, "{first}");
    rig.pass(LEASE_S + 1, &mut [&mut newcomer]);
    assert_eq!(rig.open_up_to(&mut newcomer, 5000, 2).1, Status::OK);
}

#[test]
fn strangers_keep_no_client_out() {
    for minor in MINORS {
        let mut rig = Rig::new(minor);
        for number in 0..2 * crate::limits::INTRODUCTIONS_MAX {
            let [.., high, low] = number.to_be_bytes();
            rig.asker.reconnect(&format!("192.0.{high}.{low}:700"));
            rig.only_introduce(&number.to_be_bytes()).unwrap();
        }
        let strangers = crate::limits::CLIENTS_MAX / STRANGERS;
        let made = (0..2 * strangers).map(|number| {
            let [.., high, low] = number.to_be_bytes();
            rig.try_guest(&format!("198.51.{high}.{low}"), &number.to_be_bytes()).is_ok()
        });
        let made = made.filter(|is_made| *is_made).count();
        assert!((1..=strangers).contains(&made), "4.{minor}: {made} strangers have a client each");
        for host in 1..=250 {
            let mut real = rig.guest(&format!("10.1.1.{host}"), &[host]);
            assert!(rig.open(&mut real, 0).is_ok(), "4.{minor}");
        }
        // Newcomers evict the oldest entries.
        rig.asker.reconnect("192.0.2.9:700");
        assert_eq!(rig.only_introduce(b"last"), Ok(()), "4.{minor}");
    }
}

#[test]
fn one_network_of_strangers_has_half_of_what_there_is_for_them() {
    for minor in MINORS {
        let mut rig = Rig::new(minor);
        let all = crate::limits::CLIENTS_MAX / STRANGERS;
        let fill = |rig: &mut Rig, network: u16| {
            let guest = |number: usize| {
                let address = format!("[2001:db8:0:{network:x}::{number:x}]");
                rig.try_guest(&address, &[&network.to_be_bytes()[..], &number.to_be_bytes()].concat())
            };
            (0..all).map(guest).take_while(Result::is_ok).count()
        };
        let (first, second) = (fill(&mut rig, 1), fill(&mut rig, 2));
        assert!(first < all / 2 && second > all / 8, "4.{minor}: {first}, {second}");
    }
}

#[test]
fn a_stranger_takes_no_name_of_a_client() {
    for minor in MINORS {
        let mut rig = Rig::new(minor);
        let mut stranger = rig.guest("192.0.2.1", b"host");
        let mut real = rig.guest("10.1.0.20", b"host");
        assert!(rig.open(&mut real, 0).is_ok(), "4.{minor}: it has the name although the stranger was first");
        for guest in [&mut real, &mut stranger] {
            assert_eq!(rig.renew(guest), Status::OK, "4.{minor}: neither ends the other");
        }
        rig.pass(LEASE_S + 1, &mut []);
        rig.asker.reconnect("192.0.2.3:700");
        rig.asker.lose_memory();
        rig.guest("192.0.2.3", b"host");
        assert_eq!(rig.renew(&mut real), Status::OK, "4.{minor}: nor once its lease is over");
    }
}

#[test]
fn an_admitted_host_with_the_same_name_drops_no_introduction() {
    let rig = &mut Rig::new(1);
    rig.asker.reconnect("10.1.0.20:700");
    let real = rig.exchange_id(b"host", 1).unwrap();
    rig.asker.reconnect("10.1.0.21:700");
    rig.exchange_id(b"host", 2).unwrap();
    assert!(rig.state().client(real).is_ok());
}

#[test]
fn nobody_else_ends_a_client() {
    let rig = &mut Rig::new(1);
    rig.asker.reconnect("10.1.0.20:700");
    let clientid = rig.exchange_id(b"host", 1).unwrap();
    let destroy = Argument::DestroyClientid(DestroyClientidArgs { clientid });
    for stranger in ["192.0.2.1:700", "10.1.0.21:700"] {
        rig.asker.reconnect(stranger);
        assert_eq!(rig.asker.run_alone(&destroy).status(), Status::STALE_CLIENTID, "{stranger}");
    }
    rig.asker.reconnect("10.1.0.20:701");
    rig.asker.env.user = (7, 7);
    assert_eq!(rig.asker.run_alone(&destroy).status(), Status::WRONG_CRED, "another user of its host");
    rig.asker.env.user = (0, 0);
    let session = rig.asker.try_session(b"host").unwrap();
    let clientid = rig.exchange_id(b"host", 1).unwrap();
    let destroy = Argument::DestroyClientid(DestroyClientidArgs { clientid });
    let destroy_session = |id: SessionId| Argument::DestroySession(DestroySessionArgs { sessionid: id });
    rig.asker.env.user = (7, 7);
    assert_eq!(rig.asker.run_alone(&destroy_session(session)).status(), Status::WRONG_CRED);
    rig.asker.env.user = (0, 0);
    assert_eq!(rig.asker.run_alone(&destroy_session(session)).status(), Status::OK);
    assert_eq!(rig.asker.run_alone(&destroy).status(), Status::OK);
}

#[test]
fn numbers_of_clients_say_nothing_of_others() {
    for minor in [0, 1] {
        let rig = Rig::new(minor);
        let mut numbers: Vec<u64> = (0..100_u8)
            .map(|name| match minor {
                0 => rig.ask_id(&[name]).unwrap().0,
                _ => rig.exchange_id(&[name], 1).unwrap(),
            })
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 100);
        let near = numbers.windows(2).filter(|pair| pair[1] - pair[0] < 1 << 32).count();
        assert!(near < 3, "4.{minor}: {near}");
    }
}

/// Makes a directory in a slot, and asks for it again with the same numbers: both statuses.
fn make_twice(rig: &mut Rig, guest: &mut Guest, slot: u32, name: &[u8]) -> (Status, Status) {
    let create = Argument::Create(CreateArgs {
        objtype: CreateType::Directory,
        objname: name,
        createattrs: Fattr::default(),
    });
    rig.on(guest, |rig, _| {
        let operations = at(&[b"e"], [create]);
        let first = rig.asker.ask_in_slot((slot, 1), &operations).status();
        (first, rig.asker.ask_in_slot((slot, 1), &operations).status())
    })
}

#[test]
fn replies_that_one_client_has_kept_cost_no_other_its_own() {
    for minor in [1, 2] {
        let mut rig = Rig::new(minor);
        rig.tables().cached_replies = Bounds::new(64 << 10, 0);
        let mut hoarder = rig.guest("10.1.0.20", b"hoarder");
        // Each running request reserves room for the longest reply.
        let party = Party::of(rig.asker.env.service.networks.of([10, 1, 0, 20].into())).user(0);
        let reserve = || rig.state().tables.cached_replies.take(&party, 4096).ok();
        let reserved: Vec<Slot> = std::iter::from_fn(reserve).collect();
        assert!(reserved.len() > 1, "4.{minor}");
        let refused = make_twice(&mut rig, &mut hoarder, 1, b"never");
        assert_eq!(refused, (Status::DELAY, Status::DELAY), "4.{minor}");
        let missing = rig.asker.ask(&at(&[b"e", b"never"], [])).status();
        assert_eq!(missing, Status::NOENT, "4.{minor}: what cannot be kept is not done");
        let mut modest = rig.guest("10.1.0.21", b"modest");
        for slot in 1..4 {
            let made = make_twice(
                &mut rig,
                &mut modest,
                slot,
                &slot.to_be_bytes()[3..].iter().map(|byte| byte + b'a').collect::<Vec<_>>(),
            );
            assert_eq!(made, (Status::OK, Status::OK), "4.{minor}: done once, and told again");
        }
        drop(reserved);
        let made = make_twice(&mut rig, &mut hoarder, 1, b"at-last");
        assert_eq!(made, (Status::OK, Status::OK), "4.{minor}: as if it had not come before");
    }
}
