//! The parts of a step: each test program, each job of a shared guest. A step prints a line for each, which the
//! scheduler parses.

use std::fmt;

const MARK: &str = "part ";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) seconds: u64,
    pub(crate) verdict: Verdict,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ok,
    /// The scheduler runs the part once more.
    Failed(String),
    /// The first failure counts: the part tests behavior that must never fail by chance.
    FailedForGood(String),
}

impl Part {
    /// Parses a line of [`fmt::Display`].
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (name, rest) = line.strip_prefix(MARK)?.split_once(": ")?;
        let (verdict, rest) = rest.split_once(" (")?;
        let (seconds, rest) = rest.split_once(" s)")?;
        let why = || rest.trim_start_matches(": ").to_owned();
        let verdict = match verdict {
            "ok" => Verdict::Ok,
            "FAILED" => Verdict::Failed(why()),
            "FAILED for good" => Verdict::FailedForGood(why()),
            _ => return None,
        };
        Some(Self { name: name.to_owned(), seconds: seconds.parse().ok()?, verdict })
    }

    pub(crate) fn all_in(log: &str) -> Vec<Self> {
        log.lines().filter_map(Self::parse).collect()
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, seconds, verdict } = self;
        match verdict {
            Verdict::Ok => write!(f, "{MARK}{name}: ok ({seconds} s)"),
            Verdict::Failed(why) => write!(f, "{MARK}{name}: FAILED ({seconds} s): {}", one_line(why)),
            Verdict::FailedForGood(why) => {
                write!(f, "{MARK}{name}: FAILED for good ({seconds} s): {}", one_line(why))
            }
        }
    }
}

/// A part is one line of the step's log.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_parsed_from_its_own_line() {
        let part = |verdict| Part { name: "nfs::server".to_owned(), seconds: 12, verdict };
        for (verdict, line) in [
            (Verdict::Ok, "part nfs::server: ok (12 s)"),
            (Verdict::Failed("a: b (1 s): c".into()), "part nfs::server: FAILED (12 s): a: b (1 s): c"),
            (Verdict::FailedForGood("no".into()), "part nfs::server: FAILED for good (12 s): no"),
        ] {
            assert_eq!(part(verdict.clone()).to_string(), line);
            assert_eq!(Part::parse(line), Some(part(verdict)));
        }
        assert_eq!(
            part(Verdict::Failed("a\n\n  b\n".into())).to_string(),
            "part nfs::server: FAILED (12 s): a; b"
        );
    }

    #[test]
    fn other_lines_are_not_parts() {
        let log = "part of it\npart a: well (3 s)\npart b: ok (x s)\n part c: ok (1 s)\npart d: ok (4 s)\n";
        assert_eq!(Part::all_in(log).len(), 1);
    }
}
