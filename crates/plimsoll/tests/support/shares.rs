//! Shares in the test's own process.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use identity::{Accounts, NtHash, ServerNames, SharedAccounts, Sid, User};
use smb::server::{Server, Settings};
use smb::service::Service;
use vfs::{Export, Namespace};

/// The password of alice, the only user.
pub const PASSWORD: &str = "a secret";

/// A server of SMB at a port of the system's choice; it stops when this is dropped.
pub struct Shares {
    pub address: SocketAddr,
    /// There until this is dropped.
    pub server: Option<Server>,
}

impl Shares {
    pub fn new(exports: Vec<impl Into<Arc<Export>>>) -> Self {
        let (uid, gid) = alice();
        let nt_hash = Some(NtHash::from_password(PASSWORD));
        let users = vec![User { name: "alice".parse().unwrap(), uid, gid, nt_hash }];
        let accounts =
            Accounts::empty(Sid::machine([1, 2, 3]), "FILES").with_entries(users, vec![], vec![], None);
        let service = Service::new(
            Arc::new(Arc::new(Namespace::new(exports)).into()),
            ServerNames::for_host("files.example.org"),
            SharedAccounts::new(accounts.unwrap()),
            Box::new(random),
        );
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let settings = Settings::for_descriptors(2, 1 << 16);
        let server = Some(Server::start(Arc::new(service), vec![listener], settings).unwrap());
        Self { address, server }
    }
}

impl Drop for Shares {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop(Duration::from_secs(1));
        }
    }
}

/// User and group of alice: nobody logs in as root.
pub fn alice() -> (u32, u32) {
    match rustix::process::geteuid().as_raw() {
        0 => (1000, 100),
        own => (own, rustix::process::getegid().as_raw()),
    }
}

/// Lets everybody make files in a directory.
pub fn open_to_all(directory: &Path) {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
}

fn random(bytes: &mut [u8]) {
    fs::File::open("/dev/urandom").unwrap().read_exact(bytes).unwrap();
}
