//! The machine of a job: a machine of its own, or one that several jobs share in turn.

use std::time::Duration;

use anyhow::ensure;

use super::image::Image;
use super::machine::{Booted, Guest, Running};

/// The most memory that any of the jobs needs.
const MEMORY_MIB: u32 = 3000;
const NETWORKS: usize = 2;

pub(super) enum Machine<'a> {
    /// A machine that is booted for this job, with its resources.
    Own,
    /// The machine of the previous job, unless that job failed.
    Shared(Box<Shared<'a>>),
}

pub(super) struct Shared<'a> {
    guest: Guest<'a>,
    booted: Option<Booted>,
}

impl<'a> Machine<'a> {
    pub(super) fn shared(image: &'a Image) -> Self {
        let guest = Guest::new(image).memory_mib(MEMORY_MIB).networks(NETWORKS).takes_jobs();
        Self::Shared(Box::new(Shared { guest, booted: None }))
    }

    /// Takes the parameters and files of the job from `guest`.
    pub(super) fn start(
        &mut self,
        guest: &Guest<'_>,
        script: &str,
        within: Duration,
    ) -> anyhow::Result<Running<'_>> {
        match self {
            Self::Own => guest.start(script, within),
            Self::Shared(shared) => shared.start(guest, script, within),
        }
    }

    /// The next job boots another machine.
    pub(super) fn end(&mut self) {
        if let Self::Shared(shared) = self {
            shared.booted = None;
        }
    }
}

impl Shared<'_> {
    fn start(&mut self, guest: &Guest<'_>, script: &str, within: Duration) -> anyhow::Result<Running<'_>> {
        ensure!(self.guest.suffices_for(guest), "the shared machine is too small for this job");
        let job = guest.pack(script)?;
        let machine = || {
            let mut booted = self.booted.take().map_or_else(|| self.guest.boot_for_jobs(), Ok)?;
            booted.hand(&job)?;
            Ok(booted)
        };
        let running = Running::start(machine, within);
        std::fs::remove_file(job)?;
        Ok(running?.returning_to(&mut self.booted))
    }
}
