//! A Linux guest under QEMU: the kernel's NFS client against a server on the host, and power cuts of a server in the
//! guest.

mod apart;
mod crossproto;
mod disk;
mod form;
mod hold;
mod image;
mod json;
mod kernel_client;
mod machine;
mod namespace;
mod power_cut;
mod prove;
mod quota;
mod shared;
mod smb;
mod suite;
mod tls;
mod tune;
mod two_clients;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;

use form::Form;
use image::{Image, Suite};
use machine::{Guest, HOST_ADDRESS};
use shared::Machine;

/// What the guest is to do.
#[derive(clap::Subcommand)]
pub(crate) enum Task {
    /// Build a guest's image, or find it built.
    Image(ImageArgs),
    /// Run a script in the guest and exit with its status.
    Run(RunArgs),
    /// The Linux kernel's NFS client in the guest, against a server on this machine.
    KernelClient(kernel_client::Args),
    /// The kernel's client over TLS.
    Tls(tls::Args),
    /// The Linux kernel's SMB client in the guest, against a server on this machine.
    Smb(smb::Args),
    /// The Linux kernel's clients of SMB and NFS in one guest, at one volume of a server on this machine.
    Crossproto(crossproto::Args),
    /// Two guests at one server: locks between them, over its crash, and after one was cut off.
    TwoClients(two_clients::Args),
    /// Cut the power of a guest that serves a file system, again and again, and check what it acknowledged.
    PowerCut(power_cut::Args),
    /// The kernel's client at managed volumes: capacity, and a limit that grows while fio runs.
    Hold(hold::Args),
    /// The benchmark on mounts of the kernel's client, by fio, against the built-in client on the same limited volumes.
    Prove(prove::Args),
    /// What `client check` says of mounts of the kernel's client, and what tuning them brings.
    Tune(tune::Args),
    /// The tests of capacity, on a kernel with project quotas.
    Quota,
    /// All tests of a release's guest in turn, in one guest.
    Suite(suite::Args),
}

/// `guest image`.
#[derive(clap::Args)]
pub(crate) struct ImageArgs {
    /// The release of Debian.
    #[arg(long, value_enum, default_value = "bookworm")]
    suite: Suite,
}

/// `guest run`.
#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// The script, run by bash as root.
    script: PathBuf,
    /// Parameters, NAME=VALUE; HOST is this machine's loopback.
    parameters: Vec<String>,
    /// The release of Debian in the guest.
    #[arg(long, value_enum, default_value = "bookworm")]
    suite: Suite,
    /// A file for the guest's /job directory.
    #[arg(long)]
    file: Vec<PathBuf>,
    /// Memory.
    #[arg(long, default_value_t = 1024)]
    memory_mib: u32,
    /// The machine is killed after so many seconds.
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
        Task::TwoClients(args) => two_clients::run(args),
        Task::PowerCut(args) => power_cut::run(args),
        Task::Suite(args) => suite::run(args),
        Task::KernelClient(_)
        | Task::Tls(_)
        | Task::Smb(_)
        | Task::Hold(_)
        | Task::Prove(_)
        | Task::Tune(_)
        | Task::Quota => run_part(task, &mut Machine::OfItsOwn, Form::Full),
    }
}

/// Runs a task that is a part of [`Task::Suite`], on this machine.
fn run_part(task: &Task, machine: &mut Machine<'_>, form: Form) -> anyhow::Result<()> {
    match task {
        Task::KernelClient(args) => kernel_client::run(args, machine, form),
        Task::Tls(args) => tls::run(args, machine, form),
        Task::Smb(args) => smb::run(args, machine, form),
        Task::Crossproto(args) => crossproto::run_in_namespace(args, machine, form),
        Task::Hold(args) => hold::run(args, machine),
        Task::Prove(args) => prove::run(args, machine, form),
        Task::Tune(args) => tune::run(args, machine, form),
        Task::Quota => quota::run(machine),
        Task::Image(_) | Task::Run(_) | Task::TwoClients(_) | Task::PowerCut(_) | Task::Suite(_) => {
            bail!("not a part of the suite")
        }
    }
}

fn run_script(args: &RunArgs) -> anyhow::Result<()> {
    let image = Image::build(args.suite)?;
    let mut guest = Guest::new(&image).memory_mib(args.memory_mib).set("HOST", HOST_ADDRESS);
    for parameter in &args.parameters {
        let Some((name, value)) = parameter.split_once('=') else { bail!("`{parameter}` is not NAME=VALUE") };
        guest = guest.set(name, value);
    }
    for file in &args.file {
        guest = guest.file(&file.file_name().unwrap_or_default().to_string_lossy(), file);
    }
    guest.run(&std::fs::read_to_string(&args.script)?, Duration::from_secs(args.timeout_s))?.require_success()
}
