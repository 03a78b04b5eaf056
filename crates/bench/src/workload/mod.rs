//! Loads from measurements and observations, as input for sizing.
//!
//! [`read`] takes the text of a run of `plimsoll bench`, of fio's figures, of the kernel's counters of NFS mounts or
//! of nfsiostat, and recognizes the form. [`sampled`] takes counters of a running service. [`measured`] converts a
//! whole run for the advisor. This module opens no file and asks no server.

mod counters;
mod fio;
mod measured;
mod mountstats;
mod nfsiostat;
mod observed;
mod run;
mod traffic;

use crate::error::Error;

pub use counters::{Counters, sampled};
pub use measured::measured;
pub use observed::{Observed, Pick};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Run,
    Fio,
    Mountstats,
    Nfsiostat,
}

/// Reads a load from `text`; `name` is what people call it.
///
/// # Errors
/// It is none of the known forms, or damaged; it has several loads and none is picked, or none; counters went
/// backwards; an option of `pick` has no meaning for it. What is wrong, and what is allowed.
pub fn read(name: &str, text: &str, pick: &Pick) -> Result<Observed, Error> {
    let form = Form::of(text).ok_or_else(|| {
        "is not a known form of load; allowed: a run of `plimsoll bench run`, fio's JSON (--output-format=json or json+), \
         /proc/self/mountstats, what nfsiostat prints"
            .to_owned()
    });
    let observed = form.and_then(|form| {
        form.check(pick)?;
        match form {
            Form::Run => run::read(name, text, pick),
            Form::Fio => fio::read(name, text, pick),
            Form::Mountstats => mountstats::read(text, pick),
            Form::Nfsiostat => nfsiostat::read(text, pick),
        }
    });
    observed.map_err(|wrong| Error::Plan(format!("{name}: {wrong}")))
}

impl Form {
    fn of(text: &str) -> Option<Self> {
        let json = crate::fio::split(text).1;
        let heading = |line: &str| line.contains(" mounted on ");
        if json.contains("\"plimsoll-run/") {
            Some(Self::Run)
        } else if json.contains("\"fio version\"") {
            Some(Self::Fio)
        } else if text.lines().any(|line| heading(line) && line.contains(" with fstype ")) {
            Some(Self::Mountstats)
        } else if text.lines().any(|line| heading(line) && line.trim_end().ends_with(':')) {
            Some(Self::Nfsiostat)
        } else {
            None
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Run => "a run of ours",
            Self::Fio => "fio's figures",
            Self::Mountstats => "mountstats",
            Self::Nfsiostat => "nfsiostat's output",
        }
    }

    /// Refuses options of `pick` without a meaning for this form.
    fn check(self, pick: &Pick) -> Result<(), String> {
        let benchmark = matches!(self, Self::Run | Self::Fio);
        let options = [
            ("--cell", pick.cell.is_some(), benchmark),
            ("--pattern", pick.pattern.is_some(), !benchmark),
            ("--mount", pick.mount.is_some(), !benchmark),
            ("--since", pick.since.is_some(), self == Self::Mountstats),
        ];
        let vain = options.iter().find(|(_, is_given, has_meaning)| *is_given && !has_meaning);
        let has = options.iter().filter(|(_, _, has_meaning)| *has_meaning).map(|(option, ..)| *option);
        vain.map_or(Ok(()), |(option, ..)| {
            let has: Vec<&str> = has.collect();
            Err(format!("{option} has no meaning for {}; allowed: {}", self.name(), has.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests;
