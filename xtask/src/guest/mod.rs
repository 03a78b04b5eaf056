//! A Linux guest under QEMU: the kernel's NFS client against a server on the host, and power cuts of a server in the
//! guest.

pub(crate) mod client;
mod crossproto;
mod disagreement;
mod disk;
mod form;
mod hold;
pub(crate) mod image;
mod json;
mod kernel_client;
pub(crate) mod machine;
mod namespace;
mod package;
mod pjdfstest;
mod power_cut;
mod prove;
mod quota;
mod rquota;
mod shared;
mod smb;
mod snapshots;
mod suite;
mod tls;
mod tune;
mod two_clients;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;

use crate::debian::Suite;
use form::Form;
use image::Image;
use machine::{Guest, HOST_ADDRESS};
use shared::Machine;

/// The tests in a guest.
#[derive(clap::Subcommand)]
pub(crate) enum Task {
    /// Build a guest's image if it is missing.
    Image(ImageArgs),
    /// Run a script in the guest and exit with its status.
    Run(RunArgs),
    /// Test the kernel's NFS client in the guest against a server on this machine.
    KernelClient(kernel_client::Args),
    /// Test the kernel's NFS client over TLS.
    Tls(tls::Args),
    /// Test the kernel's SMB client in the guest against a server on this machine.
    Smb(smb::Args),
    /// Test the kernel's SMB and NFS clients in one guest on one volume of a server on this machine.
    Crossproto(crossproto::Args),
    /// Test two guests at one server: locks between them, across its crash, and after a network failure.
    TwoClients(two_clients::Args),
    /// Cut the power of a guest that serves a file system, repeatedly, and check all acknowledged operations.
    PowerCut(power_cut::Args),
    /// Test managed volumes with the kernel's client: capacity, and a limit that grows while fio runs.
    Hold(hold::Args),
    /// Test snapshots with the kernel's clients, while the live files change.
    Snapshots(snapshots::Args),
    /// Run pjdfstest over NFS without snapshots and with a snapshot before each part, and compare the results.
    Pjdfstest(pjdfstest::Args),
    /// Compare fio on the kernel's client with the built-in benchmark client, on the same limited volumes.
    Prove(prove::Args),
    /// Check the advice of `client check` for the kernel's mounts, and the effect of its commands.
    Tune(tune::Args),
    /// Install, set up, upgrade and remove the Debian package under systemd.
    Package(package::Args),
    /// Test capacity on a kernel with project quotas.
    Quota,
    /// Test `quota` in the guest against a server on this machine.
    Rquota(rquota::Args),
    /// Run all tests of a release in one guest.
    Suite(suite::Args),
}

#[derive(clap::Args)]
pub(crate) struct ImageArgs {
    /// The release of Debian.
    #[arg(long, value_enum, default_value = "bookworm")]
    suite: Suite,
}

#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// Script to run, by bash as root.
    script: PathBuf,
    /// Parameters, NAME=VALUE; HOST is this machine's loopback.
    parameters: Vec<String>,
    /// Debian release of the guest.
    #[arg(long, value_enum, default_value = "bookworm")]
    suite: Suite,
    /// Files to add to the guest's /job directory.
    #[arg(long)]
    file: Vec<PathBuf>,
    /// Memory of the guest.
    #[arg(long, default_value_t = 1024)]
    memory_mib: u32,
    /// Seconds after which the machine is killed.
    #[arg(long, default_value_t = 300)]
    timeout_s: u64,
}

pub(crate) fn run(task: &Task) -> anyhow::Result<()> {
    match task {
        Task::Image(args) => {
            Image::build(args.suite).map(|image| eprintln!("guest: {}", image.root().display()))
        }
        Task::Run(args) => run_script(args),
        Task::Crossproto(args) => crossproto::run(args),
        Task::Rquota(args) => rquota::run(args),
        Task::TwoClients(args) => two_clients::run(args),
        Task::PowerCut(args) => power_cut::run(args),
        Task::Package(args) => package::run(args),
        Task::Suite(args) => suite::run(args),
        Task::KernelClient(_)
        | Task::Tls(_)
        | Task::Smb(_)
        | Task::Hold(_)
        | Task::Snapshots(_)
        | Task::Pjdfstest(_)
        | Task::Prove(_)
        | Task::Tune(_)
        | Task::Quota => run_part(task, &mut Machine::Own, Form::Full),
    }
}

fn run_part(task: &Task, machine: &mut Machine<'_>, form: Form) -> anyhow::Result<()> {
    match task {
        Task::KernelClient(args) => kernel_client::run(args, machine, form),
        Task::Tls(args) => tls::run(args, machine, form),
        Task::Smb(args) => smb::run(args, machine, form),
        Task::Crossproto(args) => crossproto::run_in_namespace(args, machine, form),
        Task::Hold(args) => hold::run(args, machine),
        Task::Snapshots(args) => snapshots::run(args, machine, form),
        Task::Pjdfstest(args) => pjdfstest::run(args, machine),
        Task::Prove(args) => prove::run(args, machine, form),
        Task::Tune(args) => tune::run(args, machine, form),
        Task::Quota => quota::run(machine),
        Task::Rquota(args) => rquota::run_in_namespace(args, machine),
        Task::Image(_)
        | Task::Run(_)
        | Task::TwoClients(_)
        | Task::PowerCut(_)
        | Task::Package(_)
        | Task::Suite(_) => {
            bail!("not a part of the suite")
        }
    }
}

fn run_script(args: &RunArgs) -> anyhow::Result<()> {
    let image = Image::build(args.suite)?;
    let mut guest = Guest::new(&image).memory_mib(args.memory_mib).set("HOST", HOST_ADDRESS);
    for parameter in &args.parameters {
        let Some((name, value)) = parameter.split_once('=') else {
            bail!("invalid parameter `{parameter}`: use NAME=VALUE")
        };
        guest = guest.set(name, value);
    }
    for file in &args.file {
        guest = guest.file(&file.file_name().unwrap_or_default().to_string_lossy(), file);
    }
    guest.run(&std::fs::read_to_string(&args.script)?, Duration::from_secs(args.timeout_s))?.require_success()
}
