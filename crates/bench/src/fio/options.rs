//! The options of fio, and their values.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use super::number::{self, Part};

#[derive(Debug)]
pub(super) struct OptionSpec {
    pub(super) name: &'static str,
    alias: Option<&'static str>,
    pub(super) kind: Kind,
    range: RangeInclusive<u64>,
    /// Empty: any word.
    choices: Vec<&'static str>,
    /// Empty: the option applies to all jobs.
    pub(super) engines: Vec<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// On without a value.
    Switch,
    /// 0 or 1, required.
    Bool,
    /// With an optional unit of size.
    Number,
    /// A number, or a count of zones.
    Zone,
    /// A time, by default in seconds.
    Seconds,
    /// A time, by default in microseconds.
    Microseconds,
    Text,
    Store,
    Refused,
    /// fio accepts this option without effect.
    Ignored,
}

/// The largest `int` of fio.
const INT_MAX: u64 = 0x7fff_ffff;

static KNOWN: LazyLock<Vec<OptionSpec>> = LazyLock::new(|| {
    let lines = include_str!("options.txt").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(OptionSpec::parse).collect()
});

pub(super) fn find(name: &str) -> Option<&'static OptionSpec> {
    KNOWN.iter().find(|known| known.names().any(|one| one == name))
}

/// Names with this prefix: fio's command line accepts an unambiguous abbreviation. Options of engines count
/// only if `engine` has them.
pub(super) fn beginning_with(start: &str, engine: &str) -> impl Iterator<Item = &'static str> {
    let has = move |known: &&OptionSpec| known.engines.is_empty() || known.engines.contains(&engine);
    KNOWN.iter().filter(has).flat_map(OptionSpec::names).filter(move |name| name.starts_with(start))
}

impl OptionSpec {
    fn parse(line: &'static str) -> Option<Self> {
        let mut words = line.split(' ');
        let (name, alias) = match words.next()?.split_once('/') {
            Some((name, alias)) => (name, Some(alias)),
            None => (line.split(' ').next()?, None),
        };
        let word = words.next()?;
        let kind = Kind::parse(word)?;
        let most = match word {
            "bool" => 1,
            "int" => INT_MAX,
            _ => u64::MAX,
        };
        let mut option =
            Self { name, alias, kind, range: 0..=most, choices: Vec::new(), engines: Vec::new() };
        for word in words {
            if let Some(engines) = word.strip_prefix('@') {
                option.engines = engines.split(',').collect();
            } else if let Some((least, most)) = word.split_once("..") {
                let most = if most.is_empty() { *option.range.end() } else { most.parse().ok()? };
                option.range = least.parse().ok()?..=most;
            } else {
                option.choices = word.split('|').collect();
            }
        }
        Some(option)
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        [Some(self.name), self.alias].into_iter().flatten()
    }

    pub(super) fn check(&self, value: Option<&str>, base: u64) -> Result<(), String> {
        let needed = || value.filter(|value| !value.is_empty()).ok_or_else(|| self.wants());
        match self.kind {
            Kind::Switch if value.is_none() => Ok(()),
            Kind::Switch | Kind::Bool => {
                let is_taken = number::flag(needed()?).is_some_and(|flag| self.range.contains(&flag));
                if is_taken { Ok(()) } else { Err(format!("\"{}\" is not 0 or 1", value.unwrap_or(""))) }
            }
            Kind::Number | Kind::Zone | Kind::Seconds | Kind::Microseconds => {
                let text = needed()?;
                let is_zone = self.kind == Kind::Zone && text.ends_with('z');
                if is_zone || self.parts(text, base).any(|part| part.is_some()) {
                    return Ok(());
                }
                Err(self.not_taken(text))
            }
            Kind::Store => needed().map(drop),
            Kind::Text if self.choices.is_empty() => Ok(()),
            Kind::Text => {
                let word = number::word(needed()?);
                let is_choice = self.choices.contains(&word);
                let allowed = || format!("\"{word}\" is not one of {}", self.choices.join(", "));
                if is_choice { Ok(()) } else { Err(allowed()) }
            }
            Kind::Refused => Err("fio has given this option up, and refuses it".to_owned()),
            Kind::Ignored => Ok(()),
        }
    }

    /// Includes parts that fio ignores.
    fn parts<'t>(&self, text: &'t str, base: u64) -> impl Iterator<Item = Option<Part>> + use<'t, '_> {
        number::parts(text).map(move |piece| {
            let part = self.part(piece, base)?;
            let is_taken = match part {
                Part::Number(number) => self.range.contains(&number),
                Part::Share(_) | Part::Negative => *self.range.start() == 0,
            };
            is_taken.then_some(part)
        })
    }

    fn part(&self, piece: &str, base: u64) -> Option<Part> {
        match self.kind {
            Kind::Seconds => number::time(piece, number::SECOND),
            Kind::Microseconds => number::time(piece, 1),
            _ => number::bytes(piece, base),
        }
    }

    pub(super) fn numbers(&self, text: &str, base: u64) -> Result<Vec<Option<u64>>, String> {
        let plain = |part: Option<Part>| match part {
            Some(Part::Number(number)) => Ok(Some(number)),
            Some(Part::Share(_)) => Err(format!(
                "\"{text}\" is a share of the files at the time fio runs, which is not known here; write bytes, like 20G"
            )),
            Some(Part::Negative) => Err(format!("\"{text}\" is less than nothing")),
            None => Ok(None),
        };
        if text.ends_with('z') {
            return Err(format!("\"{text}\" is a number of zones, which only zoned devices have"));
        }
        let numbers = self.parts(text, base).map(plain).collect::<Result<Vec<_>, _>>()?;
        if numbers.iter().all(Option::is_none) { Err(self.not_taken(text)) } else { Ok(numbers) }
    }

    /// The number that fio reads, and the reason, if it differs from the text.
    pub(super) fn surprise(&self, text: &str, base: u64) -> Option<String> {
        let of_unit = |piece| match self.kind {
            Kind::Seconds | Kind::Microseconds => number::odd_time(piece),
            Kind::Number | Kind::Zone => number::odd_size(piece, base),
            Kind::Switch | Kind::Bool | Kind::Text | Kind::Store | Kind::Refused | Kind::Ignored => None,
        };
        number::parts(text).find_map(|piece| {
            let why = of_unit(piece)?;
            let Part::Number(value) = self.part(piece, base)? else { return None };
            let amount = match self.kind {
                Kind::Seconds | Kind::Microseconds => format!("{value} µs"),
                _ => value.to_string(),
            };
            Some(format!("{}={text} is {amount} to fio: {why}", self.name))
        })
    }

    fn wants(&self) -> String {
        let what = match self.kind {
            Kind::Bool => "0 or 1",
            Kind::Number | Kind::Zone => "a number",
            Kind::Seconds | Kind::Microseconds => "a time",
            Kind::Switch | Kind::Text | Kind::Store | Kind::Refused | Kind::Ignored => "a value",
        };
        format!("needs {what}")
    }

    fn not_taken(&self, text: &str) -> String {
        let (least, most) = (self.range.start(), self.range.end());
        if text.contains('(') {
            return format!("\"{text}\" is to be calculated; write the number");
        }
        match self.kind {
            Kind::Seconds | Kind::Microseconds => {
                format!("\"{text}\" is not a time; fio reads a number with us, ms, s, m, h or d")
            }
            _ if self.part(text, 1024).is_none() => format!(
                "\"{text}\" is not a number; fio reads one with k, m, g, t or p, or hexadecimal, like 4k, 20G or 0x1000"
            ),
            _ if *most >= INT_MAX && *least > 0 => format!("\"{text}\" is too small: at least {least}"),
            _ => format!("\"{text}\" is out of range; fio reads {least} to {most}"),
        }
    }
}

impl Kind {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "switch" => Self::Switch,
            "bool" => Self::Bool,
            "number" | "int" => Self::Number,
            "zone" => Self::Zone,
            "time" => Self::Seconds,
            "micros" => Self::Microseconds,
            "text" => Self::Text,
            "store" => Self::Store,
            "refused" => Self::Refused,
            "ignored" => Self::Ignored,
            _ => return None,
        })
    }
}
