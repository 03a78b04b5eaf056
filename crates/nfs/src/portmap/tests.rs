use super::{Registration, Transport};
use crate::programs::Programs;
use crate::testing::{NOW, TestEnv, words};
use nfs_wire::portmap::{
    Mapping, PMAP_VERSION, PROGRAM, PmapProcedure, RPCB_VERSION_3, RPCB_VERSION_4, Rpcb, RpcbEntry,
    RpcbProcedure, Semantics, Uaddr,
};
use nfs_wire::rpc::{Accepted, Versions};
use xdr::{Encode, List};

const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;
const TCP: u32 = 6;
const UDP: u32 = 17;

/// NFS and MOUNT on port 2049, the port mapper on 111 over TCP and UDP, all on one address.
pub(crate) fn env(address: &str) -> TestEnv {
    let address = |port| (address.parse::<std::net::IpAddr>().unwrap(), port).into();
    let portmap = Programs { portmap: true, ..Programs::default() };
    let nfs = Programs { nfs: true, mount: true, ..Programs::default() };
    let registered = [
        Registration::of(portmap, Transport::Tcp, address(111)),
        Registration::of(portmap, Transport::Udp, address(111)),
        Registration::of(nfs, Transport::Tcp, address(2049)),
    ];
    TestEnv::new([], registered.concat())
}

fn port(env: &TestEnv, prog: u32, vers: u32, prot: u32) -> u32 {
    let wanted = Mapping { prog, vers, prot, port: 0 };
    let reply = env.ask(PROGRAM, PMAP_VERSION, PmapProcedure::GETPORT.0, &wanted).unwrap();
    u32::from_be_bytes(reply.try_into().unwrap())
}

fn wanted(prog: u32, vers: u32, netid: &str) -> Rpcb<'_> {
    Rpcb { prog, vers, netid: netid.as_bytes(), addr: b"10.1.0.1.0.111", owner: b"root" }
}

#[track_caller]
fn assert_address(env: &TestEnv, prog: u32, vers: u32, netid: &str, address: &str) {
    for version in [RPCB_VERSION_3, RPCB_VERSION_4] {
        let reply = env.ask(PROGRAM, version, RpcbProcedure::GETADDR.0, &wanted(prog, vers, netid));
        assert_eq!(reply, Ok(Uaddr(address.as_bytes()).to_bytes()), "version {version}");
    }
}

#[test]
fn getport_tells_the_port() {
    let env = env("10.1.0.1");
    assert_eq!(port(&env, NFS, 3, TCP), 2049);
    assert_eq!(port(&env, MOUNT, 3, TCP), 2049);
    assert_eq!(port(&env, MOUNT, 1, TCP), 2049);
    assert_eq!([2, 3, 4].map(|vers| port(&env, PROGRAM, vers, UDP)), [111; 3]);
    assert_eq!([2, 3, 4].map(|vers| port(&env, PROGRAM, vers, TCP)), [111; 3]);
    assert_eq!(port(&env, NFS, 3, UDP), 0, "not served by UDP");
    assert_eq!([2, 4].map(|vers| port(&env, NFS, vers, TCP)), [0; 2], "versions not served");
    assert_eq!(port(&env, MOUNT, 2, TCP), 0);
    assert_eq!(port(&env, 100_021, 4, TCP), 0, "program not served");
    assert_eq!(port(&env, NFS, 3, 1), 0, "no protocol of ours");
    let reply = env.ask(PROGRAM, PMAP_VERSION, 3, &Mapping { prog: NFS, vers: 3, prot: TCP, port: 9 });
    assert_eq!(reply, Ok(vec![0, 0, 8, 1]), "the port in the question is ignored");
}

#[test]
fn dump_lists_all_mappings() {
    let map = |prog, vers, prot, port| Mapping { prog, vers, prot, port };
    let expected = List(vec![
        map(PROGRAM, 4, TCP, 111),
        map(PROGRAM, 3, TCP, 111),
        map(PROGRAM, 2, TCP, 111),
        map(PROGRAM, 4, UDP, 111),
        map(PROGRAM, 3, UDP, 111),
        map(PROGRAM, 2, UDP, 111),
        map(NFS, 3, TCP, 2049),
        map(MOUNT, 3, TCP, 2049),
        map(MOUNT, 1, TCP, 2049),
    ]);
    for address in ["10.1.0.1", "0.0.0.0", "::", "::ffff:10.1.0.1"] {
        let reply = env(address).ask(PROGRAM, PMAP_VERSION, PmapProcedure::DUMP.0, &());
        assert_eq!(reply, Ok(expected.to_bytes()), "{address}");
    }
    let reply = env("fd00::1").ask(PROGRAM, PMAP_VERSION, PmapProcedure::DUMP.0, &());
    assert_eq!(reply, Ok(words(&[0])), "version 2 has no words for IPv6");
    assert_eq!(port(&env("fd00::1"), NFS, 3, TCP), 0);
}

#[test]
fn getaddr_tells_the_address_listened_on() {
    let v4 = env("10.1.0.1");
    assert_address(&v4, NFS, 3, "tcp", "10.1.0.1.8.1");
    assert_address(&v4, PROGRAM, 4, "udp", "10.1.0.1.0.111");
    assert_address(&v4, NFS, 3, "udp", "");
    assert_address(&v4, NFS, 3, "tcp6", "");
    assert_address(&v4, 100_021, 4, "tcp", "");
    assert_address(&v4, NFS, 3, "", "10.1.0.1.8.1");
    assert_address(&v4, NFS, 3, "ticlts", "10.1.0.1.8.1");
    let mut v6 = env("fd00::1");
    assert_address(&v6, NFS, 3, "tcp6", "fd00::1.8.1");
    assert_address(&v6, NFS, 3, "tcp", "");
    v6.local = "fd00::1";
    assert_address(&v6, NFS, 3, "", "fd00::1.8.1");
}

#[test]
fn getaddr_tells_where_the_client_has_reached_us() {
    let mut v4 = env("0.0.0.0");
    assert_address(&v4, NFS, 3, "tcp", "10.1.0.1.8.1");
    v4.local = "192.168.7.7";
    assert_address(&v4, NFS, 3, "tcp", "192.168.7.7.8.1");
    let mut both = env("::");
    both.local = "::ffff:10.1.0.1";
    assert_address(&both, NFS, 3, "tcp", "10.1.0.1.8.1");
    assert_address(&both, NFS, 3, "tcp6", "::.8.1");
    both.local = "fd00::7";
    assert_address(&both, NFS, 3, "tcp6", "fd00::7.8.1");
    assert_address(&both, NFS, 3, "tcp", "0.0.0.0.8.1");
    assert_address(&both, NFS, 3, "", "fd00::7.8.1");
}

#[test]
fn getversaddr_insists_on_the_version() {
    let env = env("10.1.0.1");
    let ask = |vers| {
        let procedure = RpcbProcedure::GETVERSADDR.0;
        env.ask(PROGRAM, RPCB_VERSION_4, procedure, &wanted(MOUNT, vers, "tcp")).unwrap()
    };
    assert_eq!(ask(1), Uaddr(b"10.1.0.1.8.1").to_bytes());
    assert_eq!(ask(2), Uaddr(b"").to_bytes());
    assert_address(&env, MOUNT, 2, "tcp", "10.1.0.1.8.1");
}

#[test]
fn lists_of_version_4_name_every_transport() {
    let env = env("10.1.0.1");
    let list = |prog, vers| {
        let procedure = RpcbProcedure::GETADDRLIST.0;
        env.ask(PROGRAM, RPCB_VERSION_4, procedure, &wanted(prog, vers, "tcp")).unwrap()
    };
    let tcp = RpcbEntry {
        maddr: b"10.1.0.1.0.111",
        nc_netid: b"tcp",
        nc_semantics: Semantics::COTS_ORD,
        nc_protofmly: b"inet",
        nc_proto: b"tcp",
    };
    let udp = RpcbEntry { nc_netid: b"udp", nc_semantics: Semantics::CLTS, nc_proto: b"udp", ..tcp };
    assert_eq!(list(PROGRAM, 2), List(vec![tcp, udp]).to_bytes());
    assert_eq!(list(NFS, 3), List(vec![RpcbEntry { maddr: b"10.1.0.1.8.1", ..tcp }]).to_bytes());
    assert_eq!(list(NFS, 4), words(&[0]));
}

#[test]
fn dump_of_rpcbind_names_every_family() {
    let mut env = env("::");
    env.service.registered.retain(|registration| registration.program == MOUNT && registration.version == 3);
    let line = |netid: &'static [u8], addr: &'static [u8]| Rpcb {
        prog: MOUNT,
        vers: 3,
        netid,
        addr,
        owner: b"plimsoll",
    };
    let expected = List(vec![line(b"tcp", b"10.1.0.1.8.1"), line(b"tcp6", b"::.8.1")]).to_bytes();
    for version in [RPCB_VERSION_3, RPCB_VERSION_4] {
        assert_eq!(env.ask(PROGRAM, version, RpcbProcedure::DUMP.0, &()), Ok(expected.clone()));
    }
}

#[test]
fn nobody_changes_what_is_registered() {
    let env = env("10.1.0.1");
    let before = env.ask(PROGRAM, PMAP_VERSION, PmapProcedure::DUMP.0, &());
    for procedure in [PmapProcedure::SET.0, PmapProcedure::UNSET.0] {
        let mapping = Mapping { prog: NFS, vers: 3, prot: TCP, port: 6666 };
        assert_eq!(env.ask(PROGRAM, PMAP_VERSION, procedure, &mapping), Ok(words(&[0])));
        for version in [RPCB_VERSION_3, RPCB_VERSION_4] {
            assert_eq!(env.ask(PROGRAM, version, procedure, &wanted(NFS, 3, "tcp")), Ok(words(&[0])));
        }
    }
    assert_eq!(env.ask(PROGRAM, PMAP_VERSION, PmapProcedure::DUMP.0, &()), before);
}

#[test]
fn the_rest_is_answered_or_refused() {
    let env = env("10.1.0.1");
    let seconds = u32::try_from(NOW.seconds).unwrap();
    for version in [RPCB_VERSION_3, RPCB_VERSION_4] {
        assert_eq!(env.ask(PROGRAM, version, RpcbProcedure::GETTIME.0, &()), Ok(words(&[seconds])));
    }
    for version in 2..=4 {
        assert_eq!(env.ask(PROGRAM, version, 0, &()), Ok(vec![]), "NULL of version {version}");
        assert_eq!(env.ask(PROGRAM, version, 3, &()), Err(Accepted::GarbageArgs));
    }
    // CALLIT, BCAST and INDIRECT, with valid arguments; procedures of version 4 in version 3; unknown procedures.
    let unavailable = [
        (2, 5),
        (2, 6),
        (3, 5),
        (3, 7),
        (3, 8),
        (3, 9),
        (3, 11),
        (4, 5),
        (4, 7),
        (4, 8),
        (4, 10),
        (4, 12),
        (4, 13),
    ];
    for (version, procedure) in unavailable {
        let reply = env.ask(PROGRAM, version, procedure, &wanted(NFS, 3, "tcp"));
        assert_eq!(reply, Err(Accepted::ProcUnavail), "procedure {procedure} of version {version}");
    }
    for version in [1, 5] {
        let mismatch = Accepted::ProgMismatch(Versions { low: 2, high: 4 });
        assert_eq!(env.ask(PROGRAM, version, 0, &()), Err(mismatch));
    }
}
