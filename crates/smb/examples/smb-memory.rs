//! Serves volumes in memory over SMB, for `cargo xtask smbtorture --memory`. Takes the options of `plimsoll export`:
//!
//! `smb-memory export DIRECTORY... --smb-listen ADDRESS --smb-users FILE --security-style STYLE --smb-anonymous
//! --smb-multichannel off`
//!
//! Each directory lends its name to a share, and its owner to the share's root; its contents are not read. Other
//! options with a value are ignored. A share whose name begins with `twrp` has a file with a stream, a directory with a
//! file, and a snapshot of both at [`SNAPSHOT`].

use identity::{Accounts, NtHash, ServerNames, SharedAccounts, Sid, User};
use smb::server::{Server, Settings};
use smb::service::Service;
use std::error::Error;
use std::fs::File;
use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use vfs::qos::Nanos;
use vfs::{
    Caller, Disposition, Durability, Export, ExportRule, Namespace, PendingSync, SecurityStyle, SetAttrs,
    ShareSettings, Snapshot, Snapshots, Stability, Time, ViewId, Volume, VolumeId,
};
use vfs_testing::MemFs;

type Failure = Box<dyn Error>;

/// File descriptors for connections.
const DESCRIPTORS: usize = 1000;
/// The time of the snapshot: 2001-09-09 01:46:40.
const SNAPSHOT: Time = Time { seconds: 1_000_000_000, nanos: 0 };
/// The interval between checks for expired claims.
const EXPIRE_EVERY: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Args {
    directories: Vec<PathBuf>,
    listen: String,
    users: PathBuf,
    lists: bool,
    /// Hides files from listings that the user may not read.
    hides: bool,
    anonymous: bool,
    single_connection: bool,
}

fn main() -> Result<(), Failure> {
    let args = args()?;
    let exports = args.directories.iter().zip(1..).map(|(directory, id)| export(directory, id, &args));
    let namespace = Namespace::new(exports.collect::<Result<Vec<_>, _>>()?);
    for (export, directory) in namespace.exports().iter().zip(&args.directories) {
        let owner = directory.metadata()?;
        let ids = SetAttrs { uid: Some(owner.uid()), gid: Some(owner.gid()), ..SetAttrs::default() };
        export.root().set_attrs(&Caller::new(0, 0, []), &ids, None, &mut PendingSync::default())?;
    }
    let namespace = Arc::new(namespace);
    let service = Service::new(
        Arc::new(Arc::clone(&namespace).into()),
        ServerNames::for_host("memory.example.org"),
        SharedAccounts::new(accounts(&std::fs::read_to_string(&args.users)?)?),
        Box::new(random),
    );
    let listener = TcpListener::bind(&args.listen)?;
    let _server = Server::start(
        Arc::new(service.with_anonymous_logins(args.anonymous).with_multichannel(!args.single_connection)),
        vec![listener],
        Settings::for_descriptors(2, DESCRIPTORS),
    )?;
    loop {
        std::thread::sleep(EXPIRE_EVERY);
        for export in namespace.exports() {
            export.volume.expire_claims(export.volume.now())?;
        }
    }
}

fn args() -> Result<Args, Failure> {
    let mut given = std::env::args().skip(1).filter(|word| word != "export");
    let mut args = Args::default();
    while let Some(word) = given.next() {
        let mut value = || given.next().ok_or_else(|| format!("{word} has no value"));
        match word.as_str() {
            "--smb-listen" => args.listen = value()?,
            "--smb-users" => args.users = value()?.into(),
            "--smb-anonymous" => args.anonymous = true,
            "--smb-multichannel" => args.single_connection = value()? == "off",
            "--security-style" => args.lists = value()? == "ntfs",
            "--smb=access-based-enumeration=on" => args.hides = true,
            option if option.starts_with("--") && option.contains('=') => {}
            option if option.starts_with("--") => drop(value()?),
            directory => args.directories.push(directory.into()),
        }
    }
    Ok(args)
}

/// A volume in memory, shared under the directory's name.
fn export(directory: &Path, id: u64, args: &Args) -> Result<Export, Failure> {
    let name = directory.file_name().and_then(|name| name.to_str()).ok_or("a directory without a name")?;
    let style = if args.lists { SecurityStyle::Ntfs } else { SecurityStyle::Unix };
    let fs = MemFs::new(Arc::new(now));
    let volume = Volume::new(VolumeId(id), name, Arc::new(fs.clone()), Durability::Relaxed, id);
    let volume = Arc::new(volume.with_clock(clock()).with_security_style(style)?);
    let share = ShareSettings { access_based_enumeration: args.hides, ..ShareSettings::default() };
    let export = Export::new(format!("/{name}"), volume, vec![ExportRule::everybody()]).shared(share);
    if name.starts_with("twrp") {
        let root = Arc::new(Export::new("/", Arc::clone(&export.volume), vec![])).root();
        fill(&root, directory.metadata()?.uid())?;
        let view = ViewId(1);
        fs.create(view)?;
        export.volume.set_snapshots(vec![Snapshot { view, name: "old".to_owned(), created: SNAPSHOT }]);
    }
    Ok(export)
}

/// Makes the files of `owner` that the tests of snapshots open.
fn fill(root: &vfs::File, owner: u32) -> Result<(), Failure> {
    let (caller, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
    let set = |mode| SetAttrs { mode: Some(mode), uid: Some(owner), ..SetAttrs::default() };
    let subdir = root.make_dir(&caller, b"subdir", &set(0o755), &mut pending)?.file;
    let file = root.create(&caller, b"file", Disposition::CreateNew, &set(0o644), &mut pending)?.file;
    subdir.create(&caller, b"hardlink", Disposition::CreateNew, &set(0o644), &mut pending)?;
    let stream = file.make_stream(&caller, b"stream", &mut pending)?;
    for data in [&file, &stream] {
        data.authorize_write(&caller)?.write(0, b"old data", Stability::Unstable, &mut pending)?;
    }
    let owned = SetAttrs { uid: Some(owner), ..SetAttrs::default() };
    root.set_attrs(&caller, &owned, None, &mut pending)?;
    Ok(())
}

/// The users of a `plimsoll export --smb-users` file; only the three plain fields are read.
fn accounts(file: &str) -> Result<Accounts, Failure> {
    let field = |user: &str, name: &str| {
        let lines = user.lines().filter_map(|line| line.split_once(" = "));
        let mut found =
            lines.filter(|(key, _)| *key == name).map(|(_, value)| value.trim_matches('"').to_owned());
        found.next_back().ok_or_else(|| format!("a user without {name}"))
    };
    let users = file.split("[[user]]").skip(1).map(|user| {
        let uid = field(user, "uid")?.parse()?;
        let nt_hash = Some(NtHash::from_password(&field(user, "password")?));
        Ok(User { name: field(user, "name")?.parse()?, uid, gid: uid, nt_hash })
    });
    let users = users.collect::<Result<Vec<User>, Failure>>()?;
    Ok(Accounts::empty(Sid::machine([1, 2, 3]), "MEMORY").with_entries(users, vec![], vec![], None)?)
}

/// Time since the start, by which claims expire.
fn clock() -> impl Fn() -> Nanos + Send + Sync + 'static {
    let start = Instant::now();
    move || Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

fn now() -> Time {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    Time { seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanos: since.subsec_nanos() }
}

fn random(bytes: &mut [u8]) {
    let read = File::open("/dev/urandom").and_then(|mut source| source.read_exact(bytes));
    assert!(read.is_ok(), "the system has random bytes");
}
