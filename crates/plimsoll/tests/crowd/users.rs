//! Many sessions of SMB at one server.

use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use bench::Target;
use identity::NtHash;
use nfs_wire::v3::StableHow;
use wire_client::{Client, Identity};

use super::states::assert_takes;
use super::{Server, raise_descriptors};

const SESSIONS: usize = 1000;
/// Maximum memory of an idle connection.
const IDLE_BYTES_MAX: u64 = 64 << 10;
pub(super) const PASSWORD: &str = "a secret";
pub(super) const USERS: &str = "[[user]]\nname = \"alice\"\nuid = 1000\npassword = \"a secret\"\n";
/// A block that is too large to be transferred page by page.
static DATA: [u8; 64 << 10] = [7; 64 << 10];

/// Each has logged in, has written and read a file, which it keeps open, and does nothing any more.
#[test]
fn sessions_that_do_nothing_take_little_memory() {
    raise_descriptors();
    let dir = tempfile::tempdir().unwrap();
    let users = dir.path().join("users.toml");
    std::fs::write(&users, USERS).unwrap();
    std::fs::set_permissions(&users, std::fs::Permissions::from_mode(0o600)).unwrap();
    let smb = ["--protocols", "smb", "--smb-listen", "127.0.0.1:0", "--smb-users", users.to_str().unwrap()];
    let server = Server::serving(dir, None, &smb);
    let target: Target = format!("smb://alice@{}/files", server.address).parse().unwrap();
    let identity = Identity { nt_hash: Some(NtHash::from_password(PASSWORD)), ..Identity::new(0, 0) };
    let work = |number: usize| {
        let mut client = Client::mount(&target, &identity).unwrap();
        let root = client.root();
        let file = client.create(&root, &format!("file-{number}"), 0o644).unwrap();
        client.write(&file, 0, &DATA, StableHow::Unstable).unwrap();
        assert!(client.read(&file, 0, 64 << 10).unwrap().data == DATA);
        (client, file)
    };
    // What one takes while it works is taken once.
    let _first = work(SESSIONS);
    let (mut resident, begun) = (server.resident_kib(), Instant::now());
    let mut idle: Vec<_> = (0..SESSIONS).map(work).collect();
    assert_takes("sessions of SMB", &server, &mut resident, SESSIONS, IDLE_BYTES_MAX, begun);
    // They are all still there.
    assert!(idle.iter_mut().all(|(client, file)| client.read(file, 0, 1).unwrap().data == [7]));
}
