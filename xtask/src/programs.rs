//! `cargo xtask programs`: the test programs of the workspace, one after another, each with its own log and verdict.
//!
//! `cargo test` loses the name of the failed program with the output. Here each program is a part of its step, so the
//! scheduler can repeat the failed ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;

use crate::cargo::{self, TestProgram};
use crate::part::{Part, Verdict};
use crate::process::{self, Process};

/// Programs that compare rates and times with their nominal values. They run alone.
const TIMED: [&str; 8] = [
    "bench::agents",
    "bench::eda",
    "bench::generator",
    "bench::rate",
    "plimsoll::agents",
    "plimsoll::limits",
    "plimsoll::loads",
    "plimsoll::measured",
];
/// Crates whose other programs test stored data. They run beside those of the protocols and the service.
const STORAGE: [&str; 6] = ["ceph", "cluster", "posix", "replicate", "vfs", "vfs-testing"];
/// Programs that run conformance suites, models, or servers that are killed. Their first failure counts.
const NEVER_RETRIED: [&str; 12] = [
    "control::kill",
    "plimsoll::locked",
    "posix::capacity",
    "posix::claims",
    "posix::owner_quotas",
    "posix::snapshots",
    "posix::undo",
    "replicate::backup",
    "replicate::replication",
    "vfs-testing::memfs",
    "vfs-testing::mutants",
    "vfs-testing::provisioner",
];
/// Words in the names of programs and tests whose first failure counts.
const NEVER_RETRIED_WORDS: [&str; 9] =
    ["conformance", "crash", "fsx", "hostile", "kill", "ledger", "model", "power_cut", "quota"];
const ALL: &str = "all tests";
/// Tests that need root, by program: they mount file systems, change owners, or use privileged ports.
const NEED_ROOT: [(&str, &[&str]); 13] = [
    ("bench::ganesha", &["drives_ganesha"]),
    ("bench::shared_directory", &[ALL]),
    ("plimsoll", &["output::tests::links_planted_by_others_are_not_followed"]),
    (
        "plimsoll::manage",
        &[
            "counting::volumes_serve_before_they_are_counted",
            "full::a_service_starts_on_a_full_disk",
            "full::a_service_starts_on_a_full_disk_in_memory",
            "full::without_a_reserve_management_only_reads",
        ],
    ),
    ("plimsoll::shared_directory", &[ALL]),
    ("plimsoll::squash", &[ALL]),
    ("posix::acls", &[ALL]),
    ("posix", &["node::fs_uid::tests::thread_gets_both_fs_ids_or_error"]),
    (
        "posix::capabilities",
        &["only_client_xattrs_are_listed_and_set", "ranges_without_kernel_support_are_emulated"],
    ),
    (
        "posix::capacity",
        &[
            "failed_count_is_reported_and_retried",
            "write_on_full_disk_leaves_file_and_count",
            "orderly_end_avoids_recount",
            "ordinary_user_has_volumes",
            "delete_stays_in_volume",
            "make_can_be_repeated_after_crash",
            "remove_can_be_repeated_after_crash",
        ],
    ),
    ("posix::conformance", &[ALL]),
    (
        "posix::room",
        &[
            "full_disk_lends_reserve",
            "removed_volume_frees_space_at_once",
            "reservation_past_free_disk_space_is_refused",
            "process_file_size_limit_refuses_without_killing",
            "removed_file_frees_space_at_once",
        ],
    ),
    (
        "posix::verbs",
        &[
            "new_inode_has_exact_attributes",
            "index_finds_file_renamed_by_others",
            "mount_point_is_not_crossed",
        ],
    ),
];
/// The file to which tests append a line for each part that they skip (`crates/vfs/tests/support/skip.rs`).
const SKIPPED_LOG: &str = "PLIMSOLL_TESTS_SKIPPED";
const REQUIRE_ALL: &str = "PLIMSOLL_TESTS_REQUIRE_ALL";
const BRIEF: &str = "PLIMSOLL_TESTS_BRIEF";
/// Tests of random changes, of kills and of power cuts take many more steps.
pub(crate) const LONG: &str = "PLIMSOLL_TESTS_LONG";
/// A program that runs longer hangs.
const PROGRAM_MAX: Duration = Duration::from_secs(20 * 60);
const LONG_PROGRAM_MAX: Duration = Duration::from_secs(60 * 60);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only the programs of this group.
    #[arg(long, value_enum)]
    group: Option<Group>,
    /// Run only these programs, such as `nfs::server` for crates/nfs/tests/server, or `nfs` for the unit tests of the
    /// crate.
    #[arg(long, value_delimiter = ',', value_name = "PROGRAMS", overrides_with = "only")]
    only: Vec<String>,
    /// Let timed tests measure for a shorter time.
    #[arg(long)]
    brief: bool,
    /// Let tests of random changes, of kills and of power cuts take many more steps.
    #[arg(long)]
    long: bool,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Unit tests of crates and binaries.
    Unit,
    /// The programs in `tests` directories that do not measure time, of the crates that store data.
    Storage,
    /// Such programs of all other crates.
    Protocol,
    /// The programs that measure time.
    Timed,
}

impl Group {
    fn of(program: &TestProgram) -> Self {
        match program.target.as_deref() {
            None => Self::Unit,
            Some(_) if TIMED.contains(&program.name().as_str()) => Self::Timed,
            Some(_) if STORAGE.contains(&program.package.as_str()) => Self::Storage,
            Some(_) => Self::Protocol,
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let chosen = chosen(cargo::test_programs()?, args.group, &args.only)?;
    let logs = process::target_dir().join("ci/programs");
    fs::create_dir_all(&logs)?;
    let skipped = logs.join(format!("skipped-{}", std::process::id()));
    fs::write(&skipped, "")?;
    let settings = settings(args, &skipped)?;
    let time_max = if args.long { LONG_PROGRAM_MAX } else { PROGRAM_MAX };
    let mut failed = Vec::new();
    for program in &chosen {
        check_names(program)?;
        let part = run_one(program, &settings, &logs, time_max)?;
        println!("{part}");
        if part.verdict != Verdict::Ok {
            failed.push(part.name);
        }
    }
    report_skipped(&fs::read_to_string(&skipped)?);
    fs::remove_file(&skipped)?;
    ensure!(failed.is_empty(), "{} of {} failed: {}", failed.len(), chosen.len(), failed.join(", "));
    Ok(())
}

fn chosen(
    programs: Vec<TestProgram>,
    group: Option<Group>,
    only: &[String],
) -> anyhow::Result<Vec<TestProgram>> {
    let names: Vec<String> = programs.iter().map(TestProgram::name).collect();
    if let Some(unknown) = only.iter().find(|name| !names.contains(name)) {
        bail!("unknown test program {unknown}; programs: {}", names.join(", "));
    }
    let is_chosen = |program: &TestProgram| {
        group.is_none_or(|group| Group::of(program) == group)
            && (only.is_empty() || only.contains(&program.name()))
    };
    Ok(programs.into_iter().filter(is_chosen).collect())
}

fn settings(args: &Args, skipped: &Path) -> anyhow::Result<Vec<String>> {
    // The unit tests of procedural macros are linked with the compiler's own libraries.
    let libraries = cargo::compiler_libraries()?;
    let mut settings =
        vec![format!("LD_LIBRARY_PATH={libraries}"), format!("{SKIPPED_LOG}={}", process::text(skipped)?)];
    // Root can install all tools that the tests need.
    if rustix::process::geteuid().is_root() {
        settings.push(format!("{REQUIRE_ALL}=1"));
    }
    if args.brief {
        settings.push(format!("{BRIEF}=1"));
    }
    if args.long {
        settings.push(format!("{LONG}=1"));
    }
    Ok(settings)
}

/// Returns the command without the tests that this user cannot run, which it lists; `None` if no test remains.
fn command(program: &TestProgram, settings: &[String]) -> anyhow::Result<Option<Vec<String>>> {
    let name = program.name();
    let directory = process::text(&program.directory)?;
    let mut argv = vec!["env".to_owned(), "--chdir".to_owned(), directory.to_owned()];
    argv.extend_from_slice(settings);
    argv.extend([format!("CARGO_MANIFEST_DIR={directory}"), process::text(&program.executable)?.to_owned()]);
    let needs_root = if rustix::process::geteuid().is_root() { &[] } else { needs_root(&name) };
    if !needs_root.is_empty() {
        println!("skipped: not root: {name}: {}", needs_root.join(", "));
    }
    if needs_root == [ALL] {
        return Ok(None);
    }
    let skips = needs_root.iter().flat_map(|test| ["--skip", test]);
    argv.extend(["--exact"].into_iter().chain(skips).map(String::from));
    Ok(Some(argv))
}

fn run_one(
    program: &TestProgram,
    settings: &[String],
    logs: &Path,
    time_max: Duration,
) -> anyhow::Result<Part> {
    let name = program.name();
    let Some(argv) = command(program, settings)? else {
        return Ok(Part { name, seconds: 0, verdict: Verdict::Ok });
    };
    let log: PathBuf = logs.join(format!("{}.log", name.replace("::", "-")));
    drop(fs::remove_file(&log));
    let file = process::append_to(&log)?;
    let begun = Instant::now();
    let status = Process::start(&argv, file.try_clone()?.into(), file.into())?.wait(time_max);
    let seconds = begun.elapsed().as_secs();
    let how = match status {
        Ok(status) if status.success() => return Ok(Part { name, seconds, verdict: Verdict::Ok }),
        Ok(status) => status.to_string(),
        Err(why) => format!("{why:#}"),
    };
    let printed = fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
    let printed = String::from_utf8_lossy(&printed);
    println!("--- {name} ---\n{printed}--- the end of {name}: {how} ---");
    let why = first_failure(&printed).unwrap_or(how);
    let verdict =
        if fails_for_good(&name, &printed) { Verdict::FailedForGood(why) } else { Verdict::Failed(why) };
    Ok(Part { name, seconds, verdict })
}

fn needs_root(program: &str) -> &'static [&'static str] {
    NEED_ROOT.iter().find(|(name, _)| *name == program).map_or(&[], |(_, tests)| tests)
}

/// Detects a renamed test that needs root.
fn check_names(program: &TestProgram) -> anyhow::Result<()> {
    let needs_root = needs_root(&program.name());
    if needs_root.is_empty() {
        return Ok(());
    }
    let listed = process::output(&program.directory, process::text(&program.executable)?, &["--list"])?;
    let listed = String::from_utf8(listed)?;
    let has = |test: &str| listed.lines().any(|line| line.strip_suffix(": test") == Some(test));
    let unknown: Vec<&&str> = needs_root.iter().filter(|test| **test != ALL && !has(test)).collect();
    ensure!(
        unknown.is_empty(),
        "NEED_ROOT in xtask/src/programs.rs names no tests of {}: {unknown:?}",
        program.name()
    );
    Ok(())
}

fn fails_for_good(program: &str, printed: &str) -> bool {
    let has_word = |name: &str| NEVER_RETRIED_WORDS.iter().any(|word| name.contains(word));
    NEVER_RETRIED.contains(&program) || has_word(program) || failed_tests(printed).any(has_word)
}

fn failed_tests(printed: &str) -> impl Iterator<Item = &str> {
    let name = |line: &'_ str| line.strip_prefix("test ")?.strip_suffix(" ... FAILED").map(str::len);
    printed.lines().filter_map(move |line| name(line).map(|length| &line[5..5 + length]))
}

fn first_failure(printed: &str) -> Option<String> {
    let mut lines = printed.lines();
    let test = lines.find_map(|line| line.strip_prefix("---- ")?.strip_suffix(" stdout ----"))?;
    let mut lines = lines.skip_while(|line| !line.contains("panicked at "));
    let Some((_, place)) = lines.next().and_then(|line| line.split_once("panicked at ")) else {
        return Some(test.to_owned());
    };
    Some(format!("{test}: {place} {}", lines.next().unwrap_or_default()))
}

fn report_skipped(lines: &str) {
    let mut tests: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (test, why) in lines.lines().filter_map(|line| line.split_once('\t')) {
        tests.entry(why).or_default().push(test);
    }
    for (why, tests) in tests {
        println!("skipped: {why}: {}", tests.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(package: &str, target: Option<&str>) -> TestProgram {
        let (directory, executable) = (PathBuf::new(), PathBuf::new());
        TestProgram { package: package.to_owned(), target: target.map(String::from), directory, executable }
    }

    const FAILED: &str = "running 3 tests\ntest a::good ... ok\ntest a::bad ... FAILED\n\nfailures:\n\n---- a::bad stdout ----\n\n\
        thread 'a::bad' (7) panicked at crates/x/src/a.rs:1:2:\nassertion failed: x\n\n\nfailures:\n    a::bad\n";

    #[test]
    fn every_timed_and_excepted_program_exists() {
        let names: Vec<String> = cargo::test_targets().unwrap();
        for name in TIMED.iter().chain(&NEVER_RETRIED) {
            assert!(names.iter().any(|known| known == name), "{name} is not in {names:?}");
        }
    }

    #[test]
    fn programs_are_chosen_by_group_and_name() {
        let all = || {
            let targets =
                [("vfs", None), ("vfs", Some("door")), ("nfs", Some("server")), ("bench", Some("eda"))];
            targets.map(|(package, target)| program(package, target)).to_vec()
        };
        let names = |group, only: &[&str]| {
            let only: Vec<String> = only.iter().map(ToString::to_string).collect();
            chosen(all(), group, &only).map(|all| all.iter().map(TestProgram::name).collect::<Vec<_>>())
        };
        assert_eq!(names(None, &[]).unwrap().len(), 4);
        assert_eq!(names(Some(Group::Unit), &[]).unwrap(), ["vfs"]);
        assert_eq!(names(Some(Group::Storage), &[]).unwrap(), ["vfs::door"]);
        assert_eq!(names(Some(Group::Protocol), &[]).unwrap(), ["nfs::server"]);
        assert_eq!(names(Some(Group::Timed), &["bench::eda"]).unwrap(), ["bench::eda"]);
        assert!(names(None, &["vfs::doer"]).unwrap_err().to_string().contains("programs: vfs, vfs::door, "));
    }

    #[test]
    fn a_failure_is_reported_with_place_and_message() {
        assert_eq!(first_failure(FAILED).unwrap(), "a::bad: crates/x/src/a.rs:1:2: assertion failed: x");
        assert_eq!(first_failure("running 1 test\n"), None);
        assert_eq!(failed_tests(FAILED).collect::<Vec<_>>(), ["a::bad"]);
    }

    #[test]
    fn excepted_programs_and_tests_fail_for_good() {
        assert!(!fails_for_good("nfs::server", FAILED));
        assert!(fails_for_good("nfs::hostile", FAILED) && fails_for_good("control::kill", FAILED));
        assert!(fails_for_good("nfs::server", &FAILED.replace("a::bad", "a::model::bad")));
        assert!(!fails_for_good("plimsoll::manage", FAILED) && fails_for_good("posix::undo", FAILED));
        for test in ["fsx::fsx_over_smb", "quotas::a_quota_is_set", "steps::a_service_is_killed"] {
            assert!(fails_for_good("plimsoll::manage", &FAILED.replace("a::bad", test)), "{test}");
        }
    }
}
