//! The descriptors that this process may have, and what each part of it gets of them.

use nfs::server::Settings;
use posix::ResourceBudget;
use rustix::process::{Resource, getrlimit};
use transport::{Descriptors, limit_pipes};

/// The part of a protocol in the connections that the descriptors allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of them: no other protocol is served.
    All,
    /// The part of NFS beside SMB: a mount may have sixteen connections.
    Nfs,
    /// The part of SMB beside NFS: a user has one connection, or a few.
    Smb,
}

impl Part {
    /// The part of NFS.
    pub(crate) fn of_nfs(beside_smb: bool) -> Self {
        if beside_smb { Self::Nfs } else { Self::All }
    }

    /// The part of SMB.
    pub(crate) fn of_smb(beside_nfs: bool) -> Self {
        if beside_nfs { Self::Smb } else { Self::All }
    }

    /// Settings with so many threads and this part of the connections.
    pub(crate) fn settings(self, threads: usize) -> Settings {
        let descriptors = descriptors();
        limit_pipes(Descriptors::split(descriptors).pipes / 2);
        let all = Settings::for_descriptors(threads, descriptors);
        match self {
            Self::All => all,
            Self::Nfs => all.with_connection_share(3, 4),
            Self::Smb => all.with_connection_share(1, 4),
        }
    }
}

/// Gives files the descriptors that connections do not use.
pub(crate) fn share_descriptors(budget: &ResourceBudget, connections: usize) {
    budget.set_nodes_max(files_max(descriptors(), connections));
}

/// The limit of descriptors of this process. [`ResourceBudget::of_process`] has raised it to the maximum.
fn descriptors() -> usize {
    let most = getrlimit(Resource::Nofile).current.and_then(|most| usize::try_from(most).ok());
    most.unwrap_or(usize::MAX)
}

/// The limit of descriptors for files: at least a third, and those that connections do not use except an eighth, which
/// new connections need before the next check.
fn files_max(descriptors: usize, connections: usize) -> usize {
    let Descriptors { files, pipes, others, .. } = Descriptors::split(descriptors);
    let taken = connections + pipes + others + descriptors / 8;
    descriptors.saturating_sub(taken).max(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_what_connections_leave_and_a_third_always() {
        assert_eq!(files_max(4096, 0), 4096 - 512 - 256 - 512);
        assert_eq!(files_max(4096, 1000), 4096 - 512 - 256 - 512 - 1000);
        assert_eq!(files_max(4096, 1963), 1365);
    }
}
