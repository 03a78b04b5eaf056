//! The steps of each tier.
//!
//! A free core takes the first step that can run: first the checks that fail quickly, then the longest. All tested
//! programs are compiled once, by the profile `dev`, which optimizes the data path. Cargo commands name the whole
//! workspace: for a part of it cargo chooses fewer features and compiles the dependencies again.

use crate::process::{self, text};

use super::step::{Load, Step};

pub(super) const PROGRAMS: &str = "test programs";
/// Models of 100,000 steps, 100 kills at any moment and one at each system call, 200 power cuts. Their short forms, and
/// those of [`LONG`], are among the storage and protocol tests.
const LONG_UNDO: &str = "long tests of undo stores";
/// fsx of 100,000 steps, 100 kills with quotas, 50 power cuts of Btrfs.
const LONG: &str = "long tests";
/// A lane without a short form: its suite is compiled first.
const PJDFSTEST: &str = "pjdfstest";
/// Volumes on a CephFS and gateways in front of it, in a network namespace.
const CEPH: &str = "volumes on CephFS";
/// Volumes on a CephFS of Ceph 18.2, which runs in a root directory of Debian 13.
const CEPH_18: &str = "volumes on CephFS 18";
const IMAGE: &str = "guest image";
const IMAGE_13: &str = "guest image 13";

/// Needs neither a guest nor root.
pub(super) fn test() -> anyhow::Result<Vec<Step>> {
    Ok(vec![
        command("fmt", "cargo fmt --all --check", 2).never_again(),
        xtask("tidy", "tidy", 2)?.never_again(),
        programs(),
        xtask("protocol tests", "programs --group protocol", 30)?.after(&[PROGRAMS]),
        xtask("storage tests", "programs --group storage", 30)?.after(&[PROGRAMS]),
        xtask("unit tests", "programs --group unit", 30)?.after(&[PROGRAMS]),
        // No other crate has examples. For the whole workspace cargo would choose other features than for its tests.
        command("doc tests", "cargo test --locked --package envelope --doc", 10).after(&[PROGRAMS]),
    ])
}

pub(super) fn ci() -> anyhow::Result<Vec<Step>> {
    Ok(vec![
        programs(),
        xtask(IMAGE, "guest image", 20)?,
        xtask(IMAGE_13, "guest image --suite trixie", 20)?,
        with_binary("guest", "guest suite --brief", 40)?.after(&[IMAGE]),
        with_binary("guest 13", "guest suite --brief --image trixie", 30)?.after(&[IMAGE_13]),
        with_binary("smbtorture", "smbtorture --brief", 20)?.takes(Load::Little).never_again(),
        with_binary("pages", "pages", 32)?,
        with_binary("docs", "docs", 32)?,
        with_binary("interop", "interop", 20)?,
        with_binary("generators", "generators", 8)?,
        with_binary("crash", "crash --smb --rounds 3", 10)?.never_again(),
        with_binary("power cut on ext4", "guest power-cut --smb --fs ext4 --rounds 1", 15)?
            .after(&[IMAGE])
            .never_again(),
        with_binary("power cut on XFS", "guest power-cut --smb --fs xfs --rounds 1", 15)?
            .after(&[IMAGE])
            .never_again(),
        with_binary("package", "guest package", 10)?.after(&[IMAGE]),
        with_binary(CEPH, "ceph --brief --only suites,kill,evict,gateways --programs recount,snapshots", 20)?
            .never_again(),
        command("schemathesis", "conformance/schemathesis/run 15", 15).after(&[PROGRAMS]).never_again(),
        command("vaults in buckets", "conformance/s3/run moto", 10).after(&[PROGRAMS]).never_again(),
        command("fio-plot", "conformance/fio-plot/run", 10).after(&[PROGRAMS]),
        xtask("timed tests", "programs --group timed --brief", 20)?.after(&[PROGRAMS]).takes(Load::Machine),
        with_binary("two clients", "guest two-clients --brief", 15)?
            .after(&[IMAGE, IMAGE_13])
            .takes(Load::Machine),
        with_binary("prove", "prove --brief", 20)?.takes(Load::Machine),
    ])
}

/// The long suites. Each step is a lane: its result is valid while its inputs are unchanged. The parts of a guest that
/// measure have lanes of their own.
pub(super) fn full() -> anyhow::Result<Vec<Step>> {
    Ok(vec![
        programs(),
        xtask(IMAGE, "guest image", 20)?,
        xtask(IMAGE_13, "guest image --suite trixie", 20)?,
        with_binary("guest", "guest suite --only kernel-client,smb,crossproto,hold,snapshots,quota", 40)?
            .after(&[IMAGE]),
        with_binary("guest 13", "guest suite --image trixie", 30)?.after(&[IMAGE_13]),
        with_binary("smbtorture", "smbtorture", 40)?.takes(Load::Little).never_again(),
        with_binary("power cut on ext4", "guest power-cut --smb --fs ext4 --rounds 8", 30)?
            .after(&[IMAGE])
            .never_again(),
        with_binary("power cut on XFS", "guest power-cut --smb --fs xfs --rounds 8", 30)?
            .after(&[IMAGE])
            .never_again(),
        with_binary("crash", "crash --smb --rounds 20", 20)?.never_again(),
        with_binary(CEPH, "ceph", 60)?.after(&[IMAGE]).never_again(),
        with_binary(CEPH_18, "ceph --suite trixie --only suites,kill,evict,gateways --brief", 40)?.never_again(),
        with_binary(PJDFSTEST, "guest pjdfstest", 30)?.after(&[IMAGE]).never_again(),
        with_binary("tune in a guest", "guest suite --only tune", 20)?.after(&[IMAGE]),
        command("schemathesis", "conformance/schemathesis/run 60", 20).after(&[PROGRAMS]).never_again(),
        command("vaults in buckets", "conformance/s3/run", 30).after(&[PROGRAMS]).never_again(),
        xtask(LONG_UNDO, "programs --only posix::undo --long", 60)?.after(&[PROGRAMS]).never_again(),
        xtask(LONG, "programs --only posix::snapshots,posix::owner_quotas,plimsoll::manage,cluster::simulation --long", 60)?
            .after(&[PROGRAMS])
            .never_again(),
        xtask("timed tests", "programs --group timed", 40)?.after(&[PROGRAMS]).takes(Load::Machine),
        with_binary("prove in a guest", "guest suite --only prove", 20)?.after(&[IMAGE]).takes(Load::Machine),
        with_binary("two clients", "guest two-clients", 24)?.after(&[IMAGE, IMAGE_13]).takes(Load::Machine),
        with_binary("prove", "prove", 40)?.takes(Load::Machine),
    ])
}

/// Whether a step only prepares others and is not a lane of `full`: it is quick if its results exist.
pub(super) fn prepares(step: &Step) -> bool {
    [PROGRAMS, IMAGE, IMAGE_13].contains(&step.name)
}

fn programs() -> Step {
    command(PROGRAMS, "cargo test --locked --workspace --all-targets --no-run", 40).never_again()
}

fn command(name: &'static str, line: &str, minutes_max: u64) -> Step {
    Step::new(name, line.split(' ').map(String::from).collect(), minutes_max)
}

fn xtask(name: &'static str, line: &str, minutes_max: u64) -> anyhow::Result<Step> {
    let own = std::env::current_exe()?;
    Ok(command(name, &format!("{} {line}", text(&own)?), minutes_max))
}

/// The command tests the service compiled with the tests.
fn with_binary(name: &'static str, line: &str, minutes_max: u64) -> anyhow::Result<Step> {
    let binary = process::target_dir().join("debug/plimsoll");
    let mut step = xtask(name, line, minutes_max)?;
    step.argv.extend(["--binary".to_owned(), text(&binary)?.to_owned()]);
    Ok(step.after(&[PROGRAMS]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiers() -> [Vec<Step>; 3] {
        [test().unwrap(), ci().unwrap(), full().unwrap()]
    }

    #[test]
    fn each_step_has_a_unique_name_and_its_required_steps() {
        for steps in tiers() {
            for (index, step) in steps.iter().enumerate() {
                for needed in &step.needs {
                    assert!(steps.iter().any(|other| other.name == *needed), "{} needs {needed}", step.name);
                }
                assert!(steps[..index].iter().all(|other| other.name != step.name), "{} twice", step.name);
            }
        }
    }

    #[test]
    fn tests_need_no_guest() {
        assert!(test().unwrap().iter().all(|step| !step.argv.iter().any(|word| word == "guest")));
    }

    #[test]
    fn every_long_suite_has_a_short_form() {
        let [_, ci, full] = tiers();
        let elsewhere = ["tune in a guest", "prove in a guest", CEPH_18, LONG, LONG_UNDO, PJDFSTEST];
        for lane in full.iter().filter(|lane| !elsewhere.contains(&lane.name)) {
            assert!(ci.iter().any(|step| step.name == lane.name), "{}", lane.name);
        }
    }

    #[test]
    fn crashes_power_cuts_and_conformance_are_never_retried() {
        let words = ["crash", "power-cut", "smbtorture", "pjdfstest", "schemathesis", "s3/run", "ceph"];
        for step in tiers().iter().flatten() {
            let excepted = step.argv.iter().any(|arg| words.iter().any(|word| arg.contains(word)));
            if excepted {
                assert_eq!(step.retry, super::super::step::Retry::Never, "{}", step.name);
            }
        }
    }
}
