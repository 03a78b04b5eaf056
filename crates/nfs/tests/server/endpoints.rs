//! Endpoints over real sockets: further addresses of the same port, which are added and removed.

use crate::support::client::{Client, Running, system_clock, wait_until};
use crate::support::{ALICE, OTHER, VOLUME, trusting, volume};
use nfs_wire::v3::{FileHandle, GetattrArgs, Procedure, Status};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use vfs::{Backend, Durability, Export, Namespace};
use vfs_testing::MemFs;

const FIRST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 3, 1));
const SECOND: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 3, 2));

#[test]
fn endpoints_are_added_and_removed_with_their_names() {
    let fs = [(); 2].map(|()| MemFs::new(system_clock()));
    let export = |path: &str, id, fs: &MemFs, endpoints: &[IpAddr]| {
        let volume = volume(id, Arc::new(fs.clone()), Durability::Sync);
        Export::new(path, volume, vec![trusting()]).at(endpoints.to_vec())
    };
    let both = |endpoints: &[IpAddr]| {
        Namespace::new([export("/a", VOLUME, &fs[0], endpoints), export("/b", OTHER, &fs[1], &[SECOND])])
    };
    let running = Running::serving(both(&[FIRST, SECOND]));
    let port = running.address.port();
    let endpoints = running.server.endpoints();
    let listen = |address: IpAddr| endpoints.add(TcpListener::bind((address, port)).unwrap()).unwrap();
    listen(FIRST);
    listen(SECOND);
    let roots = [(VOLUME, &fs[0]), (OTHER, &fs[1])].map(|(id, fs)| running.handle(id, &fs.root().key()));
    let mut xid = 0;
    let mut ask = |client: &mut Client| {
        roots.each_ref().map(|root| {
            xid += 1;
            let found = client.ask(xid, ALICE, Procedure::GETATTR, &GetattrArgs { object: FileHandle(root) });
            Status(u32::from_be_bytes(found[..4].try_into().unwrap()))
        })
    };
    let connect = |address: IpAddr| Client::new(TcpStream::connect((address, port)).unwrap());
    let [mut own, mut first, mut second] = [running.address.ip(), FIRST, SECOND].map(connect);
    assert_eq!(ask(&mut own), [Status::OK, Status::OK], "the service's own address has all");
    assert_eq!(ask(&mut first), [Status::OK, Status::ACCES]);
    assert_eq!(ask(&mut second), [Status::OK, Status::OK]);
    let view = running.server.view();
    let reached = || view.clients()[0].endpoints.clone();
    assert_eq!(reached(), [(running.address.ip(), 1), (FIRST, 1), (SECOND, 1)].into());
    let used = |id| view.users(Duration::from_secs(10)).remove(&id).unwrap_or_default();
    let own_ip = running.address.ip();
    wait_until("the calls counted", || used(VOLUME) == [(own_ip, 1), (FIRST, 1), (SECOND, 1)].into());
    wait_until("those to the other one", || used(OTHER) == [(own_ip, 1), (SECOND, 1)].into());

    // The volume is removed from an endpoint: connected clients lose it immediately, and new ones are refused.
    running.service.namespace.store(Arc::new(both(&[SECOND])));
    endpoints.remove(SocketAddr::new(FIRST, port));
    assert!(TcpStream::connect((FIRST, port)).is_err());
    assert_eq!(ask(&mut first), [Status::ACCES, Status::ACCES]);
    assert_eq!(ask(&mut second), [Status::OK, Status::OK]);
    listen(FIRST);
    running.service.namespace.store(Arc::new(both(&[FIRST])));
    let mut again = connect(FIRST);
    assert_eq!(
        (ask(&mut first), ask(&mut again)),
        ([Status::OK, Status::ACCES], [Status::OK, Status::ACCES])
    );
    assert_eq!(ask(&mut second), [Status::ACCES, Status::OK]);
    running.server.stop(Duration::from_secs(5));
    assert!(TcpStream::connect((FIRST, port)).is_err() && TcpStream::connect((SECOND, port)).is_err());
    assert!(endpoints.add(TcpListener::bind((FIRST, port)).unwrap()).is_err(), "the server has ended");
}
