//! Many more idle connections than a service with few descriptors has room for.

use super::Server;
use super::users::{PASSWORD, USERS};
use bench::Target;
use identity::NtHash;
use nfs_wire::v3::StableHow;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use wire_client::{Client, Identity};

/// A third of them is for files.
const DESCRIPTORS: usize = 1024;

/// A connection from another address of this machine.
fn from(source: [u8; 4], to: SocketAddr) -> TcpStream {
    let fd = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    bind(&fd, &SocketAddr::from((source, 0))).unwrap();
    connect(&fd, &to).unwrap();
    fd.into()
}

/// Mounts, writes and reads.
fn assert_useful(target: &Target) {
    let identity = Identity { nt_hash: Some(NtHash::from_password(PASSWORD)), ..Identity::new(0, 0) };
    let mut client = Client::mount(target, &identity).unwrap();
    let root = client.root();
    let file = client.create(&root, "file", 0o644).unwrap();
    client.write(&file, 0, b"data", StableHow::FileSync).unwrap();
    assert_eq!(client.read(&file, 0, 4).unwrap().data, b"data");
}

fn assert_room(protocols: &str, listen: &str, target: impl Fn(SocketAddr) -> String) {
    let dir = tempfile::tempdir().unwrap();
    let users = dir.path().join("users.toml");
    std::fs::write(&users, USERS).unwrap();
    std::fs::set_permissions(&users, std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut arguments = vec!["--protocols", protocols, listen, "127.0.0.1:0"];
    if protocols == "smb" {
        arguments.extend(["--smb-users", users.to_str().unwrap()]);
    }
    let server = Server::serving(dir, Some(DESCRIPTORS), &arguments);
    let idle: Vec<TcpStream> = (0..DESCRIPTORS - 100).map(|_| from([127, 0, 0, 2], server.address)).collect();
    let target = target(server.address).parse().unwrap();
    assert_useful(&target);
    drop(idle);
    assert_useful(&target);
}

#[test]
fn idle_connections_of_one_address_leave_room_for_mounts() {
    assert_room("nfsv3", "--listen", |address| format!("nfs://{address}/files"));
    assert_room("nfsv4.2", "--listen", |address| format!("nfs://{address}/files?version=4.2"));
}

#[test]
fn idle_connections_of_one_address_leave_room_for_logins() {
    assert_room("smb", "--smb-listen", |address| format!("smb://alice@{address}/files"));
}
