//! Loads over SMB against a server in this process: every protection, every operation, and refusals.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bench::engine::{BuiltIn, Caller, Control, Engine, Job, Metadata};
use bench::load::{Kind, Op, Plan, Report};
use bench::{Error, load};
use identity::NtHash;
use report::result::Part;
use report::scenario::{MetadataOperation, Protocol, Work};
use smb::server::Usage;
use vfs::{Export, ExportRule, ShareSettings};

use crate::answered;
use crate::job::job;
use crate::shares::{PASSWORD, Shares, open_to_all};

/// A server with the share `v`.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    shares: Shares,
    directory: tempfile::TempDir,
}

impl Running {
    pub(crate) fn new() -> Self {
        Self::sharing(ShareSettings::default())
    }

    pub(crate) fn sharing(share: ShareSettings) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let volume = Arc::new(crate::server::volume(7, directory.path()));
        let shares =
            Shares::new(vec![Export::new("/v", volume, vec![ExportRule::everybody()]).shared(share)]);
        Self { address: shares.address, shares, directory }
    }

    /// The directory in which loads work.
    pub(crate) fn below(&self) -> PathBuf {
        self.directory.path().join("below")
    }

    pub(crate) fn usage(&self) -> Usage {
        self.shares.server.as_ref().unwrap().view().usage()
    }

    fn spliced_bytes(&self) -> u64 {
        self.usage().spliced_bytes
    }

    /// A short load on few blocks, with its bytes checked where it moves any.
    pub(crate) fn plan(&self, op: Op, how: &str) -> Plan {
        let target = format!("smb://alice@{}/v/below{how}", self.address);
        Plan {
            verify: op.transfers(),
            block: 8 << 10,
            size: 1 << 20,
            files: 2,
            entries: 700,
            connections: 2,
            depth: 8,
            time: Duration::from_millis(200),
            warm_up: Duration::from_millis(50),
            threads: Some(1),
            nt_hash: Some(nt_hash()),
            ..Plan::new(target.parse().unwrap(), op)
        }
    }
}

/// The hash of alice's password.
pub(crate) fn nt_hash() -> NtHash {
    NtHash::from_password(PASSWORD)
}

pub(crate) fn run(plan: &Plan) -> Result<Report, Error> {
    load::run(plan, &mut |_| Ok(()))
}

#[test]
fn data_comes_back_as_it_was_written_under_every_protection() {
    let server = Running::new();
    make_below(&server);
    for how in ["", "?sign=cmac", "?sign=hmac", "?seal=gcm", "?seal=ccm", "?seal=gcm256", "?seal=ccm256"] {
        let report = answered(&server.plan(Op::Mix, how), &[Kind::Read, Kind::Write]);
        assert!(report.read_back, "{how}");
    }
    let large = Plan { block: 1 << 20, size: 8 << 20, depth: 2, ..server.plan(Op::Mix, "?seal=gcm") };
    answered(&Plan { verify: false, ..large.clone() }, &[Kind::Read, Kind::Write]);
    answered(&Plan { op: Op::Read, ..large }, &[Kind::Read]);
}

#[test]
fn load_that_is_stopped_leaves_no_partial_files() {
    let server = Running::new();
    make_below(&server);
    crate::assert_stops(&server.plan(Op::Read, ""), &server.below());
}

#[test]
fn data_without_protection_comes_back_by_pages_and_by_copies() {
    let server = Running::sharing(ShareSettings { signing: false, ..ShareSettings::default() });
    make_below(&server);
    for block in [4 << 10, 32 << 10, 64 << 10, 1 << 20] {
        let plan = Plan { block, size: 16 << 20, ..server.plan(Op::Mix, "?sign=none") };
        let before = server.spliced_bytes();
        let report = answered(&plan, &[Kind::Read, Kind::Write]);
        assert!(report.read_back, "{block}");
        let spliced = server.spliced_bytes() - before;
        let by_pages = if block < 32 << 10 { 0 } else { report.kind(Kind::Read).unwrap().ops * block };
        assert!(spliced >= by_pages && (by_pages > 0 || spliced == 0), "{block}: {spliced} of {by_pages}");
    }
    // What is protected is on the same share as well.
    let before = server.spliced_bytes();
    answered(&Plan { block: 64 << 10, ..server.plan(Op::Mix, "?seal=gcm") }, &[Kind::Read, Kind::Write]);
    answered(&Plan { block: 64 << 10, ..server.plan(Op::Mix, "?sign=cmac") }, &[Kind::Read, Kind::Write]);
    assert_eq!(server.spliced_bytes(), before, "what is computed of bytes is copied");
}

#[test]
fn every_operation_is_made_and_leaves_nothing_behind() {
    let server = Running::new();
    make_below(&server);
    for (op, kinds) in [
        (Op::Null, &[Kind::Null][..]),
        (Op::Getattr, &[Kind::Getattr]),
        (Op::Lookup, &[Kind::Lookup]),
        (Op::Open, &[Kind::Open, Kind::Close]),
        (Op::Create, &[Kind::Create, Kind::Remove]),
        (Op::Rename, &[Kind::Rename]),
        (Op::Commit, &[Kind::Commit]),
        (Op::OpenRead, &[Kind::Read]),
    ] {
        answered(&server.plan(op, ""), kinds);
    }
    let listed =
        answered(&Plan { cleanup: true, ..server.plan(Op::Readdirplus, "?seal=gcm") }, &[Kind::Readdirplus]);
    assert!(listed.kinds[0].entries_per_s > 0.0, "{listed}");
    let left = fs::read_dir(server.below()).unwrap().count();
    assert_eq!(left, 0, "everything is removed");
}

/// One client's calls in a window of a second.
fn measured(engine: &mut BuiltIn, job: &Job) -> Result<Part, Error> {
    engine.prepare(job, &mut |_| Ok(()))?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let control = Control::new(u64::try_from((now + Duration::from_millis(50)).as_nanos()).unwrap());
    control.set_window(0, 1);
    engine.run(&control)
}

#[test]
fn the_loads_of_scenarios_run_on_a_share() {
    let server = Running::new();
    make_below(&server);
    let target = format!("smb://alice@{}/v/below?seal=gcm", server.address).parse().unwrap();
    let nt_hash = Some(nt_hash());
    let mut engine = BuiltIn::new(target, Caller { nt_hash, ..Caller::default() });
    let facts = engine.facts().unwrap();
    let smb = facts.smb.unwrap();
    assert_eq!((facts.protocol.as_str(), smb.dialect.as_str()), ("SMB 3.1.1", "3.1.1"));
    assert_eq!((smb.signing, smb.encryption.as_deref()), (None, Some("AES-128-GCM")));
    let job = |work| Job { connections: 2, jobs: 2, depth: 4, protocol: Some(Protocol::Smb), ..job(work) };
    let names =
        |operation| Job { metadata: Some(Metadata { operation, directories: 2 }), ..job(Work::Metadata) };
    for (job, calls) in [
        (Job { read_percent: 50, ..job(Work::Transfers) }, &["READ", "WRITE"][..]),
        (job(Work::OpenRead), &["READ"]),
        (names(MetadataOperation::Create), &["CREATE", "CLOSE"]),
        (names(MetadataOperation::Rename), &["SET_INFO"]),
    ] {
        let part = measured(&mut engine, &job).unwrap();
        assert!(part.errors.is_empty(), "{:?}", part.error_details);
        assert!(calls.iter().all(|&call| part.wire.get(call) > Some(&0)), "{calls:?}: {:?}", part.wire);
    }
    let nfs = Job { protocol: Some(Protocol::NfsV41), ..job(Work::Transfers) };
    let nfs = measured(&mut engine, &nfs).unwrap_err().to_string();
    assert!(nfs.starts_with("the load is over NFSv4.1, which smb://"), "{nfs}");
    engine.clear().unwrap();
    assert_eq!(fs::read_dir(server.below()).unwrap().count(), 0);
}

#[test]
fn calls_wait_for_credits_that_are_fewer_than_the_depth_takes() {
    let server = Running::new();
    make_below(&server);
    // 64 calls of 16 credits each; a connection has 512.
    let plan = Plan {
        block: 1 << 20,
        size: 128 << 20,
        files: 1,
        depth: 64,
        connections: 1,
        verify: false,
        // Its signatures take little time in a build without optimization, too.
        ..server.plan(Op::Read, "?sign=hmac")
    };
    answered(&plan, &[Kind::Read]);
}

#[test]
fn a_load_that_cannot_be_made_says_why() {
    let server = Running::new();
    make_below(&server);
    let refused = |plan: Plan| run(&plan).unwrap_err().to_string();
    let wrong = Plan { nt_hash: Some(NtHash::from_password("another")), ..server.plan(Op::Null, "") };
    assert!(
        refused(wrong)
            .contains("SESSION_SETUP as alice: wrong user or password: the server answered LOGON_FAILURE")
    );
    let none = refused(Plan { nt_hash: None, ..server.plan(Op::Null, "") });
    assert!(none.contains("needs the password of alice"), "{none}");
    assert!(refused(server.plan(Op::Access, "")).contains("--op access is of NFS"));
    let target = format!("smb://alice@{}/nowhere", server.address);
    let nowhere = refused(Plan::new(target.parse().unwrap(), Op::Null));
    assert!(nowhere.contains("needs the password"), "{nowhere}");
    let nowhere = Plan { nt_hash: Some(nt_hash()), ..Plan::new(target.parse().unwrap(), Op::Null) };
    assert!(
        refused(nowhere).contains(
            "TREE_CONNECT to nowhere: there is no such share: the server answered BAD_NETWORK_NAME"
        )
    );
}

#[test]
fn unencrypted_client_at_encrypted_share_is_refused_with_reason() {
    let encryption = ShareSettings { encryption: true, signing: false, ..ShareSettings::default() };
    let server = Running::sharing(encryption);
    make_below(&server);
    let refused = |how| run(&server.plan(Op::Null, how)).unwrap_err().to_string();
    assert_eq!(refused("?sign=none"), "the share wants encryption: add seal=gcm");
    for how in ["", "?sign=cmac"] {
        let said = refused(how);
        let expected = "the share v wants encryption: add seal=gcm to smb://alice@";
        assert!(said.starts_with(expected) && said.ends_with(how), "{said}");
    }
    answered(&server.plan(Op::Null, "?seal=gcm"), &[Kind::Null]);
}

/// The directory in the share that loads work in.
pub(crate) fn make_below(server: &Running) {
    let below = server.below();
    fs::create_dir(&below).unwrap();
    for open in [server.directory.path(), &below] {
        open_to_all(open);
    }
}
