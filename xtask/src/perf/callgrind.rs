//! A server under callgrind, which counts its instructions in user space.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use crate::process::{self, text};

/// An operation of prctl(2) since Linux 6.4.
const PR_GET_AUXV: u64 = 0x4155_5856;

#[cfg(target_arch = "x86_64")]
const PRCTL: i64 = 157;
#[cfg(target_arch = "aarch64")]
const PRCTL: i64 = 167;

/// A program and its arguments.
#[derive(clap::Args)]
pub(crate) struct Program {
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    argv: Vec<OsString>,
}

/// Becomes the program, which cannot get its auxiliary vector from the kernel.
///
/// Valgrind 3.19 passes this prctl on, so rustix finds the address of a vDSO that the program does not have, and reads
/// from it. Without the prctl rustix reads /proc/self/auxv, which valgrind replaces by its own.
pub(crate) fn run_without_auxv(program: &Program) -> anyhow::Result<()> {
    let auxv = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, PR_GET_AUXV)?;
    let calls = [(PRCTL, vec![SeccompRule::new(vec![auxv])?])].into();
    let refusal = SeccompAction::Errno(Errno::INVAL.raw_os_error().unsigned_abs());
    let arch = std::env::consts::ARCH.try_into()?;
    let filter: BpfProgram = SeccompFilter::new(calls, SeccompAction::Allow, refusal, arch)?.try_into()?;
    seccompiler::apply_filter(&filter)?;
    let (name, arguments) = program.argv.split_first().context("an empty command")?;
    Err(Command::new(name).args(arguments).exec()).with_context(|| format!("cannot run {}", name.display()))
}

/// The prefix that runs a command under callgrind, for a [`Counter`] in the same directory.
pub(super) fn prefix(work: &Path) -> anyhow::Result<Vec<String>> {
    let this = std::env::current_exe()?;
    Ok(vec![
        text(&this)?.to_owned(),
        "without-auxv".to_owned(),
        "valgrind".to_owned(),
        "--tool=callgrind".to_owned(),
        format!("--callgrind-out-file={}", text(&work.join("callgrind.out"))?),
        vgdb_prefix(work)?,
    ])
}

fn vgdb_prefix(work: &Path) -> anyhow::Result<String> {
    Ok(format!("--vgdb-prefix={}", text(&work.join("vgdb"))?))
}

pub(super) struct Counter {
    pid: u32,
    work: PathBuf,
    /// Callgrind numbers the profiles that it writes.
    dumps: u32,
}

impl Counter {
    pub(super) fn new(pid: u32, work: &Path) -> Self {
        Self { pid, work: work.to_owned(), dumps: 0 }
    }

    /// Instructions since the last call, or since the start of the server.
    pub(super) fn take(&mut self) -> anyhow::Result<u64> {
        let pid = format!("--pid={}", self.pid);
        process::output(Path::new("/"), "vgdb", &[&vgdb_prefix(&self.work)?, &pid, "dump"])?;
        self.dumps += 1;
        let path = self.work.join(format!("callgrind.out.{}", self.dumps));
        let dump = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        fs::remove_file(&path)?;
        totals(&dump).with_context(|| format!("no totals in {}", path.display()))
    }
}

/// The first event of a profile, which is Ir, over all functions (callgrind's format, "totals").
fn totals(dump: &str) -> Option<u64> {
    let line = dump.lines().find_map(|line| line.strip_prefix("totals:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_a_profile_are_read() {
        let dump = "version: 1\npid: 7\nevents: Ir\nsummary: 13\nfn=(1) main\n4 12\n\ntotals: 4236017\n";
        assert_eq!(totals(dump), Some(4_236_017));
        assert_eq!(totals("events: Ir Dr\ntotals: 5 6\n"), Some(5));
        assert_eq!(totals("events: Ir\n"), None);
        assert_eq!(totals("totals: many\n"), None);
    }
}
