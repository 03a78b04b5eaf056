//! The guest's image: a Debian root file system, a kernel and an initramfs, built once and stored under `target/guest`.
//!
//! The kernel of the test machine may lack an NFS client; Debian's cloud kernel has one. Building needs neither a loop
//! device nor a mount: `mke2fs -d` fills the root image from a directory.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::debian::{self, Cache, Suite};
use crate::packages;
use crate::process::{self, text};

/// The package that depends on the suite's newest kernel for virtual machines.
const KERNEL_PACKAGE: &str = "linux-image-cloud-amd64";
/// Packages of every guest: the client and the tools of its tests.
const GUEST_PACKAGES: &str = "nfs-common,nfs4-acl-tools,netbase,fio,kmod,busybox-static,iproute2,procps";
/// Drivers the initramfs loads before there is a root; ext4 and the serial console are in the kernel.
const BOOT_MODULES: [&str; 3] = ["virtio_pci", "virtio_blk", "virtio_net"];
/// Parts of the root that no test reads.
const SUPERFLUOUS: [&str; 9] = [
    "var/cache/apt",
    "var/lib/apt/lists",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "lib/modules/KERNEL/kernel/sound",
    "lib/modules/KERNEL/kernel/drivers/gpu",
    "lib/modules/KERNEL/kernel/drivers/infiniband",
    "lib/modules/KERNEL/kernel/drivers/media",
];
const BOOT_SCRIPT: &str = include_str!("../../guest/boot.sh");
/// Incremented by hand when the steps below change.
const RECIPE_VERSION: u64 = 3;

const COMMAND_MAX: Duration = Duration::from_secs(900);

/// Further packages of the guest with this release: file systems, the kernel's own NFS server as a reference, systemd for the
/// test of the package, the client of remote quotas, and rsync; or TLS.
fn more_packages(suite: Suite) -> &'static str {
    match suite {
        Suite::Bookworm => "nfs-kernel-server,e2fsprogs,xfsprogs,systemd-sysv,quota,rsync",
        Suite::Trixie => "ktls-utils",
    }
}

pub(crate) struct Image {
    dir: PathBuf,
}

impl Image {
    /// The image of the current recipe, built if it is missing. Needs root.
    pub(crate) fn build(suite: Suite) -> anyhow::Result<Self> {
        let home = process::target_dir().join("guest");
        let (name, log) = (suite.name(), home.join(format!("image-{}.log", suite.name())));
        let cache = Cache { home: &home, name: &format!("image-{name}"), key: recipe_key(suite) };
        let dir = cache.directory(|dir| Recipe { suite, dir, log: &log }.cook())?;
        Ok(Self { dir })
    }

    pub(crate) fn kernel(&self) -> PathBuf {
        self.dir.join("vmlinuz")
    }

    pub(crate) fn initramfs(&self) -> PathBuf {
        self.dir.join("initramfs")
    }

    /// An ext4 file system; to be opened only with a temporary overlay.
    pub(crate) fn root(&self) -> PathBuf {
        self.dir.join("root.ext4")
    }
}

struct Recipe<'r> {
    suite: Suite,
    dir: &'r Path,
    log: &'r Path,
}

impl Recipe<'_> {
    fn cook(&self) -> anyhow::Result<()> {
        drop(fs::remove_file(self.log));
        packages::require(packages::FOR_GUEST)?;
        let root = self.dir.join("root");
        eprintln!("guest: building the root file system, log in {}", self.log.display());
        let packages = format!("{GUEST_PACKAGES},{}", more_packages(self.suite));
        debian::bootstrap(self.suite, &packages, &root, self.log)?;
        let version = self.unpack_kernel(&root)?;
        self.build_initramfs(&root, &version)?;
        debian::remove_parts(&root, SUPERFLUOUS.map(|part| part.replace("KERNEL", &version)))?;
        fs::create_dir(root.join("job"))?;
        let image = self.dir.join("root.ext4");
        self.run(&[
            "mke2fs",
            "-q",
            "-t",
            "ext4",
            "-O",
            "^has_journal",
            "-d",
            text(&root)?,
            text(&image)?,
            "1500M",
        ])?;
        fs::remove_dir_all(&root)?;
        Ok(())
    }

    /// Unpacks the kernel without installing it: no hooks, no initramfs-tools. Returns its version.
    fn unpack_kernel(&self, root: &Path) -> anyhow::Result<String> {
        let script = format!(
            "set -e; apt-get update; cd /tmp; apt-get download \
             $(apt-cache depends {KERNEL_PACKAGE} | sed -n 's/.*Depends: \\(linux-image-[0-9].*\\)/\\1/p' | head -n 1); \
             dpkg-deb -x linux-image-*.deb /tmp/kernel; \
             mkdir -p /lib/modules; mv $(find /tmp/kernel -path '*/lib/modules/*' -prune) /lib/modules/; \
             mv /tmp/kernel/boot/vmlinuz-* /tmp/; \
             rm -rf /tmp/kernel /tmp/*.deb; depmod \"$(ls /lib/modules)\""
        );
        self.run(&["chroot", text(root)?, "sh", "-c", &script])?;
        let version =
            fs::read_dir(root.join("lib/modules"))?.next().context("no kernel modules")??.file_name();
        let version = version.into_string().ok().context("kernel version is not UTF-8")?;
        fs::rename(root.join(format!("tmp/vmlinuz-{version}")), self.dir.join("vmlinuz"))?;
        Ok(version)
    }

    /// A busybox, the disk and network drivers, and `boot.sh`.
    fn build_initramfs(&self, root: &Path, version: &str) -> anyhow::Result<()> {
        let tree = self.dir.join("initramfs.d");
        for dir in ["bin", "dev", "proc", "sys", "root", "modules"] {
            fs::create_dir_all(tree.join(dir))?;
        }
        fs::copy(root.join("bin/busybox"), tree.join("bin/busybox"))?;
        fs::write(tree.join("init"), BOOT_SCRIPT)?;
        fs::set_permissions(tree.join("init"), fs::Permissions::from_mode(0o755))?;
        let mut order: Vec<String> = Vec::new();
        for module in BOOT_MODULES {
            for file in module_files(root, version, module)? {
                let packed = root.join(file.trim_start_matches('/'));
                let name = file.rsplit('/').next().unwrap_or(&file).trim_end_matches(".xz").to_owned();
                unpack_module(&packed, &tree.join("modules").join(&name))?;
                if !order.contains(&name) {
                    order.push(name);
                }
            }
        }
        fs::write(tree.join("modules/order"), order.join("\n"))?;
        let script = "cd \"$0\" && find . | cpio -o -H newc --quiet >../initramfs";
        self.run(&["sh", "-c", script, text(&tree)?])?;
        fs::remove_dir_all(&tree)?;
        Ok(())
    }

    fn run(&self, argv: &[&str]) -> anyhow::Result<()> {
        process::run(argv, self.log, COMMAND_MAX)
    }
}

/// Copies a module. Debian 13 compresses modules, which busybox cannot load.
fn unpack_module(packed: &Path, to: &Path) -> anyhow::Result<()> {
    if packed.extension().is_some_and(|extension| extension == "xz") {
        let status = Command::new("xz").arg("-dc").arg(packed).stdout(File::create(to)?).status()?;
        ensure!(status.success(), "cannot unpack {}: {status}", packed.display());
    } else {
        fs::copy(packed, to)?;
    }
    Ok(())
}

/// In loading order.
fn module_files(root: &Path, version: &str, module: &str) -> anyhow::Result<Vec<String>> {
    let output = Command::new("chroot")
        .arg(root)
        .args(["modprobe", "-S", version, "--show-depends", module])
        .output()?;
    if !output.status.success() {
        bail!("the kernel has no {module}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let listing = String::from_utf8(output.stdout)?;
    Ok(listing
        .lines()
        .filter_map(|line| line.strip_prefix("insmod "))
        .map(|file| file.trim().to_owned())
        .collect())
}

fn recipe_key(suite: Suite) -> u64 {
    let parts = [suite.name(), more_packages(suite), KERNEL_PACKAGE, GUEST_PACKAGES, BOOT_SCRIPT];
    debian::key(RECIPE_VERSION, parts.into_iter().chain(BOOT_MODULES).chain(SUPERFLUOUS))
}
