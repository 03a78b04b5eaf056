//! `cargo xtask smbtorture`: Samba's tests of SMB2 and 3 against this tree's server, or against Samba's own.
//!
//! Each test runs in a process, and the tests of a group share a share, one after another. A test passes if it succeeds
//! and prints `success:`. Expected failures are listed, a line and a reason each. A listed test that passes is as wrong
//! as an unlisted one that fails, unless its reason says that either result is allowed.

mod network;
mod signing;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::cargo;
use crate::loop_fs::{FsKind, LoopFs};
use crate::packages;
use crate::plimsoll;
use crate::process::{self, Process};
use crate::samba::{COMPLETE, OTHER, Samba, USER};
use crate::server::free_port;

/// Families without tests of behavior: benchmarks, and tests that run until they are stopped.
const EXCLUDED: [&str; 4] = ["smb2.bench", "smb2.maxfid", "smb2.hold-", "smb2.scan"];
/// A test that guesses so many passwords that the server blocks its address for a while: it runs after all others.
const GUESSES_PASSWORDS: &str = "smb2.secleak";
/// Tests of access control lists: they run on shares with lists.
const LIST_TESTS: [&str; 9] = [
    "smb2.acls",
    "smb2.create.acldir",
    "smb2.create.aclfile",
    "smb2.create.mkdir-visible",
    "smb2.create.nulldacl",
    "smb2.delete-on-close-perms",
    "smb2.maximum_allowed",
    "smb2.sdread",
    "smb2.setinfo",
];
const READABLE_TESTS: &str = "smb2.acls.ACCESSBASED";
/// Shares that tests request by name, their servers and directory modes: no user may enter the first.
const NAMED_SHARES: [(&str, Kind, u32); 2] =
    [("noperm", Kind::Modes, 0), ("hideunread", Kind::Readable, 0o755)];
const MEMORY: &str = "smb-memory";
/// The files and the snapshot of the shares of `smb2.twrp` in [`MEMORY`].
const SNAPSHOT_OPTIONS: [&str; 4] = [
    "--option=torture:twrp_file=file",
    "--option=torture:twrp_stream=stream",
    "--option=torture:twrp_stream_size=8",
    "--option=torture:twrp_snapshot=@GMT-2001.09.09-01.46.40",
];
/// The longest duration of a test: `smb2.notify.mask` sleeps for more than 70 s.
const TEST_MAX: Duration = Duration::from_secs(300);
/// Families that wait for timeouts and measure time: on a busy machine one of their tests fails now and then. The short
/// form skips them. The first failure of any other test counts.
const TIMED: [&str; 9] = [
    "smb2.dirlease.",
    "smb2.durable-v2-delay.",
    "smb2.durable-v2-open.",
    "smb2.lease.",
    "smb2.multichannel.",
    "smb2.notify.",
    "smb2.oplock.",
    "smb2.replay.",
    "smb2.timestamps.",
];
/// Repetitions of unexpected tests of those families, alone. Their earlier logs get these names.
const RETRY_NAMES: [&str; 2] = ["first", "second"];
const RETRIES_MAX: usize = 40;
/// The prefix of the reasons of tests that may pass or fail.
const EITHER: &str = "either: ";
const SHARE_TESTS_MAX: usize = 12;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server's binary; built by `cargo build --release`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Test Samba's own server instead.
    #[arg(long)]
    smbd: bool,
    /// Use volumes in memory instead of directories: the example `smb-memory` of the crate `smb`.
    #[arg(long, conflicts_with_all = ["smbd", "binary"])]
    memory: bool,
    /// Run only tests whose names begin with one of these, such as `smb2.lock,smb2.create`.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// Run the short form: without the tests that wait for timeouts.
    #[arg(long)]
    brief: bool,
    /// Number of concurrent tests.
    #[arg(long, default_value_t = 8)]
    jobs: usize,
    /// Directory for the shares, in place of an XFS file system in a file.
    #[arg(long)]
    directory: Option<PathBuf>,
}

/// Servers differ in the access control of shared files and in the number of connections of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Mode bits.
    Modes,
    /// Access control lists.
    Lists,
    /// Access control lists, and listings omit unreadable entries.
    Readable,
    /// Mode bits, and a session has one connection.
    Single,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Modes, Self::Lists, Self::Readable, Self::Single];

    fn of(test: &str) -> Self {
        if test.starts_with(READABLE_TESTS) {
            Self::Readable
        } else if LIST_TESTS.iter().any(|list| test.starts_with(list)) {
            Self::Lists
        } else if signing::needs_single_connection(test) {
            Self::Single
        } else {
            Self::Modes
        }
    }

    /// A part of the names of its shares.
    fn name(self) -> &'static str {
        match self {
            Self::Modes => "",
            Self::Lists => "acl",
            Self::Readable => "readable",
            Self::Single => "single",
        }
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Modes => &["--security-style", "unix", "--smb=continuously-available=on"],
            Self::Lists => &["--security-style", "ntfs", "--smb=continuously-available=on"],
            Self::Readable => &["--security-style", "ntfs", "--smb=access-based-enumeration=on"],
            Self::Single => &["--security-style", "unix", "--smb-multichannel", "off"],
        }
    }
}

struct Group {
    share: String,
    kind: Kind,
    tests: Vec<String>,
}

type Ports = [u16; Kind::ALL.len()];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TestResult {
    Passed,
    Skipped,
    Failed,
    TimedOut,
}

impl fmt::Display for TestResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Passed => "passed",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::TimedOut => "stuck",
        })
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    packages::require(packages::FOR_TESTS)?;
    let samba = Samba::unpack()?;
    if network::is_outside() {
        return network::run_inside();
    }
    let work = process::target_dir().join("smbtorture");
    let shares = work.join("shares");
    LoopFs::clear(&shares)?;
    process::empty_dir(&work)?;
    process::empty_dir(&scratch(&work))?;
    let mut tests = tests(&samba, &args.only, &work)?;
    tests.retain(|test| !args.brief || !is_timed(test));
    let groups = groups(&tests);
    ensure!(!groups.is_empty(), "no test matches --only");
    // Unmounted after the servers below have ended.
    let mounted = file_system(args, &shares)?;
    let home = args.directory.clone().unwrap_or(shares);
    if mounted.is_none() {
        process::empty_dir(&home)?;
    }
    let mut shares = Kind::ALL.map(|_| Vec::new());
    let spare =
        Kind::ALL.into_iter().flat_map(|kind| (0..RETRIES_MAX).map(move |at| (retry_share(at, kind), kind)));
    let unnamed = groups.iter().map(|group| (group.share.clone(), group.kind)).chain(spare);
    let unnamed = unnamed.map(|(share, kind)| (share, kind, 0o755));
    let named = NAMED_SHARES.into_iter().map(|(share, kind, mode)| (share.to_owned(), kind, mode));
    for (share, kind, mode) in unnamed.chain(named) {
        let directory = home.join(&share);
        fs::create_dir_all(&directory)?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(mode))?;
        std::os::unix::fs::chown(&directory, Some(USER.id), Some(USER.id))?;
        shares[kind as usize].push((share, directory));
    }
    let (servers, ports) = serve(args, &samba, shares, &work)?;
    let (guessing, others): (Vec<_>, Vec<_>) =
        groups.into_iter().partition(|group| group.tests[0].starts_with(GUESSES_PASSWORDS));
    let (blocking, others) = others.into_iter().partition(|group| network::blocks(&group.tests[0]));
    let mut ended = run_all(&samba, others, ports, args.jobs, &work)?;
    ended.extend(run_all(&samba, blocking, ports, 1, &work)?);
    let (mut shares_used, mut first_failures) = (0, BTreeMap::new());
    for said in RETRY_NAMES {
        let unexpected = if args.smbd { Vec::new() } else { unexpected(&ended, args.memory)? };
        let is_for_good = unexpected.iter().any(|test| !is_timed(test));
        // An unexpected result of another test fails the run, so a repetition would change nothing.
        if is_for_good || shares_used + unexpected.len() > RETRIES_MAX {
            break;
        }
        first_failures.extend(unexpected.iter().map(|test| (test.clone(), ended[test])));
        let again = retry_alone(unexpected, shares_used, said, &work)?;
        shares_used += again.len();
        ended.extend(run_all(&samba, again, ports, 1, &work)?);
    }
    ended.extend(run_all(&samba, guessing, ports, args.jobs, &work)?);
    for server in servers {
        server.terminate(Duration::from_secs(60))?;
    }
    fs::remove_dir_all(scratch(&work))?;
    report(&ended, &work)?;
    let unexpected = unexpected(&ended, args.memory)?;
    for (test, how) in first_failures.iter().filter(|(test, _)| !unexpected.contains(*test)) {
        println!("FLAKY {test}: {how} at first");
    }
    if args.smbd { Ok(()) } else { require_expected(&ended, args.memory) }
}

fn file_system(args: &Args, shares: &Path) -> anyhow::Result<Option<LoopFs>> {
    if args.directory.is_some() || args.memory {
        return Ok(None);
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!(
            "smbtorture: without root there is no XFS: tests of clones fail unless the target directory is on it"
        );
        return Ok(None);
    }
    LoopFs::mount(FsKind::Xfs, shares).map(Some)
}

/// Repeats tests, each in its own share, numbered from `first`. Renames their earlier logs with `said`.
fn retry_alone(tests: Vec<String>, first: usize, said: &str, work: &Path) -> anyhow::Result<Vec<Group>> {
    let groups = (first..).zip(tests).map(|(at, test)| {
        fs::rename(work.join(format!("{test}.log")), work.join(format!("{test}.{said}.log")))?;
        let kind = Kind::of(&test);
        Ok(Group { share: retry_share(at, kind), kind, tests: vec![test] })
    });
    groups.collect()
}

fn is_timed(test: &str) -> bool {
    TIMED.iter().any(|family| test.starts_with(family))
}

fn retry_share(at: usize, kind: Kind) -> String {
    format!("again{}-{at}", kind.name())
}

/// Starts the servers, by kind, and returns them with their ports. Samba's own server is the same for all.
fn serve(
    args: &Args,
    samba: &Samba,
    shares: [Vec<(String, PathBuf)>; Kind::ALL.len()],
    work: &Path,
) -> anyhow::Result<(Vec<Process>, Ports)> {
    if args.smbd {
        let port = free_port()?;
        let server = samba.serve(&shares.concat(), COMPLETE, port, work)?;
        return Ok((vec![server], Kind::ALL.map(|_| port)));
    }
    let binary = match args.memory {
        true => cargo::program_of(MEMORY, &["build", "--example", MEMORY])?,
        false => process::binary(args.binary.as_deref()),
    };
    let (mut servers, mut ports) = (Vec::new(), Kind::ALL.map(|_| 0));
    for (kind, shares) in Kind::ALL.into_iter().zip(shares) {
        let directories: Vec<&Path> = shares.iter().map(|(_, directory)| directory.as_path()).collect();
        let port = free_port()?;
        let options = [kind.options(), &["--smb-anonymous"]].concat();
        servers.push(plimsoll::serve_smb_with(&binary, &directories, port, &options, work)?);
        ports[kind as usize] = port;
    }
    Ok((servers, ports))
}

/// The working directory of smbtorture, which leaves an empty directory behind each time.
fn scratch(work: &Path) -> PathBuf {
    work.join("scratch")
}

fn tests(samba: &Samba, only: &[String], work: &Path) -> anyhow::Result<Vec<String>> {
    let output = samba.command("bin/smbtorture").arg("--list").current_dir(scratch(work)).output()?;
    ensure!(output.status.success(), "smbtorture failed to list its tests");
    let names = String::from_utf8(output.stdout)?;
    let is_wanted = |name: &&str| {
        name.starts_with("smb2.")
            && !EXCLUDED.iter().any(|left_out| name.starts_with(left_out))
            && (only.is_empty() || only.iter().any(|only| name.starts_with(only)))
    };
    Ok(names.lines().map(str::trim).filter(is_wanted).map(str::to_owned).collect())
}

fn groups(tests: &[String]) -> Vec<Group> {
    let mut families: BTreeMap<(&str, Kind, bool), Vec<String>> = BTreeMap::new();
    for test in tests {
        let family = test.split('.').nth(1).unwrap_or(test);
        families.entry((family, Kind::of(test), network::blocks(test))).or_default().push(test.clone());
    }
    let split = families.iter().flat_map(|(&(family, kind, blocks), tests)| {
        tests.chunks(SHARE_TESTS_MAX).enumerate().map(move |(number, tests)| {
            let name = format!("{family}{}{}-{number}", kind.name(), if blocks { "blocked" } else { "" });
            Group { share: name, kind, tests: tests.to_vec() }
        })
    });
    let mut groups: Vec<Group> = split.collect();
    // The longest group begins first, because it ends last.
    groups.sort_by_key(|group| group.tests.len());
    groups
}

fn run_all(
    samba: &Samba,
    groups: Vec<Group>,
    ports: Ports,
    jobs: usize,
    work: &Path,
) -> anyhow::Result<BTreeMap<String, TestResult>> {
    let (groups, ended) = (Mutex::new(groups), Mutex::new(BTreeMap::new()));
    let worker = || -> anyhow::Result<()> {
        loop {
            let Some(group) = groups.lock().map_err(|_| poisoned())?.pop() else { return Ok(()) };
            for test in &group.tests {
                let how = run_test(samba, test, &group.share, ports[group.kind as usize], work)?;
                eprintln!("smbtorture: {test}: {how}");
                ended.lock().map_err(|_| poisoned())?.insert(test.clone(), how);
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| poisoned())?)
    })?;
    ended.into_inner().map_err(|_| poisoned())
}

fn poisoned() -> anyhow::Error {
    anyhow::anyhow!("a worker ended early")
}

fn run_test(samba: &Samba, test: &str, share: &str, port: u16, work: &Path) -> anyhow::Result<TestResult> {
    let log = work.join(format!("{test}.log"));
    let file = process::append_to(&log)?;
    let user = format!("{}%{}", USER.name, USER.password);
    let mut command = samba.command("bin/smbtorture");
    command.args([
        &format!("//127.0.0.1/{share}"),
        "-p",
        &port.to_string(),
        "-U",
        &user,
        "-s",
        "/dev/null",
        &format!("--option=torture:user2name={}", OTHER.name),
        &format!("--option=torture:user2password={}", OTHER.password),
        test,
    ]);
    command.args(signing::offer(test));
    if test.starts_with("smb2.twrp.") {
        command.args(SNAPSHOT_OPTIONS);
    }
    if network::blocks(test) {
        command.args(network::with_filter(work)?);
    }
    command.current_dir(scratch(work));
    let mut child = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()?;
    let deadline = Instant::now() + TEST_MAX;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            return Ok(TestResult::TimedOut);
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    Ok(how(status.success(), &String::from_utf8_lossy(&fs::read(&log)?)))
}

fn how(ended_well: bool, said: &str) -> TestResult {
    let says = |word: &str| said.lines().any(|line| line.starts_with(word));
    match ended_well {
        true if says("success:") => TestResult::Passed,
        _ if says("skip:") && !says("failure:") && !says("error:") => TestResult::Skipped,
        _ => TestResult::Failed,
    }
}

fn report(ended: &BTreeMap<String, TestResult>, work: &Path) -> anyhow::Result<()> {
    let lines = ended.iter().map(|(test, how)| format!("{how:8} {test}\n"));
    fs::write(work.join("results"), lines.collect::<String>())?;
    let count = |wanted| ended.values().filter(|how| **how == wanted).count();
    eprintln!(
        "smbtorture: {} passed, {} failed, {} stuck, {} skipped, of {}",
        count(TestResult::Passed),
        count(TestResult::Failed),
        count(TestResult::TimedOut),
        count(TestResult::Skipped),
        ended.len()
    );
    Ok(())
}

fn require_expected(ended: &BTreeMap<String, TestResult>, in_memory: bool) -> anyhow::Result<()> {
    let wrong = unexpected(ended, in_memory)?;
    let lines: Vec<String> = wrong.iter().map(|test| format!("{test} has {}", ended[test])).collect();
    ensure!(
        wrong.is_empty(),
        "unexpected results (the expected ones are in conformance/smbtorture):\n{}",
        lines.join("\n")
    );
    Ok(())
}

fn unexpected(ended: &BTreeMap<String, TestResult>, in_memory: bool) -> anyhow::Result<Vec<String>> {
    let read = |name: &str| {
        let list = process::workspace().join("conformance/smbtorture").join(name);
        fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))
    };
    let (list, memory) = (read("expected.txt")?, read("expected-memory.txt")?);
    let mut expected = expected(&list)?;
    if in_memory {
        apply_differences(&mut expected, &memory)?;
    }
    let is_wrong =
        |(test, how): &(&String, &TestResult)| !is_expected(**how, expected.get(test.as_str()).copied());
    Ok(ended.iter().filter(is_wrong).map(|(test, _)| test.clone()).collect())
}

/// `reason` is `None` for an unlisted test.
fn is_expected(how: TestResult, reason: Option<&str>) -> bool {
    match reason {
        Some(reason) if reason.starts_with(EITHER) => how != TestResult::TimedOut,
        Some(_) => how != TestResult::Passed,
        None => how == TestResult::Passed,
    }
}

fn expected(list: &str) -> anyhow::Result<BTreeMap<&str, &str>> {
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (test, reason) = line.split_once(": ").with_context(|| format!("`{line}` has no reason"))?;
            Ok((test, reason))
        })
        .collect()
}

/// Applies the differences of another list: a different reason, or one that begins with `passes`.
fn apply_differences<'l>(all: &mut BTreeMap<&'l str, &'l str>, list: &'l str) -> anyhow::Result<()> {
    for (test, reason) in expected(list)? {
        let passes = reason.starts_with("passes");
        ensure!(passes == all.contains_key(test), "the entry for {test} changes nothing");
        if passes {
            all.remove(test)
        } else {
            all.insert(test, reason)
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_passes_only_with_success_and_status_zero() {
        assert_eq!(how(true, "time: 1\nsuccess: a\n"), TestResult::Passed);
        assert_eq!(how(false, "success: a\n"), TestResult::Failed);
        assert_eq!(how(true, "no word\n"), TestResult::Failed);
        assert_eq!(how(true, "skip: a [\nno leases\n]\n"), TestResult::Skipped);
        assert_eq!(how(false, "skip: a [\n]\nfailure: b [\n]\n"), TestResult::Failed);
    }

    #[test]
    fn families_are_split_over_shares_and_the_longest_is_first() {
        let tests: Vec<String> = (0..30).map(|number| format!("smb2.lock.{number}")).collect();
        let groups = groups(&[&tests[..], &["smb2.connect".to_owned()]].concat());
        let shares: Vec<_> = groups.iter().map(|group| (&*group.share, group.tests.len())).collect();
        assert_eq!(shares, [("connect-0", 1), ("lock-2", 6), ("lock-0", 12), ("lock-1", 12)]);
    }

    #[test]
    fn tests_that_block_connections_have_their_own_groups() {
        let tests = ["smb2.oplock.batch22a", "smb2.oplock.batch22b"].map(str::to_owned);
        let shares: Vec<_> = super::groups(&tests).into_iter().map(|group| group.share).collect();
        assert_eq!(shares, ["oplock-0", "oplockblocked-0"]);
    }

    #[test]
    fn tests_that_need_gmac_share_a_server_without_channels_unless_they_bind() {
        let tests = [
            "smb2.session.signing-hmac-sha-256",
            "smb2.session.bind_negative_smb3signCtoHs",
            "smb2.session.bind_negative_smb3to3s",
            "smb2.session.bind1",
            "smb2.notify.tdis.tdis",
            "smb2.notify.tdis1.tdis1",
        ]
        .map(str::to_owned);
        let groups = groups(&tests);
        let of: Vec<_> = groups.iter().map(|group| (&*group.share, group.kind, group.tests.len())).collect();
        let expected = [
            ("notify-0", Kind::Modes, 1),
            ("notifysingle-0", Kind::Single, 1),
            ("sessionsingle-0", Kind::Single, 1),
            ("session-0", Kind::Modes, 3),
        ];
        assert_eq!(of, expected);
        let offers = tests.each_ref().map(|test| signing::offer(test).is_some());
        assert_eq!(offers, [false, true, false, false, false, false]);
    }

    #[test]
    fn every_expectation_has_a_reason() {
        let list = "# Comment\n\nsmb2.a.b: why\n";
        assert_eq!(expected(list).unwrap(), BTreeMap::from([("smb2.a.b", "why")]));
        assert!(expected("smb2.a.b\n").is_err());
    }

    #[test]
    fn a_test_must_have_its_listed_result() {
        let ends = [TestResult::Passed, TestResult::Skipped, TestResult::Failed, TestResult::TimedOut];
        let expected = |reason| ends.map(|how| is_expected(how, reason));
        assert_eq!(expected(None), [true, false, false, false]);
        assert_eq!(expected(Some("why")), [false, true, true, true]);
        assert_eq!(expected(Some("either: it depends")), [true, true, true, false]);
    }

    #[test]
    fn another_list_contains_only_differences() {
        let mut all = expected("smb2.a: why\nsmb2.b: why\n").unwrap();
        apply_differences(&mut all, "smb2.b: passes: it can\nsmb2.c: it cannot\n").unwrap();
        assert_eq!(all, BTreeMap::from([("smb2.a", "why"), ("smb2.c", "it cannot")]));
        assert!(apply_differences(&mut all, "smb2.a: still not\n").is_err(), "both say so");
        assert!(
            apply_differences(&mut all, "smb2.d: passes: it can\n").is_err(),
            "nobody said that it does not"
        );
    }
}
