//! Permissions of files and directories that SMB clients create, as flags.

use clap::Args;
use control::{CREATE_MODE, DIRECTORY_MODE, Error, SmbAssignment};

/// Modes of new files and directories of a share.
#[derive(Debug, Args)]
pub(crate) struct ShareModes {
    /// Permissions of new files over SMB, in octal, like 0660 for a group that works together [default: 0644]
    #[arg(long, value_name = "MODE", value_parser = create_mode, help_heading = "SMB", hide_short_help = true)]
    create_mode: Option<SmbAssignment>,
    /// Permissions of new directories over SMB, in octal, like 2770, whose entries inherit the group [default: 0755]
    #[arg(long, value_name = "MODE", value_parser = directory_mode, help_heading = "SMB", hide_short_help = true)]
    directory_mode: Option<SmbAssignment>,
}

impl ShareModes {
    /// Settings of a share: `others`, and the given modes.
    pub(crate) fn with(&self, others: &[SmbAssignment]) -> Vec<SmbAssignment> {
        others.iter().copied().chain(self.create_mode).chain(self.directory_mode).collect()
    }
}

fn create_mode(text: &str) -> Result<SmbAssignment, Error> {
    SmbAssignment::new(CREATE_MODE, text)
}

fn directory_mode(text: &str) -> Result<SmbAssignment, Error> {
    SmbAssignment::new(DIRECTORY_MODE, text)
}
