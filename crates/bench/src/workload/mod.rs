//! A load as it was found somewhere: what was measured or observed, for sizing what is to carry it.
//!
//! [`read`] takes the text of a run of our own, of fio's figures, of the kernel's counters of NFS mounts or of nfsiostat,
//! and tells them apart by what is in them. [`sampled`] takes counters of a service that runs. [`measured`] makes of a whole
//! run what the advisor compares levels with. Nothing here opens a file or asks a server.

mod counters;
mod fio;
mod measured;
mod mountstats;
mod nfsiostat;
mod run;
mod traffic;

use envelope::{Access, Bytes, BytesPerSecond, Protocol, Stream};

use crate::error::Error;

pub use counters::{Counters, sampled};
pub use measured::measured;

/// A load as it was found somewhere. What is not known is `None`: whoever asks says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// What and where, for people.
    pub source: String,
    /// The load at its peak.
    pub streams: Vec<Stream>,
    /// The average in percent of the peak, by data; where there is more than one interval.
    pub average_percent: Option<u32>,
    /// How many clients made it.
    pub clients: Option<u32>,
    /// Connections of each.
    pub connections: Option<u32>,
    /// The mean time of an operation as it was found, in microseconds; not what anybody wants it to be.
    pub latency_us: Option<u64>,
    /// Over what.
    pub protocol: Option<Protocol>,
    /// The bytes of all files that were in use.
    pub working_set: Option<Bytes>,
    /// What was guessed or left out, a sentence each.
    pub notes: Vec<String>,
}

/// Which of several loads is meant, and what is known better.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pick {
    /// Of a run's cells or of fio's groups, from 1.
    pub cell: Option<usize>,
    /// Where the file system is mounted.
    pub mount: Option<String>,
    /// Earlier counters of the same mount: the load is what came since. The text of `/proc/self/mountstats`.
    pub since: Option<String>,
    /// How operations follow each other, where nobody says.
    pub pattern: Option<Access>,
}

/// What a text can be.
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
/// It is none of the known forms, or damaged; it has several loads and none is picked, or none; counters went backwards;
/// an option of `pick` has no meaning for it. What is wrong, and what is allowed.
pub fn read(name: &str, text: &str, pick: &Pick) -> Result<Observed, Error> {
    let form = Form::of(text).ok_or_else(|| {
        "is no load that can be read; allowed: a run of `plimsoll bench run`, fio's JSON (--output-format=json or json+), \
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

    /// Whether it has what is to be picked.
    fn check(self, pick: &Pick) -> Result<(), String> {
        let benchmark = matches!(self, Self::Run | Self::Fio);
        let given = [
            ("--cell", pick.cell.is_some(), benchmark),
            ("--pattern", pick.pattern.is_some(), !benchmark),
            ("--mount", pick.mount.is_some(), !benchmark),
            ("--since", pick.since.is_some(), self == Self::Mountstats),
        ];
        let vain = given.iter().find(|(_, given, has_meaning)| *given && !has_meaning);
        let has = given.iter().filter(|(_, _, has_meaning)| *has_meaning).map(|(option, ..)| *option);
        vain.map_or(Ok(()), |(option, ..)| {
            let has: Vec<&str> = has.collect();
            Err(format!("{option} has no meaning for {}; allowed: {}", self.name(), has.join(", ")))
        })
    }
}

/// A load that may be picked: what it is called, and itself or why it cannot be taken.
struct Candidate<T> {
    label: String,
    load: Result<T, String>,
}

/// The one of this number, from 1, or the only one that can be taken, with its name. `what` they are, in the plural.
fn picked<T>(
    what: &str,
    candidates: Vec<Candidate<T>>,
    number: Option<usize>,
) -> Result<(String, T), String> {
    let numbered = || (1..).zip(&candidates).filter(|(_, one)| one.load.is_ok());
    let list: Vec<String> = numbered().map(|(number, one)| format!("\n  {number}: {}", one.label)).collect();
    let index = match (number, numbered().next(), list.len()) {
        (Some(number), ..) => number.checked_sub(1),
        (None, None, _) => {
            let why = candidates.iter().find_map(|one| Some((&one.label, one.load.as_ref().err()?)));
            let why = why.map_or("it is empty".to_owned(), |(label, wrong)| format!("{label}: {wrong}"));
            return Err(format!("none of its {what} can be sized; {why}"));
        }
        (None, Some((only, _)), 1) => Some(only - 1),
        (None, ..) => {
            return Err(format!("it has {} {what}; say which with --cell N:{}", list.len(), list.concat()));
        }
    };
    match index.and_then(|index| candidates.into_iter().nth(index)) {
        Some(Candidate { label, load: Ok(load) }) => Ok((label, load)),
        Some(Candidate { label, load: Err(wrong) }) => Err(format!("{label}: {wrong}")),
        None => Err(format!("it has no such load; allowed for --cell:{}", list.concat())),
    }
}

/// Reads and writes of so many bytes a second each, in operations of one size; `None` if there are none.
fn stream(access: Access, block: u64, read: f64, written: f64) -> Option<Stream> {
    let rate = whole(read + written);
    let thousandths = u32::try_from(whole(1e3 * read / (read + written))).unwrap_or(1000);
    (rate > 0 && block > 0).then_some(Stream {
        access,
        block: Bytes(block),
        read_thousandths: thousandths,
        rate: BytesPerSecond(rate),
    })
}

/// Rates for people.
fn rates(bytes_per_s: f64, ops_per_s: f64) -> String {
    use report::document::table::separated;
    let mib = bytes_per_s / f64::from(1 << 20);
    format!("{} MiB/s, {} operations/s", separated(mib, usize::from(mib < 100.0)), separated(ops_per_s, 0))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates and times, which end at the ends of the type"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests;
